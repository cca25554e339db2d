"""Tracing: every operator that runs while a `Capture` is open becomes a node of its graph.

What operators return are abstract tensors (program_tensors.py). Autograd works on them as on any others, so a
backward pass or an optimizer step inside the program is captured with it. Writes change no memory
(functionalize.py). What needs a value that is known only when the program runs raises `CaptureError`, unless it
can wait (deferred_results.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from ..autograd.tape import recorded_line
from ..core.dispatch import AMBIENT, Arguments, execute, infer, is_sparse_call, tensors_in
from ..core.dtypes import DTYPES
from ..core.giving_up import go_on
from ..core.modes import MODES
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.shapes import Spec, extent, is_dense
from ..core.tensor import DISPATCH, TRACED, Tensor, alias
from ..graph.ir import Node, Value
from .data_sizes import THROUGH, SizesOfData, needs_data_sizes, with_data_sizes
from .deferred import DeferredNumber, read_numbers
from .deferred_results import DeferredResults
from .errors import KEPT, CaptureError, Problem, user_frame, user_line
from .memory import spec_of
from .numbers import LiveNumber, numbers_spec
from .random import Draws, StatePoint, generator_of, stream_spec, with_generator, words_taken
from .rewrites import is_live, rewritten, specialised
from .row_updates import record_updates
from .rows import record_alike, record_rows
from .templates import Templates

Compose = Callable[[list[Node], Sequence[Value]], list[Node]]
# what is called whenever an operator of a family is recorded, with whether there are sizes that change
TOLD: dict[str, Callable[[bool], None]] = {}
OF_GRADIENT = " backward"  # after the line of a node that is of a backward pass


class Capture(DeferredResults):
    """One open capture. Use `with`. `reason`: why it was left, if it was (tentative.py)."""

    reason: CaptureError | None = None
    # makes fewer nodes of those that give some values: of a row of updates, before it is recorded for others
    compose: Compose | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.templates = Templates(self)

    def __enter__(self) -> Capture:
        self._saved = AMBIENT.keys, AMBIENT.trace, MODES.saved_hooks
        self._records = MODES.grad
        AMBIENT.keys, AMBIENT.trace = AMBIENT.keys | TRACED, self
        MODES.saved_hooks = ()  # they concern what the compiled program saves
        return self

    def __exit__(self, *exception: object) -> None:
        AMBIENT.keys, AMBIENT.trace, MODES.saved_hooks = self._saved

    def allow_data_sizes(self) -> None:
        """Let sizes be data."""
        self.data_sizes = SizesOfData(self.graph, self.numbers, lambda t: self.value_of(self.abstract(t)))
        self.numbers.of_data = self.number_of_data
        self.numbers.symbols.refuse = lambda what: CaptureError(
            f"the program {what}, which is known only when it runs", user_line(), Problem.SIZE_FROM_DATA
        )

    # Running operators.

    def owns(self, tensor: Tensor) -> bool:
        return tensor._trace is None or tensor._trace is self

    def process(self, op: OpDef, args: Arguments) -> Any:
        if self.closed:
            raise RuntimeError(f"{op.name}: {KEPT}")
        if self._check_tensors(op, args):
            return execute(op, args)
        if is_sparse_call(op, args):
            return self._defer_sparse(op, args)
        if self.deferred:
            read_numbers(args)
        if op.kind is Kind.COMPOSITE:
            specs: Any = None if op.rule is None else op.rule(self._map(op, args, self.abstract))
            through = specs is None or (self.data_sizes is not None and op.name in THROUGH)
            return execute(op, args) if through else self._defer(op, args, specs)
        if op.random:
            random = with_generator(op, args)
            if random is None:
                return self._decomposed(op, args)
            op, args = random
        if any(type(argument) is int and not -(2**63) <= argument < 2**64 for argument in args):
            raise CaptureError("a number that is too large for a graph", user_line(), Problem.LARGE_NUMBER)
        live = [i for i, argument in enumerate(args) if is_live(argument)]
        if live or any(type(a) is tuple and any(is_live(x) for x in a) for a in args):
            other = rewritten(op, args, live)
            if other is not None:
                return other()
            args, live = specialised(op, args)
        return self._recorded(op, args, live)

    def process_rows(self, op: OpDef, rows: Sequence[Arguments]) -> list[Tensor] | None:
        return None if self.closed else record_rows(self, op, rows)

    def map_alike(self, function: Callable[[Tensor], Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
        return record_alike(self, function, tensors)

    def update_rows(self, update: Callable[[Sequence[int]], None], rows: Sequence[Sequence[Tensor]]) -> None:
        record_updates(self, update, rows)

    def _recorded(self, op: OpDef, args: Arguments, live: list[int]) -> Any:
        """Record an operator; `live` are its arguments that are live numbers."""
        go_on()
        line = self._line()
        if self.reason is not None:  # it was left because of what runs there
            raise self.reason
        lifted = self._map(op, args, self.abstract)
        if self.data_sizes is not None and needs_data_sizes(self.data_sizes, op, lifted):
            return with_data_sizes(self.data_sizes, op, lifted)
        if op.kind is Kind.VIEW:
            results = _run_view(op, lifted)
            specs = _specs(results)
        else:
            plain = tuple(a.value if is_live(a) else a for a in lifted) if live else lifted
            specs = infer(op, plain)
            if specs.shape is None if isinstance(specs, Spec) else any(s.shape is None for s in specs):
                return self._defer(op, args, specs)
            if op.name in ("empty_strided", "new_empty_strided") and not is_dense(
                specs.known_shape(), specs.known_strides()
            ):
                return self._with_gaps(specs)
            results = self._fresh(specs) if isinstance(specs, Spec) else tuple(self._fresh(s) for s in specs)
        given = self._map(op, lifted, self.value_of)
        if MODES.constant and self._records and MODES.run is None:
            given = self._as_constants(op, args, line)
        if op.tensor_positions and isinstance(lifted[op.tensor_positions[0]], Tensor):
            given, specs = self._in_graph(op, lifted[op.tensor_positions[0]], given, specs)
        if live:
            given = tuple(self._number(a) if is_live(a) else a for a in given)
        if op.random:
            given = self._with_stream(op, given, lambda: words_taken(op, lifted, specs))
        told = TOLD.get(op.family)
        if told is not None:
            told(bool(self.numbers.symbols.hints))
        node = self.graph.call(op, given, specs, line)
        outputs = results if isinstance(results, tuple) else (results,)
        for tensor, value in zip(outputs, node.outputs, strict=True):
            self._adopt(tensor, value, own_storage=op.kind is not Kind.VIEW)
        return results

    def _as_constants(self, op: OpDef, args: Arguments, line: str) -> Arguments:
        """The values of the arguments without their history, for a call under `no_grad`: who differentiates the
        graph again is to take what it computes as a constant."""

        def constant(tensor: Tensor) -> Value:
            value = self.value_of(self.abstract(tensor))
            if not tensor.requires_grad:
                return value
            return self.graph.call(REGISTRY["detach"], (value,), value.spec, line).outputs[0]

        return self._map(op, args, constant)

    def _check_tensors(self, op: OpDef, args: Arguments) -> bool:
        """Refuse tensors that have no place in a graph. Whether a class runs the operator, on tensors that have
        one."""
        tensors = tensors_in(op, args)
        dispatched = False
        for tensor in tensors:
            if tensor._keys & DISPATCH:
                dispatched = True
                if tensor._has_graph:
                    continue
                raise CaptureError(
                    f"{op.name} takes a tensor of the class {type(tensor).__name__}, which "
                    "runs operators itself",
                    user_line(),
                    Problem.TENSOR_CLASS,
                )
        if op.kind is Kind.QUANTIZED or any(t._quantizer is not None for t in tensors):
            raise CaptureError(
                f"{op.name} makes or takes a quantized tensor, which has no place in a graph",
                user_line(),
                Problem.LAYOUT,
            )
        return dispatched

    def _line(self) -> str:
        """As `user_line`; code that runs there and is not known is met. In anomaly mode, what a backward pass
        computes is of the line that the forward operator is of."""
        frame = user_frame()
        if frame is None:
            return ""
        if frame.f_code not in self._met:
            self._met.add(frame.f_code)
            if not self.environment.knows(frame.f_code) and _is_inside(frame):
                reason = self.environment.meet(frame)
                if reason is not None:
                    self.refuse(reason)
        if MODES.anomaly and (recorded := recorded_line()):
            return recorded + OF_GRADIENT
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def sees_function(self, function: Any) -> None:
        """A function of the user's, or one that has some, is about to run."""
        reason = self.environment.include(function)
        if reason is not None:
            self.refuse(reason)

    def _in_graph(self, op: OpDef, tensor: Tensor, args: Arguments, specs: Any) -> tuple[Arguments, Any]:
        """Arguments and results of an operator on a tensor, with offsets as the graph counts them."""
        state = self.states[id(tensor.storage_object)]
        if state.source is None:
            return args, specs
        names = op.schema.argument_names
        if "storage_offset" in names:
            at = names.index("storage_offset")
            size, stride = (args[names.index(name)] for name in ("size", "stride"))
            first = tensor.storage_offset() if args[at] is None else args[at]
            if not state.reaches(Spec(size, tensor.dtype, stride, first)):
                raise CaptureError(
                    "a view of memory outside of the tensor that it is a view of",
                    user_line(),
                    Problem.SHARED_MEMORY,
                )
            if args[at] is not None and state.moved:
                offset = state.in_graph(Spec((), tensor.dtype, (), args[at])).offset
                args = (*args[:at], offset, *args[at + 1 :])
        if op.kind is Kind.VIEW and state.moved:
            specs = state.in_graph(specs) if isinstance(specs, Spec) else tuple(map(state.in_graph, specs))
        return args, specs

    def _number(self, number: LiveNumber | DeferredNumber) -> Value:
        """A live number as a 0-d value."""
        if type(number) is DeferredNumber:
            spec = Spec((), DTYPES["float64"])
            given = self.value_of(number.tensor), None
            value = self.graph.call(REGISTRY["clone"], given, spec, user_line()).outputs[0]
            value.number = float
            return value
        kind, place = number.place()
        inputs = self.numbers.inputs
        if kind not in inputs:
            inputs[kind] = self.graph.input(numbers_spec(kind, 1), "numbers")
        whole = inputs[kind]
        whole.spec = numbers_spec(kind, max(place + 1, whole.shape[0]))
        spec = Spec((), whole.dtype, (), place)
        value = self.graph.call(REGISTRY["select.int"], (whole, 0, place), spec, user_line()).outputs[0]
        value.number = kind
        return value

    def _with_gaps(self, spec: Spec) -> Tensor:
        """A new tensor that does not fill its storage, or whose elements overlap in it."""
        row = Spec((extent(spec.known_shape(), spec.known_strides()),), spec.dtype, (1,), 0)
        args = (row.shape, spec.dtype, None, None, None, None)
        value = self.graph.call(REGISTRY["empty.memory_format"], args, row, user_line()).outputs[0]
        tensor = self._fresh(spec)
        self._adopt(tensor, value, own_storage=True)
        tensor._value_writes = -1  # type: ignore[attr-defined]
        return tensor

    def depends_on(self, tensor: Tensor) -> bool:
        return not self.closed

    def read(self, tensor: Tensor) -> np.ndarray:
        if self.closed:
            raise RuntimeError(KEPT)
        raise CaptureError(
            "the program reads a value (item(), bool(), tolist(), numpy(), an index from a tensor) that is known "
            "only when it runs",
            user_line(),
            Problem.READS_VALUE,
        )

    # Random numbers.

    def _decomposed(self, op: OpDef, args: Arguments) -> Any:
        if op.decomposition is None:
            raise CaptureError(
                f"{op.name} draws random numbers, and nothing says from which generator",
                user_line(),
                Problem.RANDOM_STATE,
            )
        return op.decomposition(args)

    def draws_of(self, generator: Any) -> Draws:
        draws = self.draws.get(id(generator))
        if draws is None:
            value = self.graph.input(stream_spec(0), "stream")
            draws = self.draws[id(generator)] = Draws(generator, value)
        return draws

    def _with_stream(self, op: OpDef, args: Arguments, words: Callable[[], int]) -> Arguments:
        """`args` with the place of this draw, as a value, for the generator."""
        at = op.schema.argument_names.index("generator")
        if isinstance(args[at], Tensor):  # part of the decomposition of a draw that has its place already
            return (*args[:at], self.value_of(self.abstract(args[at])), *args[at + 1 :])
        draws = self.draws_of(generator_of(op, args))
        row = draws.begin(words())
        draws.value.spec = stream_spec(row + 1)
        spec = Spec((2,), draws.value.dtype, (1,), 2 * row)
        place = self.graph.call(REGISTRY["select.int"], (draws.value, 0, row), spec, user_line()).outputs[0]
        return (*args[:at], place, *args[at + 1 :])

    def generator_state(self, generator: Any) -> Tensor:
        """What `get_state` gives inside a program: only `set_state` can use it."""
        state = self._fresh(Spec((16,), DTYPES["uint8"]))
        state._keys |= TRACED
        self.claim(state)
        draws = self.draws_of(generator)
        state._point = StatePoint(draws, draws.seed, draws.position)  # type: ignore[attr-defined]
        return state

    def seed_generator(self, generator: Any, seed: int) -> None:
        draws = self.draws_of(generator)
        draws.seed, draws.position = seed, 0

    def set_generator_state(self, generator: Any, state: Any) -> None:
        point = getattr(state, "_point", None)
        draws = self.draws_of(generator)
        if point is None or state._trace is not self or (point.seed is None and point.draws is not draws):
            self.refuse("setting the state of a random generator", Problem.RANDOM_STATE)
        else:
            draws.seed, draws.position = point.seed, point.position


def _run_view(op: OpDef, args: Arguments) -> Any:
    """The alias, or aliases, that a view operator makes of an abstract tensor, tracked as views of it."""
    source = args[0]
    specs = op.rule(args)  # type: ignore[misc]
    several = not isinstance(specs, Spec)
    views = []
    for spec in specs if several else (specs,):
        tensor = alias(source, spec)
        if op.schema.returns[0].type.alias is not None and op.tracked:
            tensor._base = source if source._base is None else source._base
            tensor._view_of = (op, args)
        views.append(tensor)
    return tuple(views) if several else views[0]


def _specs(results: Any) -> Any:
    return tuple(spec_of(r) for r in results) if isinstance(results, tuple) else spec_of(results)


def _is_inside(frame: FrameType | None) -> bool:
    """Whether `frame` belongs to the program that is being captured, not to whoever calls it."""
    while frame is not None:
        if frame.f_globals.get("__name__") == _PROGRAM:
            return True
        frame = frame.f_back
    return False


_PROGRAM = f"{__name__.rpartition('.')[0]}.program"

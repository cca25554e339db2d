"""Tracing: every operator that runs while a `Capture` is open becomes a node of its graph.

The program runs on the caller's own tensors; the first time one takes part in an operator, it becomes an
input of the graph. What operators return are abstract tensors: a Spec, a place in the graph, no data.
Autograd works on them as on any others,
so a backward pass or an optimizer step inside the program is captured with it.

Functionalization: a write changes no memory. Each storage has a current value in the graph and a count of
writes; a write through a view puts the view's new value into the value of its storage, and a tensor whose
storage was written since is
read anew from that value. What the caller's storages hold at the end is what the compiled program writes
back.

Invariants: nothing of the caller is changed by a capture (`close` restores versions and gradients); what
needs a value that is known only when the program runs raises `CaptureError` (late.py has what can wait).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any

import numpy as np

from ..autograd.tape import sequence
from ..core.dispatch import AMBIENT, Arguments, execute, infer, is_sparse_call, run_name, tensors_in
from ..core.dispatch import call as run_operator
from ..core.dtypes import DTYPES
from ..core.interpreters import Interpreter, next_level
from ..core.modes import MODES
from ..core.overlap import has_internal_overlap
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.shapes import Spec, extent, is_dense, numel
from ..core.storage import Storage
from ..core.tensor import DISPATCH, LAZY, TRACED, Tensor, alias, install_before_flag, shapeless
from ..core.traits import Trait
from ..graph.ir import Graph, Value
from .deferred import LateCall, LateNumbers, read_numbers
from .geometry import Geometries
from .locations import NOTHING_KNOWN, Environment
from .memory import StorageState, overlaps, read_part, spec_of, with_part
from .numbers import LiveNumber, Numbers, numbers_spec
from .random import Draws, StatePoint, generator_of, stream_spec, with_generator, words_taken
from .rewrites import rewritten, specialised

KEPT = (
    "a tensor was kept that a function made while it was captured by rushlight.compile; such a tensor "
    "has no data. Return it from the function instead"
)


class CaptureError(Exception):
    """The program does something that has no place in a graph; `place` is the line of the user's program."""

    def __init__(self, message: str, place: str) -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


@dataclass
class Lifted:
    """A tensor of the caller that the program uses."""

    tensor: Tensor
    value: Value
    version: int


@dataclass
class UsedGradient:
    """A tensor of the caller whose .grad the program uses, and what that was.

    `looked`: the program looked at it, or added to it, before it put another in its place; if not, nothing
    depends on what was there.
    """

    tensor: Tensor
    before: Any
    looked: bool


class Capture(Interpreter):
    """One open capture. Use `with`."""

    lowest = True

    def __init__(self, graph: Graph | None = None, environment: Environment = NOTHING_KNOWN) -> None:
        self.number = next_level()
        self.graph = Graph() if graph is None else graph
        self.environment = environment  # what Python knows around the program
        self.states: dict[int, StorageState] = {}
        self.regions: dict[int, list[StorageState]] = {}  # by the storage of the caller they are parts of
        self.lifted: dict[int, Lifted] = {}
        self.draws: dict[int, Draws] = {}  # by the identity of the generator
        self.numbers = Numbers()
        self.gradients: dict[int, UsedGradient] = {}
        self.geometries = Geometries()
        self.replaced: dict[int, tuple[Tensor, Tensor]] = {}  # tensors of the caller whose .data was set
        self.arguments: set[int] = set()  # identities of the tensors among the arguments
        self.flags: dict[int, tuple[Tensor, bool]] = {}  # tensors whose requires_grad was set, what it was
        self.kept: list[Value] = []  # results that nobody may ask for but that must be computed
        self.late: list[LateCall] = []  # what runs after the graph
        self.late_numbers = LateNumbers()
        self.copies: set[int] = set()  # identities of tensors made here over memory of the caller
        self._twins: dict[int, Tensor] = {}
        self._keep: list[Any] = []
        self.closed = False
        self._met: set[CodeType] = set()
        self.grad_mode = MODES.grad  # when the program began
        self.joint = False  # whether the gradients of what the program returns are being captured
        self.beginning = next(sequence)  # what is recorded from now on is the program's
        self._saved: tuple[int, Any, Any] = (0, None, ())

    # Opening and closing.

    def __enter__(self) -> Capture:
        self._saved = AMBIENT.keys, AMBIENT.trace, MODES.saved_hooks
        AMBIENT.keys, AMBIENT.trace = AMBIENT.keys | TRACED, self
        MODES.saved_hooks = ()  # they concern what the compiled program saves
        return self

    def __exit__(self, *exception: object) -> None:
        AMBIENT.keys, AMBIENT.trace, MODES.saved_hooks = self._saved

    def restore(self) -> None:
        """Undo what autograd left on the caller's tensors."""
        for used in self.gradients.values():
            used.tensor._grad = used.before
        self.geometries.restore()
        for tensor, before in self.flags.values():
            if id(tensor) in self.arguments:
                tensor.requires_grad_(before)
        for entry in reversed(self.lifted.values()):  # of those over one storage the first knows the version
            if entry.tensor._versions is not None:
                entry.tensor._versions.value = entry.version

    def close(self) -> None:
        """Let go of the caller's tensors. Abstract tensors that are still around cannot be used any more."""
        self.closed = True
        self.states, self.lifted, self.gradients, self._twins, self._keep = {}, {}, {}, {}, []
        self.regions = {}
        self.replaced, self.flags, self.late = {}, {}, []
        self.geometries.forget()

    def new_input(self, spec: Spec, stem: str) -> Tensor:
        """An abstract tensor that is an input of the graph and no tensor of the caller."""
        tensor = self._fresh(spec)
        self._adopt(
            tensor,
            self.graph.input(Spec(spec.known_shape(), spec.dtype, spec.known_strides(), 0), stem),
            own_storage=True,
        )
        return tensor

    def stand_in(self, value: Value) -> Tensor:
        """An abstract tensor for a value that the graph has already."""
        spec = value.spec
        tensor = self._fresh(spec)
        tensor._storage, tensor._strides = Storage.of_size(0), spec.known_strides()
        tensor._offset, tensor._conj, tensor._neg = spec.offset, bool(spec.conj), bool(spec.neg)
        tensor._keys |= LAZY if spec.conj or spec.neg else 0
        self._adopt(tensor, value, own_storage=True)
        return tensor

    # Running operators.

    def owns(self, tensor: Tensor) -> bool:
        return tensor._trace is None or tensor._trace is self

    def process(self, op: OpDef, args: Arguments) -> Any:
        if self.closed:
            raise RuntimeError(f"{op.name}: {KEPT}")
        tensors = tensors_in(op, args)
        for tensor in tensors:
            if tensor._keys & DISPATCH:
                raise CaptureError(
                    f"{op.name} takes a tensor of the class {type(tensor).__name__}, which "
                    "runs operators itself",
                    user_line(),
                )
        if op.kind is Kind.QUANTIZED or any(t._quantizer is not None for t in tensors):
            raise CaptureError(
                f"{op.name} makes or takes a quantized tensor, which has no place in a graph", user_line()
            )
        if is_sparse_call(op, args):
            return self._late_sparse(op, args)
        if self.late:
            read_numbers(args)
        if op.kind is Kind.COMPOSITE:
            specs: Any = None if op.rule is None else op.rule(self._map(op, args, self.abstract))
            return execute(op, args) if specs is None else self._late_results(op, args, specs)
        if op.random:
            random = with_generator(op, args)
            if random is None:
                return self._decomposed(op, args)
            op, args = random
        if any(type(argument) is int and not -(2**63) <= argument < 2**64 for argument in args):
            raise CaptureError("a number that is too large for a graph", user_line())
        live = [i for i, argument in enumerate(args) if type(argument) is LiveNumber]
        if live or any(type(a) is tuple and any(type(x) is LiveNumber for x in a) for a in args):
            other = rewritten(op, args, live)
            if other is not None:
                return other()
            args, live = specialised(op, args)
        lifted = self._map(op, args, self.abstract)
        if op.kind is Kind.VIEW:
            results = _run_view(op, lifted)
            specs = _specs(results)
        else:
            plain = tuple(a.value if type(a) is LiveNumber else a for a in lifted) if live else lifted
            specs = infer(op, plain)
            if specs.shape is None if isinstance(specs, Spec) else any(s.shape is None for s in specs):
                return self._late_results(op, args, specs)
            if op.name in ("empty_strided", "new_empty_strided") and not is_dense(
                specs.known_shape(), specs.known_strides()
            ):
                return self._with_gaps(specs)
            results = self._fresh(specs) if isinstance(specs, Spec) else tuple(self._fresh(s) for s in specs)
        given = self._map(op, lifted, self.value_of)
        if op.tensor_positions and isinstance(lifted[op.tensor_positions[0]], Tensor):
            given, specs = self._in_graph(op, lifted[op.tensor_positions[0]], given, specs)
        if live:
            given = tuple(self._number(a) if type(a) is LiveNumber else a for a in given)
        if op.random:
            given = self._with_stream(op, given, lambda: words_taken(op, lifted, specs))
        node = self.graph.call(op, given, specs, self._line())
        outputs = results if isinstance(results, tuple) else (results,)
        for tensor, value in zip(outputs, node.outputs, strict=True):
            self._adopt(tensor, value, own_storage=op.kind is not Kind.VIEW)
        return results

    def _line(self) -> str:
        """As `user_line`; code that runs there and is not known is met."""
        frame = _user_frame()
        if frame is None:
            return ""
        if frame.f_code not in self._met:
            self._met.add(frame.f_code)
            if not self.environment.knows(frame.f_code) and _is_inside(frame):
                reason = self.environment.meet(frame)
                if reason is not None:
                    self.refuse(reason)
        return f"{frame.f_code.co_filename}:{frame.f_lineno}"

    def sees_function(self, function: Any) -> None:
        """A function of the user's, or one that has some, is about to run."""
        reason = self.environment.include(function)
        if reason is not None:
            self.refuse(reason)

    # What runs after the graph.

    def waits(self, op: OpDef, args: Arguments) -> bool:
        return (op.kind is Kind.COMPOSITE and op.rule is not None) or (
            bool(op.traits & Trait.DEFERRED) and is_sparse_call(op, args)
        )

    def _late_results(self, op: OpDef, args: Arguments, specs: Any) -> Any:
        """Tensors without a shape, for the results of an operator that must see the data to know it."""
        if AMBIENT.trace is not self or MODES.dual_levels:  # inside of another transform
            raise CaptureError(_depends_on_data(op.name), user_line())
        several = (specs,) if isinstance(specs, Spec) else specs
        differentiable = (
            MODES.grad
            and any(t.requires_grad for t in tensors_in(op, args))
            and any(spec.dtype.is_differentiable for spec in several)
        )
        if not differentiable:
            args = self._map(op, args, lambda t: run_name("detach", t) if t.requires_grad else t)
        call = LateCall(op.name, lambda *given: run_operator(op, given), args, differentiable)
        self.late.append(call)
        results = []
        for position, spec in enumerate(several):
            tensor = object.__new__(Tensor)
            tensor._array, tensor.dtype, tensor._spec = None, spec.dtype, Spec(None, spec.dtype)
            tensor._keys |= TRACED
            tensor._trace = self
            tensor._late = call, None if isinstance(specs, Spec) else position  # type: ignore[attr-defined]
            tensor._requires_grad = differentiable and spec.dtype.is_differentiable
            results.append(tensor)
        return results[0] if isinstance(specs, Spec) else tuple(results)

    def _late_sparse(self, op: OpDef, args: Arguments) -> Any:
        """As `_late_results`, for the operators that make sparse tensors, or take some, of one dtype."""
        if not op.traits & Trait.DEFERRED:
            raise CaptureError(
                f"{op.name} makes or takes a sparse tensor, which has no place in a graph", user_line()
            )
        return self._late_results(op, args, Spec(None, tensors_in(op, args)[0].dtype))

    def reveal(self, tensor: Tensor) -> None:
        """The program needs the shape or the data of a late result."""
        if self.closed:
            raise RuntimeError(KEPT)
        call, _ = tensor._late  # type: ignore[attr-defined]
        raise CaptureError(_depends_on_data(call.name), user_line())

    def item(self, tensor: Tensor) -> Any:
        """The number that `tensor` will hold, for the program to return."""
        if tensor.requires_grad:
            tensor = run_name("detach", tensor)
        self.abstract(tensor)
        call = LateCall("item", Tensor.item, (tensor,), False)
        self.late.append(call)
        dtype = tensor.dtype
        kind: type = (
            complex
            if dtype.is_complex
            else float
            if dtype.is_floating_point
            else bool
            if dtype.name == "bool"
            else int
        )
        return self.late_numbers.make(call, kind, lambda: self.read(tensor).item())

    def _check_late(self, state: StorageState) -> None:
        """What late results are made of must stay as it is."""
        for call in self.late:
            for tensor in call.among(Tensor):
                if tensor._parts is not None:
                    continue
                if self.states.get(id(self.abstract(tensor).storage_object)) is state:
                    raise CaptureError(
                        f"it writes to what {call.name} takes, of which it needs the result as it was before",
                        user_line(),
                    )

    def _in_graph(self, op: OpDef, tensor: Tensor, args: Arguments, specs: Any) -> tuple[Arguments, Any]:
        """Arguments and results of an operator on a tensor, with offsets as the graph counts them."""
        state = self.states[id(tensor.storage_object)]
        if not state.base:
            return args, specs
        names = op.schema.argument_names
        if "storage_offset" in names:
            at = names.index("storage_offset")
            if args[at] is not None:
                offset = state.in_graph(Spec((), tensor.dtype, (), args[at])).offset
                if offset < 0 and state.writes:
                    raise CaptureError("a view of memory before the tensor that it is a view of", user_line())
                args = (*args[:at], offset, *args[at + 1 :])
        if op.kind is Kind.VIEW:
            specs = state.in_graph(specs) if isinstance(specs, Spec) else tuple(map(state.in_graph, specs))
        return args, specs

    def _number(self, number: LiveNumber) -> Value:
        """A live number as a 0-d value."""
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

    # Random numbers.

    def _decomposed(self, op: OpDef, args: Arguments) -> Any:
        if op.decomposition is None:
            raise CaptureError(
                f"{op.name} draws random numbers, and nothing says from which generator", user_line()
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
        state._trace = self
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
            self.refuse("setting the state of a random generator")
        else:
            draws.seed, draws.position = point.seed, point.position

    def _map(self, op: OpDef, args: Arguments, function: Any) -> Arguments:
        mapped = list(args)
        for i in op.tensor_positions:
            if args[i] is not None:
                mapped[i] = function(args[i])
        for i in op.list_positions:
            if args[i] is not None:
                mapped[i] = tuple(None if t is None else function(t) for t in args[i])
        return tuple(mapped)

    def _fresh(self, spec: Spec) -> Tensor:
        tensor = object.__new__(Tensor)
        tensor._array, tensor.dtype = None, spec.dtype
        tensor._spec = Spec(spec.known_shape(), spec.dtype, spec.known_strides(), 0)
        return tensor

    def _with_gaps(self, spec: Spec) -> Tensor:
        """A new tensor that does not fill its storage, or whose elements overlap in it."""
        row = Spec((extent(spec.known_shape(), spec.known_strides()),), spec.dtype, (1,), 0)
        args = (row.shape, spec.dtype, None, None, None, None)
        value = self.graph.call(REGISTRY["empty.memory_format"], args, row, user_line()).outputs[0]
        tensor = self._fresh(spec)
        self._adopt(tensor, value, own_storage=True)
        tensor._value_writes = -1  # type: ignore[attr-defined]
        return tensor

    def _adopt(self, tensor: Tensor, value: Value, *, own_storage: bool) -> None:
        """Make `tensor` an abstract tensor of this capture that now has `value`."""
        tensor._keys |= TRACED
        tensor._trace = self
        tensor._value = value  # type: ignore[attr-defined]
        storage = tensor.storage_object
        if own_storage:
            self._keep.append(storage)
            self.states[id(storage)] = StorageState(value, value.spec)
        tensor._value_writes = self.states[id(storage)].writes  # type: ignore[attr-defined]

    # Tensors and values.

    def abstract(self, tensor: Tensor) -> Tensor:
        """The abstract tensor that stands for `tensor`: itself, or the twin of a tensor of the caller."""
        if tensor._trace is self:
            if shapeless(tensor):
                self.reveal(tensor)
            if "_point" in vars(tensor):
                raise CaptureError("it uses the state of a random generator as data", user_line())
            return tensor
        twin = self._twins.get(id(tensor))
        return self._lift(tensor) if twin is None else twin

    def _lift(self, tensor: Tensor) -> Tensor:
        """Make a tensor of the caller an input of the graph. Tensors over one storage share its value."""
        storage = tensor.storage_object
        spec = spec_of(tensor)
        regions = self.regions.setdefault(id(storage), [])
        state = next((known for known in regions if known.covers(spec)), None)
        if state is None:
            if any(overlaps(spec, known.spec) for known in regions):
                raise CaptureError("inputs that overlap in memory", user_line())
            dense = is_dense(tensor.shape, tensor.strides())
            whole = (
                Spec(spec.known_shape(), spec.dtype, spec.known_strides(), spec.offset)
                if dense
                else Spec(
                    (extent(spec.known_shape(), spec.known_strides()),), tensor.dtype, None, spec.offset
                )
            )
            state = StorageState(self.graph.input(replace(whole, offset=0)), whole, 0, tensor)
            regions.append(state)
        twin = self._fresh(spec)
        twin._storage, twin._strides = Storage.of_size(storage.nbytes()), spec.strides
        twin._offset = spec.offset
        self._keep.extend((twin._storage, storage, tensor))
        self.states[id(twin._storage)] = state
        twin._versions = tensor.version_counter
        twin._conj, twin._neg = tensor._conj, tensor._neg
        twin._keys = TRACED | (tensor._keys & LAZY)
        twin._trace = self
        twin._node, twin._output_nr = tensor._node, tensor._output_nr  # views of it are views of no leaf
        twin._value_writes = -1  # type: ignore[attr-defined]
        self._twins[id(tensor)] = twin
        self.lifted.setdefault(id(tensor), Lifted(tensor, state.value, tensor.version_counter.value))
        return twin

    def meet(self, tensor: Tensor) -> None:
        """Something other than an operator is about to share the memory of `tensor`."""
        if tensor._trace is None and tensor._array is not None:
            self.abstract(tensor)

    def copied(self, tensor: Tensor, copy: Tensor) -> None:
        """`copy` was made, over the memory of `tensor`."""
        if tensor._trace is None and tensor._array is not None:
            self.copies.add(id(copy))
            self._keep.append(copy)

    def keep(self, tensor: Tensor) -> None:
        """Compute `tensor` whether somebody uses it or not."""
        self.kept.append(self.value_of(self.abstract(tensor)))

    def value_of(self, tensor: Tensor) -> Value:
        """The value of an abstract tensor now."""
        state = self.states[id(tensor.storage_object)]
        if tensor._value_writes != state.writes:  # type: ignore[attr-defined]
            tensor._value = read_part(  # type: ignore[attr-defined]
                self.graph, state, spec_of(tensor), user_line()
            )
            tensor._value_writes = state.writes  # type: ignore[attr-defined]
        return tensor._value  # type: ignore[attr-defined]

    # Writes and reads.

    def write(self, target: Tensor, result: Tensor) -> None:
        destination = self.abstract(target)
        state = self.states[id(destination.storage_object)]
        if state.source is not None and MODES.grad and (target.requires_grad or result.requires_grad):
            raise CaptureError("an in-place write that gives a tensor of the caller a history", user_line())
        if has_internal_overlap(target):
            raise CaptureError(
                "a write to a tensor of which several elements share one memory location", user_line()
            )
        self._check_late(state)
        value = self.value_of(self.abstract(result))
        state.value = with_part(self.graph, state, spec_of(destination), value, user_line())
        state.writes += 1
        destination.version_counter.value += 1

    def keep_values(self, tensor: Tensor) -> None:
        value = self.value_of(tensor)
        spec = value.spec
        dense = is_dense(spec.known_shape(), spec.known_strides())
        own = Spec(spec.shape, spec.dtype, spec.known_strides() if dense else None)
        value = self.graph.call(REGISTRY["clone"], (value, None), own, user_line()).outputs[0]
        tensor._storage, tensor._strides, tensor._offset, tensor._spec = None, None, 0, value.spec
        tensor._conj = tensor._neg = False
        tensor._keys &= ~LAZY
        self._adopt(tensor, value, own_storage=True)

    def set_geometry(
        self, target: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> bool:
        """Change the shape of a tensor; whether that could be done. A storage of the program grows, with
        zeros, if it must; one of the caller does not."""
        if target._trace is None:
            return self._set_callers_geometry(target, Spec(shape, target.dtype, strides, offset))
        state = self.states.get(id(target.storage_object))
        if target._trace is not self or state is None:
            return False
        self._check_late(state)
        held, needed = numel(state.spec.known_shape()), offset + extent(shape, strides)
        if state.source is not None and not state.covers(Spec(shape, target.dtype, strides, offset)):
            return False
        if state.source is not None:
            needed = held
        if needed > held:
            flat, grown = (Spec((size,), target.dtype, (1,), 0) for size in (held, needed))
            args: Arguments = (state.value, (held,), (1,), 0)
            value = self.graph.call(REGISTRY["as_strided"], args, flat, user_line()).outputs[0]
            args = (value, (0, needed - held), 0)
            state.value = self.graph.call(REGISTRY["constant_pad_nd"], args, grown, user_line()).outputs[0]
            state.spec = grown
            state.writes += 1
        target._spec = Spec(shape, target.dtype, strides, offset)
        target._strides, target._offset = strides, offset
        target._value_writes = -1  # type: ignore[attr-defined]
        return True

    def _set_callers_geometry(self, target: Tensor, spec: Spec) -> bool:
        if target._array is None or target.requires_grad or id(target) in self.replaced:
            return False
        state = self.states[id(self.abstract(target).storage_object)]
        if not state.covers(spec):
            return False
        self._check_late(state)
        self.geometries.set(target, spec.known_shape(), spec.known_strides(), spec.offset)
        self._lift(target)
        return True

    def replace_data(self, target: Tensor, value: Tensor) -> bool:
        """`target.data = value`; whether that could be done. A tensor of the caller is `value` henceforth."""
        fits = (value.shape, value.dtype, value._parts) == (target.shape, target.dtype, target._parts)
        known = target._trace in (None, self) and value._trace in (None, self)
        if not fits or not known or target in self.geometries:
            self.refuse("it gives a tensor data of another kind")
            return False
        new = run_name("detach", value)
        self._check_late(self.states[id(self.abstract(target).storage_object)])
        if target._trace is None:
            new._versions = target.version_counter
            self._twins[id(target)] = new
            self.replaced[id(target)] = target, new
        else:
            for name in _PLACE:
                setattr(target, name, getattr(new, name))
            target._keys = (target._keys & ~LAZY) | (new._keys & LAZY)
        return True

    def sees_flag(self, tensor: Tensor) -> None:
        """The requires_grad flag of `tensor` is about to change."""
        if tensor._trace is None:
            self.flags.setdefault(id(tensor), (tensor, tensor._requires_grad))

    def sees_gradient(self, tensor: Tensor, replaces: bool = False) -> None:
        if tensor._trace is None and id(tensor) not in self.gradients:
            self.gradients[id(tensor)] = UsedGradient(tensor, tensor._grad, not replaces)

    def sees_backward(self, run: Any) -> None:
        """A backward pass begins. What was recorded before the program is another one in every call."""
        if any(node._sequence < self.beginning for node in run.called()):
            self.refuse("a backward pass through history from before the program")

    def refuse(self, what: str) -> None:
        raise CaptureError(f"not part of a graph: {what}", user_line())

    def depends_on(self, tensor: Tensor) -> bool:
        return not self.closed

    def read(self, tensor: Tensor) -> np.ndarray:
        if self.closed:
            raise RuntimeError(KEPT)
        raise CaptureError(
            "the program reads a value (item(), bool(), tolist(), numpy(), an index from a "
            "tensor) that is "
            "known only when it runs",
            user_line(),
        )


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


def _depends_on_data(name: str) -> str:
    return f"the shape of the result of {name} depends on data"


def _specs(results: Any) -> Any:
    return tuple(spec_of(r) for r in results) if isinstance(results, tuple) else spec_of(results)


# Where a tensor of the program has its values.
_PLACE = ("_storage", "_strides", "_offset", "_spec", "_conj", "_neg", "_value", "_value_writes")


def _before_flag(tensor: Tensor) -> None:
    if AMBIENT.trace is not None:
        AMBIENT.trace.sees_flag(tensor)


install_before_flag(_before_flag)

_PACKAGE = __name__.partition(".")[0]


def user_line() -> str:
    """The innermost line outside of this package, as file:line."""
    frame = _user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""


def _user_frame() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame


def _is_inside(frame: FrameType | None) -> bool:
    """Whether `frame` belongs to the program that is being captured, not to whoever calls it."""
    while frame is not None:
        if frame.f_globals.get("__name__") == _PROGRAM:
            return True
        frame = frame.f_back
    return False


_PROGRAM = f"{__name__.rpartition('.')[0]}.program"

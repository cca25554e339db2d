"""Templates: what an operator records is recorded again where it comes again, without running it.

An operator does the same to tensors that look the same. When one comes that was recorded before, on tensors of
the same dtypes, shapes, strides and history, its nodes are made again on the new values, and so are the tensors
that it gave, the nodes of autograd behind them (template_tensors.py) included. The backward of a recorded
operator is treated alike. Python code of users is never part of this: it runs.

What may be recorded so: operators of ours on plain tensors with sizes that are numbers, outside of transforms and
modes. Whatever else an operator uses or changes while it is recorded (random numbers, live numbers, memory of its
arguments) makes it one that is run every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..autograd.edges import edge_of
from ..core.dispatch import AMBIENT, OVERRIDDEN, Arguments, autograd_layer
from ..core.dtypes import DType, get_default_dtype
from ..core.errors import InternalError
from ..core.modes import MODES
from ..core.passes import VERIFY
from ..core.registry import OpDef
from ..core.shapes import Spec
from ..core.tensor import AUTOGRAD, TRACED, Tensor
from ..core.tokens import device, layout, memory_format
from ..graph.ir import Node, Value
from .memory import StorageState
from .numbers import LiveNumber
from .template_tensors import Inputs, NotRepeatable, Template

if TYPE_CHECKING:
    from .trace import Capture

PLAIN = AUTOGRAD | TRACED
_OTHERS = ("library", "foreach")  # operators of users, and those that rows.py knows
WORTH = 3  # calls after which a template is worth making
_CONSTANTS = frozenset((type(None), bool, int, str, DType, device, layout, memory_format))


class _Unlike(Exception):
    """Arguments that nothing is remembered for."""


def _must_be_numbers(*sizes: Any) -> None:
    """Symbols are not looked up: to compare one with another would be a guard."""
    for size in sizes:
        if type(size) is not int:
            raise _Unlike


class _Arguments:
    """The tensors among the arguments of a call, each once, and what the rest of it looks like."""

    def __init__(self, capture: Capture, recorded: bool, layouts: _Layouts) -> None:
        self.capture, self.recorded, self.layouts = capture, recorded, layouts
        self.tensors: list[Tensor] = []
        self.edges: list[Any] = []
        self.states: list[StorageState | None] = []
        self._numbers: dict[int, int] = {}
        self._known: dict[Any, int] = {}  # storages, edges and values that come several times

    def seen(self, value: Any) -> Any:
        kind = type(value)
        if kind in _CONSTANTS:
            return kind, value
        if kind is tuple or kind is list:
            return kind, tuple([self.seen(item) for item in value])
        if kind is float or kind is complex:
            return kind, repr(value)
        if kind is Spec:
            _must_be_numbers(*value.known_shape(), *value.known_strides(), value.offset)
            return kind, value
        if not isinstance(value, Tensor):
            raise _Unlike
        number = self._numbers.get(id(value))
        return self._tensor(value) if number is None else number

    def _tensor(self, tensor: Tensor) -> Any:
        """What a call may depend on of a tensor; of one that was seen already, its number."""
        capture = self.capture
        strange = tensor._keys & ~PLAIN or tensor._overrides or tensor._dispatches or tensor._inference
        if strange or tensor._trace not in (None, capture) or tensor._tangents or tensor._reshaped:
            raise _Unlike
        spec, offset = tensor._spec, tensor._offset
        if type(offset) is not int:
            raise _Unlike
        layout: Any
        if spec is not None:
            layout = self.layouts.number(spec, tensor._strides)
        else:
            layout = tensor._array.shape, tensor.strides()  # type: ignore[union-attr]
            _must_be_numbers(*layout[1])
        number = self._numbers[id(tensor)] = len(self.tensors)
        own = tensor if tensor._trace is capture else capture._twins.get(id(tensor))
        if own is not None and "_point" in vars(own):
            raise _Unlike
        memory: Any = None
        if own is None:
            storage = id(tensor.storage_object)
            if capture.regions.get(storage):
                raise _Unlike
            state = None
        else:
            storage = id(own.storage_object)
            state = capture.states[storage]
            value = own._value if own._value_writes == state.writes else None  # type: ignore[attr-defined]
            memory = (
                *(self.layouts.number(state.spec, None), state.source is None),
                None if value is None else self._first(value),
                self._first(state.value),
            )
        edge = edge_of(tensor) if self.recorded and tensor._keys & AUTOGRAD else None
        self.tensors.append(tensor)
        self.edges.append(edge)
        self.states.append(state)
        based = None if tensor._base is None else (tensor._creation, self._first(id(tensor._base)))
        return (
            *(tensor.dtype, layout, offset, tensor._keys, based),
            *(None if edge is None else self._first(edge), self._first(storage), number, memory),
        )

    def _first(self, thing: Any) -> int:
        """A number for one of the things that several tensors may have in common."""
        return self._known.setdefault(thing, len(self._known))


class _Layouts:
    """Numbers for layouts: those of equal layers share their specs, which are looked at once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], tuple[Spec, Any, int]] = {}  # by identity of what stays here
        self._numbers: dict[Any, int] = {}

    def number(self, spec: Spec, strides: Any) -> int:
        """The number of a layout whose sizes are numbers; `strides`, if given, are in the place of its own."""
        key = id(spec), id(strides)
        seen = self._seen.get(key)
        if seen is None:
            shape = spec.shape
            if shape is None:
                raise _Unlike
            steps = spec.known_strides() if strides is None else strides
            _must_be_numbers(*shape, *steps, spec.offset)
            number = self._numbers.setdefault((spec.dtype, shape, steps, spec.offset), len(self._numbers))
            seen = self._seen[key] = spec, strides, number
        return seen[2]


class Templates:
    """What a capture has recorded, to be recorded again."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.busy = False  # an operator is being recorded: those inside of it are part of it
        self._known: dict[Any, Template | None] = {}  # None: is run every time
        self._seen: dict[Any, int] = {}  # how often something came
        self._layouts = _Layouts()

    def call(self, op: OpDef, args: Arguments, keys: int, recorded: bool) -> Any:
        """Run an operator, through autograd if it is `recorded`."""
        capture = self.capture

        def run() -> Any:
            return autograd_layer(op, args, keys, capture) if recorded else capture.process(op, args)

        live = LiveNumber in map(type, args)
        if live or op.random or op.family in _OTHERS or not self._is_plain():
            return run()
        return self._again(op, args, recorded, run)

    def backward(self, node: Any, grads: list[Any], wanted: Any) -> Any:
        """The gradients that a recorded operator passes on."""
        if node.entry.op.family == "library" or self.busy or not self._is_plain():
            return node.apply(grads, wanted)
        values = node.values(grads)
        live = tuple([edge is not None for edge in node._next])
        what = node.plan, node.counts, wanted, live
        return self._again(what, values, MODES.grad, lambda: node.applied(values, wanted), self._line)

    def forget(self) -> None:
        self._known, self._seen, self._layouts = {}, {}, _Layouts()

    def _line(self) -> str:
        """The line of the program that began the backward pass: of all that no function of the user's calls."""
        run = MODES.run
        if run.line is None:
            run.line = self.capture._line()
        return run.line

    def _is_plain(self) -> bool:
        """Whether nothing but the capture sees operators."""
        modes, capture = MODES, self.capture
        return not (
            capture.closed
            or capture.reason is not None
            or capture.deferred
            or AMBIENT.trace is not capture
            or AMBIENT.keys != TRACED
            or OVERRIDDEN
            or modes.traces
            or modes.dual_levels
            or modes.inference
            or modes.saved_hooks
            or modes.anomaly
            or modes.functions
            or modes.dispatchers
            or modes.silent
            or modes.devices
        )

    def _again(
        self,
        what: Any,
        args: Sequence[Any],
        recorded: bool,
        run: Callable[[], Any],
        line: Callable[[], str] | None = None,
    ) -> Any:
        given = _Arguments(self.capture, recorded and MODES.grad, self._layouts)
        try:
            modes = (MODES.grad, MODES.constant)
            key = (what, recorded, modes, get_default_dtype(), *[given.seen(value) for value in args])
            known = self._known.get(key, self)
        except _Unlike:
            return run()
        if known is None:
            return run()
        inputs = Inputs(given.tensors, given.edges, given.states)
        if isinstance(known, Template):
            if VERIFY.on:
                return self._verified(known, inputs, run)
            where = self.capture._line() if line is None else line()
            return run() if self.capture.reason is not None else known.repeat(inputs, where)
        self.busy = True
        try:
            times = self._seen[key] = self._seen.get(key, 0) + 1
            return self._recorded(key, inputs, run) if times == WORTH else run()
        finally:
            self.busy = False

    def _recorded(self, key: Any, inputs: Inputs, run: Callable[[], Any]) -> Any:
        """Run what came before, and keep what it records."""
        capture = self.capture
        begin = len(capture.graph.nodes)
        counts = self._counts()
        writes = [(state, state.writes) for state in inputs.states if state is not None]
        versions = _versions(inputs)
        template = Template(capture, inputs, begin)
        result = run()
        same = (
            capture.reason is None
            and counts == self._counts()
            and all(state.writes == before for state, before in writes)
            and versions == _versions(inputs)
        )
        self._known[key] = None
        if same:
            try:
                template.finish(result)
                self._known[key] = template
            except NotRepeatable:
                pass
        return result

    def _counts(self) -> tuple[int, ...]:
        """What operators that can be repeated do not add to."""
        capture = self.capture
        symbols = capture.numbers.symbols
        return (
            *(len(capture.kept), len(capture.deferred), len(capture.graph.data_sizes), len(capture.draws)),
            *(len(symbols.guards), len(capture.gradients), len(capture.flags), len(capture.replaced)),
        )

    def _verified(self, template: Template, inputs: Inputs, run: Callable[[], Any]) -> Any:
        """Run what could be recorded again, and see that it is the same."""
        begin = len(self.capture.graph.nodes)
        self.busy = True
        try:
            result = run()
        finally:
            self.busy = False
        if self.capture.reason is None:
            nodes = self.capture.graph.nodes[begin:]
            told = template.told(inputs)
            found = tell(nodes)
            if told != found:
                raise InternalError(f"recorded again:\n{told}\nrecorded:\n{found}")
        return result


def _versions(inputs: Inputs) -> list[int]:
    return [0 if tensor._versions is None else tensor._versions.value for tensor in inputs.tensors]


def tell(nodes: Sequence[Node]) -> list[Any]:
    """What a template says of nodes, values by the order in which they come."""
    numbers: dict[Value, int] = {}

    def told(argument: Any) -> Any:
        if type(argument) is Value:
            return "value", numbers.setdefault(argument, len(numbers))
        if isinstance(argument, (tuple, list)):
            return [told(item) for item in argument]
        return argument

    return [
        (
            *(node.op, node.returns_list, told(node.args)),
            *([(told(v), v.spec, v.number) for v in node.outputs],),
        )
        for node in nodes
    ]

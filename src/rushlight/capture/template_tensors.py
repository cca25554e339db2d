"""A template: the nodes that an operator recorded, and the tensors and nodes of autograd that it made, as a
function of the tensors that it was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..autograd.saved import OpNode, save_tensor
from ..autograd.tape import sequence
from ..core.registry import OpDef
from ..core.shapes import Spec
from ..core.storage import Storage, VersionCounter
from ..core.tensor import Tensor
from ..derivatives.declare import Take
from ..graph.ir import Node, Value, map_values
from .memory import StorageState

if TYPE_CHECKING:
    from .trace import Capture


class NotRepeatable(Exception):
    """Something that an operator made, or used, does not follow from its arguments alone."""


@dataclass(frozen=True)
class Inputs:
    """The tensors that an operator is given; where their gradients go, and what is known of their memory."""

    tensors: Sequence[Tensor]
    edges: Sequence[Any]
    states: Sequence[StorageState | None]


@dataclass(frozen=True)
class _Given:
    """One of the given tensors, or the abstract tensor that stands for it, or what it is a view of."""

    number: int
    twin: bool = False
    base: bool = False


@dataclass(frozen=True)
class _Made:
    """A thing that the operator made, by its number."""

    number: int


@dataclass(frozen=True)
class _RecordedCall:
    """A node: its arguments, and at which places they are values, by their numbers."""

    op: OpDef
    args: tuple[Any, ...]
    places: tuple[tuple[int, int], ...]
    nested: bool  # values are inside of lists
    specs: tuple[Spec, ...]
    numbers: tuple[type | None, ...]
    returns_list: bool


@dataclass(frozen=True)
class _Storage:
    """Memory that was made: what it holds."""

    value: int
    spec: Spec
    writes: int
    bytes: int


@dataclass(frozen=True)
class _Tensor:
    """A tensor that was made; places are numbers of what else was made, or inputs."""

    fields: dict[str, Any]
    storage: _Given | _Made
    versions: _Given | _Made | None
    value: int
    current: bool
    base: Any
    view_of: Any
    node: _Made | None
    sees_base: bool


@dataclass(frozen=True)
class _Tape:
    """A node of autograd that was made: its class, and what that is called with."""

    kind: type[OpNode]
    facts: tuple[Any, ...]  # entry, plan, what is known of its outputs, and how many edges its targets have
    edges: tuple[Any, ...]
    saved: tuple[Any, ...]


_COPIED = frozenset(
    ("_array", "dtype", "_spec", "_strides", "_offset", "_conj", "_neg", "_keys", "_output_nr")
)
_PLACED = frozenset(
    ("_storage", "_versions", "_value", "_value_writes", "_base", "_view_of", "_node", "_seen", "_trace")
)
_NOTHING = (None, False, 0)


class Template:
    """Made before an operator runs; `finish` looks at what it did, `repeat` does that again."""

    def __init__(self, capture: Capture, inputs: Inputs, begin: int) -> None:
        self.capture, self.begin, self.started = capture, begin, next(sequence)
        self._inputs = inputs
        self.calls: list[_RecordedCall] = []
        self.slots: list[
            tuple[int, bool]
        ] = []  # values that are given: an input, whether it is the storage's
        self.storages: list[_Storage] = []
        self.versions: list[int] = []
        self.tensors: list[_Tensor] = []
        self.tape: list[_Tape] = []
        self.result: Any = None

    # Looking.

    def finish(self, result: Any) -> None:
        self._values: dict[Value, int] = {}
        self._known: dict[
            int, Any
        ] = {}  # by identity: what stands for tensors, storages, counters, tape nodes
        self._alive: list[Any] = []
        self._edges: dict[Any, int] = {}
        self._order: list[tuple[int, int]] = []
        nodes = self.capture.graph.nodes[self.begin :]
        made = {value for node in nodes for value in node.outputs}
        self._look_at_inputs(made)
        self._look_at_nodes(nodes, made)
        self.result = self._thing(result)
        self._sort_tape()
        self.used = sorted({number for number, _ in self.slots} | self._twins)
        del self._values, self._known, self._alive, self._edges, self._inputs, self._order

    def _look_at_inputs(self, made: set[Value]) -> None:
        capture, given = self.capture, self._inputs
        self._twins: set[int] = set()
        for number, tensor in enumerate(given.tensors):
            self._known[id(tensor)] = _Given(number)
            own = tensor if tensor._trace is capture else capture._twins.get(id(tensor))
            if tensor._base is not None:
                self._known.setdefault(id(tensor._base), _Given(number, base=True))
            if own is None:
                continue
            self._known.setdefault(id(own), _Given(number, twin=True))
            self._known.setdefault(id(own.storage_object), _Given(number))
            if own._versions is not None:
                self._known.setdefault(id(own._versions), _Given(number))
            state = capture.states[id(own.storage_object)]
            value = own._value if own._value_writes == state.writes else None  # type: ignore[attr-defined]
            if value is not None and value not in made:
                self._slot(value, number, False)
            self._slot(state.value, number, True)
        for number, edge in enumerate(given.edges):
            if edge is not None:
                self._edges.setdefault(edge, number)

    def _slot(self, value: Value, number: int, whole: bool) -> None:
        if value not in self._values:
            self._values[value] = len(self._values)
            self.slots.append((number, whole))

    def _look_at_nodes(self, nodes: list[Node], made: set[Value]) -> None:
        used = {value for node in nodes for value in node.inputs()}
        if not used - made <= self._values.keys() or any(node.op.random for node in nodes):
            raise NotRepeatable
        for node in nodes:
            for value in node.outputs:
                spec = value.spec
                if any(type(n) is not int for n in (*spec.known_shape(), *spec.known_strides(), spec.offset)):
                    raise NotRepeatable
            places = tuple([(i, self._values[a]) for i, a in enumerate(node.args) if type(a) is Value])
            nested = len(node.inputs()) > len(places)
            args = map_values(node.args, lambda value: _Made(self._values[value])) if nested else node.args
            self.calls.append(
                _RecordedCall(
                    *(node.op, args, places, nested),
                    tuple([value.spec for value in node.outputs]),
                    tuple([value.number for value in node.outputs]),
                    node.returns_list,
                )
            )
            for value in node.outputs:
                self._values[value] = len(self._values)

    def _thing(self, thing: Any) -> Any:
        """A result, or part of one, or of what is saved."""
        if isinstance(thing, Tensor):
            return self._tensor(thing)
        if type(thing) in (tuple, list):
            return type(thing)([self._thing(item) for item in thing])
        if thing is None or type(thing) in (bool, int, float):
            return thing
        raise NotRepeatable

    def _tensor(self, tensor: Tensor) -> _Given | _Made:
        known = self._known.get(id(tensor))
        if known is not None:
            if known.__class__ is _Given and known.twin:
                self._twins.add(known.number)
            return known
        if type(tensor) is not Tensor or tensor._trace is not self.capture:
            raise NotRepeatable
        own = vars(tensor)
        for name, value in own.items():
            if name not in _COPIED and name not in _PLACED and not any(value is x for x in _NOTHING):
                raise NotRepeatable
        storage = self._storage(tensor.storage_object)
        state = self.capture.states[id(tensor.storage_object)]
        writes, value = own["_value_writes"], own["_value"]
        if value not in self._values or (tensor._base is None) != (tensor._view_of is None):
            raise NotRepeatable
        base = None if tensor._base is None else self._tensor(tensor._base)
        view_of = None if tensor._view_of is None else self._view(*tensor._view_of)
        node = None if tensor._node is None else self._tape_node(tensor._node)
        if tensor._seen is not None and (tensor._base is None or tensor._seen is not tensor._base._node):
            raise NotRepeatable
        found = _Made(len(self.tensors))
        self._known[id(tensor)] = found
        self._alive.append(tensor)
        self.tensors.append(
            _Tensor(
                {name: own[name] for name in own if name in _COPIED},
                storage,
                None if tensor._versions is None else self._counter(tensor._versions),
                self._values[value],
                writes == state.writes,
                *(base, view_of, node, tensor._seen is not None),
            )
        )
        return found

    def _view(self, op: OpDef, args: tuple[Any, ...]) -> Any:
        if any(isinstance(item, Tensor) for a in args[1:] for item in (a if type(a) is tuple else (a,))):
            raise NotRepeatable
        return op, self._tensor(args[0]), args[1:]

    def _storage(self, storage: Storage) -> _Given | _Made:
        known = self._known.get(id(storage))
        if known is None:
            state = self.capture.states[id(storage)]
            if state.source is not None or state.value not in self._values:
                raise NotRepeatable
            known = self._known[id(storage)] = _Made(len(self.storages))
            self.storages.append(
                _Storage(self._values[state.value], state.spec, state.writes, storage._meta_bytes)
            )
        return known

    def _counter(self, versions: VersionCounter) -> _Given | _Made:
        known = self._known.get(id(versions))
        if known is None:
            known = self._known[id(versions)] = _Made(len(self.versions))
            self.versions.append(versions.value)
        return known

    # Autograd.

    def _tape_node(self, node: Any) -> _Made:
        known = self._known.get(id(node))
        if known is None:
            if not isinstance(node, OpNode) or node._sequence < self.started or node._hooks is not None:
                raise NotRepeatable
            known = self._known[id(node)] = _Made(-1 - len(self._alive))  # its number follows from the order
            self._alive.append(node)
            edges = tuple([self._edge(edge) for edge in node._next])
            saved = tuple(
                [self._saved(c[0], item) for c, item in zip(node.plan.captures, node.saved, strict=True)]
            )
            self._order.append((node._sequence, known.number))
            facts = node.entry, node.plan, node._meta, node.counts
            self.tape.append(_Tape(type(node), facts, edges, saved))
        return known

    def _edge(self, edge: Any) -> Any:
        if edge is None:
            return None
        number = self._edges.get(edge)
        return (self._tape_node(edge[0]), edge[1]) if number is None else _Given(number)

    def _saved(self, take: Take, item: Any) -> Any:
        """What is saved: how it is made again."""
        if take in (Take.TENSORS, Take.RESULTS):
            part = Take.TENSOR if take is Take.TENSORS else Take.RESULT
            return None if item is None else [self._saved(part, one) for one in item]
        if take not in (Take.TENSOR, Take.RESULT):
            return take, item
        if item is None:
            return None
        if type(item) is not tuple or item[1] != item[0].version_counter.value:
            raise NotRepeatable
        if len(item) == 3 and item[2] is not item[0]._node:
            raise NotRepeatable
        return take, self._tensor(item[0]), item[1]

    def _sort_tape(self) -> None:
        """Number the nodes of autograd in the order in which they were made."""
        order = sorted(range(len(self._order)), key=lambda i: self._order[i][0])
        self.numbers = {self._order[i][1]: n for n, i in enumerate(order)}
        self.tape = [self.tape[i] for i in order]

    # Doing it again.

    def told(self, inputs: Inputs) -> list[Any]:
        """The nodes as templates.tell says."""
        numbers: dict[int, int] = {}

        def told(argument: Any) -> Any:
            if type(argument) is _Made:
                return "value", numbers.setdefault(argument.number, len(numbers))
            if isinstance(argument, (tuple, list)):
                return [told(item) for item in argument]
            return argument

        found, at = [], len(self.slots)
        for call in self.calls:
            args = list(call.args)
            for place, number in call.places:
                args[place] = _Made(number)
            given = told(args)
            made = []
            for spec, number_type in zip(call.specs, call.numbers, strict=True):
                made.append((told(_Made(at)), spec, number_type))
                at += 1
            found.append((call.op, call.returns_list, given, made))
        return found

    def repeat(self, inputs: Inputs, line: str) -> Any:
        capture = self.capture
        twins = {number: capture.abstract(inputs.tensors[number]) for number in self.used}
        values = [
            capture.states[id(twins[number].storage_object)].value
            if whole
            else capture.value_of(twins[number])
            for number, whole in self.slots
        ]
        self._record(values, line)
        return _Repeated(self, inputs, twins, values).result()

    def _record(self, values: list[Value], line: str) -> None:
        """Record the nodes; `values` are those that are given, and get those that are made."""
        graph = self.capture.graph
        for call in self.calls:
            if call.nested:
                args = _with_values(call.args, values)
            elif len(call.places) == 1:
                (at, number), given = call.places[0], call.args
                args = (*given[:at], values[number], *given[at + 1 :])
            else:
                changed = list(call.args)
                for at, number in call.places:
                    changed[at] = values[number]
                args = tuple(changed)
            node = Node(call.op, args, line)
            node.returns_list = call.returns_list
            name = call.op.schema.name
            for index, spec in enumerate(call.specs):
                value = Value(graph.fresh(name), spec, node, index)
                value.number = call.numbers[index]
                node.outputs.append(value)
                values.append(value)
            graph.nodes.append(node)


def _with_values(argument: Any, values: list[Value]) -> Any:
    if type(argument) is _Made:
        return values[argument.number]
    if type(argument) is tuple:
        return tuple([_with_values(item, values) for item in argument])
    return argument


class _Repeated:
    """The things that an operator makes, made once more."""

    def __init__(
        self, template: Template, inputs: Inputs, twins: dict[int, Tensor], values: list[Value]
    ) -> None:
        self.template, self.inputs, self.twins, self.values = template, inputs, twins, values
        capture = template.capture
        self.storages: list[Storage] = []
        for made in template.storages:
            storage = Storage.of_size(made.bytes)
            capture._keep.append(storage)
            capture.states[id(storage)] = StorageState(values[made.value], made.spec, made.writes)
            self.storages.append(storage)
        self.versions = [VersionCounter(value) for value in template.versions]
        self.tensors: list[Tensor] = []
        for like in template.tensors:
            self.tensors.append(self._tensor(like))
        self.tape: list[OpNode] = []
        for node in template.tape:
            self.tape.append(self._node(node))
        numbers = template.numbers
        for tensor, like in zip(self.tensors, template.tensors, strict=True):
            if like.node is not None:
                tensor._node = self.tape[numbers[like.node.number]]
        for tensor, like in zip(self.tensors, template.tensors, strict=True):
            if like.sees_base:
                tensor._seen = tensor._base._node  # type: ignore[union-attr]
        for made_node, node in zip(self.tape, template.tape, strict=True):
            made_node.saved = [self._saved(item) for item in node.saved]

    def result(self) -> Any:
        return self._thing(self.template.result)

    def _thing(self, thing: Any) -> Any:
        kind = type(thing)
        if kind is _Given or kind is _Made:
            return self._found(thing)
        return kind([self._thing(item) for item in thing]) if kind is tuple or kind is list else thing

    def _found(self, place: Any) -> Any:
        if type(place) is _Made:
            return self.tensors[place.number]
        given = self.inputs.tensors[place.number]
        return self.twins[place.number] if place.twin else given._base if place.base else given

    def _tensor(self, like: _Tensor) -> Tensor:
        capture = self.template.capture
        tensor: Tensor = object.__new__(Tensor)
        own = vars(tensor)
        own.update(like.fields)
        place = like.storage
        if type(place) is _Made:
            storage = self.storages[place.number]
        else:
            storage = self._own(place.number).storage_object
        own["_storage"] = storage
        if like.versions is not None:
            counter = like.versions
            own["_versions"] = (
                self.versions[counter.number]
                if type(counter) is _Made
                else self._own(counter.number).version_counter
            )
        own["_value"] = self.values[like.value]
        own["_value_writes"] = capture.states[id(storage)].writes if like.current else -1
        if like.base is not None:
            op, source, rest = like.view_of
            own["_base"] = self._found(like.base)
            own["_view_of"] = op, (self._found(source), *rest)
        capture.claim(tensor)
        return tensor

    def _own(self, number: int) -> Tensor:
        twin = self.twins.get(number)
        return self.template.capture.abstract(self.inputs.tensors[number]) if twin is None else twin

    def _node(self, like: _Tape) -> OpNode:
        edges = tuple(
            [
                edge
                if edge is None
                else self.inputs.edges[edge.number]
                if type(edge) is _Given
                else (self.tape[self.template.numbers[edge[0].number]], edge[1])
                for edge in like.edges
            ]
        )
        entry, plan, meta, counts = like.facts
        return like.kind(entry, plan, edges, meta, counts)

    def _saved(self, item: Any) -> Any:
        if item is None:
            return None
        if type(item) is list:
            return [self._saved(one) for one in item]
        if len(item) == 2:
            return item[1]
        take, place, version = item
        tensor = self._found(place)
        if take is Take.RESULT:
            return tensor, tensor.version_counter.value
        return save_tensor(tensor) if type(place) is _Given else (tensor, version, tensor._node)

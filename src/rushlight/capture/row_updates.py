"""Updates of rows of tensors, such as the step of an optimizer: recorded once for rows that look alike.

An update takes each row by itself: a parameter, its gradient, and what is kept for it. What it records for the
first row of each kind is recorded for the others on their own tensors, without running it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.errors import InternalError
from ..core.shapes import surely_dense
from ..core.tensor import Tensor
from ..graph.ir import Node, Value, map_values
from .memory import StorageState, same_layout, spec_of
from .rows import is_quiet, layout_of

if TYPE_CHECKING:
    from .trace import Capture

Row = Sequence[Tensor]


def record_updates(capture: Capture, update: Callable[[Sequence[int]], None], rows: Sequence[Row]) -> None:
    """`update(numbers)` of all rows, by their numbers. It writes to nothing but tensors of the rows, and what it
    writes to one of a row follows from that row and from tensors that are in none."""
    numbers = range(len(rows))
    first: dict[Any, int] = {}
    like = list(numbers)  # by row: the row that is recorded for it
    if capture.reason is None and is_quiet(capture):
        like = [n if key is None else first.setdefault(key, n) for n, key in enumerate(_keys(capture, rows))]
    recorded = [n for n in numbers if like[n] == n]
    if len(recorded) == len(rows):
        update(numbers)
        return
    template = _Template(capture, rows, like)
    update(recorded)
    if capture.reason is not None:  # the program goes on eagerly
        update([n for n in numbers if like[n] != n])
    else:
        template.repeat()


def _keys(capture: Capture, rows: Sequence[Row]) -> list[Any]:
    """What the nodes of each row depend on, but for the values of its tensors; None of a row that has something
    in common with another, or is more than can be seen here."""
    layouts = [[layout_of(capture, tensor) for tensor in row] for row in rows]
    plain = [None not in known for known in layouts]
    states = [
        [_state(capture, tensor) for tensor in row] if known else []
        for row, known in zip(rows, plain, strict=True)
    ]
    tensors = [tensor for row, known in zip(rows, plain, strict=True) if known for tensor in row]
    memory = Counter([id(tensor.storage_object) for tensor in tensors])
    values = Counter([state.value for row in states for state in row if state is not None])

    def fact(tensor: Tensor, layout: Any, state: StorageState | None) -> Any:
        storage = id(tensor.storage_object)
        if tensor._base is not None or memory[storage] > 1:
            return None
        if state is None:
            shared = tensor._trace is not None or capture.regions.get(storage)
            apart = not shared and surely_dense(tensor.shape, tensor.strides())
        else:
            apart = values[state.value] == 1 and same_layout(spec_of(tensor), state.spec)
        source = None if state is None else state.source is None
        return (*layout, tensor.storage_offset(), tensor._keys, source) if apart else None

    found = []
    for row, known, here in zip(rows, layouts, states, strict=True):
        facts: Any = (None,) if None in known else tuple(map(fact, row, known, here))
        found.append(None if None in facts else facts)
    return found


def _state(capture: Capture, tensor: Tensor) -> StorageState | None:
    """What is known of the memory of a tensor; None if the program has not used it."""
    own = tensor if tensor._trace is capture else capture._twins.get(id(tensor))
    return None if own is None else capture.states[id(own.storage_object)]


@dataclass
class _Before:
    """A tensor of a row that is recorded, as it was before."""

    tensor: Tensor
    value: Value | None  # None, if the program had not used it
    writes: int
    version: int


class _Template:
    """What an update records for some rows, to be recorded for the others."""

    def __init__(self, capture: Capture, rows: Sequence[Row], like: Sequence[int]) -> None:
        self.capture, self.rows, self.like = capture, rows, like
        self.begin = len(capture.graph.nodes)
        self.before: dict[int, list[_Before]] = {}  # by the number of a row that others are like
        for number in {n for other, n in enumerate(like) if other != n}:
            self.before[number] = [self._seen(tensor) for tensor in rows[number]]

    def _seen(self, tensor: Tensor) -> _Before:
        state = _state(self.capture, tensor)
        version = tensor.version_counter.value
        if state is None:
            return _Before(tensor, None, 0, version)
        return _Before(tensor, state.value, state.writes, version)

    def repeat(self) -> None:
        graph = self.capture.graph
        nodes = graph.nodes[self.begin :]
        del graph.nodes[self.begin :]
        owner: dict[Value, int] = {}
        taken = {number: list(map(self._taken, before)) for number, before in self.before.items()}
        for number, values in taken.items():
            owner.update({value: number for value in values if value is not None})
        own: dict[int, list[Node]] = {number: [] for number in taken}
        for node in nodes:
            rows = {owner[value] for value in node.inputs() if value in owner}
            if len(rows) > 1:
                raise InternalError(f"{node} takes values of several rows")
            if not rows:
                graph.nodes.append(node)
                continue
            number = rows.pop()
            own[number].append(node)
            owner.update(dict.fromkeys(node.outputs, number))
        compose = self.capture.compose
        if compose is not None:
            own = {number: compose(nodes, self._made(number)) for number, nodes in own.items()}
        mapped = self._lifted(taken)
        for turn in range(max(map(len, own.values()))):
            for row, number in enumerate(self.like):
                if number in own and turn < len(own[number]):
                    node = own[number][turn]
                    graph.nodes.append(node) if row == number else self._again(node, mapped[row])
        self._write(mapped)

    def _taken(self, before: _Before) -> Value | None:
        """What a tensor held before; None if nothing was recorded with it."""
        if before.value is not None:
            return before.value
        state = _state(self.capture, before.tensor)
        return None if state is None else state.input

    def _made(self, number: int) -> list[Value]:
        """What the nodes of a row are for: the values that its tensors have now, and those that are kept."""
        states = [_state(self.capture, before.tensor) for before in self.before[number]]
        return [*(state.value for state in states if state is not None), *self.capture.kept]

    def _lifted(self, taken: dict[int, list[Value | None]]) -> dict[int, dict[Value, Value]]:
        """For each row that is like another: its values in the place of those of the other."""
        capture = self.capture
        mapped: dict[int, dict[Value, Value]] = {}
        for row, number in enumerate(self.like):
            if row != number:
                values = mapped[row] = {}
                for tensor, value in zip(self.rows[row], taken[number], strict=True):
                    if value is not None:
                        values[value] = capture.states[id(capture.abstract(tensor).storage_object)].value
        return mapped

    def _again(self, node: Node, mapped: dict[Value, Value]) -> None:
        graph = self.capture.graph
        get = mapped.get
        twin = Node(node.op, map_values(node.args, lambda value: get(value, value)), node.line)
        twin.returns_list = node.returns_list
        for old in node.outputs:
            new = mapped[old] = Value(graph.fresh(node.op.schema.name), old.spec, twin, old.index)
            new.number = old.number
            twin.outputs.append(new)
        graph.nodes.append(twin)

    def _write(self, mapped: dict[int, dict[Value, Value]]) -> None:
        """Give the tensors of the other rows their new values."""
        for row, values in mapped.items():
            for tensor, before in zip(self.rows[row], self.before[self.like[row]], strict=True):
                like = _state(self.capture, before.tensor)
                writes = 0 if like is None else like.writes - before.writes
                if writes:
                    assert like is not None
                    state = _state(self.capture, tensor)
                    assert state is not None
                    state.value = values.get(like.value, like.value)
                    state.writes += writes
                    tensor.version_counter.value += before.tensor.version_counter.value - before.version

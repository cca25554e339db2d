"""Operators whose results have sizes that are data, as a graph of operators that have none.

In: a call of such an operator (`nonzero`, `x[mask]`, `unique`, ...) on abstract tensors. Out: its results, whose
sizes are symbols that are data (core/symbol_table.py). A rule computes the size, as a 0-d tensor of the graph;
`Sizes.of` gives the symbol that stands for it from then on; the rest is gathers and scatters of that size. The
program is cut behind what computes such a size (capture/cut.py), and a run reads it there.

A mask is looked at once: whoever asks again for its positions, as the gradient of a selection does, gets the same
symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import Arguments, run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.shapes import Spec, broadcast_shapes, numel
from ..core.symbols import LARGEST, exact, hint, index_of, symbols_in
from ..core.tensor import Tensor
from ..graph.ir import Graph, Value, map_values
from ..ops.indexing import MASK_DTYPES
from .deferred import recorded_plainly
from .errors import user_line
from .numbers import Numbers

INT64 = DTYPES["int64"]
_AS_VALUE = object()


class SizesOfData:
    """The sizes of one capture that are data: where the graph computes each."""

    def __init__(self, graph: Graph, numbers: Numbers, value_of: Callable[[Tensor], Value]) -> None:
        self.graph, self.numbers = graph, numbers
        self.value_of = value_of
        self._sizes: dict[Any, Any] = {}
        self._positions: dict[Any, Tensor] = {}
        self._keys: dict[Value, int] = {}  # equal for values that are computed in the same way
        self._computed: dict[Any, int] = {}

    def of(self, tensor: Tensor, what: str, guess: int, low: Any = 0, most: Any = None) -> Any:
        """The number in an int64 tensor of one element, as a size; `most`: what it cannot exceed."""
        value = self.value_of(tensor)
        key = self._key(value)
        known = self._sizes.get(key)
        if known is None:
            high = most if type(most) is int else LARGEST
            known = self._sizes[key] = self.numbers.data_size(what, guess, low, high)
            (dim,) = symbols_in(known)
            if value.node is not None and value.node.op.kind is Kind.VIEW:  # which means nothing by itself
                alone = Spec(value.shape, value.dtype)
                value = self.graph.call(REGISTRY["clone"], (value, None), alone, user_line()).outputs[0]
            self.graph.data_sizes.append((dim, value))
            bound = index_of(most)
            if bound is not None and type(most) is not int:
                known.symbols.learn(">= 0", bound - known.index)
        return known.symbols.size(known.index)

    def positions(self, mask: Tensor) -> Tensor:
        """Where a mask is set, in row-major order."""
        key = self._key(self.value_of(mask))
        known = self._positions.get(key)
        if known is None:
            known = self._positions[key] = self._found(mask)
        return known

    def _key(self, value: Value) -> int:
        """A number that is the same for values of the same operators on the same arguments."""
        waiting = [value]
        while waiting:
            last = waiting[-1]
            inputs = [] if last.node is None else last.node.inputs()
            ahead = [each for each in inputs if each not in self._keys]
            if ahead:
                waiting += ahead
                continue
            waiting.pop()
            if last.node is None or last.node.op.random:
                what: Any = last
            else:
                args = exact(map_values(last.node.args, lambda v: (_AS_VALUE, self._keys[v])))
                what = (last.node.op.name, args, last.index)
            try:
                self._keys[last] = self._computed.setdefault(what, len(self._computed))
            except TypeError:  # an argument without a hash
                self._keys[last] = self._computed.setdefault(last, len(self._computed))
        return self._keys[value]

    def _found(self, mask: Tensor) -> Tensor:
        count = numel(mask.shape)
        flat = mask.reshape((count,))
        if type(count) is int and count == 0:
            return flat.new_empty((0,), dtype=INT64)
        what = "the number of elements that a mask selects"
        size = self.of(flat.sum(), what, max(2, hint(count) // 2), most=count)
        places = run_name("where.self", flat, flat.cumsum(0) - 1, flat.new_full((), size, dtype=INT64))
        room = flat.new_empty((size + 1,), dtype=INT64)
        return room.scatter(0, places, _counted(count)).narrow(0, 0, size)


def _counted(count: Any) -> Tensor:
    found: Tensor = run_name("arange", count, INT64, None, None, None)
    return found


def _set(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype is DTYPES["bool"] else tensor != 0


def _unravelled(flat: Tensor, shape: Sequence[Any]) -> list[Tensor]:
    """Row-major positions as one position for each dimension."""
    columns: list[Tensor] = []
    for size in reversed(shape[1:]):
        columns.append(flat % size)
        flat = run_name("div.Tensor_mode", flat, flat.new_full((), size), "floor")
    return [flat, *reversed(columns)]


# The operators.


def _nonzero(sizes: SizesOfData, self: Tensor) -> Tensor:
    flat = sizes.positions(_set(self))
    if self.ndim == 0:
        return flat.new_empty((flat.shape[0], 0))
    if self.ndim == 1:
        return flat.unsqueeze(1).clone()
    return run_name("stack", tuple(_unravelled(flat, self.shape)), 0).t().clone()


def _without_masks(
    sizes: SizesOfData, self: Tensor, indices: Sequence[Tensor | None]
) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    """A tensor and an advanced index into it in which positions stand for masks; one mask alone is an index into
    its dimensions taken together."""
    used = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(used) == 1:
        dim, mask = used[0]
        shape = self.shape
        whole = numel(mask.shape)
        self = self.reshape((*shape[:dim], whole, *shape[dim + mask.ndim :]))
        return self, (*indices[:dim], sizes.positions(_set(mask)))
    found: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in MASK_DTYPES:
            found.append(index)
        else:
            found += _unravelled(sizes.positions(_set(index)), index.shape)
    return self, tuple(found)


def _index(sizes: SizesOfData, self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return run_name("index.Tensor", *_without_masks(sizes, self, indices))


def _index_put(
    sizes: SizesOfData, self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool
) -> Tensor:
    flat, places = _without_masks(sizes, self, indices)
    return run_name("index_put", flat, places, values, accumulate).reshape(self.shape)


def _masked_scatter(sizes: SizesOfData, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    shape = broadcast_shapes(self.shape, mask.shape)
    places = sizes.positions(mask.expand(shape))
    count, given = places.shape[0], numel(source.shape)
    check(given >= count, "masked_scatter: Number of elements of source < number of ones in mask")
    values = source.reshape((given,)).narrow(0, 0, count)
    flat = self.expand(shape).reshape((numel(shape),))
    return run_name("index_put", flat, (places,), values, False).reshape(shape)


def _masked_select(sizes: SizesOfData, self: Tensor, mask: Tensor) -> Tensor:
    shape = broadcast_shapes(self.shape, mask.shape)
    flat = self.expand(shape).reshape((numel(shape),))
    return flat.index_select(0, sizes.positions(mask.expand(shape)))


def _repeat_interleave(sizes: SizesOfData, repeats: Tensor, output_size: Any) -> Tensor:
    message = "repeats can not be negative"
    run_name("_assert_async.msg", (repeats >= 0).all(), message)
    ends = repeats.cumsum(0, dtype=INT64)
    guess = max(2, 2 * hint(repeats.shape[0]))
    size = sizes.of(repeats.sum(dtype=INT64), "the sum of repeats", guess, -LARGEST)
    check(size >= 0, message)
    size = size.symbols.size(size.index)
    found = run_name("searchsorted.Tensor", ends, _counted(size), False, True, None, None)
    return found.to(repeats.dtype)


def _one_hot(sizes: SizesOfData, self: Tensor, num_classes: int) -> Tensor:
    size = sizes.of(self.max() + 1, "the largest class and one", 16, -LARGEST)
    check(size >= 1, "one_hot: Class values must be non-negative")
    return run_name("one_hot", self, size.symbols.size(size.index))


def _unique(sizes: SizesOfData, self: Tensor, inverse: bool, counts: bool) -> tuple[Tensor, ...]:
    """The values in order; which of them each element is, and how often each comes, if asked for."""
    count = numel(self.shape)
    ordered, places = run_name("sort.stable", self.reshape((count,)), False, 0, False)
    values, run, lengths = _runs(sizes, ordered)
    back = run.new_empty((count,)).scatter(0, places, run).reshape(self.shape)
    return _asked(values, (back, inverse), (lengths, counts))


def _consecutive(sizes: SizesOfData, self: Tensor, inverse: bool, counts: bool, dim: Any) -> Any:
    if dim is not None:
        return NotImplemented
    values, run, lengths = _runs(sizes, self.reshape((numel(self.shape),)))
    return _asked(values, (run.reshape(self.shape), inverse), (lengths, counts))


def _asked(values: Tensor, *others: tuple[Tensor, bool]) -> tuple[Tensor, ...]:
    return (values, *[result if asked else values.new_empty((0,), dtype=INT64) for result, asked in others])


def _runs(sizes: SizesOfData, row: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The first of every run of equal values, the run of each element, and how long each run is."""
    count = row.shape[0]
    begins = (row != run_name("roll", row, (1,), (0,))) | (_counted(count) == 0)
    places = sizes.positions(begins)
    found = places.shape[0]
    ends = run_name("cat", (places, places.new_full((1,), count)), 0)
    return (
        row.index_select(0, places),
        begins.cumsum(0) - 1,
        ends.narrow(0, 1, found) - ends.narrow(0, 0, found),
    )


RULES: dict[str, Callable[..., Any]] = {
    "nonzero": _nonzero,
    "index.Tensor": _index,
    "_unsafe_index.Tensor": _index,
    "index_put": _index_put,
    "_unsafe_index_put": _index_put,
    "_index_put_impl": lambda sizes, self, indices, values, accumulate, unsafe: _index_put(
        sizes, self, indices, values, accumulate
    ),
    "masked_select": _masked_select,
    "masked_scatter": _masked_scatter,
    "repeat_interleave.Tensor": _repeat_interleave,
    "one_hot": _one_hot,
    "_unique2": lambda sizes, self, sorted, inverse, counts: _unique(sizes, self, inverse, counts),
    "_unique": lambda sizes, self, sorted, inverse: _unique(sizes, self, inverse, False)[:2],
    "unique_consecutive": _consecutive,
}
# composites of them, which run as they are
THROUGH = frozenset(
    (
        "nonzero_numpy",
        "repeat_interleave.self_Tensor",
        "narrow.Tensor",
        "tensor_split.tensor_indices_or_sections",
    )
)


def needs_data_sizes(sizes: SizesOfData, op: OpDef, args: Arguments) -> bool:
    """Whether an operator whose result has a shape has no lowering for what it takes: as many values as a mask
    selects."""
    if op.name == "masked_scatter":
        return bool(symbols_in(tuple(args[2].shape)) & sizes.numbers.symbols.data.keys())
    if op.name not in _PUTS:
        return False
    self, indices, values = args[:3]
    used = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if not any(index.dtype in MASK_DTYPES for _, index in used):
        return False
    first, mask = used[0]
    behind = self.ndim - first - mask.ndim
    return len(used) > 1 or (values.ndim > behind and values.shape[values.ndim - 1 - behind] != 1)


_PUTS = frozenset(("index_put", "_unsafe_index_put", "_index_put_impl"))


def with_data_sizes(sizes: SizesOfData, op: OpDef, args: Arguments) -> Any:
    """The results of an operator of RULES, without history."""
    with recorded_plainly():
        return RULES[op.name](sizes, *args)

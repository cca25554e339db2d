"""What a storage holds while a program is captured, and how a graph reads and writes parts of it.

A storage is one value of the graph, laid out as its spec says. A tensor over the storage is a strided part of
that value, of the value's dtype or of another one: `read_part` makes the nodes that take the part out,
`with_part` those that put a new one in its place. A part of another dtype (`view(dtype)`, `real`,
`view_as_real`) goes through the whole elements of the storage that it covers, seen as one row of that dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from ..core.dtypes import DType
from ..core.registry import REGISTRY
from ..core.shapes import Spec, extent, numel
from ..core.symbols import exact, is_size
from ..core.tensor import Tensor
from ..graph.ir import Graph, Value


@dataclass
class StorageState:
    """What a storage holds, as far as the program has run.

    Of a storage of the caller the graph knows the part that the first tensor over it covers, which is `spec`:
    in the graph offsets count from the beginning of that part, in tensors from the beginning of the storage.
    """

    value: Value  # laid out as `spec` over the whole storage
    spec: Spec
    writes: int = 0
    source: Tensor | None = None  # the caller's tensor, for a storage that is not the program's own

    def __post_init__(self) -> None:
        self.input = self.value
        self.base, self.moved = 0, False  # whether the graph counts offsets otherwise
        if self.source is not None:
            self.base = self.spec.offset
            self.moved = is_size(self.base) or self.base != 0

    def in_graph(self, spec: Spec) -> Spec:
        """The spec of a tensor over this storage as the graph counts offsets."""
        if not self.moved:
            return spec
        size = spec.dtype.itemsize
        return replace(spec, offset=(spec.offset * size - self.base * self.spec.dtype.itemsize) // size)

    def covers(self, spec: Spec) -> bool:
        """Whether a tensor of the caller lies in the part of its storage that the graph input covers."""
        return spec.dtype is self.spec.dtype and self.reaches(spec)

    def reaches(self, spec: Spec) -> bool:
        """Whether the elements of a tensor, whatever their dtype, lie in that part."""
        if 0 in spec.known_shape():
            return True
        size, own = spec.dtype.itemsize, self.spec.dtype.itemsize
        first = spec.offset * size - self.spec.offset * own
        used = extent(spec.known_shape(), spec.known_strides()) * size
        return first >= 0 and first + used <= numel(self.spec.known_shape()) * own


def spec_of(tensor: Tensor) -> Spec:
    return Spec(
        tuple(tensor.shape),
        tensor.dtype,
        tensor.strides(),
        tensor.storage_offset(),
        tensor._conj,
        tensor._neg,
    )


def same_layout(a: Spec, b: Spec) -> bool:
    """Whether two tensors lie alike, whatever their sizes are in a call."""
    first, second = ((exact(s.shape), s.dtype, exact(s.known_strides()), exact(s.offset)) for s in (a, b))
    return first == second


def overlaps(a: Spec, b: Spec) -> bool:
    """Whether two tensors over one storage lie in each other's way."""
    first, other = (s.offset * s.dtype.itemsize for s in (a, b))
    size, other_size = (extent(s.known_shape(), s.known_strides()) * s.dtype.itemsize for s in (a, b))
    return first < other + other_size and other < first + size


def read_part(graph: Graph, state: StorageState, spec: Spec, line: str) -> Value:
    """The value of a tensor over a storage, as the storage is now."""
    if same_layout(spec, state.spec) and not spec.conj and not spec.neg:
        return state.value
    inside, whole = state.in_graph(spec), state.value
    if spec.dtype is not state.spec.dtype:
        whole = _as_row(graph, _covered(graph, state, spec.dtype, line), spec.dtype, line)
    args = (whole, inside.known_shape(), inside.known_strides(), inside.offset)
    return graph.call(REGISTRY["as_strided"], args, inside, line).outputs[0]


def with_part(graph: Graph, state: StorageState, spec: Spec, value: Value, line: str) -> Value:
    """What the storage holds once `value` is in the place of the tensor that `spec` describes."""
    if value.dtype is not spec.dtype:
        cast: tuple[Any, ...] = (value, spec.dtype, None, None, None, False, None)
        value = graph.call(REGISTRY["_to_copy"], cast, Spec(value.shape, spec.dtype), line).outputs[0]
    for lazy, undone in ((spec.conj, "conj_physical"), (spec.neg, "neg")):
        if lazy:  # memory holds the conjugate, or the negative, of what the tensor shows
            value = graph.call(REGISTRY[undone], (value,), Spec(value.shape, spec.dtype), line).outputs[0]
    if same_layout(spec, state.spec):
        return _ordered(graph, value, spec, line)
    inside, own = state.in_graph(spec), state.in_graph(state.spec)
    if spec.dtype is state.spec.dtype:
        return _scattered(graph, state.value, value, inside, own, line)
    covered = _covered(graph, state, spec.dtype, line)
    row = _as_row(graph, covered, spec.dtype, line)
    new = _scattered(graph, row, value, inside, row.spec, line)
    return _scattered(graph, state.value, _as_row(graph, new, own.dtype, line), covered.spec, own, line)


def _scattered(graph: Graph, whole: Value, part: Value, place: Spec, spec: Spec, line: str) -> Value:
    args = (whole, part, place.known_shape(), place.known_strides(), place.offset)
    return graph.call(REGISTRY["as_strided_scatter"], args, spec, line).outputs[0]


def _covered(graph: Graph, state: StorageState, dtype: DType, line: str) -> Value:
    """The elements of a storage as a row; without those at its end that are no whole element of `dtype`."""
    own = state.spec.dtype
    group = dtype.itemsize // gcd(dtype.itemsize, own.itemsize)  # elements that are whole ones of `dtype`
    count = numel(state.spec.known_shape()) // group * group
    first = state.in_graph(state.spec).offset
    row = Spec((count,), own, (1,), first)
    return graph.call(REGISTRY["as_strided"], (state.value, (count,), (1,), first), row, line).outputs[0]


def _as_row(graph: Graph, row: Value, dtype: DType, line: str) -> Value:
    """The memory of a row of elements as one of elements of `dtype`."""
    count, first = (n * row.dtype.itemsize // dtype.itemsize for n in (row.shape[0], row.spec.offset))
    spec = Spec((count,), dtype, (1,), first)
    return graph.call(REGISTRY["view.dtype"], (row, dtype), spec, line).outputs[0]


def _ordered(graph: Graph, value: Value, spec: Spec, line: str) -> Value:
    """`value` in the memory order of `spec`, which views of the storage rely on."""
    order, wanted = (
        [step for step, size in zip(s.known_strides(), s.known_shape(), strict=True) if size > 1]
        for s in (value.spec, spec)
    )
    if order == wanted or 0 in spec.known_shape():
        return value
    laid_out = Spec(spec.shape, spec.dtype, spec.known_strides(), 0)
    return graph.call(REGISTRY["clone"], (value, None), laid_out, line).outputs[0]

"""Twins of views: the elements that the view shows are those of another tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dtypes import int64
from ..core.index import as_index
from ..core.registry import REGISTRY
from ..core.shapes import Spec, numel, surely_dense
from ..core.tensor import meta_tensor
from ..loops.expr import Expr, NotRecordable, Recorder
from .assemble import Part, is_small, overwritten
from .declare import lowering
from .lowered import Indices, Lowered, Lowerer
from .shape import inside


@lowering("as_strided_scatter")
def as_strided_scatter(
    self: Lowered,
    src: Lowered,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
    low: Lowerer,
    out: Spec,
) -> Lowered:
    """Elements of `self`, except those that the strided view shows, which are those of `src`."""
    if 0 in size:
        return self.reindex(self.shape, lambda index: index)
    pairs = sorted(
        ((s, n, d) for d, (s, n) in enumerate(zip(stride, size, strict=True)) if n > 1), reverse=True
    )
    covered = 1
    for step, extent, _ in reversed(pairs):
        if step < covered:
            raise NotRecordable("a view whose elements overlap")
        covered += step * (extent - 1)
    strides = out.known_strides()
    offset = (out.offset if storage_offset is None else storage_offset) - out.offset
    source = src.cheap()
    whole = (
        as_index(numel(size)) == as_index(numel(self.shape))
        and as_index(offset) == 0
        and surely_dense(size, stride)
        and surely_dense(self.shape, strides)
    )  # nothing of `self` is left
    if not whole and not is_small(self.shape) and surely_dense(self.shape, strides):
        return overwritten(self, strides, Part(source, tuple(stride), offset))

    def element(index: Indices) -> Expr:
        ops = low.recorder
        rest = as_index(0)
        for i, step in zip(index, strides, strict=True):
            rest = rest + i * step
        rest = rest - offset
        local: list[Any] = [0] * len(size)
        condition: Expr | None = None
        for step, extent, d in pairs:
            quotient = rest // step
            if not whole:
                condition = _both(ops, condition, inside(ops, quotient, extent))
            local[d] = quotient % extent
            rest = rest - quotient * step
        if whole:
            return source.load(local)
        condition = _both(ops, condition, ops.eq(ops.index(rest, int64), ops.number(0, int64)))
        return ops.where(condition, source.load(local), self.load(index))

    return low.generated(self.shape, self.dtype, element)


def _both(ops: Recorder, a: Expr | None, b: Expr) -> Expr:
    return b if a is None else ops.logical_and(a, b)


def _twin(name: str, view: str) -> None:
    """The twin of `view`, whose shape rule says where in `self` it looks."""
    rule = REGISTRY[view].rule
    assert rule is not None

    def replaced(self: Lowered, src: Lowered, low: Lowerer, out: Spec, *arguments: Any) -> Lowered:
        shown = rule((meta_tensor(Spec(self.shape, self.dtype, out.known_strides(), out.offset)), *arguments))
        return as_strided_scatter(
            self, src, shown.known_shape(), shown.known_strides(), shown.offset, low, out
        )

    if view == "select.int":
        lowering(name)(lambda self, src, dim, index, low, out: replaced(self, src, low, out, dim, index))
    elif view == "slice.Tensor":
        lowering(name)(
            lambda self, src, dim, start, end, step, low, out: replaced(
                self, src, low, out, dim, start, end, step
            )
        )
    else:
        lowering(name)(
            lambda self, src, offset, dim1, dim2, low, out: replaced(self, src, low, out, offset, dim1, dim2)
        )


_twin("select_scatter", "select.int")
_twin("slice_scatter", "slice.Tensor")
_twin("diagonal_scatter", "diagonal")

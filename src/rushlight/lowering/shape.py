"""Flipping, rolling, masking and padding as index arithmetic.

An element that may lie outside of its source is read at an index brought back inside by a remainder, and then
replaced: generated code never reads outside of a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtypes import int64
from ..core.shapes import Spec, numel, wrap_dim, wrap_dims
from ..loops.expr import Expr, NotRecordable, Recorder
from ..loops.index import Index, as_index
from .declare import lowering
from .lowered import Indices, Lowered, Lowerer


@lowering("flip")
def flip(self: Lowered, dims: Sequence[int]) -> Lowered:
    wrapped = wrap_dims(dims, self.ndim, empty_is_all=False)
    return self.reindex(self.shape, lambda index: [
        self.shape[d] - 1 - i if d in wrapped else i for d, i in enumerate(index)])


@lowering("roll")
def roll(self: Lowered, shifts: Sequence[int], dims: Sequence[int]) -> Lowered:
    if 0 in self.shape or self.ndim == 0:
        raise NotRecordable("roll of no elements")
    if not dims:
        flat = self.reshape((numel(self.shape),))
        return roll(flat, shifts, (0,)).reshape(self.shape)
    moved = [0] * self.ndim
    for dim, shift in zip(dims, shifts, strict=True):
        moved[wrap_dim(dim, self.ndim)] += shift
    return self.reindex(self.shape, lambda index: [
        (i - by % n) % n if by % n else i for i, by, n in zip(index, moved, self.shape, strict=True)])


def _triangle(keeps: str) -> Callable[[Lowered, int, Lowerer], Lowered]:
    def rule(self: Lowered, diagonal: int, low: Lowerer) -> Lowered:
        def element(index: Indices) -> Expr:
            ops = low.recorder
            column, row = ops.index(index[-1], int64), ops.index(index[-2] + diagonal, int64)
            kept = ops.le(column, row) if keeps == "lower" else ops.ge(column, row)
            return ops.where(kept, self.load(index), ops.number(0, self.dtype))

        return low.generated(self.shape, self.dtype, element)

    return rule


lowering("tril")(_triangle("lower"))
lowering("triu")(_triangle("upper"))


def inside(ops: Recorder, position: Index, extent: int) -> Expr:
    """Whether 0 <= position < extent."""
    value = ops.index(position, int64)
    return ops.logical_and(ops.ge(value, ops.number(0, int64)), ops.lt(value, ops.number(extent, int64)))


@lowering("constant_pad_nd")
def constant_pad(self: Lowered, pad: Sequence[int], value: Any, low: Lowerer, out: Spec) -> Lowered:
    if 0 in self.shape or 0 in out.known_shape():
        raise NotRecordable("padding of no elements")
    before = [0] * self.ndim
    changed = [False] * self.ndim
    for k in range(len(pad) // 2):
        before[self.ndim - 1 - k] = pad[2 * k]
        changed[self.ndim - 1 - k] = bool(pad[2 * k] or pad[2 * k + 1])

    def element(index: Indices) -> Expr:
        ops = low.recorder
        source = [i - b for i, b in zip(index, before, strict=True)]
        safe = [i % n if moved else i for i, n, moved in zip(source, self.shape, changed, strict=True)]
        result = self.load(safe)
        outside = ops.number(out.dtype.numpy.type(value).item(), out.dtype)
        for position, extent, moved in zip(source, self.shape, changed, strict=True):
            if moved:
                result = ops.where(inside(ops, position, extent), result, outside)
        return result

    return low.generated(out.known_shape(), out.dtype, element)


@lowering("cat")
def cat(tensors: Sequence[Lowered], dim: int, low: Lowerer, out: Spec) -> Lowered:
    parts = [t.cheap() for t in tensors if not (t.ndim == 1 and t.shape[0] == 0) and 0 not in t.shape]
    if not parts or len(parts) > 8 or any(t.dtype is not out.dtype for t in parts):
        raise NotRecordable("a concatenation of nothing, of many, or of several dtypes")
    at = wrap_dim(dim, parts[0].ndim)
    starts = [sum(p.shape[at] for p in parts[:k]) for k in range(len(parts))]

    def element(index: Indices) -> Expr:
        ops = low.recorder
        position = index[at]
        result: Expr | None = None
        for part, start in zip(reversed(parts), reversed(starts), strict=True):
            local = (position - start) % part.shape[at] if len(parts) > 1 else position
            value = part.load([*index[:at], local, *index[at + 1:]])
            if result is None:
                result = value
            else:
                end = start + part.shape[at]
                result = ops.where(ops.lt(ops.index(position, int64), ops.number(end, int64)), value, result)
        assert result is not None
        return result

    return low.generated(out.known_shape(), out.dtype, element)


@lowering("as_strided_scatter")
def as_strided_scatter(self: Lowered, src: Lowered, size: Sequence[int], stride: Sequence[int],
                       storage_offset: int | None, low: Lowerer, out: Spec) -> Lowered:
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
        covered = step * extent
    strides = out.known_strides()
    offset = (storage_offset or 0) - out.offset
    source = src.cheap()

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
            condition = _both(ops, condition, inside(ops, quotient, extent))
            local[d] = quotient % extent
            rest = rest - quotient * step
        condition = _both(ops, condition, ops.eq(ops.index(rest, int64), ops.number(0, int64)))
        return ops.where(condition, source.load(local), self.load(index))

    return low.generated(self.shape, self.dtype, element)


def _both(ops: Recorder, a: Expr | None, b: Expr) -> Expr:
    return b if a is None else ops.logical_and(a, b)

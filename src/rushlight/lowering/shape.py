"""Flipping, rolling, joining, masking and padding as index arithmetic.

Where an element is chosen among several that may lie outside of their source, each is read at an index that
is brought back inside by a remainder: generated code never reads outside of a buffer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from ..core.data_sizes import greatest, least, surely_alike
from ..core.dtypes import int64
from ..core.index import Index
from ..core.shapes import Spec, contiguous_strides, numel, wrap_dim, wrap_dims
from ..core.symbols import is_size
from ..loops.expr import Expr, Recorder
from .assemble import Part, assembled, is_small, layout, overwritten
from .cost import MOST_CHOSEN, MOST_ROLLED
from .declare import extern, lowering
from .lowered import Indices, Lowered, Lowerer
from .scatter import Points, reduced_into
from .sorting import bisected


@lowering("flip")
def flip(self: Lowered, dims: Sequence[int]) -> Lowered:
    wrapped = wrap_dims(dims, self.ndim, empty_is_all=False)
    return self.reindex(
        self.shape, lambda index: [self.shape[d] - 1 - i if d in wrapped else i for d, i in enumerate(index)]
    )


@lowering("roll")
def roll(self: Lowered, shifts: Sequence[int], dims: Sequence[int]) -> Lowered:
    if 0 in self.shape or self.ndim == 0:
        return self
    if not dims:
        flat = self.reshape((numel(self.shape),))
        return roll(flat, shifts, (0,)).reshape(self.shape)
    moved = [0] * self.ndim
    for dim, shift in zip(dims, shifts, strict=True):
        moved[wrap_dim(dim, self.ndim)] += shift
    moved = [by % n for by, n in zip(moved, self.shape, strict=True)]
    if is_small(self.shape) or sum(map(_moves, moved)) > MOST_ROLLED:
        return self.reindex(
            self.shape,
            lambda index: [
                (i - by) % n if _moves(by) else i for i, by, n in zip(index, moved, self.shape, strict=True)
            ],
        )
    return _rolled(self, moved)


def _moves(by: int) -> bool:
    """Whether a dimension is rolled; by a size that changes it may be."""
    return is_size(by) or by != 0


def _rolled(self: Lowered, moved: Sequence[int]) -> Lowered:
    """The blocks that a roll by `moved` (0 <= moved < shape) leaves whole, each in its new place."""
    source = self.cheap()
    # Along each dimension: (where a block begins, where it goes, how long it is).
    cuts = [
        [(0, by, n - by), (n - by, 0, by)] if _moves(by) else [(0, 0, n)]
        for by, n in zip(moved, self.shape, strict=True)
    ]
    parts = []
    for block in itertools.product(*cuts):
        starts, places, sizes = zip(*block, strict=True)
        parts.append((sliced(source, starts, sizes), places))
    return assembled(self.owner, self.shape, contiguous_strides(self.shape), parts)


def sliced(x: Lowered, starts: Sequence[int], sizes: Sequence[int]) -> Lowered:
    return x.reindex(sizes, lambda index: [i + start for i, start in zip(index, starts, strict=True)])


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
    shape, strides = out.known_shape(), out.known_strides()
    border = low.full(shape, value, out.dtype)
    before = [0] * self.ndim
    for k in range(len(pad) // 2):
        before[self.ndim - 1 - k] = pad[2 * k]
    starts = [greatest(-b, 0) for b in before]  # of what is kept
    places = [greatest(b, 0) for b in before]
    sizes = [
        least(n - start, total - place)
        for n, start, total, place in zip(self.shape, starts, shape, places, strict=True)
    ]
    if 0 in shape or any(size <= 0 for size in sizes):
        return border
    inner = sliced(self, starts, sizes)
    if surely_alike(sizes, shape):
        return inner
    if is_small(shape):
        return _chosen(inner, places, border)
    dense = layout(shape, strides)
    return overwritten(
        border, dense, Part(inner, dense, sum(p * d for p, d in zip(places, dense, strict=True)))
    )


def _chosen(inner: Lowered, places: Sequence[int], outer: Lowered) -> Lowered:
    """`outer` with `inner` in the place that begins at `places`, chosen element by element."""

    def element(index: Indices) -> Expr:
        ops = outer.owner.recorder
        local = [i - start for i, start in zip(index, places, strict=True)]
        moved = [not surely_alike((n,), (total,)) for n, total in zip(inner.shape, outer.shape, strict=True)]
        safe = [i % n if m else i for i, n, m in zip(local, inner.shape, moved, strict=True)]
        result, border = inner.load(safe), outer.load(index)
        for i, n, m in zip(local, inner.shape, moved, strict=True):
            if m:
                result = ops.where(inside(ops, i, n), result, border)
        return result

    return outer.owner.generated(outer.shape, outer.dtype, element)


# Borders that show the inside: by reflection, or by repeating the outermost elements.


def _border(name: str) -> None:
    def shown(ops: Recorder, position: Index, size: int) -> Index:
        """The element that a position, counted from the first element inside, shows."""
        low, high = ops.number(0, int64), ops.number(size - 1, int64)
        at = ops.index(position, int64)
        if name.startswith("replication"):
            return ops.indirect(ops.minimum(ops.maximum(at, low), high), size, None)
        at = ops.abs(at)
        back = ops.sub(ops.number(2 * (size - 1), int64), at)
        inside_one = ops.minimum(ops.maximum(ops.where(ops.le(at, high), at, back), low), high)
        return ops.indirect(inside_one, size, None)

    def places(ops: Recorder, shape: Sequence[int], padding: Sequence[int], index: Indices) -> list[Index]:
        found = list(index)
        for k in range(len(padding) // 2):
            d = len(shape) - 1 - k
            if padding[2 * k] or padding[2 * k + 1]:
                found[d] = shown(ops, index[d] - padding[2 * k], shape[d])
        return found

    @lowering(name)
    def padded(self: Lowered, padding: Sequence[int], low: Lowerer, out: Spec) -> Lowered:
        source = self.cheap()
        if 0 in self.shape:
            return low.full(out.known_shape(), 0, out.dtype)
        return source.reindex(
            out.known_shape(), lambda index: places(low.recorder, self.shape, padding, index)
        )

    @lowering(f"{name}_backward")
    def backward(grad_output: Lowered, padding: Sequence[int], low: Lowerer, out: Spec) -> Lowered:
        shape, source = out.known_shape(), grad_output.cheap()
        base = low.full(shape, 0, out.dtype)
        points = Points(grad_output.shape, lambda index: places(low.recorder, shape, padding, index))
        return reduced_into(base, points, source.load, "sum", True, out)


for _rank in (1, 2, 3):
    _border(f"reflection_pad{_rank}d")
    _border(f"replication_pad{_rank}d")


@lowering("cat")
def cat(tensors: Sequence[Lowered], dim: int, low: Lowerer, out: Spec) -> Lowered:
    parts = [t.cast(out.dtype) for t in tensors if 0 not in t.shape]
    shape = out.known_shape()
    if not parts:
        return low.full(shape, 0, out.dtype)
    at = wrap_dim(dim, len(shape))
    starts = [sum(p.shape[at] for p in parts[:k]) for k in range(len(parts))]
    if len(parts) == 1:
        return parts[0].reindex(shape, lambda index: index)
    if len(parts) > MOST_CHOSEN or not is_small(shape):
        return assembled(
            low,
            shape,
            out.known_strides(),
            [
                (part, [start if d == at else 0 for d in range(len(shape))])
                for part, start in zip(parts, starts, strict=True)
            ],
        )
    parts = [part.cheap() for part in parts]

    def element(index: Indices) -> Expr:
        ops, position = low.recorder, index[at]
        result: Expr | None = None
        for part, start in zip(reversed(parts), reversed(starts), strict=True):
            value = part.load([*index[:at], (position - start) % part.shape[at], *index[at + 1 :]])
            if result is None:
                result = value
            else:
                end = start + part.shape[at]
                result = ops.where(ops.lt(ops.index(position, int64), ops.number(end, int64)), value, result)
        assert result is not None
        return result

    return low.generated(shape, out.dtype, element)


# The numbers of the rows and columns of a triangle.


def _triangle_indices(name: str) -> None:
    @lowering(name)
    def rule(row: int, col: int, offset: int, low: Lowerer, out: Spec) -> Lowered:
        """The row by bisection of how many elements the rows before it have, the column from what is left."""
        ops = low.recorder

        def twice_start(r: Expr) -> Expr:
            """Twice how many elements rows 0 to r - 1 have, r a value."""
            if name == "tril_indices":
                return _twice_lower_before(ops, r, col, offset)
            whole = ops.mul(r, ops.number(2 * col, int64))
            return ops.sub(whole, _twice_lower_before(ops, r, col, offset - 1))

        def element(index: Indices) -> Expr:
            one, two = ops.number(1, int64), ops.number(2, int64)
            twice = ops.index(index[1] * 2, int64)
            found = bisected(ops, row, lambda r: ops.le(twice_start(ops.add(r, one)), twice))
            left = ops.floor_div(ops.sub(twice, twice_start(found)), two)
            if name == "triu_indices":
                first = ops.maximum(ops.add(found, ops.number(offset, int64)), ops.number(0, int64))
                left = ops.add(left, first)
            at_row = ops.eq(ops.index(index[0], int64), ops.number(0, int64))
            return ops.cast(ops.where(at_row, found, left), out.dtype)

        return low.generated(out.known_shape(), out.dtype, element)


def _twice_lower_before(ops: Recorder, r: Expr, col: int, offset: int) -> Expr:
    """Twice how many (i, j), i < r and j < col, have j <= i + offset.

    That number is the sum over i of min(max(i + offset + 1, 0), col).
    """

    def number(value: int) -> Expr:
        return ops.number(value, int64)

    def ramp(shift: int) -> Expr:
        """Twice the sum over i < r of max(i + shift, 0), the numbers from max(shift, 0) to r + shift - 1."""
        last = ops.maximum(ops.add(r, number(shift - 1)), number(0))
        top = ops.mul(last, ops.add(last, number(1)))
        below = max(shift - 1, 0)
        return ops.where(ops.gt(r, number(0)), ops.sub(top, number(below * (below + 1))), number(0))

    return ops.sub(ramp(offset + 1), ramp(offset + 1 - col))


_triangle_indices("tril_indices")
_triangle_indices("triu_indices")
extern("the shape of the result depends on data", "repeat_interleave.Tensor")

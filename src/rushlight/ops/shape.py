"""Joining, reordering and masking elements: cat, flip, roll, tril, repeat_interleave, triangle indices."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.promotion import common
from ..core.registry import APART_OUT, FUNCTION, INPLACE_METHOD, METHOD, OUT, Api, define
from ..core.shapes import Shape, Spec, preserved_strides, suggested_strides, wrap_dim, wrap_dims
from ..core.tensor import Tensor


def preserved(self: Tensor) -> Spec:
    """An output like `self` in its memory order."""
    shape = tuple(self.shape)
    return Spec(shape, self.dtype, preserved_strides(shape, self.strides()))


# Joining.


def cat(tensors: Sequence[Tensor], dim: int) -> Spec:
    check(tensors, "torch.cat(): expected a non-empty list of Tensors", ValueError)
    for i, tensor in enumerate(tensors):
        check(tensor.ndim, f"cat: zero-dimensional tensor (at position {i}) cannot be concatenated")
    dtype = common([(tensor.dtype, False) for tensor in tensors])
    joined = [(i, tensor.shape) for i, tensor in enumerate(tensors) if tuple(tensor.shape) != (0,)]
    if not joined:
        return Spec((0,), dtype)
    first = joined[0][1]
    dim = wrap_dim(dim, len(first), name="cat")
    for i, shape in joined:
        check(
            len(shape) == len(first),
            f"cat: Tensors must have same number of dimensions: got {len(first)} and {len(shape)}",
        )
        for d, (size, expected) in enumerate(zip(shape, first, strict=True)):
            check(
                d == dim or size == expected,
                "cat: Sizes of tensors must match except in dimension "
                f"{dim}. Expected size {expected} but got size {size} at dimension {d} for tensor number "
                f"{i} in the list.",
            )
    result = (*first[:dim], sum(shape[dim] for _, shape in joined), *first[dim + 1 :])
    return Spec(result, dtype, suggested_strides(result, [(t.shape, t.strides()) for t in tensors]))


define("cat(Tensor[] tensors, int dim=0) -> Tensor", shape=cat, api=FUNCTION | APART_OUT, moves=True)


# Reordering.


def flip(self: Tensor, dims: Shape) -> Spec:
    wrap_dims(dims, self.ndim, name="flip", empty_is_all=False)
    return preserved(self)


def roll(self: Tensor, shifts: Shape, dims: Shape) -> Spec:
    check(shifts, "roll: `shifts` required")
    shape = tuple(self.shape)
    check(
        len(shifts) == (len(dims) or 1),
        f"roll: shifts and dimensions must align. shifts: {len(shifts)}, dims: {len(dims)}",
    )
    if 0 in shape:
        return preserved(self)
    if not dims:
        return Spec(shape, self.dtype)
    for dim in dims:
        check(shape, "roll: a 0-dim tensor has no dimension to roll", IndexError)
        wrap_dim(dim, len(shape), name="roll")
    return Spec(shape, self.dtype, suggested_strides(shape, [(shape, self.strides())]))


define("flip(Tensor self, int[] dims) -> Tensor", shape=flip, api=FUNCTION | METHOD, moves=True)
define(
    "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
    shape=roll,
    api=FUNCTION | METHOD,
    moves=True,
)


# Triangles.


def triangle(name: str) -> None:
    def rule(self: Tensor) -> Spec:
        check(self.ndim >= 2, f"{name}: input tensor must have at least 2 dimensions, got {self.ndim}")
        return Spec(tuple(self.shape), self.dtype)

    define(
        f"{name}(Tensor self, SymInt diagonal=0) -> Tensor",
        shape=rule,
        moves=True,
        api=FUNCTION | METHOD | INPLACE_METHOD | OUT | Api.EXPANDED,
    )


triangle("tril")
triangle("triu")


def lower_count(rows: int, cols: int, offset: int) -> int:
    """How many (i, j) of a rows x cols matrix have j <= i + offset."""
    first = min(max(-offset, 0), rows)  # the first row that has any
    full = min(max(cols - 1 - offset, first), rows)  # the first row that has all
    partial = full - first
    return partial * (first + full - 1 + 2 * (offset + 1)) // 2 + (rows - full) * cols


def triangle_indices(name: str, row: int, col: int, offset: int, dtype: DType | None) -> Spec:
    check(row >= 0, f"{name}: row must be non-negative, got {row}")
    check(col >= 0, f"{name}: col must be non-negative, got {col}")
    count = (
        lower_count(row, col, offset)
        if name == "tril_indices"
        else row * col - lower_count(row, col, offset - 1)
    )
    return Spec((2, count), dtype or DTYPES["int64"])


_OPTIONS = "ScalarType? dtype=long, Layout? layout=None, Device? device=None, bool? pin_memory=None"
define(
    f"tril_indices(int row, int col, int offset=0, *, {_OPTIONS}) -> Tensor",
    api=FUNCTION,
    shape=lambda row, col, offset, dtype: triangle_indices("tril_indices", row, col, offset, dtype),
)
define(
    f"triu_indices(int row, int col, int offset=0, *, {_OPTIONS}) -> Tensor",
    api=FUNCTION,
    shape=lambda row, col, offset, dtype: triangle_indices("triu_indices", row, col, offset, dtype),
)


# Repeating.


def repeat_interleave(repeats: Tensor, output_size: int | None) -> Spec:
    check(repeats.ndim == 1, "repeat_interleave only accept 1D vector as repeats")
    check(
        repeats.dtype.name in ("int32", "int64"),
        f"repeat_interleave: repeats must be an int32 or int64 tensor, not {repeats.dtype.name}",
        NotImplementedError,
    )
    return Spec(None if output_size is None else (output_size,), repeats.dtype)


define(
    "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
    shape=repeat_interleave,
    api=FUNCTION,
    data_dependent=True,
    moves=True,
)

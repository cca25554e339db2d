"""Views of strided nested tensors: other sizes, strides and beginnings of rows over the same buffer."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ..core.errors import check, fail
from ..core.nested_strided import Rows, StridedNestedTensor, packed, rows_of, rule, strided_nest
from ..core.shapes import view_strides, wrap_dim, wrap_dims
from ..core.tensor import Tensor

Nested = StridedNestedTensor
Shape = tuple[int, ...]


def viewed(
    nested: Nested,
    sizes: Sequence[Shape],
    strides: Sequence[Shape],
    offsets: Sequence[int] | None = None,
    dims: int = 0,
) -> Nested:
    """Other rows over the buffer of `nested`."""
    return strided_nest(nested._values, Rows(sizes, strides, offsets or nested._rows.offsets, dims))


@rule("unbind.int")
def unbind(self: Nested, dim: int) -> tuple[Tensor, ...]:
    check(dim == 0, f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    return tuple(rows_of(self))


@rule("select.int")
def select(self: Nested, dim: int, index: int) -> Any:
    dim, rows = wrap_dim(dim, self.ndim), self._rows
    check(len(rows) > 0, "You can only select when the NT is not empty.", IndexError)
    if dim == 0:
        count = len(rows)
        check(
            -count <= index < count,
            f"index {index} is out of bounds for dimension 0 with size {count}",
            IndexError,
        )
        return rows_of(self)[index]
    for i, size in enumerate(rows.sizes):
        check(
            0 <= index < size[dim - 1],
            f"index {index} is out of bounds for dimension "
            f"{dim - 1} of the {i}th constituent tensor with size {size[dim - 1]}",
            IndexError,
        )
    offsets = [
        offset + index * stride[dim - 1] for stride, offset in zip(rows.strides, rows.offsets, strict=True)
    ]
    return viewed(self, _without(rows.sizes, [dim - 1]), _without(rows.strides, [dim - 1]), offsets)


def _without(shapes: Sequence[Shape], dims: Sequence[int]) -> list[Shape]:
    return [tuple(n for d, n in enumerate(shape) if d not in dims) for shape in shapes]


@rule("narrow")
def narrow(self: Nested, dim: int, start: int, length: int) -> Any:
    rows = self._rows
    check(dim == 0, f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
    check(length >= 0, "narrow(): length must be non-negative")
    check(
        -len(rows) <= start <= len(rows),
        f"start out of range (expected to be in range of [{-len(rows)}, {len(rows)}], but got {start})",
        IndexError,
    )
    start += len(rows) * (start < 0)
    check(
        start + length <= len(rows),
        f"start ({start}) + length ({length}) exceeds dimension size ({len(rows)}).",
    )
    check(rows.contiguous, "narrow(): only contiguous nested tensors supported")
    stop = start + length
    return strided_nest(
        self._values,
        Rows(rows.sizes[start:stop], rows.strides[start:stop], rows.offsets[start:stop], rows.dims),
    )


@rule("transpose.int")
def transpose(self: Nested, dim0: int, dim1: int) -> Any:
    first, second = wrap_dim(dim0, self.ndim), wrap_dim(dim1, self.ndim)
    if first == second:
        return viewed(self, self._rows.sizes, self._rows.strides, dims=self._rows.dims)
    check(first > 0 and second > 0, "Nested tensor dimension 0 cannot be transposed")
    order = list(range(self._rows.dims))
    order[first - 1], order[second - 1] = order[second - 1], order[first - 1]
    sizes, strides = (
        [tuple(shape[d] for d in order) for shape in shapes]
        for shapes in (self._rows.sizes, self._rows.strides)
    )
    return viewed(self, sizes, strides, dims=self._rows.dims)


@rule("squeeze")
def squeeze(self: Nested) -> Any:
    fail(
        "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, "
        "however you can use squeeze(Tensor self, int dim) instead"
    )


@rule("squeeze.dim")
def squeeze_dim(self: Nested, dim: int) -> Any:
    return squeeze_dims(self, (dim,))


@rule("squeeze.dims")
def squeeze_dims(self: Nested, dim: Sequence[int]) -> Any:
    dims, rows = wrap_dims(tuple(dim), self.ndim), self._rows
    check(
        0 not in dims, "squeeze(): For nested tensors, squeezing dimension 0 is not supported at the moment"
    )
    gone = [d for d in dims if rows.size(d) == 1]
    if not gone:
        return viewed(self, rows.sizes, rows.strides, dims=rows.dims)
    check(
        self.ndim > 1 + len(dims),
        "squeeze(): For nested tensors, squeezing a nested tensor of singleton "
        "tensors is not supported at the moment",
    )
    inner = [d - 1 for d in gone]
    return viewed(self, _without(rows.sizes, inner), _without(rows.strides, inner))


@rule("unsqueeze")
def unsqueeze(self: Nested, dim: int) -> Any:
    dim, rows = wrap_dim(dim, self.ndim + 1), self._rows
    check(dim > 0, "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment")
    at = dim - 1
    sizes = [(*size[:at], 1, *size[at:]) for size in rows.sizes]
    strides = [
        (*stride[:at], stride[at] * size[at] if at < rows.dims else 1, *stride[at:])
        for size, stride in zip(rows.sizes, rows.strides, strict=True)
    ]
    return viewed(self, sizes, strides, dims=rows.dims + 1)


# Parts of the last dimension.


def parts(nested: Nested, sizes: Sequence[int]) -> tuple[Nested, ...]:
    rows = nested._rows
    found = []
    for start, length in zip(itertools.accumulate(sizes, initial=0), sizes, strict=False):
        found.append(
            viewed(
                nested,
                [(*size[:-1], length) for size in rows.sizes],
                rows.strides,
                [offset + start for offset in rows.offsets],
                rows.dims,
            )
        )
    return tuple(found)


def last_size(nested: Nested) -> int:
    """The size of the last dimension, in which all rows must agree."""
    size = nested._rows.size(nested.ndim - 1)
    check(
        size is not None,
        "Expected all tensors in nested tensor to have the same trailing dimension, "
        f"instead last dimension equals: {[size[-1] for size in nested._rows.sizes]}",
    )
    assert size is not None
    return size


@rule("chunk")
def chunk(self: Nested, chunks: int, dim: int) -> Any:
    check(
        wrap_dim(dim, self.ndim) == self.ndim - 1,
        "Chunk for nested tensors is currently only supported for the last dimension.",
    )
    check(chunks > 0, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    check(self._rows.contiguous, "chunk expects `self` to be contiguous.")
    size = last_size(self)
    check(
        size % chunks == 0,
        "Chunk for nested tensors is only supported for nested tensors with trailing "
        f"dimension divisible by chunks, got: {size} % {chunks} != 0",
    )
    return parts(self, [size // chunks] * chunks)


@rule("split_with_sizes")
def split_with_sizes(self: Nested, split_sizes: Sequence[int], dim: int) -> Any:
    check(
        wrap_dim(dim, self.ndim) == self.ndim - 1,
        "split_with_sizes for nested tensors is currently only supported for the last dimension.",
    )
    check(len(split_sizes) > 0, "split_with_sizes expects number of splits to be greater than 0, got: 0")
    check(self._rows.contiguous, "split_with_sizes expects `self` to be contiguous.")
    size = last_size(self)
    check(
        sum(split_sizes) == size,
        f"split_with_sizes expects split_sizes to sum exactly to {size} (input "
        f"tensor's size at dimension {self.ndim - 1}), but got split_sizes={list(split_sizes)}",
    )
    return parts(self, split_sizes)


# Shapes: -1 stands for the size that a dimension has in each row.


def _reshaped(size: Shape, wanted: Sequence[int]) -> Shape:
    """The sizes of one row of `size` seen as `wanted`."""
    check(min(wanted, default=0) >= -1, f"invalid shape dimension {min(wanted, default=0)}")
    if len(wanted) > len(size):
        check(list(wanted[: len(size)]).count(-1) <= 1, "only one dimension can be inferred")
        check(-1 not in wanted[len(size) :], "nested tensor does not infer shape")
    found = tuple(size[d] if n == -1 else n for d, n in enumerate(wanted))
    elements = math.prod(size)
    check(math.prod(found) == elements, f"shape '{list(wanted)}' is invalid for input of size {elements}")
    return found


def _check_size(nested: Nested, size: Sequence[int], name: str) -> list[Shape]:
    check(len(size) > 0, "shape '[]' is invalid for a nested tensor")
    check(len(nested._rows) > 0, "empty nested tensor cannot be reshaped")
    check(
        size[0] == len(nested._rows),
        f"{name}: For now nested {name} cannot change or infer the implicit batch dimension",
    )
    return [_reshaped(old, tuple(size[1:])) for old in nested._rows.sizes]


def _strides(nested: Nested, sizes: list[Shape]) -> list[Shape] | None:
    rows = nested._rows
    found = [view_strides(*row) for row in zip(rows.sizes, rows.strides, sizes, strict=True)]
    return None if any(stride is None for stride in found) else found  # type: ignore[return-value]


@rule("view", "_unsafe_view")
def view(self: Nested, size: Sequence[int]) -> Any:
    sizes = _check_size(self, size, "view")
    strides = _strides(self, sizes)
    check(
        strides is not None,
        "view size is not compatible with input tensor's size and stride (at least "
        "one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
    )
    assert strides is not None
    return viewed(self, sizes, strides)


@rule("reshape")
def reshape(self: Nested, shape: Sequence[int]) -> Any:
    sizes = _check_size(self, shape, "reshape")
    strides = _strides(self, sizes)
    if strides is not None:
        return viewed(self, sizes, strides)
    return strided_nest(packed(self)._values, Rows(sizes))


@rule("reshape_as")
def reshape_as(self: Any, other: Any) -> Any:
    check(
        isinstance(self, Nested) and isinstance(other, Nested),
        "get_nested_tensor_impl requires a NestedTensor: reshape_as takes two of them",
    )
    sizes = [other._rows.size(d) for d in range(other.ndim)]
    return reshape(self, [-1 if size is None else size for size in sizes])

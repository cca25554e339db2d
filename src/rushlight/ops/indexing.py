"""Index, mask and nonzero operators: schemas and shape rules.

An advanced index is a list with one entry per leading dimension: a tensor, or None for a whole dimension.
Masks (bool or uint8 tensors) stand for the positions of their nonzero elements, so a result that depends on
one has no shape without data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import EXACT_OUT, FUNCTION, INPLACE, INPLACE_METHOD, INTERNAL, METHOD, Api, define
from ..core.shapes import Shape, Spec, broadcast_shapes, elementwise_strides, view_strides
from ..core.tensor import Tensor
from ..core.traits import Trait
from .creation import new_like
from .view import expand

Indices = Sequence[Tensor | None]
_INDEX_DTYPES = frozenset(DTYPES[name] for name in ("int64", "int32", "uint8", "bool"))
MASK_DTYPES = frozenset(DTYPES[name] for name in ("uint8", "bool"))
INT64 = DTYPES["int64"]


# Advanced indices.


def check_indices(self: Tensor, indices: Indices, name: str) -> bool:
    """Validate an advanced index; True when it has a mask."""
    check(
        len(indices) > 0,
        f"{name}: at least one index must be provided",
        RuntimeError if name.startswith("index_put") else IndexError,
    )
    dim, masked = 0, False
    for position, index in enumerate(indices):
        if index is None:
            dim += 1
            continue
        check(
            index.dtype in _INDEX_DTYPES,
            f"{name}: tensors used as indices must be long, int, byte or "
            f"bool tensors, but index {position} is {index.dtype.name}",
            IndexError,
        )
        if index.dtype not in MASK_DTYPES:
            dim += 1
            continue
        masked = True
        for at in range(index.ndim):
            check(
                dim + at < self.ndim and index.shape[at] == self.shape[dim + at],
                f"{name}: The shape of "
                f"the mask {list(index.shape)} at index {at} does not match the shape of the indexed "
                f"tensor {list(self.shape)} at index {dim + at}",
                IndexError,
            )
        dim += index.ndim
    check(
        dim <= self.ndim,
        f"{name}: too many indices for tensor of dimension {self.ndim} (got {dim})",
        IndexError,
    )
    return masked


def index_shape(shape: Sequence[int], indices: Sequence[Any], name: str) -> tuple[Shape, Shape, int]:
    """For an index without masks: the result's shape, the broadcast shape of the indices, and where the
    latter begins.

    The broadcast dimensions take the place of the indexed ones if those are neighbours, and come first
    otherwise.
    """
    used = [dim for dim, index in enumerate(indices) if index is not None]
    shapes = [tuple(indices[dim].shape) for dim in used]
    try:
        block = broadcast_shapes(*shapes)
    except RuntimeError:
        raise IndexError(
            f"{name}: shape mismatch: indexing tensors could not be broadcast together with "
            f"shapes {', '.join(str(list(s)) for s in shapes)}"
        ) from None
    kept = [size for dim, size in enumerate(shape) if dim not in used]
    at = used[0] if used and used[-1] - used[0] == len(used) - 1 else 0
    return (*kept[:at], *block, *kept[at:]), block, at


def index(self: Tensor, indices: Indices) -> Spec:
    if check_indices(self, indices, "index"):
        return Spec(None, self.dtype)
    shape, block, at = index_shape(self.shape, indices, "index")
    return Spec(shape, self.dtype, _gathered_strides(self, indices, shape, len(block), at))


def _gathered_strides(self: Tensor, indices: Indices, shape: Shape, rank: int, at: int) -> Shape | None:
    """The result keeps the memory order of the dimensions that are not indexed."""
    if 0 in shape:
        return None
    used = [dim for dim, index in enumerate(indices) if index is not None]
    kept = [stride for dim, stride in enumerate(self.strides()) if dim not in used]
    strides = (*kept[:at], *[0] * rank, *kept[at:])
    inputs = [(shape, strides)]
    block = shape[at : at + rank]
    padded = (*[1] * at, *block, *[1] * (len(shape) - at - rank))
    for dim in used:
        index: Any = indices[dim]
        steps = expand(index, block).known_strides()
        own = view_strides(block, steps, padded)
        if own is None:  # a size that is data, of which it is not known whether it is 1
            own = (*[0] * at, *steps, *[0] * (len(shape) - at - rank))
        inputs.append((padded, own))
    return elementwise_strides(shape, inputs)


define("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", shape=index, moves=True, api=INTERNAL)
define(
    "_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", shape=index, moves=True, api=FUNCTION
)


def index_put(self: Tensor, indices: Indices, values: Tensor) -> Spec:
    check(
        self.dtype is values.dtype,
        "index_put: Index put requires the source and destination dtypes "
        f"match, got {self.dtype.torch_name} for the destination and {values.dtype.torch_name} for the "
        "source.",
    )
    if not check_indices(self, indices, "index_put"):
        check_values(values.shape, index_shape(self.shape, indices, "index_put")[0])
    return new_like(self, None, None, None, "index_put")


def check_values(values: Sequence[int], shape: Shape) -> None:
    """The values of an index_put must broadcast to what the index selects."""
    message = (
        f"index_put: shape mismatch: value tensor of shape {list(values)} cannot be broadcast to "
        f"indexing result of shape {list(shape)}"
    )
    check(len(values) <= len(shape), message)
    for size, out in zip(reversed(values), reversed(shape), strict=False):
        if size != 1:
            check(size == out, message)


define(
    "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    shape=index_put,
    moves=True,
    api=FUNCTION | METHOD | INPLACE | Api.EXPANDED_WARNS | Api.APART_INPLACE,
)
define(
    "_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    shape=index_put,
    moves=True,
    api=FUNCTION,
)
define(
    "_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool "
    "unsafe=False) -> Tensor",
    shape=index_put,
    moves=True,
    api=INTERNAL,
)


# Nonzero.

define(
    "nonzero(Tensor self) -> Tensor",
    shape=lambda: Spec(None, INT64),
    moves=True,
    data_dependent=True,
    api=Api.EXACT | Api.APART,
)


def nonzero_static(self: Tensor, size: int) -> Spec:
    check(size >= 0, f"nonzero_static: 'size' must be a non-negative integer, got {size}")
    return Spec((size, self.ndim), INT64)


define(
    "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
    shape=nonzero_static,
    moves=True,
    api=FUNCTION | METHOD | EXACT_OUT,
)


# Masks.


def check_mask(mask: Tensor, name: str) -> None:
    check(
        mask.dtype is DTYPES["bool"],
        f"{name}: expected BoolTensor for mask: it only supports boolean "
        f"masks, but got mask with dtype {mask.dtype.name}",
    )


def masked_select(self: Tensor, mask: Tensor) -> Spec:
    check_mask(mask, "masked_select")
    broadcast_shapes(self.shape, mask.shape, name="masked_select")
    return Spec(None, self.dtype)


def masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Spec:
    check_mask(mask, "masked_scatter")
    check(
        self.dtype is source.dtype,
        "masked_scatter: expected self and source to have same dtypes but got "
        f"{self.dtype.torch_name} and {source.dtype.torch_name}",
    )
    return Spec(broadcast_shapes(self.shape, mask.shape, name="masked_scatter"), self.dtype)


define(
    "masked_select(Tensor self, Tensor mask) -> Tensor",
    shape=masked_select,
    moves=True,
    data_dependent=True,
    api=FUNCTION | METHOD | EXACT_OUT,
)
define(
    "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    shape=masked_scatter,
    moves=True,
    api=FUNCTION | METHOD | INPLACE_METHOD,
    traits=Trait.RAISES,
)

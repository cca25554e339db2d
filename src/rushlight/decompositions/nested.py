"""Operators that make nested tensors, and the one that makes them dense.

What they make has the jagged layout, so that sizes may differ in one dimension alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.errors import check, fail
from ..core.nested import (
    NestedTensor,
    Ragged,
    from_padded,
    nest,
    ragged_of_sizes,
    read_integers,
)
from ..core.registry import FUNCTION, METHOD, REGISTRY, composite
from ..core.tensor import Tensor, wrap

_ONE_RAGGED = ("the jagged layout allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., "
               "D_N), with ragged * dim.")


def jagged_from_list(tensors: list[Tensor], dtype: DType | None = None, device: Any = None) -> NestedTensor:
    """The tensors as rows of a nested tensor."""
    check(len(tensors) > 0, "Cannot construct a nested tensor from an empty tensor list")
    for what, found in (("have the same dtype", {t.dtype for t in tensors}),
                        ("be on the same device", {t.device for t in tensors}),
                        ("have the same dim", {t.ndim for t in tensors})):
        check(len(found) == 1, f"When constructing a nested tensor, all tensors in list must {what}")
    check(tensors[0].ndim > 0, "Cannot construct a nested tensor from a list of zero-dim tensors")
    check(not any(t.is_nested for t in tensors), "Cannot construct a nested tensor from nested tensors")
    dim = ragged_dim([tuple(t.shape) for t in tensors])
    values = run_name("cat", tuple(tensors), dim).to(dtype=dtype, device=device)
    return nest(values, ragged_of_sizes([t.shape[dim] for t in tensors]), dim + 1)


def ragged_dim(shapes: list[tuple[int, ...]]) -> int:
    """The dimension in which the shapes differ, the first if in none."""
    different = [d for d in range(len(shapes[0])) if any(shape[d] != shapes[0][d] for shape in shapes)]
    check(len(different) <= 1, "Cannot represent given tensor list as a nested tensor with the jagged "
          f"layout. Note that {_ONE_RAGGED}")
    return different[0] if different else 0


@composite("_nested_tensor_from_tensor_list(Tensor[] list, ScalarType? dtype=None, Layout? layout=None, "
           "Device? device=None, bool? pin_memory=None) -> Tensor", api=FUNCTION)
def nested_tensor_from_tensor_list(list: Any, dtype: Any, device: Any) -> Any:
    return jagged_from_list([*list], dtype, device)


@composite("_nested_tensor_from_mask(Tensor t, Tensor mask, bool mask_check=True) -> Tensor", api=FUNCTION)
def nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool) -> Any:
    """The places of (batch, length, size) rows that `mask` selects, which are the first of each row."""
    check(mask.dtype.name == "bool", f"Expected mask to be of ScalarType Bool, but got {mask.dtype.name}")
    check(mask.ndim == 2, f"Padding mask should be 2D, not {mask.ndim}D")
    check(t.ndim == 3, f"Input should be a 3D tensor, N * L * D, not {t.ndim}D")
    check(tuple(mask.shape) == tuple(t.shape[:2]), f"Mask size should match input size: {list(mask.shape)} "
          f"and {list(t.shape)}")
    sizes = read_integers(mask.sum(1), "mask")
    if mask_check:
        ends = read_integers((mask.to(sizes_dtype(mask)) * _places(mask)).amax(1), "mask")
        check(bool((ends == sizes).all()), "Mask must be left-aligned without gaps")
    return from_padded(t, ragged_of_sizes(sizes))


def sizes_dtype(mask: Tensor) -> DType:
    return mask.sum().dtype


def _places(mask: Tensor) -> Tensor:
    return wrap(np.arange(1, mask.shape[1] + 1))


def _shapes(nested_size: Tensor) -> tuple[np.ndarray, int]:
    """The sizes of each row, and the dimension in which they differ."""
    check(nested_size.ndim == 2, "the sizes of a nested tensor are a matrix with a row for each tensor, not "
          f"of shape {list(nested_size.shape)}")
    sizes = read_integers(nested_size.reshape(-1), "nested_size").reshape(tuple(nested_size.shape))
    return sizes, ragged_dim([tuple(row) for row in sizes.tolist()]) if len(sizes) else 0


@composite("_nested_from_padded(Tensor padded, Tensor cpu_nested_shape_example, "
           "bool fuse_transform_0213=False) -> Tensor", api=FUNCTION)
def nested_from_padded(padded: Tensor, cpu_nested_shape_example: Tensor, fuse_transform_0213: bool) -> Any:
    """The rows of `padded` cut to the given sizes; with the flag (batch, heads, length, size) becomes
    (batch, length, heads * size) first."""
    sizes, dim = _shapes(cpu_nested_shape_example)
    if fuse_transform_0213:
        padded = padded.permute((0, 2, 1, 3)).flatten(2, 3)
    check(padded.ndim == sizes.shape[1] + 1 and padded.shape[0] == sizes.shape[0], "_nested_from_padded: "
          f"sizes of shape {list(sizes.shape)} do not fit a padded tensor of shape {list(padded.shape)}")
    for d in range(sizes.shape[1]):
        if d != dim:
            padded = padded.narrow(d + 1, 0, int(sizes[0, d]) if len(sizes) else 0)
    return from_padded(padded, ragged_of_sizes(sizes[:, dim]), dim + 1)


@composite("_nested_view_from_buffer(Tensor(a) self, Tensor nested_size, Tensor nested_strides, "
           "Tensor offsets) -> Tensor(a)", api=FUNCTION)
def nested_view_from_buffer(self: Tensor, nested_size: Tensor, nested_strides: Tensor,
                            offsets: Tensor) -> Any:
    """A buffer as rows of the given sizes and strides, which begin at `offsets`."""
    check(self.ndim == 1, f"the buffer of a nested tensor is 1-D, not {self.ndim}-D")
    sizes, dim = _shapes(nested_size)
    strides = read_integers(nested_strides.reshape(-1), "nested_strides").reshape(sizes.shape)
    begins = read_integers(offsets, "offsets")
    step = int(strides[0, dim]) if len(sizes) else 1
    if not len(sizes) or (strides != strides[0]).any() or step <= 0 or (begins % step).any():
        fail(f"_nested_view_from_buffer: strides that differ from row to row; {_ONE_RAGGED}",
             NotImplementedError)
    places, lengths = begins // step, sizes[:, dim]
    total = int((places + lengths).max())
    shape = [int(n) for n in sizes[0]]
    shape[dim] = total
    values = run_name("as_strided", self, tuple(shape), tuple(int(s) for s in strides[0]), None)
    if bool((places == np.cumsum(lengths) - lengths).all()):
        return nest(values, ragged_of_sizes(lengths), dim + 1)
    ends = np.concatenate([places, places[-1:] + lengths[-1:]])
    return nest(values, Ragged(wrap(ends), wrap(lengths.copy()), places, lengths), dim + 1)


# The lengths of rows are values of arguments of these.
for _name in ("_nested_tensor_from_mask", "_nested_from_padded", "_nested_view_from_buffer"):
    REGISTRY[_name].data_dependent = True


@composite("to_padded_tensor(Tensor self, float padding, SymInt[]? output_size=None) -> Tensor", api=METHOD)
def to_padded_tensor(self: Tensor) -> Any:
    fail("to_padded_tensor: takes a nested tensor, not a dense one", NotImplementedError)

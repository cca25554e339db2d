"""Operators that make nested tensors, and the one that makes them dense.

The operators make the strided layout, as in PyTorch; `jagged_from_list` is what rushlight.nested calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check, fail
from ..core.nested import NestedTensor, nest, ragged_of_sizes, read_integers
from ..core.nested_strided import Rows, StridedNestedTensor, from_rows, rebuild, strided_nest
from ..core.registry import FUNCTION, METHOD, REGISTRY, composite
from ..core.tensor import Tensor, wrap

_ONE_RAGGED = (
    "the jagged layout allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., "
    "D_N), with ragged * dim."
)


def jagged_from_list(tensors: list[Tensor], dtype: DType | None = None, device: Any = None) -> NestedTensor:
    """The tensors as rows of a nested tensor."""
    check(len(tensors) > 0, "Cannot construct a nested tensor from an empty tensor list")
    for what, found in (
        ("have the same dtype", {t.dtype for t in tensors}),
        ("be on the same device", {t.device for t in tensors}),
        ("have the same dim", {t.ndim for t in tensors}),
    ):
        check(len(found) == 1, f"When constructing a nested tensor, all tensors in list must {what}")
    check(tensors[0].ndim > 0, "Cannot construct a nested tensor from a list of zero-dim tensors")
    check(not any(t.is_nested for t in tensors), "Cannot construct a nested tensor from nested tensors")
    dim = ragged_dim([tuple(t.shape) for t in tensors])
    values = run_name("cat", tuple(tensors), dim).to(dtype=dtype, device=device)
    return nest(values, ragged_of_sizes([t.shape[dim] for t in tensors]), dim + 1)


def ragged_dim(shapes: list[tuple[int, ...]]) -> int:
    """The dimension in which the shapes differ, the first if in none."""
    different = [d for d in range(len(shapes[0])) if any(shape[d] != shapes[0][d] for shape in shapes)]
    check(
        len(different) <= 1,
        "Cannot represent given tensor list as a nested tensor with the jagged "
        f"layout. Note that {_ONE_RAGGED}",
    )
    return different[0] if different else 0


# The strided layout: rows of any sizes.


def strided_from_list(
    tensors: list[Tensor], dtype: DType | None = None, device: Any = None
) -> StridedNestedTensor:
    """Copies of the tensors as rows of a nested tensor of the strided layout."""
    for i, (before, tensor) in enumerate(itertools.pairwise(tensors), 1):
        check(
            before.ndim == tensor.ndim,
            "All Tensors given to nested_tensor must have the same dimension. "
            f"Found dimension {tensor.ndim} for Tensor at index {i} and dimension {before.ndim} for Tensor "
            f"at index {i - 1}.",
        )
    if not tensors:
        blank = run_name("empty.memory_format", (0,), dtype, None, None, None, None)
        return strided_nest(blank.to(device=device), Rows([]))
    check(not any(t.is_nested for t in tensors), "Cannot construct a nested tensor from nested tensors")
    return from_rows([t.to(dtype=dtype or tensors[0].dtype, device=device) for t in tensors])


def padded_rows(rows: list[Tensor], sizes: Sequence[int], padding: Any) -> Tensor:
    """The rows filled up to `sizes`, as one dense tensor."""
    filled = [
        run_name(
            "constant_pad_nd",
            row,
            tuple(n for d in reversed(range(row.ndim)) for n in (0, sizes[d] - row.shape[d])),
            padding,
        )
        for row in rows
    ]
    dense: Tensor = run_name("stack", tuple(filled), 0)
    return dense


def rows_of_padded(padded: Tensor, sizes: Sequence[Sequence[int]], fuse: bool) -> StridedNestedTensor:
    """The rows of `padded` cut to sizes; with `fuse` (batch, heads, length, size) becomes (batch, length,
    heads * size) first."""
    if fuse:
        padded = padded.permute((0, 2, 1, 3)).flatten(2, 3)
    check(
        all(len(size) == padded.ndim - 1 for size in sizes) and len(sizes) == padded.shape[0],
        f"_nested_from_padded: sizes of {len(sizes)} rows do not fit a padded tensor of shape "
        f"{list(padded.shape)}",
    )
    rows = list(padded.unbind())
    for i, size in enumerate(sizes):
        for d, n in enumerate(size):
            check(
                0 <= n <= rows[i].shape[d],
                f"_nested_from_padded: row {i} has {n} elements in dimension "
                f"{d}, the padded tensor {rows[i].shape[d]}",
            )
            rows[i] = rows[i].narrow(d, 0, int(n))
    return from_rows(rows, padded.ndim - 1) if rows else strided_nest(padded.reshape((-1,)), Rows([]))


def _sizes(nested_size: Tensor) -> list[tuple[int, ...]]:
    """The sizes of each row."""
    check(
        nested_size.ndim == 2,
        "the sizes of a nested tensor are a matrix with a row for each tensor, not "
        f"of shape {list(nested_size.shape)}",
    )
    sizes = read_integers(nested_size.reshape(-1), "nested_size").reshape(tuple(nested_size.shape))
    return [tuple(row) for row in sizes.tolist()]


@composite(
    "_nested_tensor_from_tensor_list(Tensor[] list, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    api=FUNCTION,
)
def nested_tensor_from_tensor_list(list: Any, dtype: Any, device: Any) -> Any:
    return strided_from_list([*list], dtype, device)


def _lengths(t: Tensor, mask: Tensor) -> tuple[np.ndarray, bool]:
    """How many places of each row `mask` selects, and whether they are the first ones."""
    check(mask.dtype.name == "bool", f"Expected mask to be of ScalarType Bool, but got {mask.dtype.name}")
    check(mask.ndim == 2, f"Padding mask should be 2D, not {mask.ndim}D")
    check(t.ndim == 3, f"Input should be a 3D tensor, N * L * D, not {t.ndim}D")
    check(
        tuple(mask.shape) == tuple(t.shape[:2]),
        f"Mask size should match input size: {list(mask.shape)} and {list(t.shape)}",
    )
    chosen = read_integers(mask.to(DTYPES["int64"]).reshape(-1), "mask").reshape(tuple(mask.shape))
    lengths = chosen.sum(1)
    return lengths, bool(((np.arange(chosen.shape[1]) < lengths[:, None]) == chosen).all())


@composite("_nested_tensor_from_mask(Tensor t, Tensor mask, bool mask_check=True) -> Tensor", api=FUNCTION)
def nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool) -> Any:
    """The places of (batch, length, size) rows that `mask` selects, which are the first of each row."""
    lengths, aligned = _lengths(t, mask)
    check(not mask_check or aligned, "Mask must be left-aligned without gaps")
    return rows_of_padded(t, [(int(n), t.shape[2]) for n in lengths], False)


@composite("_nested_tensor_from_mask_left_aligned(Tensor t, Tensor mask) -> bool", api=FUNCTION)
def nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    return _lengths(t, mask)[1]


@composite(
    "_nested_from_padded(Tensor padded, Tensor cpu_nested_shape_example, "
    "bool fuse_transform_0213=False) -> Tensor",
    api=FUNCTION,
)
def nested_from_padded(padded: Tensor, cpu_nested_shape_example: Tensor, fuse_transform_0213: bool) -> Any:
    return rows_of_padded(padded, _sizes(cpu_nested_shape_example), fuse_transform_0213)


@composite("_nested_from_padded_and_nested_example(Tensor padded, Tensor nt_example) -> Tensor", api=FUNCTION)
def nested_from_padded_and_nested_example(padded: Tensor, nt_example: Tensor) -> Any:
    fail(
        "_nested_from_padded_and_nested_example: get_nested_tensor_impl requires a NestedTensor as the "
        "example"
    )


@composite(
    "_nested_view_from_buffer(Tensor(a) self, Tensor nested_size, Tensor nested_strides, "
    "Tensor offsets) -> Tensor(a)",
    api=FUNCTION,
)
def nested_view_from_buffer(
    self: Tensor, nested_size: Tensor, nested_strides: Tensor, offsets: Tensor
) -> Any:
    """A buffer as rows of the given sizes and strides, which begin at `offsets`."""
    places = read_integers(offsets, "offsets").tolist()
    return rebuild(self, _sizes(nested_size), _sizes(nested_strides), places, nested_size.shape[1])


@composite("_nested_compute_contiguous_strides_offsets(Tensor nested_size) -> (Tensor, Tensor)", api=FUNCTION)
def nested_compute_contiguous_strides_offsets(nested_size: Tensor) -> Any:
    rows = Rows(_sizes(nested_size), dims=nested_size.shape[1])
    strides = np.array(rows.strides, np.int64).reshape(tuple(nested_size.shape))
    return wrap(strides), wrap(np.array(rows.offsets, np.int64))


# The lengths of rows are values of arguments of these.
for _name in (
    "_nested_tensor_from_mask",
    "_nested_tensor_from_mask_left_aligned",
    "_nested_from_padded",
    "_nested_view_from_buffer",
    "_nested_compute_contiguous_strides_offsets",
):
    REGISTRY[_name].data_dependent = True


@composite("to_padded_tensor(Tensor self, float padding, SymInt[]? output_size=None) -> Tensor", api=METHOD)
def to_padded_tensor(self: Tensor) -> Any:
    fail("to_padded_tensor: takes a nested tensor, not a dense one", NotImplementedError)

"""The structure of sparse tensors: where their elements are, taking and putting values, duplicates, density.

Everything is seen as *entries*: `coordinates(tensor)` is an array (dims, n) of places over all but the dense
dimensions, batch dimensions included and blocks expanded, in the order of the values, so that the values of
any layout, reshaped to (n, *dense dims), belong to them. Structure is computed on arrays; values go through
operators where they carry derivatives (see `sparse_kernel`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.declare_layouts import sparse_kernel
from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.errors import check
from ..core.shapes import Shape
from ..core.sparse import BLOCKED, BY_ROWS, COMPRESSED, Compressed, Coo, make_sparse, with_values
from ..core.tensor import AUTOGRAD, Tensor, alias, wrap
from ..core.tokens import layout as Layout
from ..core.tokens import sparse_coo


def is_sparse(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and tensor._parts is not None


def require(tensor: Tensor, layouts: Sequence[Layout], name: str, what: str) -> Any:
    """The parts of a tensor that must have one of `layouts`."""
    check(tensor.layout in layouts, f"{name} expected {what} tensor layout but got {tensor.layout.name}")
    return tensor._parts


def plain(tensor: Tensor) -> Tensor:
    """The same memory as an object without history."""
    return alias(tensor, tensor.spec())


def wide(values: Tensor) -> np.ndarray:
    """The values in the dtype that sums are computed in."""
    array, dtype = values.numpy_array(), values.dtype
    return array if dtype.opmath is dtype else array.astype(dtype.opmath.numpy)


def rounded(array: np.ndarray, dtype: DType) -> Tensor:
    return wrap(np.asarray(array, dtype.numpy, order="C"))


def index_tensor(array: np.ndarray, dtype: Any = np.int64) -> Tensor:
    return wrap(np.ascontiguousarray(array, dtype))


def structure(tensor: Tensor) -> Tensor:
    """The places of a sparse tensor as an object of its own, whose version later writes do not change."""
    check(
        tensor._parts is not None,
        f"expected a sparse tensor, got a strided one of shape {list(tensor.shape)}",
    )
    return make_sparse(tensor._parts, tuple(tensor.shape))


# Entries.


def sparse_shape(tensor: Tensor) -> Shape:
    """The sizes of all but the dense dimensions."""
    return tuple(tensor.shape[: tensor.ndim - tensor._parts.dense_dim])


def dense_shape(tensor: Tensor) -> Shape:
    return tuple(tensor.shape[tensor.ndim - tensor._parts.dense_dim :])


def coordinates(tensor: Tensor) -> np.ndarray:
    """The places of the entries, one row for each dimension."""
    parts = tensor._parts
    if isinstance(parts, Coo):
        return parts.indices.numpy_array()
    batch, (high, wide_) = parts.batch, parts.block
    major, minor = block_coordinates(tensor)
    rows, columns = (major, minor) if parts.layout in BY_ROWS else (minor, major)
    rows = rows[..., None, None] * high + np.arange(high)[:, None]
    columns = columns[..., None, None] * wide_ + np.arange(wide_)
    places = [np.arange(size).reshape((-1,) + (1,) * (len(batch) - i + 2)) for i, size in enumerate(batch)]
    full = np.broadcast_shapes(rows.shape, columns.shape)
    return np.stack([np.broadcast_to(p, full).reshape(-1) for p in (*places, rows, columns)])


def block_coordinates(tensor: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Which compressed and which plain row or column each block is in, both (*batch, n)."""
    parts: Compressed = tensor._parts
    compressed, plain_indices = parts.compressed.numpy_array(), parts.plain.numpy_array()
    check_structure(tensor)
    counts = np.diff(compressed, axis=-1)
    lines = counts.shape[-1]
    numbers = np.broadcast_to(np.arange(lines), counts.shape).reshape(-1)
    return np.repeat(numbers, counts.reshape(-1)).reshape(plain_indices.shape), plain_indices


def check_structure(tensor: Tensor) -> None:
    """Refuse compressed indices that lead outside of the members; the constructors let them pass."""
    parts: Compressed = tensor._parts
    compressed, plain_indices = parts.compressed.numpy_array(), parts.plain.numpy_array()
    lines = np.diff(compressed, axis=-1)
    good = bool(
        (compressed[..., 0] == 0).all() and (compressed[..., -1] == parts.nnz).all() and (lines >= 0).all()
    )
    check(
        good,
        f"a {tensor.layout.name} tensor of {parts.nnz} elements has compressed indices that do not "
        f"rise from 0 to {parts.nnz}",
    )
    limit = tensor.shape[len(parts.batch) + (1 if parts.layout in BY_ROWS else 0)]
    limit //= parts.block[1 if parts.layout in BY_ROWS else 0] or 1
    if plain_indices.size:
        check(
            plain_indices.min() >= 0 and plain_indices.max() < limit,
            f"a {tensor.layout.name} tensor has a plain index outside of [0, {limit})",
        )


def flat(coords: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """One number for each place, rising in row-major order; places outside of `sizes` are refused."""
    if coords.shape[1] == 0:
        return np.zeros(0, np.int64)
    for dim, (row, size) in enumerate(zip(coords, sizes, strict=True)):
        low, high = int(row.min()), int(row.max())
        if low < 0 or high >= size:
            raise IndexError(
                f"a sparse tensor has index {low if low < 0 else high} in dimension {dim}, which "
                f"has size {size}"
            )
    result = np.zeros(coords.shape[1], np.int64)
    for row, size in zip(coords, sizes, strict=True):
        result *= size
        result += row
    return result


def entry_values(tensor: Tensor) -> np.ndarray:
    """The values in the order of the entries, (n, *dense dims)."""
    return tensor._parts.values.numpy_array().reshape(entries_shape(tensor))


def entries_shape(tensor: Tensor) -> Shape:
    """The shape of the values when there is one row for each entry."""
    values = tensor._parts.values
    dense = dense_shape(tensor)
    return (math.prod(values.shape[: values.ndim - len(dense)]), *dense)


# Coalescing.


def coalesced_order(coords: np.ndarray, sizes: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How to sort entries, where each distinct place begins in that order, and the sorted numbers."""
    numbers = flat(coords, sizes)
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    first = np.ones(len(numbers), bool)
    first[1:] = numbers[1:] != numbers[:-1]
    return order, np.flatnonzero(first), numbers


def sum_runs(array: np.ndarray, starts: np.ndarray) -> np.ndarray:
    if len(starts) == len(array):
        return array
    return (np.logical_or if array.dtype == bool else np.add).reduceat(array, starts, axis=0)


@sparse_kernel("_coalesce", layouts=(sparse_coo,), through=False)
def coalesce(self: Tensor) -> Tensor:
    parts = require(self, (sparse_coo,), "coalesce", "sparse coordinate")
    if parts.coalesced:
        return make_sparse(parts, tuple(self.shape))
    coords = parts.indices.numpy_array()
    order, starts, _ = coalesced_order(coords, self.shape[: parts.sparse_dim])
    sums = sum_runs(wide(parts.values)[order], starts)
    indices = index_tensor(coords[:, order[starts]])
    return make_sparse(Coo(indices, rounded(sums, self.dtype), True), tuple(self.shape))


def settled(tensor: Tensor) -> Tensor:
    """`tensor` coalesced, if it is one of coordinates."""
    if isinstance(tensor._parts, Coo) and not tensor._parts.coalesced:
        return run_name("_coalesce", tensor)
    return tensor


def stored(tensor: Tensor) -> Tensor:
    """`tensor` so that each place has one value, where history is kept: the gradient of a sparse tensor is
    one of places, not of duplicates."""
    return settled(tensor) if tensor._keys & AUTOGRAD else tensor


def values_of(tensor: Tensor) -> Tensor:
    """The values, with history."""
    return run_name("_sparse_take", tensor, structure(tensor))


def put(values: Tensor, like: Tensor) -> Tensor:
    return run_name("_sparse_put", values, structure(like))


# Taking and putting.


@sparse_kernel("_sparse_take", through=False)
def take(self: Tensor, like: Tensor) -> Tensor:
    parts = like._parts
    check(parts is not None, "_sparse_take: the places to take from must be those of a sparse tensor")
    if self._parts is not None and (self._parts is parts or self._parts.same_structure(parts)):
        return plain(self._parts.values)
    check(
        tuple(self.shape) == tuple(like.shape),
        f"a tensor of shape {list(self.shape)} has no values at the "
        f"places of a sparse one of shape {list(like.shape)}",
    )
    coords, shape = coordinates(like), tuple(parts.values.shape)
    if self._parts is None:
        flat(coords, sparse_shape(like))
        found = (
            self.numpy_array()[tuple(coords)]
            if len(coords)
            else np.broadcast_to(self.numpy_array(), (coords.shape[1], *self.shape))
        )
        return rounded(found.reshape(shape), self.dtype)
    return rounded(look_up(self, coords, sparse_shape(like)).reshape(shape), self.dtype)


def look_up(tensor: Tensor, coords: np.ndarray, sizes: Shape) -> np.ndarray:
    """The values of a sparse tensor at `coords`, zeros where it has none."""
    dense = tuple(tensor.shape[len(sizes) :])
    if tensor._parts.dense_dim != len(dense):
        array = run_name("_to_dense", tensor, None, None).numpy_array()
        return array[tuple(coords)]
    own = coordinates(tensor)
    order, starts, numbers = coalesced_order(own, sizes)
    values = sum_runs(entry_values(tensor).astype(tensor.dtype.opmath.numpy)[order], starts)
    known, wanted = numbers[starts], flat(coords, sizes)
    result = np.zeros((len(wanted), *dense), values.dtype)
    if len(known):
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        hit = known[at] == wanted
        result[hit] = values[at[hit]]
    return result


@sparse_kernel("_sparse_put", through=False)
def put_values(values: Tensor, like: Tensor) -> Tensor:
    check(
        like._parts is not None and tuple(values.shape) == tuple(like._parts.values.shape),
        "_sparse_put: the places must be those of a sparse tensor, and there must be a value for each",
    )
    return with_values(like, plain(values))


# Making.


@sparse_kernel("_sparse_coo_tensor_with_dims_and_tensors", through=False)
def with_dims_and_tensors(
    sparse_dim: int,
    dense_dim: int,
    size: Shape,
    indices: Tensor,
    values: Tensor,
    dtype: Any,
    is_coalesced: bool | None,
) -> Tensor:
    name = "sparse_coo_tensor"
    check(indices._parts is None and values._parts is None, f"{name}: indices and values must be strided")
    check(indices.ndim == 2, f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    check(
        not (indices.dtype.is_floating_point or indices.dtype.is_complex) and indices.dtype.name != "bool",
        f"{name}: indices must be an int64 tensor",
    )
    check(values.ndim >= 1, f"{name}: values must have at least one dimension")
    check(
        indices.shape[1] == values.shape[0],
        "indices and values must have same nnz, but got nnz from "
        f"indices: {indices.shape[1]}, nnz from values: {values.shape[0]}",
    )
    check(
        len(size) == sparse_dim + dense_dim,
        "'len(size) == sparse_dim + dense_dim' is not satisfied: "
        f"len(size) = {len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}",
    )
    check(
        indices.shape[0] == sparse_dim,
        f"indices has incorrect first dimension, expected {sparse_dim}, got {indices.shape[0]}",
    )
    expected = (values.shape[0], *size[sparse_dim:])
    check(
        tuple(values.shape) == expected,
        f"values has incorrect size, expected {list(expected)}, got {list(values.shape)}",
    )
    long = index_tensor(indices.numpy_array()) if indices.dtype.name != "int64" else plain(indices)
    wanted = values if dtype is None or dtype is values.dtype else values.to(dtype)
    coalesced = long.shape[1] < 2 if is_coalesced is None else is_coalesced
    return make_sparse(Coo(long, plain(wanted), coalesced), size)


@sparse_kernel("_sparse_coo_tensor_with_dims", through=False)
def with_dims(sparse_dim: int, dense_dim: int, size: Shape, dtype: Any) -> Tensor:
    check(
        len(size) == sparse_dim + dense_dim,
        f"number of dimensions must be sparse_dim ({sparse_dim}) + "
        f"dense_dim ({dense_dim}), but got {len(size)}",
    )
    return empty_coo(size, sparse_dim, dtype)


def empty_coo(size: Shape, sparse_dim: int, dtype: DType | None) -> Tensor:
    values = run_name("zeros", (0, *size[sparse_dim:]), dtype, None, None, None)
    return make_sparse(Coo(index_tensor(np.zeros((sparse_dim, 0))), values, True), tuple(size))


@sparse_kernel(
    "_sparse_compressed_tensor_unsafe", "sparse_compressed_tensor.comp_plain_value_size", through=False
)
def compressed_tensor(
    compressed_indices: Tensor,
    plain_indices: Tensor,
    values: Tensor,
    size: Shape,
    dtype: Any,
    layout: Layout | None,
) -> Tensor:
    check(
        layout in COMPRESSED,
        "sparse_compressed_tensor expected a compressed sparse layout, got "
        f"{'strided' if layout is None else layout.name}",
    )
    assert layout is not None
    wanted = values if dtype is None or dtype is values.dtype else values.to(dtype)
    check(
        compressed_indices.ndim >= 1 and plain_indices.ndim == compressed_indices.ndim,
        f"{layout.name}: compressed_indices and plain_indices must have the same number of dimensions, at "
        f"least 1, but got {compressed_indices.ndim} and {plain_indices.ndim}",
    )
    least = compressed_indices.ndim + (2 if layout in BLOCKED else 0)
    check(
        values.ndim >= least,
        f"{layout.name}: values must have at least {least} dimensions, got {values.ndim}",
    )
    check(
        values.shape[compressed_indices.ndim - 1] == plain_indices.shape[-1],
        f"{layout.name}: there are "
        f"{plain_indices.shape[-1]} plain indices and {values.shape[compressed_indices.ndim - 1]} values",
    )
    made = Compressed(layout, plain(compressed_indices), plain(plain_indices), plain(wanted))
    rank = len(made.batch) + 2 + made.dense_dim
    check(
        len(size) == rank,
        f"{layout.name}: the size must have {rank} dimensions (batch, 2, dense), got {list(size)}",
    )
    return make_sparse(made, tuple(size))


# Density.


@sparse_kernel("_to_dense", through=False)
def to_dense(self: Tensor, dtype: Any) -> Tensor:
    if self._parts is None:
        return rounded(self.numpy_array().copy(), self.dtype if dtype is None else dtype)
    array = dense_array(self)
    return rounded(array, self.dtype if dtype is None else dtype)


@sparse_kernel("_sparse_strided", through=False)
def to_strided(self: Tensor) -> Tensor:
    return to_dense(self, None)


def dense_array(tensor: Tensor) -> np.ndarray:
    """All elements, zeros included."""
    if isinstance(tensor._parts, Coo):
        tensor = coalesce(tensor)
    coords, sizes = coordinates(tensor), sparse_shape(tensor)
    array = np.zeros(tuple(tensor.shape), tensor.dtype.numpy)
    flat(coords, sizes)
    if len(coords):
        array[tuple(coords)] = entry_values(tensor)
    elif coords.shape[1]:
        array[...] = entry_values(tensor)[0]
    return array

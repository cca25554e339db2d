"""Sparse tensors from strided ones and from one another: every layout by way of its entries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.declare_layouts import sparse_kernel
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.shapes import Shape
from ..core.sparse import BLOCKED, BY_ROWS, COMPRESSED, Compressed, Coo, make_sparse
from ..core.tensor import Tensor
from ..core.tokens import layout as Layout
from ..core.tokens import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from .sparse import (
    coordinates,
    entries_shape,
    flat,
    index_tensor,
    is_sparse,
    put,
    require,
    rounded,
    settled,
    sparse_shape,
    structure,
    values_of,
)


def pattern(coords: np.ndarray, like: Tensor, layout: Layout, dense_dim: int, block: Shape | None) -> Tensor:
    """The structure of `layout` that has room for the distinct, sorted places `coords`; values are zeros."""
    shape = tuple(like.shape)
    dense = shape[len(shape) - dense_dim :]
    if layout is sparse_coo:
        values = np.zeros((coords.shape[1], *dense), like.dtype.numpy)
        return make_sparse(Coo(index_tensor(coords), rounded(values, like.dtype), True), shape)
    batch, (rows, columns) = shape[: len(coords) - 2], shape[len(coords) - 2 : len(coords)]
    high, wide = block or (1, 1)
    check(
        high > 0 and wide > 0 and rows % high == 0 and columns % wide == 0,
        f"to_sparse: sizes {rows} and {columns} must be divisible by the block size, {high} and {wide}",
    )
    count, across, down = math.prod(batch), columns // wide, rows // high
    lines, length = (down, across) if layout in BY_ROWS else (across, down)
    inside = flat(coords[:-2], batch) if batch else np.zeros(coords.shape[1], np.int64)
    places = (coords[-2] // high, coords[-1] // wide)
    major, minor = places if layout in BY_ROWS else places[::-1]
    numbers = np.unique((inside * lines + major) * length + minor)
    line = numbers // max(length, 1)
    each = (
        np.bincount(line, minlength=count * lines).reshape(count, lines)
        if lines
        else np.zeros((count, 0), np.int64)
    )
    totals = each.sum(axis=1)
    check(
        count == 0 or bool((totals == totals[0]).all()),
        "Expect the same number of specified elements per batch.",
    )
    number = int(totals[0]) if count else 0
    compressed = np.concatenate([np.zeros((count, 1), np.int64), np.cumsum(each, axis=1)], axis=1)
    inner = (high, wide) if layout in BLOCKED else ()
    values = np.zeros((*batch, number, *inner, *dense), like.dtype.numpy)
    parts = Compressed(
        layout,
        index_tensor(compressed.reshape((*batch, lines + 1))),
        index_tensor((numbers % max(length, 1)).reshape((*batch, number))),
        rounded(values, like.dtype),
    )
    return make_sparse(parts, shape)


def filled(self: Tensor) -> Tensor:
    """A sparse tensor with all of its elements, zeros too."""
    parts = self._parts
    coords = np.indices(sparse_shape(self)).reshape(len(sparse_shape(self)), -1)
    block = parts.block if self.layout in BLOCKED else None
    places = pattern(coords, self, self.layout, parts.dense_dim, block)
    return put(run_name("_sparse_take", self, places), places)


def nonzero_places(self: Tensor, dense_dim: int) -> np.ndarray:
    """The places at which a strided tensor has a value other than zero."""
    occupied = self.numpy_array() != 0
    if dense_dim:
        occupied = occupied.any(axis=tuple(range(self.ndim - dense_dim, self.ndim)))
    return np.stack(np.nonzero(occupied)) if occupied.ndim else np.zeros((0, int(occupied)), np.int64)


def convert(self: Tensor, layout: Layout, dense_dim: int | None, block: Any) -> Tensor:
    """`self`, strided or sparse, in a sparse layout. Entries of a sparse tensor stay entries, zeros too."""
    name = "to_sparse"
    if layout in BLOCKED:
        check(block is not None, f"{name}: conversion to {layout.name} needs a blocksize")
    else:
        check(block is None, f"{name} for {layout.name} layout does not take a blocksize")
    if is_sparse(self):
        check(
            dense_dim is None or dense_dim == self._parts.dense_dim,
            f"{name}: a sparse tensor keeps its "
            f"dense dimensions, {self._parts.dense_dim}, got dense_dim={dense_dim}",
        )
        same = self.layout is layout and (block is None or tuple(block) == self._parts.block)
        if same:
            return settled(self)
        self = settled(self)
        dense_dim, coords = self._parts.dense_dim, coordinates(self)
        order = np.argsort(flat(coords, sparse_shape(self)), kind="stable")
        coords = coords[:, order]
    else:
        dense_dim = 0 if dense_dim is None else dense_dim
        check(0 <= dense_dim <= self.ndim, f"{name}: dense_dim must be in [0, {self.ndim}], got {dense_dim}")
        check(
            layout not in COMPRESSED or self.ndim - dense_dim >= 2,
            f"{name}: a {layout.name} tensor has at "
            f"least 2 dimensions besides dense ones, got {self.ndim} and dense_dim={dense_dim}",
        )
        coords = nonzero_places(self, dense_dim)
    check(
        layout not in COMPRESSED or len(coords) >= 2,
        f"{name}: a {layout.name} tensor has at least 2 sparse dimensions, not {len(coords)}",
    )
    places = pattern(coords, self, layout, dense_dim, block)
    values = _moved(self, places) if is_sparse(self) else run_name("_sparse_take", self, places)
    return put(values, places)


def _moved(self: Tensor, places: Tensor) -> Tensor:
    """The values of a sparse tensor in the order of `places`, zeros where a block has room for more. So the
    gradient has the layout of `self`."""
    sizes = sparse_shape(self)
    numbers, wanted = flat(coordinates(self), sizes), flat(coordinates(places), sizes)
    order = np.argsort(numbers, kind="stable")
    at = np.searchsorted(numbers[order], wanted)
    found = at < len(numbers)
    found[found] = numbers[order][at[found]] == wanted[found]
    values = values_of(self).reshape(entries_shape(self))
    if len(numbers) == 0:
        return places._parts.values
    values = values.index_select(0, index_tensor(order[np.where(found, at, 0)]))
    if not found.all():
        absent = index_tensor(~found, np.bool_).reshape(len(found), *(1,) * (values.ndim - 1))
        values = run_name("where.self", absent, values.new_zeros(()), values)
    return values.reshape(places._parts.values.shape)


@sparse_kernel("_to_sparse.sparse_dim")
def to_sparse_dim(self: Tensor, sparse_dim: int) -> Tensor:
    if is_sparse(self):
        own = sparse_coo if self.layout is sparse_coo else self.layout
        check(
            self._parts.sparse_dim == sparse_dim,
            f"to_sparse: a {own.name} tensor with "
            f"{self._parts.sparse_dim} sparse dimensions cannot be given {sparse_dim}",
        )
        return self if self.layout is sparse_coo else convert(self, sparse_coo, None, None)
    check(
        0 <= sparse_dim <= self.ndim and (sparse_dim > 0 or self.ndim == 0),
        f"to_sparse: sparse_dim must be in (0, {self.ndim}], got {sparse_dim}",
    )
    return convert(self, sparse_coo, self.ndim - sparse_dim, None)


@sparse_kernel("_to_sparse")
def to_sparse(self: Tensor, layout: Layout | None, blocksize: Any, dense_dim: int | None) -> Tensor:
    target = sparse_coo if layout is None else layout
    check(target is not strided, "to_sparse: the layout must be sparse; use to_dense() for a strided tensor")
    if is_sparse(self) and self.layout is target is sparse_coo:
        return self
    return convert(self, target, dense_dim, blocksize)


@sparse_kernel("_to_sparse_csr")
def to_sparse_csr(self: Tensor, dense_dim: int | None) -> Tensor:
    return convert(self, sparse_csr, dense_dim, None)


@sparse_kernel("_to_sparse_csc")
def to_sparse_csc(self: Tensor, dense_dim: int | None) -> Tensor:
    return convert(self, sparse_csc, dense_dim, None)


@sparse_kernel("_to_sparse_bsr")
def to_sparse_bsr(self: Tensor, blocksize: Shape, dense_dim: int | None) -> Tensor:
    return convert(self, sparse_bsr, dense_dim, blocksize)


@sparse_kernel("_to_sparse_bsc")
def to_sparse_bsc(self: Tensor, blocksize: Shape, dense_dim: int | None) -> Tensor:
    return convert(self, sparse_bsc, dense_dim, blocksize)


@sparse_kernel("sparse_mask")
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements of `self` at the places of `mask`."""
    check(is_sparse(mask), "sparse_mask: the mask must be a sparse tensor")
    check(
        tuple(self.shape) == tuple(mask.shape),
        "sparse_mask(): operands have incompatible sizes; self has "
        f"size {list(self.shape)} but mask has size {list(mask.shape)}",
    )
    places = structure(mask)
    return put(run_name("_sparse_take", settled(self) if is_sparse(self) else self, places), places)


@sparse_kernel("_sparse_mask_projection", layouts=(sparse_coo,))
def mask_projection(self: Tensor, mask: Tensor) -> Tensor:
    return sparse_mask(self, mask)


@sparse_kernel("_spdiags")
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Shape, layout: Layout | None) -> Tensor:
    """Row i of `diagonals` on the diagonal offsets[i]; element j of it is in column j."""
    name = "spdiags"
    diagonals2 = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    steps = np.atleast_1d(offsets.numpy_array())
    check(len(shape) == 2, f"{name}: Output shape must be 2d")
    check(diagonals2.ndim == 2, f"{name}: Diagonals must be vector or matrix")
    check(offsets.ndim <= 1, f"{name}: Offsets must be scalar or vector")
    check(
        offsets.dtype.name == "int64",
        f"{name}: Offset Tensor must have dtype Long but got {offsets.dtype.torch_name}",
    )
    check(
        len(steps) == diagonals2.shape[0],
        f"{name}: Number of diagonals ({diagonals2.shape[0]}) does not "
        f"match the number of offsets ({len(steps)})",
    )
    check(len(np.unique(steps)) == len(steps), f"{name}: Offset tensor contains duplicate values")
    check(
        layout in (None, sparse_coo, sparse_csr, sparse_csc),
        f"{name}: Only output layouts (Sparse, SparseCsc, SparseCsr) are supported",
    )
    columns = np.broadcast_to(
        np.arange(min(diagonals2.shape[1], shape[1])), (len(steps), min(diagonals2.shape[1], shape[1]))
    )
    rows = columns - steps[:, None]
    number, column = np.nonzero((rows >= 0) & (rows < shape[0]))
    indices = np.stack([rows[number, column], column])
    values = run_name("index.Tensor", diagonals2, (index_tensor(number), index_tensor(column)))
    found = run_name(
        "_sparse_coo_tensor_with_dims_and_tensors",
        2,
        0,
        tuple(shape),
        index_tensor(indices),
        values,
        None,
        None,
        None,
        None,
        False,
    )
    return found if layout in (None, sparse_coo) else convert(found, layout, None, None)


# Members.


@sparse_kernel("indices", through=False)
def indices(self: Tensor) -> Tensor:
    parts = require(self, (sparse_coo,), "indices", "sparse coordinate")
    check(parts.coalesced, "Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return parts.indices.detach()


@sparse_kernel("values", through=False)
def values(self: Tensor) -> Tensor:
    parts = require(self, (sparse_coo, *COMPRESSED), "values", "sparse")
    check(
        not isinstance(parts, Coo) or parts.coalesced,
        "Cannot get values on an uncoalesced tensor, please call .coalesce() first",
    )
    return parts.values.detach()


@sparse_kernel("_indices", through=False)
def raw_indices(self: Tensor) -> Tensor:
    return require(self, (sparse_coo,), "_indices", "sparse coordinate").indices.detach()


@sparse_kernel("_values", through=False)
def raw_values(self: Tensor) -> Tensor:
    return require(self, (sparse_coo, *COMPRESSED), "_values", "sparse").values.detach()


@sparse_kernel("crow_indices", through=False)
def crow_indices(self: Tensor) -> Tensor:
    return require(self, BY_ROWS, "crow_indices", "sparse row compressed").compressed.detach()


@sparse_kernel("col_indices", through=False)
def col_indices(self: Tensor) -> Tensor:
    return require(self, BY_ROWS, "col_indices", "sparse row compressed").plain.detach()


@sparse_kernel("ccol_indices", through=False)
def ccol_indices(self: Tensor) -> Tensor:
    return require(
        self, (sparse_csc, sparse_bsc), "ccol_indices", "sparse column compressed"
    ).compressed.detach()


@sparse_kernel("row_indices", through=False)
def row_indices(self: Tensor) -> Tensor:
    return require(self, (sparse_csc, sparse_bsc), "row_indices", "sparse column compressed").plain.detach()

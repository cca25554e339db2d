"""Matrix products with sparse factors, by SciPy; what is sampled or reduced, by gathering rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.declare_layouts import sparse_kernel
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.lazy import LazyModule
from ..core.sparse import BLOCKED, COMPRESSED, Compressed, Coo, make_sparse
from ..core.tensor import Tensor
from ..core.tokens import sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from .sparse import (
    block_coordinates,
    check_structure,
    coordinates,
    flat,
    index_tensor,
    is_sparse,
    put,
    rounded,
    stored,
    values_of,
    wide,
)
from .sparse_conversion import convert
from .sparse_pointwise import coo

scipy_sparse = LazyModule("scipy.sparse")


# Two matrices.


def to_scipy(tensor: Tensor) -> Any:
    """A sparse matrix as SciPy's, sharing memory where it can. SciPy trusts indices, so they are checked."""
    parts, shape = tensor._parts, tuple(tensor.shape)
    check(
        tensor.ndim == 2 and parts.dense_dim == 0,
        "a matrix product needs sparse matrices without batch and "
        f"dense dimensions, got shape {list(shape)} with {parts.dense_dim} dense dimensions",
    )
    values = wide(parts.values)
    if isinstance(parts, Coo):
        indices = parts.indices.numpy_array()
        flat(indices, shape)
        return scipy_sparse.coo_array((values, (indices[0], indices[1])), shape=shape).tocsr()
    check_structure(tensor)
    members = (parts.plain.numpy_array(), parts.compressed.numpy_array())
    if parts.layout is sparse_csr:
        return scipy_sparse.csr_array((values, *members), shape=shape)
    if parts.layout is sparse_csc:
        return scipy_sparse.csc_array((values, *members), shape=shape)
    if parts.layout is sparse_bsr:
        return scipy_sparse.bsr_array((values, *members), shape=shape)
    turned = np.ascontiguousarray(values.swapaxes(1, 2))
    return scipy_sparse.bsr_array((turned, *members), shape=shape[::-1]).T


def check_product(name: str, left: Tensor, right: Tensor) -> None:
    check(
        left.ndim == 2 and right.ndim == 2,
        f"{name}: self and mat2 must be matrices, got {left.ndim}-D and {right.ndim}-D tensors",
    )
    check(
        left.shape[1] == right.shape[0],
        f"{name}: mat1 and mat2 shapes cannot be multiplied "
        f"({left.shape[0]}x{left.shape[1]} and {right.shape[0]}x{right.shape[1]})",
    )
    check(
        left.dtype is right.dtype,
        f"{name}: expected both matrices to have the same dtype, got "
        f"{left.dtype.name} and {right.dtype.name}",
    )
    check(left.dtype.name != "bool", f"\"{name}\" not implemented for 'Bool'")


@sparse_kernel("mm", through=False)
def mm(self: Tensor, mat2: Tensor) -> Tensor:
    check_product("mm", self, mat2)
    if is_sparse(self) and is_sparse(mat2):
        return _sparse_product(self, mat2)
    if is_sparse(self):
        return rounded(to_scipy(self) @ wide(mat2), self.dtype)
    return rounded((to_scipy(mat2).T @ wide(self).T).T, self.dtype)


def _sparse_product(self: Tensor, other: Tensor) -> Tensor:
    """The product of two sparse matrices: coordinates if both are, else compressed rows."""
    product = _whole_product(to_scipy(self).tocsr(), to_scipy(other).tocsr())
    values = rounded(product.data, self.dtype)
    shape = (self.shape[0], other.shape[1])
    compressed = Compressed(sparse_csr, index_tensor(product.indptr), index_tensor(product.indices), values)
    rows = make_sparse(compressed, shape)
    if self.layout in COMPRESSED and other.layout in COMPRESSED:
        return rows
    return make_sparse(Coo(index_tensor(coordinates(rows)), values, True), shape)


def _whole_product(left: Any, right: Any) -> Any:
    """left @ right with all elements that are sums of something: SciPy leaves out those that come to zero,
    where a gradient may have to flow."""
    product = left @ right
    product.sort_indices()
    ones = [
        scipy_sparse.csr_array((np.ones(len(m.data)), m.indices, m.indptr), shape=m.shape)
        for m in (left, right)
    ]
    whole = ones[0] @ ones[1]
    if whole.nnz == product.nnz:
        return product
    whole.sort_indices()
    numbers = [
        np.repeat(np.arange(m.shape[0]), np.diff(m.indptr)) * m.shape[1] + m.indices for m in (whole, product)
    ]
    values = np.zeros(whole.nnz, product.dtype)
    values[np.searchsorted(*numbers)] = product.data
    return scipy_sparse.csr_array((values, whole.indices, whole.indptr), shape=whole.shape)


@sparse_kernel("_sparse_sparse_matmul", through=False)
def sparse_sparse_matmul(self: Tensor, other: Tensor) -> Tensor:
    check(is_sparse(self) and is_sparse(other), "_sparse_sparse_matmul: both factors must be sparse")
    check_product("_sparse_sparse_matmul", self, other)
    return _sparse_product(self, other)


@sparse_kernel("mv")
def mv(self: Tensor, vec: Tensor) -> Tensor:
    check(
        self.ndim == 2 and vec.ndim == 1,
        f"mv: two tensor dim should be 2 and 1, but got {self.ndim} and {vec.ndim}",
    )
    check(
        self.shape[1] == vec.shape[0],
        f"mv: expected self.size(-1) == vec.size(-1), but got {list(self.shape)} and {list(vec.shape)}",
    )
    return self.mm(vec.unsqueeze(1)).squeeze(1)


def plus_product(self: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * self + alpha * product, whichever of the two is sparse."""
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    start = self if beta == 1 else self * beta
    if is_sparse(start) and not is_sparse(product):
        return product + start
    if is_sparse(start) and start.layout is not product.layout:
        start = convert(start, product.layout, None, None)
    return start + product


@sparse_kernel("addmm")
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    check_product("addmm", mat1, mat2)
    size = (mat1.shape[0], mat2.shape[1])
    check(
        not is_sparse(self) or tuple(self.shape) == size,
        f"addmm: expected self to have size {list(size)}, got {list(self.shape)}",
    )
    return plus_product(self if is_sparse(self) else self.expand(size), mat1.mm(mat2), beta, alpha)


@sparse_kernel("addmv")
def addmv(self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    return plus_product(self, mat.mv(vec), beta, alpha)


@sparse_kernel("_sparse_addmm", through=False)
def sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return addmm(self.detach(), mat1.detach(), mat2.detach(), beta, alpha)


# Batches.


@sparse_kernel("bmm")
def bmm(self: Tensor, mat2: Tensor) -> Tensor:
    """A batch of sparse matrices is one matrix with blocks along its diagonal."""
    check(self.ndim == 3 and mat2.ndim == 3, "bmm: batch1 and batch2 must be 3D tensors")
    check(not is_sparse(mat2), "bmm: the second batch must be strided", NotImplementedError)
    batch, rows, inside = self.shape
    check(
        mat2.shape[0] == batch and mat2.shape[1] == inside,
        "bmm: Expected size for first two dimensions of "
        f"batch2 tensor to be: [{batch}, {inside}] but got: {list(mat2.shape[:2])}.",
    )
    source = stored(self) if self.layout is sparse_coo else convert(self, sparse_coo, None, None)
    check(source._parts.dense_dim == 0, "bmm: a sparse batch has no dense dimensions")
    places = source._parts.indices.numpy_array()
    indices = np.stack([places[0] * rows + places[1], places[0] * inside + places[2]])
    diagonal = coo(
        index_tensor(indices),
        values_of(source),
        source,
        (batch * rows, batch * inside),
        source._parts.coalesced,
    )
    return diagonal.mm(mat2.reshape(batch * inside, mat2.shape[2])).view(batch, rows, mat2.shape[2])


@sparse_kernel("baddbmm")
def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return plus_product(self, batch1.bmm(batch2), beta, alpha)


# Products at given places.


def sampled_rows(places: Tensor, mat1: Tensor, mat2: Tensor) -> tuple[Tensor, Tensor, Any, Any]:
    """For every place the row of mat1 and the column of mat2 that meet there, and where those are."""
    *batch, rows, columns = [index_tensor(row) for row in coordinates(places)]
    left, right = (*batch, rows), (*batch, columns)
    return (
        run_name("index.Tensor", mat1, left),
        run_name("index.Tensor", mat2.transpose(-2, -1), right),
        left,
        right,
    )


@sparse_kernel("sparse_sampled_addmm", through=False)
def sampled_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * self + alpha * (mat1 @ mat2) at the places of `self`."""
    name = "sampled_addmm"
    check(
        self.layout in COMPRESSED and self.layout not in BLOCKED,
        f"{name}: Expected self to have a sparse_csr or sparse_csc layout, but got {self.layout.name}",
    )
    check(not is_sparse(mat1) and not is_sparse(mat2), f"{name}: Expected mat1 and mat2 to be strided")
    check(
        mat1.ndim >= 2 and mat2.ndim >= 2,
        f"{name}: Expected mat1 and mat2 to be matrices, got {mat1.ndim}-D and {mat2.ndim}-D tensors",
    )
    check(
        mat1.dtype is mat2.dtype is self.dtype,
        f"{name}: Expected self, mat1 and mat2 to have one dtype, got "
        f"{self.dtype.name}, {mat1.dtype.name} and {mat2.dtype.name}",
    )
    check(
        mat1.shape[:-2] == mat2.shape[:-2] == self.shape[:-2] and mat1.shape[-1] == mat2.shape[-2],
        f"{name}: mat1 and mat2 shapes cannot be multiplied ({list(mat1.shape)} and {list(mat2.shape)})",
    )
    check(
        self.shape[-2] == mat1.shape[-2] and self.shape[-1] == mat2.shape[-1],
        f"{name}: self has shape "
        f"{list(self.shape)}, the product of mat1 and mat2 {[mat1.shape[-2], mat2.shape[-1]]}",
    )
    left, right, *_ = sampled_rows(self, mat1.detach(), mat2.detach())
    values = (left * right).sum(-1).view(self._parts.values.shape)
    values = values if alpha == 1 else values * alpha
    own = self._parts.values
    return put(values if beta == 0 else values + (own if beta == 1 else own * beta), self)


# Rows of products, reduced in other ways than by sums.


@sparse_kernel("_sparse_mm_reduce_impl")
def mm_reduce(self: Tensor, other: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    """Every row of the result reduces the rows of `other` that a row of `self` names, times its values.

    Second comes the place of each maximum or minimum among the values of `self`, their number for an empty
    row.
    """
    name = "sparse.mm"
    check(self.layout is sparse_csr, f"{name}: reductions need a sparse_csr matrix, got {self.layout.name}")
    check(
        not is_sparse(other) and other.ndim == 2 and self.ndim == 2,
        f"{name}: expected two matrices, the second one strided",
    )
    check(
        reduce in ("sum", "mean", "amax", "amin", "max", "min"),
        f"{name}: reduce must be sum, mean, amax or amin, got {reduce!r}",
    )
    check(
        self.shape[1] == other.shape[0],
        f"{name}: mat1 and mat2 shapes cannot be multiplied ({list(self.shape)} and {list(other.shape)})",
    )
    check(
        self.dtype is other.dtype, f"{name}: expected one dtype, got {self.dtype.name} and {other.dtype.name}"
    )
    rows, columns = block_coordinates(self)
    count, total = self.shape[0], self._parts.nnz
    row = index_tensor(rows)
    wider = self.dtype.opmath  # half types are rounded once
    products = values_of(self).to(wider).unsqueeze(1) * other.to(wider).index_select(0, index_tensor(columns))
    sizes = np.diff(self._parts.compressed.numpy_array())
    nothing = index_tensor(np.zeros(0))
    if reduce in ("sum", "mean"):
        summed = products.new_zeros((count, other.shape[1])).index_add(0, row, products)
        divisor = rounded(np.maximum(sizes, 1)[:, None], wider)
        return (summed if reduce == "sum" else summed / divisor).to(self.dtype), nothing
    chosen = _extreme_places(wide(products.detach()), rows, count, reduce)
    if total == 0:
        return other.new_zeros((count, other.shape[1])), index_tensor(chosen)
    found = products.gather(0, index_tensor(np.minimum(chosen, total - 1)))
    empty = index_tensor((sizes == 0)[:, None], np.bool_)
    return run_name("masked_fill.Scalar", found, empty, 0).to(self.dtype), index_tensor(chosen)


def _extreme_places(products: np.ndarray, rows: np.ndarray, count: int, reduce: str) -> np.ndarray:
    """For each row and column, the place of the first extreme product."""
    total = len(products)
    places = np.full((count, products.shape[1]), total, np.int64)
    if total == 0 or products.shape[1] == 0:
        return places
    starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    best = (np.maximum if reduce in ("amax", "max") else np.minimum).reduceat(products, starts, axis=0)
    run = np.cumsum(np.r_[True, rows[1:] != rows[:-1]]) - 1
    hit = (products == best[run]) | np.isnan(products)
    numbered = np.where(hit, np.arange(total)[:, None], total)
    places[rows[starts]] = np.minimum.reduceat(numbered, starts, axis=0)
    return places

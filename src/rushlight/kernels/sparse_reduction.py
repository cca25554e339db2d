"""Sums and softmax of sparse tensors. An element that is not there is zero to a sum, -inf to a softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.declare_layouts import sparse_kernel
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.shapes import wrap_dim, wrap_dims
from ..core.sparse import COMPRESSED, Coo
from ..core.tensor import Tensor
from ..core.tokens import sparse_coo, sparse_csr
from .sparse import coordinates, flat, index_tensor, is_sparse, put, rounded, settled, stored, values_of, wide
from .sparse_conversion import convert
from .sparse_pointwise import coo

# Sums.


@sparse_kernel("sum", through=False)
def sum_all(self: Tensor, dtype: Any) -> Tensor:
    """Its gradient is strided, as in PyTorch; that of `sparse.sum` has the places of `self`."""
    return self._parts.values.sum(dtype=dtype)


@sparse_kernel("sum.dim_IntList")
def sum_dims(self: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    if self.layout in COMPRESSED:
        return sum_compressed(self, dim, keepdim, dtype)
    dims = wrap_dims(dim, self.ndim, name="sum")
    if self.dtype.name == "bool" or not (self.dtype.is_floating_point or self.dtype.is_complex):
        dtype = dtype or index_tensor(np.zeros(0)).dtype
    return summed(self, dims, keepdim, dtype)


@sparse_kernel("_sparse_sum.dim", layouts=(sparse_coo,))
def sparse_sum(self: Tensor, dim: Sequence[int]) -> Tensor:
    check(len(dim) > 0, "_sparse_sum: expected at least one dim to be summed; sparse.sum(x) sums all of them")
    return summed(self, wrap_dims(dim, self.ndim, name="_sparse_sum"), False, None)


def summed(self: Tensor, dims: Sequence[int], keepdim: bool, dtype: Any) -> Tensor:
    """The sum of a tensor of coordinates over `dims`: strided if no sparse dimension is left."""
    source = stored(self)
    parts: Coo = source._parts
    values = values_of(source)
    values = values if dtype is None else values.to(dtype)
    inner = [d - parts.sparse_dim + 1 for d in dims if d >= parts.sparse_dim]
    outer = [d for d in dims if d < parts.sparse_dim]
    if inner:
        values = values.sum(inner, keepdim=keepdim)
    shape = [1 if d in dims else n for d, n in enumerate(self.shape) if keepdim or d not in dims]
    if len(outer) == parts.sparse_dim:
        total = values.sum(0)
        return total.reshape(shape) if keepdim else total
    indices = parts.indices.numpy_array().copy()
    indices[outer] = 0
    if not keepdim:
        indices = np.delete(indices, outer, axis=0)
    found = coo(index_tensor(indices), values, source, shape, not outer and parts.coalesced)
    return run_name("_coalesce", found)


@sparse_kernel("_sparse_csr_sum.dim_dtype", layouts=(sparse_csr,))
def sum_compressed(self: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    check(keepdim, "reduction operations on CSR tensors with keepdim=False is unsupported")
    dims = wrap_dims(dim, self.ndim, name="sum")
    check(self._parts.dense_dim == 0 and self.ndim == 2, "reduction operations on CSR tensors need a matrix")
    total = summed(convert(self, sparse_coo, None, None), dims, True, dtype)
    return (
        convert(total, self.layout, None, None)
        if is_sparse(total)
        else run_name("_to_sparse_csr", total, None)
    )


@sparse_kernel("_sparse_csr_prod.dim_dtype", layouts=(sparse_csr,))
def prod_compressed(self: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    """The product of the elements that are there, a row or column at a time."""
    check(keepdim, "reduction operations on CSR tensors with keepdim=False is unsupported")
    dims = wrap_dims(dim, self.ndim, name="prod")
    source = convert(self, sparse_coo, None, None)
    values = wide(source._parts.values)
    indices = source._parts.indices.numpy_array().copy()
    indices[list(dims)] = 0
    shape = tuple(1 if d in dims else n for d, n in enumerate(self.shape))
    numbers, group = np.unique(flat(indices, shape), return_inverse=True)
    total = np.ones(len(numbers), values.dtype)
    np.multiply.at(total, group, values)
    places = np.stack(np.unravel_index(numbers, shape)) if len(numbers) else np.zeros((2, 0))
    found = coo(index_tensor(places), rounded(total, dtype or self.dtype), source, shape, True)
    return convert(found, self.layout, None, None)


@sparse_kernel("_sparse_sum_backward", layouts=(sparse_coo,))
def sum_backward(grad: Tensor, self: Tensor, dim: Sequence[int]) -> Tensor:
    """The gradient of a sum at the places of `self`."""
    places = settled(self.detach())
    dims = wrap_dims(dim, self.ndim, name="_sparse_sum")
    grad = run_name("_to_dense", grad, None, None) if is_sparse(grad) else grad
    for d in sorted(dims):
        grad = grad.unsqueeze(d)
    return put(run_name("_sparse_take", grad.expand(self.shape), places), places)


@sparse_kernel("any")
def any_nonzero(self: Tensor) -> Tensor:
    return settled(self.detach())._parts.values.any()


# Softmax.


def softmax_along(self: Tensor, dim: int, *, logarithm: bool) -> Tensor:
    check(self.layout is sparse_coo, f"sparse.softmax: expected a sparse_coo tensor, got {self.layout.name}")
    source = settled(self)
    at = wrap_dim(dim, self.ndim, name="softmax")
    parts: Coo = source._parts
    values = values_of(source)
    if at >= parts.sparse_dim:
        inner = at - parts.sparse_dim + 1
        return put(values.log_softmax(inner) if logarithm else values.softmax(inner), source)
    if parts.nnz == 0:
        return source
    rest = [d for d in range(parts.sparse_dim) if d != at]
    numbers, group = np.unique(
        flat(coordinates(source)[rest], [self.shape[d] for d in rest]), return_inverse=True
    )
    group = group.reshape(-1)
    highest = np.full((len(numbers), *values.shape[1:]), -np.inf)
    np.maximum.at(highest, group, wide(values.detach()))
    which = index_tensor(group)
    shifted = values - rounded(highest[group], self.dtype)
    powers = shifted.exp()
    totals = powers.new_zeros((len(numbers), *powers.shape[1:])).index_add(0, which, powers)
    if logarithm:
        return put(shifted - totals.log().index_select(0, which), source)
    return put(powers / totals.index_select(0, which), source)


def _check_half(half_to_float: bool) -> None:
    check(not half_to_float, "softmax with half to float conversion is not supported for sparse tensors")


@sparse_kernel("_sparse_softmax")
def softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    _check_half(half_to_float)
    return softmax_along(self, dim, logarithm=False)


@sparse_kernel("_sparse_log_softmax")
def log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    _check_half(half_to_float)
    return softmax_along(self, dim, logarithm=True)

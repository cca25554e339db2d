"""Products with an addend, and of vectors, in terms of mm and bmm, for stages that fuse them.

The product is not rounded before the sum.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import Category, DType
from ..core.promotion import common
from ..core.registry import decomposition
from ..core.tensor import Tensor


def plus(self: Tensor, beta: Any, product: Tensor, alpha: Any, dtype: DType | None = None) -> Tensor:
    """beta * self + alpha * product in the dtype of `self`, or `dtype`; beta = 0 ignores `self`."""
    if self.dtype.category <= Category.INTEGRAL:
        beta, alpha = int(beta), int(alpha)
    result = product if alpha == 1 else product * alpha
    if beta != 0:
        addend = self.to(product.dtype)
        result = result + (addend if beta == 1 else addend * beta)
    return result.to(dtype or self.dtype)


def wide_mm(left: Tensor, right: Tensor) -> Tensor:
    if left.dtype.opmath is left.dtype:
        return left.mm(right)
    return run_name("mm.dtype", left, right, left.dtype.opmath)


def wide_bmm(left: Tensor, right: Tensor) -> Tensor:
    if left.dtype.opmath is left.dtype:
        return left.bmm(right)
    return run_name("bmm.dtype", left, right, left.dtype.opmath)


def unless_zero(alpha: Any, product: Tensor) -> Tensor:
    """As in BLAS, alpha = 0 gives zeros whatever the operands hold."""
    return product.new_zeros(product.shape) if alpha == 0 else product


@decomposition("addmm")
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return plus(self, beta, unless_zero(alpha, wide_mm(mat1, mat2)), alpha)


@decomposition("addmm.dtype")
def addmm_dtype(self: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: DType, beta: Any, alpha: Any) -> Tensor:
    return plus(self, beta, unless_zero(alpha, wide_mm(mat1, mat2)), alpha, out_dtype)


@decomposition("addmv")
def addmv(self: Tensor, mat: Tensor, vec: Tensor, beta: Any, alpha: Any) -> Tensor:
    return plus(self, beta, unless_zero(alpha, wide_mm(mat, vec.unsqueeze(1)).squeeze(1)), alpha)


@decomposition("baddbmm")
def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    return plus(self, beta, wide_bmm(batch1, batch2), alpha)


@decomposition("baddbmm.dtype")
def baddbmm_dtype(
    self: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: DType, beta: Any, alpha: Any
) -> Tensor:
    return plus(self, beta, wide_bmm(batch1, batch2), alpha, out_dtype)


@decomposition("addbmm")
def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, beta: Any, alpha: Any) -> Tensor:
    batch, rows, inside = batch1.shape
    left = batch1.transpose(0, 1).reshape(rows, batch * inside)
    product = wide_mm(left, batch2.reshape(batch * inside, batch2.shape[2]))
    return plus(self, beta, unless_zero(alpha, product), alpha)


@decomposition("addr")
def addr(self: Tensor, vec1: Tensor, vec2: Tensor, beta: Any, alpha: Any) -> Tensor:
    dtype = common([(t.dtype, t.ndim == 0) for t in (self, vec1, vec2)])
    outer = vec1.to(dtype.opmath).unsqueeze(1) * vec2.to(dtype.opmath)
    if dtype.category is Category.BOOL:
        product = outer if alpha else outer.new_zeros(outer.shape)
        return self.logical_or(product) if beta else product
    return plus(self.to(dtype), beta, outer, alpha)


@decomposition("mv")
def mv(self: Tensor, vec: Tensor) -> Tensor:
    return self.mm(vec.unsqueeze(1)).squeeze(1)


@decomposition("dot")
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    compute = self.dtype.opmath
    return (self.to(compute) * tensor.to(compute)).sum(dtype=compute).to(self.dtype)


@decomposition("vdot")
def vdot(self: Tensor, other: Tensor) -> Tensor:
    return dot(self.conj(), other)


@decomposition("linalg_cross")
def linalg_cross(self: Tensor, other: Tensor, dim: int) -> Tensor:
    """c[i] = a[i+1] b[i+2] - a[i+2] b[i+1], indices modulo 3."""
    compute = self.dtype.opmath
    (a1, a2), (b1, b2) = ((t.to(compute).roll(-1, dim), t.to(compute).roll(-2, dim)) for t in (self, other))
    return (a1 * b2 - a2 * b1).to(self.dtype)

"""Derivatives of sums, products, variances, norms and truth values over dimensions.

Extremes and order statistics are in reduction_extremes.py, histograms and segments in reduction_counts.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.data_sizes import is_data, shorter
from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.shapes import Shape, numel, wrap_dims
from ..core.tensor import Tensor
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative
from .helpers import conj, restore_dims
from .scan import products_of_others

Dims = Sequence[int] | int | None


def count(shape: Shape, dim: Dims) -> int:
    """How many elements each result is made of."""
    return numel([shape[d] for d in wrap_dims(dim, len(shape))]) if shape else 1


def contract(gradient: Tensor, tangent: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """The tangent of a reduction: the inner product of its gradient with the tangent of its input."""
    dims = wrap_dims(dim, tangent.ndim) if tangent.ndim else ()
    return run_name("sum.dim_IntList", conj(gradient) * tangent, dims, keepdim, None)


def real_part(value: Tensor) -> Tensor:
    return value.real if value.dtype.is_complex else value


def cast(value: Tensor, dtype: DType | None) -> Tensor:
    return value if dtype is None else value.to(dtype)


# Sums.

def sum_backward(grad: Tensor, self_shape: Shape, dim: Dims, keepdim: bool) -> Tensor:
    return restore_dims(grad, dim, keepdim, len(self_shape)).expand(self_shape)


def mean_backward(grad: Tensor, self_shape: Shape, dim: Dims, keepdim: bool) -> Tensor:
    return sum_backward(grad / max(count(self_shape, dim), 1), self_shape, dim, keepdim)


derivative("sum", self=lambda grad, self_shape: grad.expand(self_shape), result=AUTO_LINEAR)
derivative("sum.dim_IntList", self=sum_backward, result=AUTO_LINEAR)
derivative("nansum",
           self=lambda grad, self, dim, keepdim:
               sum_backward(grad, self.shape, dim, keepdim).masked_fill(self.isnan(), 0),
           result=lambda self_t, self, dim, keepdim, dtype:
               run_name("sum.dim_IntList", self_t.masked_fill(self.isnan(), 0), dim, keepdim, dtype))
derivative("mean", self=lambda grad, self_shape: mean_backward(grad, self_shape, None, False),
           result=AUTO_LINEAR)
derivative("mean.dim", self=mean_backward, result=AUTO_LINEAR)


def trace_backward(grad: Tensor, self_shape: Shape) -> Tensor:
    """`grad` on the diagonal."""
    return run_name("diagonal_scatter", grad.new_zeros(self_shape), grad.expand(shorter(*self_shape)), 0, 0, 1)


derivative("trace", self=trace_backward, result=AUTO_LINEAR)


# Products: the derivative by a factor is the product of the others, which division would get wrong at zeros.

def prod_backward(grad: Tensor, self: Tensor, dtype: DType | None) -> Tensor:
    others = products_of_others(cast(self, dtype).reshape(-1), 0)
    return (grad * conj(others)).reshape(self.shape)


def prod_dim_backward(grad: Tensor, self: Tensor, dim: int, keepdim: bool, dtype: DType | None) -> Tensor:
    return restore_dims(grad, dim, keepdim, self.ndim) * conj(products_of_others(cast(self, dtype), dim))


derivative("prod",
           self=prod_backward,
           result=lambda self_t, self, dtype:
               (self_t.reshape(-1) * products_of_others(cast(self, dtype).reshape(-1), 0)).sum())
derivative("prod.dim_int",
           self=prod_dim_backward,
           result=lambda self_t, self, dim, keepdim, dtype:
               contract(conj(products_of_others(cast(self, dtype), dim)), self_t, dim, keepdim))


# Variances.

def var_gradient(self: Tensor, mean: Tensor, dim: Dims, correction: Any) -> Tensor:
    """The gradient of each variance. Where there are no degrees of freedom the variance is infinite: so is
    its gradient over all elements, as PyTorch has it, but for elements that are the mean, which have none."""
    freedom = count(self.shape, dim) - (1 if correction is None else correction)
    away = self - mean
    if is_data(freedom):  # it is negative only of no elements, which have no gradient
        return away * (2 / away.new_full((), freedom))
    if freedom > 0 or dim is not None:
        return away * (2 / freedom if freedom else math.inf)
    return (away * 0).masked_fill(away == 0, math.nan).masked_fill(away != 0, math.inf)


def centre(self: Tensor, dim: Dims) -> Tensor:
    return run_name("mean.dim", self, dim, True, None)


def per_deviation(grad: Tensor, std: Tensor) -> Tensor:
    """`grad` of a deviation as that of the variance; a deviation of zero passes none."""
    flat = std == 0
    return grad.masked_fill(flat, 0) / (2 * std.masked_fill(flat, 1))


def var_backward(grad: Tensor, self: Tensor, dim: Dims, correction: Any, keepdim: bool) -> Tensor:
    return restore_dims(grad, dim, keepdim, self.ndim) * var_gradient(self, centre(self, dim), dim,
                                                                      correction)


def var_tangent(self_t: Tensor, self: Tensor, dim: Dims, correction: Any, keepdim: bool) -> Tensor:
    return real_part(contract(var_gradient(self, centre(self, dim), dim, correction), self_t, dim, keepdim))


def with_mean_backward(grads: Sequence[Tensor | None], self: Tensor, dim: Dims, correction: Any,
                       keepdim: bool, std: Tensor | None, mean: Tensor) -> Tensor | None:
    """The gradient of (variance, mean), or of (deviation, mean) where `std` is given."""
    spread, middle = grads
    total = None if middle is None else mean_backward(middle, self.shape, dim, keepdim)
    if spread is None:
        return total
    spread = restore_dims(spread if std is None else per_deviation(spread, std), dim, keepdim, self.ndim)
    gradient = spread * var_gradient(self, restore_dims(mean, dim, keepdim, self.ndim), dim, correction)
    return gradient if total is None else gradient + total


def mean_tangent(self_t: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    return run_name("mean.dim", self_t, dim, keepdim, None)


derivative("var.correction", self=var_backward, result=var_tangent)
derivative("std.correction",
           self=lambda grad, self, dim, correction, keepdim, result:
               var_backward(per_deviation(grad, result), self, dim, correction, keepdim),
           result=lambda self_t, self, dim, correction, keepdim, result:
               per_deviation(var_tangent(self_t, self, dim, correction, keepdim), result))
derivative("var_mean.correction",
           self=lambda grads, self, dim, correction, keepdim, result1:
               with_mean_backward(grads, self, dim, correction, keepdim, None, result1),
           result0=var_tangent,
           result1=mean_tangent)
derivative("std_mean.correction",
           self=lambda grads, self, dim, correction, keepdim, result0, result1:
               with_mean_backward(grads, self, dim, correction, keepdim, result0, result1),
           result0=lambda self_t, self, dim, correction, keepdim, result0:
               per_deviation(var_tangent(self_t, self, dim, correction, keepdim), result0),
           result1=mean_tangent)


# Truth values and counts.

derivative(["any", "any.dim", "any.dims", "all", "all.dim", "all.dims", "count_nonzero",
            "count_nonzero.dim_IntList", "hash_tensor"], NOT_DIFFERENTIABLE)


# Exponentials and norms.

def logsumexp_gradient(self: Tensor, dim: Dims, keepdim: bool, result: Tensor) -> Tensor:
    return conj((self - restore_dims(result, dim, keepdim, self.ndim)).exp())


derivative("logsumexp",
           self=lambda grad, self, dim, keepdim, result:
               restore_dims(grad, dim, keepdim, self.ndim) * logsumexp_gradient(self, dim, keepdim, result),
           result=lambda self_t, self, dim, keepdim, result:
               contract(logsumexp_gradient(self, dim, keepdim, result), self_t, dim, keepdim))


def vector_norm_backward(grad: Tensor, self: Tensor, ord: Any, dim: Dims, keepdim: bool, dtype: DType | None,
                         result: Tensor) -> Tensor | None:
    """The gradient of a norm; zero where the norm is zero, and for elements that are zero.

    Divisors and bases of powers are never zero, so that no NaN leaks into derivatives of this formula.
    """
    if ord == 0:
        return None
    x = cast(self, dtype)
    grad, norm = (restore_dims(value, dim, keepdim, self.ndim) for value in (grad, result))
    if ord == 1:
        return grad * x.sgn()
    if math.isinf(ord):
        size = x.abs()
        attained = (size == norm) | size.isnan()
        dims = wrap_dims(dim, self.ndim) if self.ndim else ()
        shared = grad / attained.sum(dims, keepdim=True)
        return (shared * x.sgn()).masked_fill(attained.logical_not(), 0)
    null = norm == 0
    grad, norm = grad.masked_fill(null, 0), norm.masked_fill(null, 1)
    if ord == 2:
        return x * (grad / norm)
    size = x.abs().masked_fill(x == 0, 1)
    return grad * (x.sgn() * (size / norm).pow(ord - 1))


def vector_norm_tangent(self_t: Tensor, self: Tensor, ord: Any, dim: Dims, keepdim: bool,
                        dtype: DType | None, result: Tensor) -> Tensor:
    ones = result.new_ones(result.shape)
    gradient = vector_norm_backward(ones, self, ord, dim, keepdim, dtype, result)
    if gradient is None:
        return result.new_zeros(result.shape)
    return real_part(contract(gradient, self_t, dim, keepdim))


derivative("linalg_vector_norm", self=vector_norm_backward, result=vector_norm_tangent)

"""Derivatives of sorting and of unique values: the gradient goes to the elements that were selected."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.shapes import Shape
from ..core.tensor import Tensor
from .declare import NOT_DIFFERENTIABLE, derivative
from .reduction_extremes import selected_backward, selected_tangent

# Order along a dimension.

derivative(["sort.stable", "topk"],
           self=lambda grad, self_shape, dim, indices:
               selected_backward(grad, self_shape, dim, True, indices),
           result0=lambda self_t, dim, indices: selected_tangent(self_t, dim, True, indices))
derivative("kthvalue", self=selected_backward, result0=selected_tangent)


# Unique values: elements (slices) that became one share its gradient equally.

def merged_backward(grad: Tensor, inverse: Tensor, dim: int) -> Tensor:
    """`inverse` tells for each slice along `dim` which slice of the result it became."""
    counts = grad.new_zeros((grad.shape[dim],)).index_add(0, inverse, inverse.to(grad.dtype) * 0 + 1)
    shape = [-1 if d == dim % grad.ndim else 1 for d in range(grad.ndim)]
    return (grad / counts.reshape(shape)).index_select(dim, inverse)


def merged_values_backward(grad: Tensor, inverse: Tensor, self_shape: Shape) -> Tensor:
    return merged_backward(grad, inverse.reshape(-1), 0).reshape(self_shape)


derivative("_unique", self=lambda grad, self: merged_values_backward(
    grad, run_name("_unique", self, True, True)[1], self.shape))
derivative("_unique2", self=lambda grad, self: merged_values_backward(
    grad, run_name("_unique2", self, True, True, False)[1], self.shape))
derivative("unique_dim", self=lambda grad, self, dim: merged_backward(
    grad, run_name("unique_dim", self, dim, True, True, False)[1], dim))
derivative("unique_dim_consecutive", self=lambda grad, self, dim: merged_backward(
    grad, run_name("unique_dim_consecutive", self, dim, True, False)[1], dim))


def unique_consecutive_backward(grad: Tensor, self: Tensor, dim: int | None) -> Tensor:
    inverse = run_name("unique_consecutive", self, True, False, dim)[1]
    if dim is None:
        return merged_values_backward(grad, inverse, self.shape)
    return merged_backward(grad, inverse, dim)


derivative("unique_consecutive", self=unique_consecutive_backward)


# Searching.

derivative(["searchsorted.Tensor", "searchsorted.Scalar", "bucketize.Tensor", "bucketize.Scalar",
            "isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor"], NOT_DIFFERENTIABLE)

"""Derivatives of softmax and its relatives.

The Jacobian of softmax is symmetric, so reverse and forward mode are the same formula.
"""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.tensor import Tensor
from .declare import derivative


def row_sum(x: Tensor, dim: int) -> Tensor:
    return x.sum(dim, keepdim=True)


def softmax_backward(grad: Tensor, result: Tensor, dim: int, dtype: DType) -> Tensor:
    return run_name("_softmax_backward_data", grad, result, dim, dtype)


# The result of _safe_softmax is all its derivative needs: no NaN comes from a row that is zero as a whole.
derivative(["_softmax", "_safe_softmax"],
           self=lambda grad, result, dim, self_dtype: softmax_backward(grad, result, dim, self_dtype),
           result=lambda self_t, result, dim: softmax_backward(self_t, result, dim, result.dtype))
derivative("_softmax_backward_data",
           grad_output=lambda grad, output, dim, grad_output_dtype:
               softmax_backward(grad, output, dim, grad_output_dtype),
           output=lambda grad, grad_output, output, dim:
               grad * (grad_output - row_sum(grad_output * output, dim))
               - grad_output * row_sum(grad * output, dim))
derivative("_log_softmax",
           self=lambda grad, result, dim, self_dtype:
               run_name("_log_softmax_backward_data", grad, result, dim, self_dtype),
           result=lambda self_t, result, dim: self_t - row_sum(result.exp() * self_t, dim))
derivative("_log_softmax_backward_data",
           grad_output=lambda grad, output, dim: grad - row_sum(grad * output.exp(), dim),
           output=lambda grad, grad_output, output, dim:
               -grad * output.exp() * row_sum(grad_output, dim))

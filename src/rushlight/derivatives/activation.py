"""Derivatives of softmax and its relatives.

The Jacobian of softmax is symmetric, so reverse and forward mode are the same formula.
"""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.tensor import Tensor
from ..decompositions.activation import halves
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


# The gated linear unit.

derivative("glu",
           self=lambda grad, self, dim: run_name("glu_backward", grad, self, dim),
           result=lambda self_t, self_p, result, dim: run_name("glu_jvp", result, self_p, self_t, dim))
derivative("glu_backward",
           grad_output=lambda grad, self, dim: glu_backward_transposed(grad, self, dim),
           self=lambda grad, grad_output, self, dim: glu_backward_bend(grad, grad_output, self, dim),
           result=lambda grad_output_t, grad_output_p, self_t, self_p, result, dim:
               run_name("glu_backward_jvp", result, grad_output_p, self_p, grad_output_t, self_t, dim))


def glu_backward_transposed(grad: Tensor, self: Tensor, dim: int) -> Tensor:
    (value, gate), (to_value, to_gate) = halves(self, dim), halves(grad, dim)
    open_ = gate.sigmoid()
    return to_value * open_ + run_name("sigmoid_backward", to_gate * value, open_)


def glu_backward_bend(grad: Tensor, grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    (value, gate), (to_value, to_gate) = halves(self, dim), halves(grad, dim)
    open_ = gate.sigmoid()
    slope = grad_output * open_ * (1 - open_)
    return run_name("cat", (to_gate * slope, (to_value + to_gate * value * (1 - open_ * 2)) * slope), dim)

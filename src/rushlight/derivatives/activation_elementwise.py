"""Derivatives of the elementwise activations and of their backward operators.

The second derivatives are written out, so that differentiating twice costs one pass and loses no digits to
the cancellation of nearly equal terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..ops.activation_elementwise import TANH_CUBE, TANH_SCALE
from .declare import AUTO_ELEMENTWISE, NOT_DIFFERENTIABLE, derivative
from .helpers import conj
from .pointwise import drop, keep, zero

INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)

# Rectifiers.

derivative("threshold",
           self=lambda grad, self, threshold: run_name("threshold_backward", grad, self, threshold),
           result=AUTO_ELEMENTWISE)
derivative("threshold_backward",
           grad_output=lambda grad, self, threshold: run_name("threshold_backward", grad, self, threshold),
           self=zero,
           result=AUTO_ELEMENTWISE)
derivative("leaky_relu",
           self=lambda grad, self, negative_slope:
               run_name("leaky_relu_backward", grad, self, negative_slope, False),
           result=AUTO_ELEMENTWISE)
derivative("leaky_relu_backward",
           grad_output=lambda grad, self, negative_slope:
               run_name("leaky_relu_backward", grad, self, negative_slope, False),
           self=zero,
           result=AUTO_ELEMENTWISE)
derivative("_prelu_kernel", ("self", "weight"),
           lambda grad, self, weight: run_name("_prelu_kernel_backward", grad, self, weight),
           result=lambda self_t, self_p, weight_t, weight_p:
               run_name("where.self", self_p > 0, self_t, weight_p * self_t + weight_t * self_p))
derivative("_prelu_kernel_backward", ("grad_output", "self", "weight"),
           lambda grads, grad_output, self, weight: prelu_backward_backward(grads, grad_output, self, weight),
           result=lambda grad_output_t, grad_output_p, self_t, self_p, weight_t, weight_p: (
               run_name("where.self", self_p > 0, grad_output_t,
                        grad_output_t * weight_p + grad_output_p * weight_t),
               drop(self_p > 0, grad_output_t * self_p + grad_output_p * self_t)))


def prelu_backward_backward(grads: Any, grad_output: Tensor, self: Tensor, weight: Tensor) -> tuple[Any, ...]:
    to_self, to_weight = (zero(grad_output) if grad is None else grad for grad in grads)
    straight = self >= 0  # at 0 the second derivative is that of the right side, as in PyTorch
    return (run_name("where.self", straight, to_self, to_self * weight + to_weight * self),
            drop(straight, to_weight * grad_output), drop(straight, to_self * grad_output))


def elu_backward(grad: Tensor, x: Tensor, alpha: Any, scale: Any, input_scale: Any,
                 is_result: bool = False) -> Tensor:
    return run_name("elu_backward", grad, alpha, scale, input_scale, is_result, x)


def elu_bend(grad: Tensor, x: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool) -> Tensor:
    """`grad` times how the slope changes with x, which is 0 on the straight side."""
    bent = grad * input_scale
    return keep(x < 0, bent if is_result else elu_backward(bent, x, alpha, scale, input_scale))


derivative("elu",
           self=lambda grad, self, alpha, scale, input_scale:
               elu_backward(grad, self, alpha, scale, input_scale),
           result=AUTO_ELEMENTWISE)
derivative("elu_backward",
           grad_output=lambda grad, self_or_result, alpha, scale, input_scale, is_result:
               elu_backward(grad, self_or_result, alpha, scale, input_scale, is_result),
           self_or_result=lambda grad, grad_output, self_or_result, alpha, scale, input_scale, is_result:
               elu_bend(grad * grad_output, self_or_result, alpha, scale, input_scale, is_result),
           result=AUTO_ELEMENTWISE)
derivative("rrelu_with_noise_backward",
           grad_output=lambda grad, self, noise, lower, upper, training:
               run_name("rrelu_with_noise_backward", grad, self, noise, lower, upper, training, False),
           self=zero, noise=NOT_DIFFERENTIABLE, result=AUTO_ELEMENTWISE)


# Pieces of straight lines: the slopes are constant, except that of hardswish.

def _declare_flat(name: str, formula: Callable[..., Tensor], grad_name: str = "grad_output") -> None:
    """`name` and its backward operator, both linear on each side of the kinks: one formula serves them."""
    derivative(name, self=formula, result=AUTO_ELEMENTWISE)
    formulas: dict[str, Any] = {grad_name: formula, "self": zero}
    derivative(f"{name}_backward", **formulas, result=AUTO_ELEMENTWISE)


_declare_flat("hardsigmoid", lambda grad, self: run_name("hardsigmoid_backward", grad, self))
_declare_flat("hardtanh", lambda grad, self, min_val, max_val:
              run_name("hardtanh_backward", grad, self, min_val, max_val))
_declare_flat("softshrink", lambda grad, self, lambd: run_name("softshrink_backward", grad, self, lambd))
_declare_flat("hardshrink", lambda grad, self, lambd: run_name("hardshrink_backward", grad, self, lambd),
              "grad_out")

derivative("hardswish", self=lambda grad, self: run_name("hardswish_backward", grad, self),
           result=AUTO_ELEMENTWISE)
derivative("hardswish_backward",
           grad_output=lambda grad, self: run_name("hardswish_backward", grad, self),
           self=lambda grad, grad_output, self: keep(self.abs() < 3, grad * grad_output / 3),
           result=AUTO_ELEMENTWISE)


# Smooth activations.

def gelu_curvature(x: Tensor, approximate: str) -> Tensor:
    """The second derivative of gelu."""
    if approximate == "none":
        return (x * x * -0.5).exp() * (2 - x * x) * INV_SQRT_2PI
    square = x * x
    t = ((square * TANH_CUBE + 1) * x * TANH_SCALE).tanh()
    slope = (square * (3 * TANH_CUBE) + 1) * TANH_SCALE
    bend = x * (6 * TANH_CUBE * TANH_SCALE)
    return (1 - t * t) * (slope + x * (bend - t * slope * slope * 2) * 0.5)


derivative("gelu",
           self=lambda grad, self, approximate: run_name("gelu_backward", grad, self, approximate),
           result=AUTO_ELEMENTWISE)
derivative("gelu_backward",
           grad_output=lambda grad, self, approximate: run_name("gelu_backward", grad, self, approximate),
           self=lambda grad, grad_output, self, approximate:
               grad * grad_output * gelu_curvature(self, approximate),
           result=AUTO_ELEMENTWISE)


def silu_slope(grad: Tensor, x: Tensor) -> Tensor:
    if not x.dtype.is_complex:
        return run_name("silu_backward", grad, x)
    gate = x.sigmoid()
    return grad * conj(gate * (x * (1 - gate) + 1))


def silu_curvature(x: Tensor) -> Tensor:
    gate = x.sigmoid()
    return gate * (1 - gate) * (x * (1 - gate * 2) + 2)


def mish_curvature(x: Tensor) -> Tensor:
    gate, t = x.sigmoid(), softplus(x).tanh()
    return (1 - t * t) * gate * (x * (1 - gate - t * gate * 2) + 2)


def softplus(x: Tensor) -> Tensor:
    return -run_name("log_sigmoid_forward", -x)[0]


derivative("silu", self=lambda grad, self: silu_slope(grad, self), result=AUTO_ELEMENTWISE)
derivative("silu_backward",
           grad_output=lambda grad, self: run_name("silu_backward", grad, self),
           self=lambda grad, grad_output, self: grad * grad_output * silu_curvature(self),
           result=AUTO_ELEMENTWISE)
derivative("mish", self=lambda grad, self: run_name("mish_backward", grad, self), result=AUTO_ELEMENTWISE)
derivative("mish_backward",
           grad_output=lambda grad, self: run_name("mish_backward", grad, self),
           self=lambda grad, grad_output, self: grad * grad_output * mish_curvature(self),
           result=AUTO_ELEMENTWISE)
derivative("softplus",
           self=lambda grad, self, beta, threshold:
               run_name("softplus_backward", grad, self, beta, threshold),
           result=AUTO_ELEMENTWISE)
derivative("softplus_backward",
           grad_output=lambda grad, self, beta, threshold:
               run_name("softplus_backward", grad, self, beta, threshold),
           self=lambda grad, grad_output, self, beta, threshold:
               softplus_bend(grad * grad_output, self * beta, beta, threshold),
           result=AUTO_ELEMENTWISE)


def softplus_bend(grad: Tensor, scaled: Tensor, beta: Any, threshold: Any) -> Tensor:
    return drop(scaled >= threshold, run_name("sigmoid_backward", grad * beta, scaled.sigmoid()))


# The second output is a by-product for the backward pass and has no derivative of its own.
derivative("log_sigmoid_forward",
           self=lambda grad0, self, result1: run_name("log_sigmoid_backward", grad0, self, result1),
           differentiable_outputs=(0,),
           result0=lambda self_t, self_p, result1:
               run_name("log_sigmoid_backward", self_t, self_p, result1),
           result1=lambda self_t: None)
derivative("log_sigmoid_backward",
           grad_output=lambda grad, self, buffer: run_name("log_sigmoid_backward", grad, self, buffer),
           self=lambda grad, grad_output, self:
               run_name("sigmoid_backward", -grad * grad_output, self.sigmoid()),
           buffer=NOT_DIFFERENTIABLE, result=AUTO_ELEMENTWISE)

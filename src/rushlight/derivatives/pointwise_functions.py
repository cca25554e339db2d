"""Derivatives of exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import AUTO_ELEMENTWISE, derivative
from .helpers import conj
from .pointwise import around_zero, drop, power_series, replaced

LN2, LN10 = math.log(2), math.log(10)


# Exponentials and logarithms.

derivative("exp", self=lambda grad, result: grad * conj(result), result=AUTO_ELEMENTWISE)
derivative("exp2", self=lambda grad, result: grad * conj(result * LN2), result=AUTO_ELEMENTWISE)
derivative("expm1", self=lambda grad, result: grad * conj(result + 1), result=AUTO_ELEMENTWISE)
derivative("log", self=lambda grad, self: grad / conj(self), result=AUTO_ELEMENTWISE)
derivative("log2", self=lambda grad, self: grad / conj(self * LN2), result=AUTO_ELEMENTWISE)
derivative("log10", self=lambda grad, self: grad / conj(self * LN10), result=AUTO_ELEMENTWISE)
derivative("log1p", self=lambda grad, self: grad / conj(self + 1), result=AUTO_ELEMENTWISE)
derivative("logaddexp",
           self=lambda grad, self, other: grad * conj((self - other).sigmoid()),
           other=lambda grad, self, other: grad * conj((other - self).sigmoid()),
           result=AUTO_ELEMENTWISE)
derivative("logaddexp2",
           self=lambda grad, self, other: grad * ((self - other) * LN2).sigmoid(),
           other=lambda grad, self, other: grad * ((other - self) * LN2).sigmoid(),
           result=AUTO_ELEMENTWISE)


def xlogy_self(grad: Tensor, self: Any, other: Any) -> Tensor:
    """grad * log(other), and 0 for 0 * log 0, whose slope is infinite."""
    if isinstance(other, Tensor):
        slope = run_name("xlogy.Tensor", grad, other)
    else:
        slope = run_name("xlogy.Scalar_Other", grad, other)
    return drop((self == 0) & (other <= 0), slope)


derivative(["xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"],
           self=xlogy_self,
           other=lambda grad, self, other: grad * self / other,
           result=AUTO_ELEMENTWISE)


# The logistic function and its inverse.

def sigmoid_backward(grad: Tensor, output: Tensor) -> Tensor:
    return run_name("sigmoid_backward", grad, output)


def tanh_backward(grad: Tensor, output: Tensor) -> Tensor:
    return run_name("tanh_backward", grad, output)


def logit_backward(grad: Tensor, self: Tensor, eps: float | None) -> Tensor:
    return run_name("logit_backward", grad, self, eps)


derivative("sigmoid", self=lambda grad, result: sigmoid_backward(grad, result), result=AUTO_ELEMENTWISE)
derivative("sigmoid_backward",  # depends on output by way of its conjugate
           grad_output=lambda grad, output: grad * (output * (1 - output)),
           output=lambda grad, grad_output, output: conj(grad) * grad_output * conj(1 - 2 * output),
           result=lambda grad_output_t, output_t, grad_output, output:
               sigmoid_backward(grad_output_t, output) + grad_output * conj(output_t * (1 - 2 * output)))
derivative("logit", self=logit_backward, result=AUTO_ELEMENTWISE)
derivative("logit_backward",
           grad_output=lambda grad, self, eps: logit_backward(grad, self, eps),
           self=lambda grad, grad_output, self, eps:
               grad * (2 * self - 1) * logit_backward(logit_backward(grad_output, self, eps), self, eps),
           result=AUTO_ELEMENTWISE)


# Trigonometric and hyperbolic functions. Near the ends of (-1, 1), (1 - x) * (1 + x) is exact, 1 - x * x not.

derivative("sin", self=lambda grad, self: grad * conj(self.cos()), result=AUTO_ELEMENTWISE)
derivative("cos", self=lambda grad, self: -grad * conj(self.sin()), result=AUTO_ELEMENTWISE)
derivative("tan", self=lambda grad, result: grad * conj(1 + result * result), result=AUTO_ELEMENTWISE)
derivative("asin", self=lambda grad, self: grad * conj(((1 - self) * (1 + self)).rsqrt()),
           result=AUTO_ELEMENTWISE)
derivative("acos", self=lambda grad, self: -grad * conj(((1 - self) * (1 + self)).rsqrt()),
           result=AUTO_ELEMENTWISE)
derivative("atan", self=lambda grad, self: grad / conj(1 + self * self), result=AUTO_ELEMENTWISE)
derivative("sinh", self=lambda grad, self: grad * conj(self.cosh()), result=AUTO_ELEMENTWISE)
derivative("cosh", self=lambda grad, self: grad * conj(self.sinh()), result=AUTO_ELEMENTWISE)
derivative("tanh", self=lambda grad, result: tanh_backward(grad, result), result=AUTO_ELEMENTWISE)
derivative("tanh_backward",
           grad_output=lambda grad, output: grad * (1 - output * output),
           output=lambda grad, grad_output, output: conj(grad) * grad_output * conj(-2 * output),
           result=lambda grad_output_t, output_t, grad_output, output:
               tanh_backward(grad_output_t, output) + grad_output * conj(output_t * output * -2))
derivative("asinh", self=lambda grad, self: grad * conj((1 + self * self).rsqrt()), result=AUTO_ELEMENTWISE)
derivative("acosh", self=lambda grad, self: grad * conj((self - 1).rsqrt() * (self + 1).rsqrt()),
           result=AUTO_ELEMENTWISE)
derivative("atanh", self=lambda grad, self: grad / conj((1 - self) * (1 + self)), result=AUTO_ELEMENTWISE)


def atan2_slope(grad: Tensor, along: Tensor, across: Tensor) -> Tensor:
    """grad * along / (along**2 + across**2), and 0 at the origin."""
    square = along * along + across * across
    origin = square == 0
    return grad * drop(origin, along / replaced(origin, square, 1))


derivative("atan2",
           self=lambda grad, self, other: atan2_slope(grad, other, self),
           other=lambda grad, self, other: -atan2_slope(grad, self, other),
           result=AUTO_ELEMENTWISE)
derivative("deg2rad", self=lambda grad: grad * (math.pi / 180), result=AUTO_ELEMENTWISE)
derivative("rad2deg", self=lambda grad: grad * (180 / math.pi), result=AUTO_ELEMENTWISE)

# Of sin(u) / u: the derivative over u, in powers of u**2.
SINC_SLOPE = [(-1) ** (k + 1) * (2 * k + 2) / math.factorial(2 * k + 3) for k in range(7)]


def sinc_slope(self: Tensor) -> Tensor:
    """(cos(u) - sin(u) / u) / self for u = pi * self, which cancels around 0."""
    return around_zero(self, 0.1,
                       lambda x: x * math.pi**2 * power_series(x * math.pi, SINC_SLOPE),
                       lambda x: ((x * math.pi).cos() - x.sinc()) / x)


derivative("sinc", self=lambda grad, self: grad * conj(sinc_slope(self)), result=AUTO_ELEMENTWISE)

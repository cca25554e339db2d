"""Derivatives of elementwise arithmetic.

Ties and singular points are PyTorch's: equal operands of a maximum share its gradient, the bounds of a clamp
belong to its inside, abs and relu have slope 0 at 0.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import AUTO_ELEMENTWISE, AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative
from .helpers import conj
from .pointwise import drop, keep, real_part, replaced, zero


def scaled(grad: Tensor, factor: Any) -> Tensor:
    return grad if type(factor) in (int, float) and factor == 1 else grad * conj(factor)


# Sums and differences.

derivative("add.Tensor",
           self=lambda grad: grad,
           other=lambda grad, alpha: scaled(grad, alpha),
           result=AUTO_ELEMENTWISE)
derivative("add.Scalar", self=lambda grad: grad, result=AUTO_ELEMENTWISE)
derivative(["sub.Tensor", "sub.Scalar"],
           self=lambda grad: grad,
           other=lambda grad, alpha: -scaled(grad, alpha),
           result=AUTO_ELEMENTWISE)
derivative(["rsub.Tensor", "rsub.Scalar"],
           self=lambda grad, alpha: -scaled(grad, alpha),
           other=lambda grad: grad,
           result=AUTO_ELEMENTWISE)
derivative("neg", self=lambda grad: -grad, result=AUTO_LINEAR)


# Products and quotients.

derivative(["mul.Tensor", "mul.Scalar"],
           self=lambda grad, other: grad * conj(other),
           other=lambda grad, self: grad * conj(self),
           result=AUTO_ELEMENTWISE)
derivative(["div.Tensor", "div.Scalar"],
           self=lambda grad, other: grad / conj(other),
           other=lambda grad, self, other: -grad * conj(self / other / other),
           result=AUTO_ELEMENTWISE)
derivative(["div.Tensor_mode", "div.Scalar_mode"],
           self=lambda grad, other, rounding_mode: zero(grad) if rounding_mode else grad / conj(other),
           other=lambda grad, self, other, rounding_mode:
               zero(grad) if rounding_mode else -grad * conj(self / other / other),
           result=AUTO_ELEMENTWISE)
derivative(["floor_divide", "floor_divide.Scalar"], self=zero, other=zero, result=AUTO_ELEMENTWISE)
derivative("reciprocal", self=lambda grad, result: -grad * conj(result * result), result=AUTO_ELEMENTWISE)


def quotient(self: Any, other: Tensor, rounding_mode: str) -> Tensor:
    if not isinstance(self, Tensor):
        self = run_name("full_like", other, self, None, None, None, None, None)
    return run_name("div.Tensor_mode", self, other, rounding_mode)


derivative(["fmod.Scalar", "fmod.Tensor"],
           self=lambda grad: grad,
           other=lambda grad, self, other: -grad * quotient(self, other, "trunc"),
           result=AUTO_ELEMENTWISE)
derivative(["remainder.Scalar", "remainder.Tensor", "remainder.Scalar_Tensor"],
           self=lambda grad: grad,
           other=lambda grad, self, other: -grad * quotient(self, other, "floor"),
           result=AUTO_ELEMENTWISE)

derivative("addcmul",
           self=lambda grad: grad,
           tensor1=lambda grad, tensor2, value: scaled(grad * conj(tensor2), value),
           tensor2=lambda grad, tensor1, value: scaled(grad * conj(tensor1), value),
           result=AUTO_ELEMENTWISE)
derivative("addcdiv",
           self=lambda grad: grad,
           tensor1=lambda grad, tensor2, value: scaled(grad / conj(tensor2), value),
           tensor2=lambda grad, tensor1, tensor2, value:
               -scaled(grad * conj(tensor1 / tensor2 / tensor2), value),
           result=AUTO_ELEMENTWISE)
derivative(["lerp.Scalar", "lerp.Tensor"],
           self=lambda grad, weight: grad * conj(1 - weight),
           end=lambda grad, weight: grad * conj(weight),
           weight=lambda grad, self, end: grad * conj(end - self),
           result=AUTO_ELEMENTWISE)


# Powers and roots.

def power_slope(self: Tensor, exponent: Any) -> Tensor:
    """d self**exponent / d self, which is 0 for the exponent 0 even where the base is 0 or NaN."""
    if isinstance(exponent, Tensor):
        singular = (exponent == 0) & ((self == 0) | self.isnan())
        return exponent * replaced(singular, self, 1).pow(exponent - 1)
    if exponent == 2:
        return self * 2
    return self.pow(exponent - 1) * exponent


def power_by_number(grad: Tensor, self: Tensor, exponent: Any) -> Tensor:
    return zero(grad) if exponent == 0 else grad * conj(power_slope(self, exponent))


def not_negative(exponent: Tensor) -> Tensor:
    return real_part(exponent) >= 0


def exponent_slope(self: Tensor, exponent: Tensor, result: Tensor) -> Tensor:
    """d self**exponent / d exponent, which is 0 for the base 0 where the power is finite."""
    flat = (self == 0) & not_negative(exponent)
    if exponent.dtype.is_complex and not self.dtype.is_complex:
        self = self.to(exponent.dtype)  # the logarithm of a negative number is complex
    slope = result * replaced(flat, self, 1).log()
    return drop(flat, slope) if slope.dtype.is_complex else slope  # a complex power of 0 may be NaN


def number_to_power(grad: Tensor, self: Any, exponent: Tensor, result: Tensor) -> Tensor:
    if self == 0:
        return drop(not_negative(exponent), grad * conj(result * -math.inf))
    if isinstance(self, complex) or exponent.dtype.is_complex:
        return grad * conj(result * cmath.log(self))
    return grad * (result * (math.log(self) if self > 0 else math.nan))


derivative("pow.Tensor_Scalar", self=power_by_number, result=AUTO_ELEMENTWISE)
derivative("pow.Tensor_Tensor",
           self=lambda grad, self, exponent: grad * conj(power_slope(self, exponent)),
           exponent=lambda grad, self, exponent, result: grad * conj(exponent_slope(self, exponent, result)),
           result=AUTO_ELEMENTWISE)
derivative("pow.Scalar", exponent=number_to_power, result=AUTO_ELEMENTWISE)
derivative("ldexp.Tensor",
           self=lambda grad, other: run_name("ldexp.Tensor", grad, conj(other)),
           other=lambda grad, result: grad * conj(result * math.log(2)),
           result=AUTO_ELEMENTWISE)
derivative("sqrt", self=lambda grad, result: grad / conj(result * 2), result=AUTO_ELEMENTWISE)
derivative("rsqrt", self=lambda grad, result: grad * conj(result.pow(3) * -0.5), result=AUTO_ELEMENTWISE)
derivative("hypot",
           self=lambda grad, self, result: grad * (self / result),
           other=lambda grad, other, result: grad * (other / result),
           result=AUTO_ELEMENTWISE)


# Rounding and signs.

derivative(["ceil", "floor", "round", "round.decimals", "trunc", "sign"],
           self=zero, result=AUTO_ELEMENTWISE)
derivative("frac", self=lambda grad: grad, result=AUTO_ELEMENTWISE)
derivative("abs",
           self=lambda grad, self: grad * self.sgn(),
           result=lambda self_t, self: real_part(conj(self_t) * self.sgn()))


def direction_moved(change: Tensor, self: Tensor, result: Tensor) -> Tensor:
    """The part of `change` across the direction `result` of `self`, which is what turns it."""
    if not self.dtype.is_complex:
        return zero(change)
    null = self == 0
    along = result * real_part(conj(result) * change)
    return drop(null, (change - along) / replaced(null, self, 1).abs())


derivative("sgn",  # a projection, its own transpose
           self=lambda grad, self, result: direction_moved(grad, self, result),
           result=lambda self_t, self, result: direction_moved(self_t, self, result))
derivative(["copysign.Tensor", "copysign.Scalar"],
           self=lambda grad, self, result: grad * (self.sgn() * result.sgn()),
           other=zero,
           result=AUTO_ELEMENTWISE)
derivative("heaviside",
           self=zero,
           values=lambda grad, self: keep(self == 0, grad),
           result=AUTO_ELEMENTWISE)
derivative("signbit", NOT_DIFFERENTIABLE)


# Extremes.

def share(grad: Tensor, equal: Tensor, worse: Tensor) -> Tensor:
    return drop(worse, run_name("where.self", equal, grad / 2, grad))


derivative("maximum",
           self=lambda grad, self, other: share(grad, self == other, self < other),
           other=lambda grad, self, other: share(grad, self == other, self > other),
           result=AUTO_ELEMENTWISE)
derivative("minimum",
           self=lambda grad, self, other: share(grad, self == other, self > other),
           other=lambda grad, self, other: share(grad, self == other, self < other),
           result=AUTO_ELEMENTWISE)
derivative("fmax",
           self=lambda grad, self, other: keep((self >= other) | other.isnan(), grad),
           other=lambda grad, self, other: drop((self >= other) | other.isnan(), grad),
           result=AUTO_ELEMENTWISE)
derivative("fmin",
           self=lambda grad, self, other: keep((self <= other) | other.isnan(), grad),
           other=lambda grad, self, other: drop((self <= other) | other.isnan(), grad),
           result=AUTO_ELEMENTWISE)


def inside(grad: Tensor, self: Tensor, min: Any, max: Any) -> Tensor:
    if min is None:
        return keep(self <= max, grad)
    return keep(self >= min if max is None else (self >= min) & (self <= max), grad)


def at_lower(grad: Tensor, self: Tensor, min: Tensor, max: Any) -> Tensor:
    """Where the lower bound is the result; an upper bound below it wins."""
    return keep(self < min if max is None else (self < min) & (min < max), grad)


def at_upper(grad: Tensor, self: Tensor, min: Any, max: Tensor) -> Tensor:
    return keep(self > max if min is None else (self > max) | (max < min), grad)


def clamp_tangent(self_t: Tensor, self_p: Tensor, lower: Any, lower_t: Any, upper: Any,
                  upper_t: Any) -> Tensor:
    """Forward mode takes the tangent of a bound, not that of the element, where the two are equal, as PyTorch
    does; reverse mode gives the gradient to the element."""
    tangent = self_t
    if lower is not None:
        tangent = run_name("where.self", self_p > lower, tangent, lower_t)
        self_p = run_name("where.self", self_p > lower, self_p, lower)
    return tangent if upper is None else run_name("where.self", self_p < upper, tangent, upper_t)


derivative("clamp.Tensor", self=inside, min=at_lower, max=at_upper,
           result=lambda self_t, self_p, min_p, min_t, max_p, max_t:
               clamp_tangent(self_t, self_p, min_p, min_t, max_p, max_t))
derivative("clamp", self=inside, result=AUTO_ELEMENTWISE)
derivative(["clamp_min", "clamp_min.Tensor"],  # whose tangent at a tie is the element's
           self=lambda grad, self, min: inside(grad, self, min, None),
           min=lambda grad, self, min: at_lower(grad, self, min, None),
           result=AUTO_ELEMENTWISE)
derivative(["clamp_max", "clamp_max.Tensor"],
           self=lambda grad, self, max: inside(grad, self, None, max),
           max=lambda grad, self, max: at_upper(grad, self, None, max),
           result=AUTO_ELEMENTWISE)


derivative("relu",
           self=lambda grad, result: run_name("threshold_backward", grad, result, 0),
           result=AUTO_ELEMENTWISE)


# Integers, and the format of floats.

derivative(["gcd", "lcm"], NOT_DIFFERENTIABLE)
derivative("nextafter",
           self=lambda grad, self, other: drop(self == other, grad),
           other=zero,
           result=AUTO_ELEMENTWISE)
derivative("frexp.Tensor",
           self=lambda grad, exponent: grad * (-exponent.to(grad.dtype)).exp2(),
           result=AUTO_ELEMENTWISE)

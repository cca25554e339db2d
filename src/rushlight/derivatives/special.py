"""Derivatives of error, gamma, zeta and Bessel functions."""

from __future__ import annotations

import math
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import AUTO_ELEMENTWISE, derivative
from .pointwise import around_zero, drop, keep, power_series, replaced
from .pointwise_functions import SINC_SLOPE

TWO_BY_ROOT_PI = 2 / math.sqrt(math.pi)


# Error functions and the normal distribution.

def gaussian(x: Tensor) -> Tensor:
    return (x * -x).exp() * TWO_BY_ROOT_PI


# The divergent series of -sqrt(pi) x**2 times the derivative of erfcx, in powers of 1 / (2 x**2).
ERFCX_SLOPE = [(-1.0) ** k * math.prod(range(1, 2 * k + 2, 2)) for k in range(10)]


def erfcx_slope(self: Tensor, result: Tensor) -> Tensor:
    """2 x erfcx(x) - 2 / sqrt(pi), which cancels for large x."""
    large = self > 12
    near = 2 * replaced(large, self, 0) * replaced(large, result, 1) - TWO_BY_ROOT_PI
    inverse = keep(large, replaced(~large, self, 1).reciprocal())
    far = inverse * inverse * power_series(inverse * math.sqrt(0.5), ERFCX_SLOPE) / -math.sqrt(math.pi)
    return run_name("where.self", large, far, near)


derivative("erf", self=lambda grad, self: grad * gaussian(self), result=AUTO_ELEMENTWISE)
derivative("erfc", self=lambda grad, self: -grad * gaussian(self), result=AUTO_ELEMENTWISE)
derivative("special_erfcx", self=lambda grad, self, result: grad * erfcx_slope(self, result),
           result=AUTO_ELEMENTWISE)
derivative("erfinv", self=lambda grad, self: grad * (self.erfinv().square().exp() / TWO_BY_ROOT_PI),
           result=AUTO_ELEMENTWISE)
derivative("special_ndtri",
           self=lambda grad, result: grad * ((result * result * 0.5).exp() * math.sqrt(2 * math.pi)),
           result=AUTO_ELEMENTWISE)
def log_ndtr_slope(self: Tensor, result: Tensor) -> Tensor:
    """The density over the probability. Of positive numbers it is exp(-x**2 / 2 - result): erfcx(-x) grows
    without bound there, and its derivative with it. Of negative ones the exponent would lose its digits."""
    positive = self > 0
    scaled = self.masked_fill(positive, 0) * -math.sqrt(0.5)
    small = math.sqrt(2 / math.pi) / run_name("special_erfcx", scaled)
    exponent = (self * self * -0.5 - result).masked_fill(~positive, 0)
    return run_name("where.self", positive, exponent.exp() * math.sqrt(0.5 / math.pi), small)


derivative("special_log_ndtr", self=lambda grad, self, result: grad * log_ndtr_slope(self, result),
           result=AUTO_ELEMENTWISE)
derivative("special_entr", self=lambda grad, self: -grad * (1 + self.log()), result=AUTO_ELEMENTWISE)


def xlog1py_self(grad: Tensor, self: Any, other: Any) -> Tensor:
    """grad * log1p(other), and 0 for 0 * log 0, whose slope is infinite."""
    name = "special_xlog1py" if isinstance(other, Tensor) else "special_xlog1py.other_scalar"
    return drop((self == 0) & (other <= -1), run_name(name, grad, other))


derivative(["special_xlog1py", "special_xlog1py.self_scalar", "special_xlog1py.other_scalar"],
           self=xlog1py_self,
           other=lambda grad, self, other: grad * self / (other + 1),
           result=AUTO_ELEMENTWISE)


# Gamma functions.

def polygamma(n: int, x: Tensor) -> Tensor:
    return run_name("polygamma", n, x)


def mvlgamma_slope(self: Tensor, p: int) -> Tensor:
    slope = self.digamma()
    for j in range(1, p):
        slope = slope + (self - j / 2).digamma()
    return slope


derivative("lgamma", self=lambda grad, self: grad * self.digamma(), result=AUTO_ELEMENTWISE)
derivative("digamma", self=lambda grad, self: grad * polygamma(1, self), result=AUTO_ELEMENTWISE)
derivative("polygamma", self=lambda grad, self, n: grad * polygamma(n + 1, self), result=AUTO_ELEMENTWISE)
derivative("mvlgamma", self=lambda grad, self, p: grad * mvlgamma_slope(self, p), result=AUTO_ELEMENTWISE)


def gamma_density(a: Tensor, x: Tensor) -> Tensor:
    return (run_name("xlogy.Tensor", a - 1, x) - x - a.lgamma()).exp()


def density_slope(a: Tensor, x: Tensor, order: int) -> Tensor:
    """The derivative of the density in a: its logarithm has the slope log(x) - digamma(a)."""
    slopes = [x.log() - a.digamma(), *[-polygamma(k, a) for k in range(1, order)]]
    factors: list[Any] = [1]
    for n in range(order):
        factors.append(sum(math.comb(n, k) * slopes[k] * factors[n - k] for k in range(n + 1)))
    return gamma_density(a, x) * factors[order]


def igamma_slope(a: Tensor, x: Tensor, order: int) -> Tensor:
    return run_name("_igamma_slope", a, x, order)


derivative("igamma",
           self=lambda grad, self, other: grad * igamma_slope(self, other, 1),
           other=lambda grad, self, other: grad * gamma_density(self, other),
           result=AUTO_ELEMENTWISE)
derivative("igammac",
           self=lambda grad, self, other: -grad * igamma_slope(self, other, 1),
           other=lambda grad, self, other: -grad * gamma_density(self, other),
           result=AUTO_ELEMENTWISE)
derivative("_igamma_slope",
           self=lambda grad, self, other, order: grad * igamma_slope(self, other, order + 1),
           other=lambda grad, self, other, order: grad * density_slope(self, other, order),
           result=AUTO_ELEMENTWISE)


# Hurwitz' zeta function.

def zeta(s: Any, q: Any) -> Tensor:
    if not isinstance(s, Tensor):
        return run_name("special_zeta.self_scalar", s, q)
    return run_name("special_zeta" if isinstance(q, Tensor) else "special_zeta.other_scalar", s, q)


def zeta_slope(s: Tensor, q: Any, order: int) -> Tensor:
    if order == 0:
        return zeta(s, q)
    return run_name("_zeta_slope", s, q if isinstance(q, Tensor) else s.new_full((), q), order)


derivative(["special_zeta", "special_zeta.self_scalar", "special_zeta.other_scalar"],
           self=lambda grad, self, other: grad * zeta_slope(self, other, 1),
           other=lambda grad, self, other: -grad * (self * zeta(self + 1, other)),
           result=AUTO_ELEMENTWISE)
derivative("_zeta_slope",
           self=lambda grad, self, other, order: grad * zeta_slope(self, other, order + 1),
           other=lambda grad, self, other, order:
               -grad * (self * zeta_slope(self + 1, other, order)
                        + order * zeta_slope(self + 1, other, order - 1)),
           result=AUTO_ELEMENTWISE)


# Bessel functions. Around 0, J1(x) / x and I1(x) / x are power series, which divisions by x would spoil from
# the second derivative on.

J1_SERIES = [(-0.25) ** k / (2 * math.factorial(k) * math.factorial(k + 1)) for k in range(8)]
I1_SERIES = [abs(c) for c in J1_SERIES]


def special(name: str, x: Tensor) -> Tensor:
    return run_name(f"special_{name}", x)


def j1_by_x(x: Tensor) -> Tensor:
    return around_zero(x, 0.5, lambda x: power_series(x, J1_SERIES), lambda x: special("bessel_j1", x) / x)


def i1_by_x(x: Tensor) -> Tensor:
    return around_zero(x, 0.5, lambda x: power_series(x, I1_SERIES), lambda x: special("i1", x) / x)


def i1e_by_x(x: Tensor) -> Tensor:
    return around_zero(x, 0.5, lambda x: power_series(x, I1_SERIES) * (-x.abs()).exp(),
                       lambda x: special("i1e", x) / x)


def spherical_j0_slope(x: Tensor) -> Tensor:
    """(cos(x) - sin(x) / x) / x, which cancels around 0 and tends to 0."""
    infinite = x.isinf()
    slope = around_zero(keep(~infinite, x), 0.3, lambda x: x * power_series(x, SINC_SLOPE),
                        lambda x: (x.cos() - special("spherical_bessel_j0", x)) / x)
    return drop(infinite, slope)


derivative(["i0", "special_modified_bessel_i0"], self=lambda grad, self: grad * special("i1", self),
           result=AUTO_ELEMENTWISE)
derivative("special_i0e",
           self=lambda grad, self, result: grad * (special("i1e", self) - self.sgn() * result),
           result=AUTO_ELEMENTWISE)
derivative(["special_i1", "special_modified_bessel_i1"],
           self=lambda grad, self: grad * (self.i0() - i1_by_x(self)), result=AUTO_ELEMENTWISE)
derivative("special_i1e",
           self=lambda grad, self, result:
               grad * (special("i0e", self) - self.sgn() * result - i1e_by_x(self)),
           result=AUTO_ELEMENTWISE)
derivative("special_bessel_j0", self=lambda grad, self: -grad * special("bessel_j1", self),
           result=AUTO_ELEMENTWISE)
derivative("special_bessel_j1",
           self=lambda grad, self: grad * (special("bessel_j0", self) - j1_by_x(self)),
           result=AUTO_ELEMENTWISE)
derivative("special_bessel_y0", self=lambda grad, self: -grad * special("bessel_y1", self),
           result=AUTO_ELEMENTWISE)
derivative("special_bessel_y1",
           self=lambda grad, self, result: grad * (special("bessel_y0", self) - result / self),
           result=AUTO_ELEMENTWISE)
derivative("special_modified_bessel_k0",
           self=lambda grad, self: -grad * special("modified_bessel_k1", self), result=AUTO_ELEMENTWISE)
derivative("special_modified_bessel_k1",
           self=lambda grad, self, result: -grad * (special("modified_bessel_k0", self) + result / self),
           result=AUTO_ELEMENTWISE)
derivative("special_scaled_modified_bessel_k0",
           x=lambda grad, x, result: grad * (result - special("scaled_modified_bessel_k1", x)),
           result=AUTO_ELEMENTWISE)
derivative("special_scaled_modified_bessel_k1",
           x=lambda grad, x, result:
               grad * (result - special("scaled_modified_bessel_k0", x) - result / x),
           result=AUTO_ELEMENTWISE)
derivative("special_spherical_bessel_j0", x=lambda grad, x: grad * spherical_j0_slope(x),
           result=AUTO_ELEMENTWISE)
derivative("special_airy_ai", x=lambda grad, x: grad * run_name("_airy_ai_slope", x), result=AUTO_ELEMENTWISE)
derivative("_airy_ai_slope", x=lambda grad, x: grad * (x * special("airy_ai", x)), result=AUTO_ELEMENTWISE)

"""Reparametrised gradients of gamma and Dirichlet samples on NumPy arrays.

A sample x of a distribution with cumulative F(a, x) and density f(a, x) moves with its parameter as
dx/da = -(dF/da) / f when its rank F stays fixed. F has no elementary derivative in a: where it is a short
series it is differentiated term by term, elsewhere log F (or log(1 - F), the smaller of the two, so that
nothing cancels) by a difference of fourth order. All arithmetic is in float64; the relative error is below
1e-9.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.lazy import LazyModule
from ..core.registry import kernel

special = LazyModule("scipy.special")

Array = np.ndarray

_TERMS = 60
_STEP = 2.0**-9  # of a difference, relative to the scale on which the distribution changes


def log_slope(function: Callable[[Array], Array], at: Array, step: Array) -> Array:
    """d log(function) / d at, to fourth order in `step`."""
    near = np.log(function(at + step) / function(at - step))
    far = np.log(function(at + 2 * step) / function(at - 2 * step))
    return (8 * near - far) / (12 * step)


def slope_of_rank(
    lower: Callable[[Array], Array], upper: Callable[[Array], Array], at: Array, step: Array
) -> Array:
    """dF/da, given F and 1 - F as functions of a."""
    below = lower(at)
    return np.where(below < 0.5, below * log_slope(lower, at, step), -upper(at) * log_slope(upper, at, step))


@kernel("_standard_gamma_grad")
def standard_gamma_grad(self: Array, output: Array) -> Array:
    alpha, x = np.broadcast_arrays(self.astype(np.float64), output.astype(np.float64))
    by_series = (x < 1) | (x < 0.5 * alpha)
    step = _STEP * np.minimum(alpha, np.sqrt(alpha))
    slope = slope_of_rank(lambda a: special.gammainc(a, x), lambda a: special.gammaincc(a, x), alpha, step)
    log_density = special.xlogy(alpha - 1, x) - x - special.gammaln(alpha)
    direct = -slope / np.exp(log_density)
    direct = np.where(
        np.isfinite(direct), direct, (x + alpha) / (2 * alpha)
    )  # as of a normal, far in the tails
    return np.where(by_series, gamma_series(alpha, x), direct)


def gamma_series(alpha: Array, x: Array) -> Array:
    """F / f = x / a * sum of x**k / ((a + 1) ... (a + k)); log F = a log x - x - lgamma(a + 1) + log sum."""
    term, total, slope, harmonic = np.ones_like(x), np.ones_like(x), np.zeros_like(x), np.zeros_like(x)
    for k in range(1, _TERMS):
        term = term * x / (alpha + k)
        harmonic = harmonic + 1 / (alpha + k)
        total = total + term
        slope = slope - term * harmonic
    return -x / alpha * (total * (np.log(x) - special.digamma(alpha + 1)) + slope)


@kernel("_dirichlet_grad")
def dirichlet_grad(x: Array, alpha: Array, total: Array) -> Array:
    """A component is a Beta(alpha, total - alpha) sample; its gradient is given divided by 1 - x, the share
    of the other components."""
    x, a, total = np.broadcast_arrays(*(t.astype(np.float64) for t in (x, alpha, total)))
    b = total - a
    step = _STEP * np.minimum(a, np.sqrt(a))
    slope = slope_of_rank(lambda p: special.betainc(p, b, x), lambda p: special.betainc(b, p, 1 - x), a, step)
    log_density = special.xlogy(a - 1, x) + special.xlog1py(b, -x) - special.betaln(a, b)
    result = -slope / np.exp(log_density)
    shift = special.digamma(a + b) - special.digamma(a)
    near_zero = -x / a * (np.log(x) - 1 / a + shift)
    edge = np.where(x < 0.5, near_zero, shift / b)  # where the rank is too close to 0 or 1 to be represented
    return np.where(np.isfinite(result) & (x > 1e-12), result, edge)

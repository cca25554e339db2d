"""Scalar instructions of the NumPy handler for special functions, on SciPy.

SciPy's float32 loops are less accurate than PyTorch's, so all of them run in double precision and round once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.lazy import LazyModule

special = LazyModule("scipy.special")


def _in_double(function: Callable[..., Any]) -> Any:
    """A function of doubles as an instruction on floats."""

    def instruction(*values: Any) -> Any:
        result = function(*[v.astype(np.float64, copy=False) for v in values])
        return result.astype(values[0].dtype, copy=False)

    return staticmethod(instruction)


def _scipy(name: str) -> Any:
    """The function `name` of SciPy as an instruction on floats."""
    return _in_double(lambda *values: getattr(special, name)(*values))


def _density(x: Any) -> Any:
    return np.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


def _lgamma(x: Any) -> Any:
    return special.gammaln(np.abs(x, where=np.isinf(x), out=np.array(x)))


def _airy_ai(x: Any) -> Any:
    """SciPy's Ai, which gives up beyond a million: 0 on the right, the leading oscillation on the left."""
    distance = np.abs(x)
    far = np.isfinite(x) & (distance > 1e6)
    phase = 2 / 3 * distance * np.sqrt(distance) + np.pi / 4
    leading = np.where(x > 0, 0.0, np.sin(phase) / np.sqrt(np.pi * np.sqrt(distance)))
    return np.where(far, leading, special.airy(np.where(far, 0.0, x))[0])


class SpecialInstructions:
    """Functions of floats that are more than a formula."""

    # Error functions; ndtr is the distribution function of the normal distribution, ndtri its inverse,
    # density its derivative.
    erf, erfc, erfcx, erfinv = (_scipy(name) for name in ("erf", "erfc", "erfcx", "erfinv"))
    ndtr, ndtri, density = _scipy("ndtr"), _scipy("ndtri"), staticmethod(_density)

    # Gamma functions: log |gamma|, its derivative, the incomplete ones (lower, upper) and Hurwitz' zeta.
    lgamma = _in_double(_lgamma)
    digamma, igamma, igammac, zeta = (_scipy(name) for name in ("psi", "gammainc", "gammaincc", "zeta"))

    # Bessel functions; the ones that end in e are scaled by exp(-|x|) (i) or exp(x) (k).
    i0, i0e, i1, i1e = (_scipy(name) for name in ("i0", "i0e", "i1", "i1e"))
    bessel_j0, bessel_j1, bessel_y0, bessel_y1 = (_scipy(name) for name in ("j0", "j1", "y0", "y1"))
    bessel_k0, bessel_k1, bessel_k0e, bessel_k1e = (_scipy(name) for name in ("k0", "k1", "k0e", "k1e"))
    airy_ai = _in_double(_airy_ai)

"""References of higher precision than the results under test, and errors in units in the last place.

A plain module for the tests beside it; elementary functions come from the C library's long double (64 bits of
significand), the others from mpmath.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np

LONG = np.longdouble
Array = np.ndarray


def ulps(got: Array, exact: Array, floor: Array | None = None) -> Array:
    """|got - exact| in units in the last place of the exact result, or of `floor` if larger; infinite where
    one is not finite and the other differs."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        nearest = exact.astype(got.dtype)
        size = np.abs(exact) if floor is None else np.maximum(np.abs(exact), floor)
        _, exponent = np.frexp(np.maximum(size, LONG(info.tiny)))
        error = np.abs(got.astype(LONG) - exact) / np.ldexp(LONG(1), exponent - 1 - info.nmant)
    ends = ~np.isfinite(nearest) | ~np.isfinite(got)
    same = (got == nearest) | (np.isnan(got) & np.isnan(exact))
    return np.where(ends, np.where(same, 0.0, np.inf), error).astype(np.float64)


def from_mpmath(function: Callable[..., Any]) -> Callable[..., Array]:
    """An mpmath function on arrays, with long double results; where it has no real value, NaN."""

    def evaluate(*arrays: Array) -> Array:
        with mp.workdps(40):
            values = [function(*[mp.mpf(float(x)) for x in row]) for row in zip(*arrays, strict=True)]
            return np.array([LONG(mp.nstr(v, 25)) if mp.isfinite(v) else LONG(float(v)) for v in values])

    return evaluate


def sigmoid(x: Array) -> Array:
    t = np.exp(-np.abs(x))
    return np.where(x < 0, t / (1 + t), 1 / (1 + t))


ELEMENTARY: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp_nonpositive": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "reciprocal": lambda x: 1 / x,
}
BINARY: dict[str, Callable[..., Array]] = {"atan2": np.arctan2, "hypot": np.hypot, "pow": np.power}


def erfcx(x: Any) -> Any:
    if x > 10**4:
        return (1 - 1 / (2 * x * x)) / (x * mp.sqrt(mp.pi))
    return mp.exp(x * x) * mp.erfc(x)


def erfc_inverse(y: Any) -> Any:
    """By Newton's method on the logarithm of erfc."""
    target = mp.log(y)
    v = mp.sqrt(-target) if y < 0.1 else mp.mpf("0.5")
    for _ in range(60):
        value = mp.erfc(v)
        step = (mp.log(value) - target) / (-2 / mp.sqrt(mp.pi) * mp.exp(-v * v) / value)
        v -= step
        if abs(step) < mp.mpf(10) ** -36:
            break
    return v


def erfinv(x: Any) -> Any:
    return mp.erfinv(x) if abs(x) < 0.9 else mp.sign(x) * erfc_inverse(1 - abs(x))


def ndtri(p: Any) -> Any:
    tail = -erfc_inverse(2 * p) if p < 0.5 else erfc_inverse(2 * (1 - p))
    return mp.sqrt(2) * (mp.erfinv(2 * p - 1) if abs(p - 0.5) < 0.2 else tail)


def zeta(x: Any, q: Any) -> Any:
    with mp.workdps(90):  # mpmath loses digits for large x and q
        return +mp.zeta(x, q)


def bessel(kind: str, order: int, scale: int = 0) -> Callable[..., Array]:
    function = getattr(mp, kind)
    return from_mpmath(lambda x: function(order, x) * mp.exp(scale * abs(x)) if scale else function(order, x))


def bessel_k(order: int, scaled: bool) -> Callable[..., Array]:
    """The integral of e**(-x cosh t) cosh(n t) by the trapezoidal rule, which is exact to long double here
    and much quicker than mpmath."""

    def evaluate(x: Array) -> Array:
        t = np.arange(0, 12, 1 / LONG(32), LONG)[:, None]
        x = x.astype(LONG)
        values = np.exp(-x * (np.cosh(t) - 1)) * np.cosh(order * t)
        values[0] /= 2
        return values.sum(0) / 32 * (1 if scaled else np.exp(-x))

    return evaluate


SPECIAL: dict[str, Callable[..., Array]] = {
    "erf": from_mpmath(mp.erf),
    "erfc": from_mpmath(mp.erfc),
    "erfcx": from_mpmath(erfcx),
    "erfinv": from_mpmath(erfinv),
    "ndtr": from_mpmath(mp.ncdf),
    "ndtri": from_mpmath(ndtri),
    "density": from_mpmath(mp.npdf),
    "lgamma": from_mpmath(mp.loggamma),
    "digamma": from_mpmath(lambda x: mp.psi(0, x)),
    "i0": bessel("besseli", 0),
    "i1": bessel("besseli", 1),
    "i0e": bessel("besseli", 0, -1),
    "i1e": bessel("besseli", 1, -1),
    "bessel_k0": bessel_k(0, False),
    "bessel_k1": bessel_k(1, False),
    "bessel_k0e": bessel_k(0, True),
    "bessel_k1e": bessel_k(1, True),
    "bessel_j0": bessel("besselj", 0),
    "bessel_j1": bessel("besselj", 1),
    "bessel_y0": bessel("bessely", 0),
    "bessel_y1": bessel("bessely", 1),
}

# Where points are taken from, besides all bit patterns for elementary functions.
RANGES: dict[str, Sequence[tuple[float, float]]] = {
    "erf": [(-4, 4), (-1.2, 1.2)],
    "erfc": [(-3, 10), (0, 1)],
    "erfcx": [(-5, 5), (0, 100)],
    "erfinv": [(-1, 1), (0.4, 0.6), (0.99, 1)],
    "ndtri": [(0, 1), (0, 1e-3), (0.2, 0.3), (0.7, 0.8)],
    "ndtr": [(-1, 1), (-4, 4), (-9, 9)],
    "density": [(-1, 1), (-4, 4), (-14, 14)],
    "lgamma": [(0, 1), (0.9, 1.1), (1.8, 2.7), (1, 9), (7, 200)],
    "digamma": [(0, 1), (1.3, 1.6), (1, 4.5), (3, 200)],
}
for _name in SPECIAL:
    RANGES.setdefault(_name, [(0, 1.2), (0.5, 9), (4, 6), (7, 60)])


def scattered(dtype: str, ranges: Sequence[tuple[float, float]], count: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.uniform(a, b, count) for a, b in ranges]).astype(dtype)


def all_patterns(dtype: str, count: int, seed: int) -> Array:
    """Finite numbers of random bits: every exponent, subnormal ones included."""
    rng = np.random.default_rng(seed)
    bits = 8 * np.dtype(dtype).itemsize
    x = rng.integers(0, 2**bits, count, f"u{bits // 8}").view(dtype)
    return x[np.isfinite(x)]


def edge_values(dtype: str) -> Array:
    info = np.finfo(dtype)
    ends = [info.max, info.tiny, info.smallest_subnormal, 1.0, 0.5, 2.0, 3.0, 1.5, math.pi, 1e-8]
    return np.array([0.0, -0.0, math.inf, -math.inf, math.nan, *ends, *[-v for v in ends]], dtype)

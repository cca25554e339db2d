"""How far results may be from the exact ones, in units in the last place, for float32 and float64.

Measured on dense sweeps against references of higher precision and rounded up; tests/codegen/test_math.py
holds them. They are for machines with fma. Functions that are not here are exact or correctly rounded by one
machine instruction.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest error of a float32 and of a float64 result, and where it holds if not everywhere."""

    single: float
    double: float
    where: str = ""


_NOT_AT_ZEROS = "relative to sqrt(2 / (pi x)), the size of the oscillation, if that exceeds the result"
_OF_A_HALF = "relative to 1/2 where the result is less"
_POSITIVE = "x > 0; below, the same times the terms of the reflection formula, whose difference may be near 0"

BOUNDS: dict[str, Bound] = {
    "exp": Bound(1.1, 1.1),
    "exp_nonpositive": Bound(1.1, 1.1, "x <= 0"),
    "exp2": Bound(0.9, 0.9),
    "expm1": Bound(1.5, 2.0),
    "log": Bound(0.9, 0.9),
    "log2": Bound(1.0, 1.1),
    "log10": Bound(1.0, 1.0),
    "log1p": Bound(1.5, 1.5),
    "sigmoid": Bound(1.9, 1.9, "x >= -89, float64 x >= -710; below, where it is subnormal, it is 0"),
    "tanh": Bound(1.95, 2.5),
    "sinh": Bound(1.75, 1.75),
    "cosh": Bound(1.5, 1.5),
    "asinh": Bound(2.0, 2.0),
    "acosh": Bound(2.25, 2.0),
    "atanh": Bound(2.25, 2.0),
    "sin": Bound(1.6, 1.6),
    "cos": Bound(1.6, 1.6),
    "tan": Bound(3.25, 3.25),
    "asin": Bound(2.5, 2.5),
    "acos": Bound(1.25, 1.25),
    "atan": Bound(1.5, 1.75),
    "atan2": Bound(1.5, 1.75),
    "hypot": Bound(0.51, 1.25),
    "pow": Bound(0.51, 1.1),
    "rsqrt": Bound(1.5, 1.5),
    "erf": Bound(1.9, 1.4),
    "erfc": Bound(4.0, 4.0),
    "erfcx": Bound(3.0, 3.5),
    "erfinv": Bound(1.25, 3.0),
    "ndtr": Bound(1.5, 1.25, _OF_A_HALF),
    "density": Bound(0.5, 0.9, _OF_A_HALF),
    "ndtri": Bound(1.25, 4.0),
    "lgamma": Bound(0.51, 2.5, _POSITIVE),
    "digamma": Bound(0.51, 4.0, _POSITIVE),
    "zeta": Bound(0.51, 8.0, "1 < x <= 30, 0 < q <= 50; beyond it grows with x, as q + k is rounded"),
    "i0": Bound(0.51, 4.0),
    "i0e": Bound(0.51, 4.0),
    "i1": Bound(0.51, 4.0),
    "i1e": Bound(0.51, 4.0),
    "bessel_k0": Bound(0.51, 4.0),
    "bessel_k0e": Bound(0.51, 4.0),
    "bessel_k1": Bound(0.51, 4.0),
    "bessel_k1e": Bound(0.51, 4.0),
    "bessel_j0": Bound(0.51, 4.0, _NOT_AT_ZEROS),
    "bessel_j1": Bound(0.51, 4.0, _NOT_AT_ZEROS),
    "bessel_y0": Bound(0.51, 4.0, _NOT_AT_ZEROS),
    "bessel_y1": Bound(0.51, 4.0, _NOT_AT_ZEROS),
}

"""Scalar instructions as vector code, by the names of the NumPy handler.

In:  an emitter and values of one type, any number of lanes.
Out: the result's value. `FUNCTIONS[name](emitter, *values, signed=True)` emits an instruction; `BOUNDS[name]`
     says how far a float result may be from the exact one.

Functions of floats are polynomials on a reduced argument, inlined, without branches or memory, and right for
NaN, infinities, signed zeros and subnormal numbers. Those with a rare slow path or a loop (large angles,
fmod, gcd, integer powers, zeta) say so in their module; igamma, igammac and airy_ai call SciPy (`EXTERN`,
`imports`).
"""

from __future__ import annotations

from . import (  # noqa: F401  importing them fills the table
    basic,
    bessel,
    bessel_modified,
    error_functions,
    exponential,
    extern,
    gamma,
    integers,
    inverse,
    logarithm,
    power,
    rounding,
    trigonometric,
    zeta,
)
from .bounds import BOUNDS, Bound
from .extern import EXTERN, imports
from .registry import FUNCTIONS, Function

__all__ = ["BOUNDS", "EXTERN", "FUNCTIONS", "Bound", "Function", "imports"]

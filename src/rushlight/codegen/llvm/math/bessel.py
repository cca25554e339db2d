"""Bessel functions of order 0 and 1, computed in double: bessel_j0, bessel_j1, bessel_y0, bessel_y1.

For x <= 5 a polynomial, with the zeros of J inside divided out so that they are exact; beyond, Hankel's form
sqrt(2 / (pi x)) (P cos c - Q sin c) with c = x - (2 n + 1) pi/4. Near later zeros the error is small
absolutely, not relatively.
"""

from __future__ import annotations

import math
from typing import Any

from ..emitter import Emitter
from . import coefficients as table
from .logarithm import INFINITY, NAN, log_of_parts, log_parts
from .registry import function, in_double
from .trigonometric import sin_cos

_SPLIT = 5.0
_TWO_PER_PI = 2 / math.pi
# The first zero of J and the rest of it, and the square of the second.
_ZEROS = (
    (2.404825557695773, -1.176691651530894e-16, 30.471262343662087),
    (3.8317059702075125, -1.5269184090088067e-16, 49.2184563216946),
)
_SMALL = ((table.J0_SMALL[64], table.Y0_SMALL[64]), (table.J1_SMALL[64], table.Y1_SMALL[64]))
_HANKEL = ((table.P0[64], table.Q0[64]), (table.P1[64], table.Q1[64]))


def _j_near(e: Emitter, a: Any, order: int) -> Any:
    first, rest, second = _ZEROS[order]
    z = e.mul(a, a)
    factor = e.mul(e.mul(e.sub(e.sub(a, first), rest), e.add(a, first)), e.sub(z, second))
    result = e.mul(factor, e.horner(e.sub(z, 12.5), _SMALL[order][0]))
    if order:
        return e.mul(result, a)
    return e.select(e.compare("<", a, 1e-4), e.mul_add(z, -0.25, 1.0), result)  # 1 at 0, exactly


def _hankel(e: Emitter, a: Any, order: int) -> tuple[Any, Any]:
    """(J, Y) for a >= 5; c = a - pi/4 (order 0) or a - 3 pi/4, whose sine and cosine come from those of a."""
    a = e.at_least(a, _SPLIT)
    w = e.div(_SPLIT, a)
    u = e.sub(e.mul(w, w), 0.5)
    p, q = e.horner(u, _HANKEL[order][0]), e.mul(w, e.horner(u, _HANKEL[order][1]))
    sine, cosine = sin_cos(e, a)
    if order:
        s, c = e.neg(e.add(sine, cosine)), e.sub(sine, cosine)
    else:
        s, c = e.sub(sine, cosine), e.add(sine, cosine)
    scale = e.div(1.0, e.sqrt(e.mul(a, math.pi)))
    return (e.mul(scale, e.sub(e.mul(p, c), e.mul(q, s))), e.mul(scale, e.add(e.mul(p, s), e.mul(q, c))))


def _j(e: Emitter, x: Any, order: int) -> Any:
    a = e.abs(x)
    result = e.select(e.compare("<", a, _SPLIT), _j_near(e, a, order), _hankel(e, a, order)[0])
    result = e.select(e.compare("==", a, INFINITY), 0.0, result)
    return e.select(e.signbit(x), e.neg(result), result) if order else result


def _y(e: Emitter, x: Any, order: int) -> Any:
    logarithm = log_of_parts(e, *log_parts(e, x))
    regular = e.horner(e.sub(e.mul(x, x), 12.5), _SMALL[order][1])
    singular = e.mul(logarithm, _j_near(e, x, order))
    if order:
        singular = e.sub(singular, e.div(1.0, x))
        regular = e.mul(regular, x)
    near = e.mul_add(singular, _TWO_PER_PI, regular)
    result = e.select(e.compare("<", x, _SPLIT), near, _hankel(e, x, order)[1])
    result = e.select(e.compare("==", x, INFINITY), 0.0, result)
    result = e.select(e.compare("==", x, 0.0), -INFINITY, result)
    return e.select(e.compare("<", x, 0.0, unordered=True), e.constant(NAN, x), result)


for _order in (0, 1):
    function(f"bessel_j{_order}")(in_double(lambda e, x, order=_order: _j(e, x, order)))
    function(f"bessel_y{_order}")(in_double(lambda e, x, order=_order: _y(e, x, order)))

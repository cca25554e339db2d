"""asin, acos, atan and atan2."""

from __future__ import annotations

from typing import Any

from ..emitter import Emitter
from ..types import bits_of
from . import coefficients as table
from .registry import function

# pi/2 as the nearest number and the rest; pi is twice that.
HALF_PI = {32: (1.5707963705062866, -4.371138828673793e-08), 64: (1.5707963267948966, 6.123233995736766e-17)}


def _arc(e: Emitter, a: Any) -> tuple[Any, Any, Any]:
    """(steep, s, asin s - s) for a = |x|: s is a, or where a > 1/2, called steep, sqrt((1 - a) / 2)."""
    steep = e.compare(">", a, 0.5)
    z = e.select(steep, e.mul_add(a, -0.5, 0.5), e.mul(a, a))
    s = e.select(steep, e.sqrt(z), a)
    return steep, s, e.mul(e.mul(s, z), e.horner(z, table.ASIN[bits_of(a.type)]))


@function()
def asin(e: Emitter, x: Any) -> Any:
    """asin a = pi/2 - 2 asin(sqrt((1 - a) / 2)) where a > 1/2."""
    high, low = HALF_PI[bits_of(x.type)]
    steep, s, tail = _arc(e, e.abs(x))
    far = e.sub(high, e.sub(e.mul(e.add(s, tail), 2.0), low))
    return e.copysign(e.select(steep, far, e.add(s, tail)), x)


@function()
def acos(e: Emitter, x: Any) -> Any:
    """pi/2 - asin x near 0; else 2 asin(sqrt((1 - a) / 2)), or pi minus that for negative x."""
    high, low = HALF_PI[bits_of(x.type)]
    steep, s, tail = _arc(e, e.abs(x))
    near = e.sub(high, e.sub(x, e.sub(low, e.copysign(tail, x))))
    twice = e.mul(e.add(s, tail), 2.0)
    back = e.sub(2 * high, e.sub(twice, 2 * low))
    return e.select(steep, e.select(e.compare("<", x, 0.0), back, twice), near)


def _arc_tangent(e: Emitter, t: Any) -> Any:
    """atan t for 0 <= t <= 1."""
    z = e.mul(t, t)
    return e.mul_add(e.mul(t, z), e.horner(z, table.ATAN[bits_of(t.type)]), t)


@function()
def atan(e: Emitter, x: Any) -> Any:
    """atan a = pi/2 - atan(1 / a) for a > 1."""
    high, low = HALF_PI[bits_of(x.type)]
    a = e.abs(x)
    steep = e.compare(">", a, 1.0)
    near = _arc_tangent(e, e.select(steep, e.div(1.0, a), a))
    return e.copysign(e.select(steep, e.sub(high, e.sub(near, low)), near), x)


@function()
def atan2(e: Emitter, y: Any, x: Any) -> Any:
    """The angle of (x, y): base + atan(smaller / larger) with base 0, pi/2 or pi, and the sign of y."""
    high, low = HALF_PI[bits_of(x.type)]
    a, b = e.abs(x), e.abs(y)
    steep = e.compare(">", b, a)
    larger, smaller = e.select(steep, b, a), e.select(steep, a, b)
    quotient = e.div(smaller, e.select(e.compare("==", larger, 0.0), 1.0, larger))
    quotient = e.select(e.compare("==", smaller, float("inf")), 1.0, quotient)  # both are infinite
    t = _arc_tangent(e, quotient)
    back = e.signbit(x)
    t = e.select(e.xor(steep, back), e.neg(t), t)
    behind = e.select(back, e.constant(2 * high, x), 0.0)
    behind_low = e.select(back, e.constant(2 * low, x), 0.0)
    base, base_low = e.select(steep, high, behind), e.select(steep, low, behind_low)
    result = e.add(base, e.add(t, base_low))
    result = e.select(e.builder.fcmp_unordered("uno", x, y), e.constant(float("nan"), x), result)
    return e.copysign(result, y)

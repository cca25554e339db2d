"""Powers and roots: pow, sqrt, rsqrt, reciprocal, hypot.

|x|**y = 2**(y log2 |x|). The exponent reaches 1024, so log2 |x| needs ten bits more than the result has:
floats compute in double, doubles carry log2 |x| as a pair of doubles.
"""

from __future__ import annotations

from typing import Any

from ..emitter import Emitter
from ..types import bits_of
from . import coefficients as table
from .exponential import MAGIC, power, scale_fully
from .logarithm import INFINITY, NAN, exponent_as_float, log_parts, split
from .registry import function

_PER_LN2 = (1.4426950408889634, 2.0355273740931033e-17)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


@function()
def sqrt(e: Emitter, x: Any) -> Any:
    return e.sqrt(x)


@function()
def rsqrt(e: Emitter, x: Any) -> Any:
    return e.div(1.0, e.sqrt(x))


@function()
def reciprocal(e: Emitter, x: Any) -> Any:
    return e.div(1.0, x)


@function()
def hypot(e: Emitter, x: Any, y: Any) -> Any:
    """sqrt(x**2 + y**2) without overflow; infinite if either is infinite, even beside NaN."""
    a, b = e.abs(x), e.abs(y)
    infinite = e.or_(e.compare("==", a, INFINITY), e.compare("==", b, INFINITY))
    if not e.is_double(x):
        wide, other = e.widen(a), e.widen(b)
        result = e.narrow(e.sqrt(e.mul_add(wide, wide, e.mul(other, other))))
    else:
        larger = e.maximum(a, b)
        one = e.constant(1.0, x)
        up = e.select(e.compare("<", larger, 2.0**-500), 2.0**600, one)
        factor = e.select(e.compare(">", larger, 2.0**500), 2.0**-600, up)
        down = e.select(e.compare("<", larger, 2.0**-500), 2.0**-600, one)
        back = e.select(e.compare(">", larger, 2.0**500), 2.0**600, down)
        a, b = e.mul(a, factor), e.mul(b, factor)
        result = e.mul(e.sqrt(e.mul_add(a, a, e.mul(b, b))), back)
    return e.select(infinite, e.constant(INFINITY, x), result)


def float_power(e: Emitter, x: Any, y: Any) -> Any:
    """IEEE 754's pow."""
    a = e.abs(x)
    size = _power_in_double(e, a, y) if bits_of(x.type) == 32 else _power_in_pairs(e, a, y)
    size = e.select(e.compare("==", a, 1.0), 1.0, size)  # even to an infinite power
    size = e.select(e.builder.fcmp_unordered("uno", x, y), e.constant(NAN, x), size)
    whole = e.compare("==", e.trunc(y), y)
    half = e.mul(y, 0.5)
    odd = e.and_(whole, e.compare("!=", e.trunc(half), half))
    negative = e.signbit(x)
    result = e.select(e.and_(negative, odd), e.neg(size), size)
    below = e.and_(e.compare("<", x, 0.0), e.compare(">", x, -INFINITY))
    result = e.select(e.and_(below, e.not_(whole)), e.constant(NAN, x), result)
    one = e.or_(e.compare("==", y, 0.0), e.compare("==", x, 1.0))
    return e.select(one, 1.0, result)


def _with_ends(e: Emitter, a: Any, log2: Any) -> Any:
    """log2 a made infinite where a is 0 or infinite."""
    log2 = e.select(e.compare("==", a, 0.0), -INFINITY, log2)
    return e.select(e.compare("==", a, INFINITY), INFINITY, log2)


def _power_in_double(e: Emitter, a: Any, y: Any) -> Any:
    """a**y for floats a >= 0. Subnormal floats are normal doubles."""
    a, y = e.widen(a), e.widen(y)
    exponent, m = split(e, a)
    f = e.sub(m, 1.0)
    s = e.div(f, e.add(f, 2.0))
    log2 = e.mul_add(s, e.horner(e.mul(s, s), table.POW_LOG2[32]), exponent_as_float(e, exponent))
    t = e.clamp(e.mul(y, _with_ends(e, a, log2)), -200.0, 200.0)
    shifted = e.add(t, MAGIC[64])
    r = e.sub(t, e.sub(shifted, MAGIC[64]))
    return e.narrow(e.mul(e.mul_add(r, e.horner(r, table.POW_EXP2[32]), 1.0), power(e, shifted)))


def _power_in_pairs(e: Emitter, a: Any, y: Any) -> Any:
    """a**y for doubles a >= 0."""
    high, low = _log2_pair(e, a)
    high = _with_ends(e, a, high)
    t, rest = e.two_product(y, high)
    rest = e.mul_add(y, low, rest)
    bounded = e.clamp(t, -1100.0, 1100.0)
    rest = e.select(e.compare("==", bounded, t), rest, 0.0)
    shifted = e.add(bounded, MAGIC[64])
    r = e.add(e.sub(bounded, e.sub(shifted, MAGIC[64])), rest)
    return scale_fully(e, e.mul_add(r, e.horner(r, table.EXP2[64]), 1.0), shifted)


def _log2_pair(e: Emitter, a: Any) -> tuple[Any, Any]:
    """log2 a = high + low with an error of 2**-65: 2 atanh s = 2 s + 2/3 s**3 + s**5 q, the first two terms
    as pairs."""
    k, f = log_parts(e, a)
    divisor, rest = e.fast_two_sum(2.0, f)
    inverse = e.div(1.0, divisor)
    s = e.mul(f, inverse)
    s_low = e.mul(e.sub(e.fma(e.neg(s), divisor, f), e.mul(s, rest)), inverse)
    z, z_low = e.two_product(s, s)
    z_low = e.mul_add(e.add(s, s), s_low, z_low)
    cube, cube_low = e.two_product(z, s)
    cube_low = e.mul_add(z, s_low, e.mul_add(z_low, s, cube_low))
    term, term_low = e.two_product(cube, _TWO_THIRDS[0])
    term_low = e.add(term_low, e.mul_add(cube, _TWO_THIRDS[1], e.mul(cube_low, _TWO_THIRDS[0])))
    tail = e.mul(e.mul(cube, z), e.horner(z, table.POW_LOG2[64]))
    log, log_low = e.fast_two_sum(e.add(s, s), term)
    log_low = e.add(log_low, e.add(e.mul_add(s_low, 2.0, term_low), tail))
    scaled, scaled_low = e.two_product(log, _PER_LN2[0])
    scaled_low = e.add(scaled_low, e.mul_add(log, _PER_LN2[1], e.mul(log_low, _PER_LN2[0])))
    high, low = e.two_sum(k, scaled)
    return e.fast_two_sum(high, e.add(low, scaled_low))

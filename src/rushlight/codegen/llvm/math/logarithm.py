"""Logarithms and the inverse hyperbolic functions.

x = 2**k m with m in [sqrt(1/2), sqrt(2)) and f = m - 1, which is exact; log x = k ln 2 + log(1 + f). For
doubles log(1 + f) is 2 atanh s with s = f / (2 + f), arranged as f - (f**2/2 - s (f**2/2 + R)), where R is
small (the arrangement of FreeBSD's msun).
"""

from __future__ import annotations

from typing import Any

from ..emitter import Emitter
from ..types import EXPONENT_BIAS, MANTISSA_BITS, bits_of
from . import coefficients as table
from .exponential import LN2
from .registry import function

INFINITY, NAN = float("inf"), float("nan")
_ROOT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_ONE_BITS = {32: 0x3F800000, 64: 0x3FF0000000000000}
_LEAST_NORMAL = {32: 2.0**-126, 64: 2.0**-1022}
# 1 / ln 2 and 1 / ln 10 as the nearest number and the rest.
_PER_LN2 = {
    32: (1.4426950216293335, 1.9259629911266175e-08),
    64: (1.4426950408889634, 2.0355273740931033e-17),
}
_PER_LN10 = {
    32: (0.4342944920063019, -1.0103050052231683e-08),
    64: (0.4342944819032518, 1.098319650216765e-17),
}
# log10 2, its high part short enough for k * high to be exact.
_LOG10_2 = {
    32: (0.30078125, 2.487456639811952e-4),
    64: (3.01029995663611771306e-01, 3.69423907715893078616e-13),
}


def split(e: Emitter, x: Any) -> tuple[Any, Any]:
    """(k, m) for normal x > 0, k as an integer."""
    bits = bits_of(x.type)
    pattern = e.bits(x)
    above = e.sub(pattern, _ROOT_HALF_BITS[bits])
    exponent = e.and_(above, -1 << MANTISSA_BITS[bits])  # k << mantissa
    return exponent, e.from_bits(e.sub(pattern, exponent))


def exponent_as_float(e: Emitter, shifted: Any) -> Any:
    """k as a float, from k << mantissa. By way of 2**p + 2**(p-1) + k, as AVX2 converts no 64-bit
    integers."""
    bits = bits_of(shifted.type)
    mantissa = MANTISSA_BITS[bits]
    if bits == 32:
        return e.builder.sitofp(e.shift_right(shifted, mantissa, signed=True), e.like(shifted, e.float))
    biased = e.shift_right(e.add(shifted, 2048 << mantissa), mantissa)  # k + 2048, not negative
    return e.sub(e.from_bits(e.or_(biased, 0x4330000000000000)), 2.0**52 + 2048)


def log_parts(e: Emitter, x: Any) -> tuple[Any, Any]:
    """(k as a float, f) for x > 0, subnormal numbers included."""
    bits = bits_of(x.type)
    up = MANTISSA_BITS[bits] + 2
    tiny = e.compare("<", x, _LEAST_NORMAL[bits])
    exponent, m = split(e, e.select(tiny, e.mul(x, 2.0**up), x))
    k = e.sub(exponent_as_float(e, exponent), e.select(tiny, e.constant(float(up), x), 0.0))
    return k, e.sub(m, 1.0)


def log1p_tail(e: Emitter, f: Any, plus: Any = None) -> Any:
    """log(1 + f) - f, plus a small number if given, for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    z = e.mul(f, f)
    if not e.is_double(f):
        cubic = e.mul(e.mul(e.horner(f, table.LOG[32]), f), z)
        return e.mul_add(z, -0.5, cubic if plus is None else e.add(cubic, plus))
    s = e.div(f, e.add(f, 2.0))
    half, w = e.mul(z, 0.5), e.mul(s, s)
    rest = e.mul(w, e.horner(w, table.LOG[64]))
    inner = e.mul(s, e.add(half, rest)) if plus is None else e.mul_add(s, e.add(half, rest), plus)
    return e.sub(inner, half)


def log_of_parts(e: Emitter, k: Any, f: Any) -> Any:
    high, low = LN2[bits_of(f.type)]
    tail = log1p_tail(e, f, e.mul(k, low))
    return e.mul_add(k, high, e.add(f, tail))


def _outside(e: Emitter, x: Any, result: Any, pole: float = 0.0) -> Any:
    """-inf at the pole, NaN below it, and x itself if it is infinite or NaN."""
    edge = e.select(e.compare("==", x, pole), -INFINITY, e.constant(NAN, x))
    result = e.select(e.compare("<=", x, pole), edge, result)
    return e.select(e.compare("<", x, INFINITY), result, x)


@function()
def log(e: Emitter, x: Any) -> Any:
    return _outside(e, x, log_of_parts(e, *log_parts(e, x)))


@function()
def log2(e: Emitter, x: Any) -> Any:
    high, low = _PER_LN2[bits_of(x.type)]
    k, f = log_parts(e, x)
    tail = log1p_tail(e, f)
    fraction = e.mul_add(f, high, e.mul_add(f, low, e.mul(tail, high)))
    return _outside(e, x, e.add(k, fraction))


@function()
def log10(e: Emitter, x: Any) -> Any:
    bits = bits_of(x.type)
    (high, low), (high2, low2) = _PER_LN10[bits], _LOG10_2[bits]
    k, f = log_parts(e, x)
    tail = e.mul_add(f, low, e.mul_add(log1p_tail(e, f), high, e.mul(k, low2)))
    return _outside(e, x, e.mul_add(k, high2, e.mul_add(f, high, tail)))


def log1p_inside(e: Emitter, x: Any) -> Any:
    """log(1 + x) for finite x > -1; keeps the sign of zero."""
    total = e.add(x, 1.0)
    # What rounding took from the sum, exactly: 1 + x = total + error.
    error = e.select(e.compare("<", x, 1.0), e.sub(x, e.sub(total, 1.0)), e.sub(1.0, e.sub(total, x)))
    exponent, m = split(e, total)
    bits = bits_of(x.type)
    # 2**-k; the largest k, which a normal number has no inverse for, are cut down: there is no error to
    # scale.
    largest = e.constant((EXPONENT_BIAS[bits] - 2) << MANTISSA_BITS[bits], exponent)
    down = e.from_bits(e.sub(_ONE_BITS[bits], e.minimum(exponent, largest)))
    f = e.mul_add(error, down, e.sub(m, 1.0))
    k = exponent_as_float(e, exponent)
    high, low = LN2[bits]
    result = e.mul_add(k, high, e.add(f, log1p_tail(e, f, e.mul(k, low))))
    return e.copysign(result, x)


@function()
def log1p(e: Emitter, x: Any) -> Any:
    return _outside(e, x, log1p_inside(e, x), pole=-1.0)


@function()
def asinh(e: Emitter, x: Any) -> Any:
    """log(a + sqrt(a**2 + 1)) as log1p(a + a**2 / (1 + sqrt(a**2 + 1))); for large a it is log a + ln 2."""
    a = e.abs(x)
    limit = {32: 2.0**30, 64: 2.0**500}[bits_of(x.type)]
    large = e.compare(">", a, limit)
    b = e.select(large, e.constant(1.0, x), a)
    square = e.mul(b, b)
    near = e.add(b, e.div(square, e.add(e.sqrt(e.add(square, 1.0)), 1.0)))
    return e.copysign(_log1p_or_log_twice(e, near, a, large), x)


@function()
def acosh(e: Emitter, x: Any) -> Any:
    """log(x + sqrt(x**2 - 1)) as log1p(t + sqrt(2 t + t**2)), t = x - 1."""
    limit = {32: 2.0**30, 64: 2.0**500}[bits_of(x.type)]
    large = e.compare(">", x, limit)
    t = e.sub(e.select(large, e.constant(2.0, x), x), 1.0)
    near = e.add(t, e.sqrt(e.mul_add(t, t, e.add(t, t))))
    result = _log1p_or_log_twice(e, near, x, large)
    return e.select(e.compare("<", x, 1.0), e.constant(NAN, x), result)


def _log1p_or_log_twice(e: Emitter, near: Any, a: Any, large: Any) -> Any:
    """log1p(near), or log(2 a) where a is so large that the two differ by 1 at most; NaN stays NaN."""
    bits = bits_of(a.type)
    log1p_value = log1p_inside(e, e.select(large, e.mul(a, 0.5), near))
    high, low = LN2[bits]  # log1p(a / 2) = log(2 a) - 2 ln 2
    result = e.add(log1p_value, e.select(large, e.constant(2 * (high + low), a), 0.0))
    return e.select(e.compare("<", a, INFINITY), result, a)


@function()
def atanh(e: Emitter, x: Any) -> Any:
    """log1p(2 a / (1 - a)) / 2."""
    a = e.abs(x)
    inside = e.select(e.compare("<", a, 1.0), a, 0.0)
    half = e.mul(log1p_inside(e, e.div(e.add(inside, inside), e.sub(1.0, inside))), 0.5)
    edge = e.select(e.compare("==", a, 1.0), INFINITY, e.constant(NAN, x))
    return e.copysign(e.select(e.compare("<", a, 1.0), half, edge), x)

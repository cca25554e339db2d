"""Rounding, division with remainder and the format of floats."""

from __future__ import annotations

from typing import Any

from ..emitter import Emitter
from ..types import EXPONENT_BIAS, MANTISSA_BITS, bits_of, is_float
from .registry import function

for _name in ("floor", "ceil", "trunc", "round"):
    function(_name)(lambda e, x, method=_name: getattr(e, method)(x) if is_float(x.type) else x)

# So that no quotient overflows; twice this factor reaches from the least to the largest number.
_STEP = {32: 2.0**100, 64: 2.0**900}


def fmod(e: Emitter, x: Any, y: Any) -> Any:
    """x - y trunc(x / y), exactly; it has the sign of x.

    a - q b is exact for the rounded quotient q, and for q truncated to an integer if that fits; a quotient
    with more bits than q has needs another round. Rounding q up leaves a negative remainder, to which b is
    added once.
    """
    a, b = e.abs(x), e.abs(y)
    step = _STEP[bits_of(x.type)]

    def reduce(rest: Any) -> tuple[Any, list[Any]]:
        size = e.abs(rest)
        once = e.mul(b, step)
        twice = e.mul(once, step)
        divisor = e.select(e.compare(">=", size, once), once, b)
        divisor = e.select(e.compare(">=", size, twice), twice, divisor)
        quotient = e.trunc(e.div(rest, divisor))
        rest = e.fma(e.neg(quotient), divisor, rest)
        return e.any(e.compare(">=", e.abs(rest), b)), [rest]

    rest = e.repeat([a], reduce)[0]
    rest = e.select(e.compare("<", rest, 0.0), e.add(rest, b), rest)
    rest = e.select(e.compare("<", a, b), a, rest)  # also where b is infinite
    return e.copysign(rest, x)


def _has_other_sign(e: Emitter, rest: Any, y: Any) -> Any:
    """Whether a remainder is not zero and has not the sign of the divisor."""
    different = e.xor(e.compare("<", y, 0.0), e.compare("<", rest, 0.0))
    return e.and_(e.compare("!=", rest, 0.0), different)


def remainder(e: Emitter, x: Any, y: Any) -> Any:
    """x - y floor(x / y): has the sign of y."""
    rest = fmod(e, x, y)
    return e.select(_has_other_sign(e, rest, y), e.add(rest, y), rest)


def floor_div(e: Emitter, x: Any, y: Any) -> Any:
    """floor(x / y) as it would be without rounding: from the exact remainder, as PyTorch and Python do it."""
    rest = fmod(e, x, y)
    quotient = e.div(e.sub(x, rest), y)
    quotient = e.select(_has_other_sign(e, rest, y), e.sub(quotient, 1.0), quotient)
    whole = e.floor(quotient)
    whole = e.select(e.compare(">", e.sub(quotient, whole), 0.5), e.add(whole, 1.0), whole)
    plain = e.div(x, y)
    whole = e.select(e.compare("==", quotient, 0.0), e.copysign(e.constant(0.0, x), plain), whole)
    return e.select(e.compare("==", y, 0.0), plain, whole)


def _next(e: Emitter, x: Any, y: Any, unit: int) -> Any:
    """The number beside x in the direction of y, where neighbours differ by `unit` in their bits."""
    pattern = e.bits(x)
    away = e.compare("==", e.compare(">", y, x), e.compare(">", x, 0.0))
    stepped = e.from_bits(e.add(pattern, e.select(away, e.constant(unit, pattern), -unit)))
    least = e.copysign(e.from_bits(e.constant(unit, pattern)), y)
    result = e.select(e.compare("==", x, 0.0), least, stepped)
    result = e.select(e.compare("==", x, y), y, result)
    unordered = e.builder.fcmp_unordered("uno", x, y)
    return e.select(unordered, e.constant(float("nan"), x), result)


@function()
def nextafter(e: Emitter, x: Any, y: Any) -> Any:
    return _next(e, x, y, 1)


def nextafter_bfloat16(e: Emitter, x: Any, y: Any) -> Any:
    """nextafter among bfloat16 numbers, held as floats."""
    return _next(e, x, y, 1 << 16)


@function()
def frexp(e: Emitter, x: Any) -> tuple[Any, Any]:
    """(m, n) with x = m 2**n, 1/2 <= |m| < 1 and n an i32; (x, 0) for zeros, infinities and NaN."""
    bits = bits_of(x.type)
    mantissa, bias = MANTISSA_BITS[bits], EXPONENT_BIAS[bits]
    up = mantissa + 2
    tiny = e.compare("<", e.abs(x), 2.0 ** (1 - bias))
    pattern = e.bits(e.select(tiny, e.mul(x, 2.0**up), x))
    field = e.and_(e.shift_right(pattern, mantissa), 2 * bias + 1)
    exponent = e.sub(field, e.select(tiny, e.constant(bias - 1 + up, field), bias - 1))
    middle = e.from_bits(e.or_(e.and_(pattern, ~((2 * bias + 1) << mantissa)), (bias - 1) << mantissa))
    size = e.abs(x)
    ordinary = e.and_(e.compare(">", size, 0.0), e.compare("<", size, float("inf")))
    return e.select(ordinary, middle, x), e.cast(e.select(ordinary, exponent, 0), e.i32)


@function()
def ldexp(e: Emitter, x: Any, n: Any) -> Any:
    """x 2**n for integers n, rounded once: the mantissa is multiplied by two powers, of which the first is
    exact."""
    bits = bits_of(x.type)
    kind = e.i32 if bits == 32 else e.i64
    mantissa, exponent = frexp(e, x)
    n, exponent = e.cast(e.clamp_integer(n, -5000, 5000), kind), e.cast(exponent, kind)
    limit = {32: 200, 64: 1200}[bits]
    total = e.clamp_integer(e.add(n, exponent), -limit, limit)
    half = e.shift_right(total, 1, signed=True)
    return e.mul(e.mul(mantissa, e.power_of_two(half)), e.power_of_two(e.sub(total, half)))

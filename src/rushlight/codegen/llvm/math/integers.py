"""Integer division, shifts, powers and gcd with PyTorch's semantics; none can trap.

A divisor of 0, for which PyTorch raises, is taken as 1 here: who must raise asks beforehand. The least
integer divided by -1 wraps around. AVX has no integer division: quotients of up to 32 bits are exact in a
float type that holds them.

Divisions by powers of two are shifts here, not left to LLVM: LLVM 22 loses the shift of
(x + (x >> 63 unsigned)) >> 1, its own form of x / 2, where x is a product of narrow 64-bit values.
"""

from __future__ import annotations

from typing import Any

from ....core.lazy import LazyModule
from ..constants import integer_of
from ..emitter import Emitter
from ..types import bits_of, element_of, is_float
from . import rounding
from .power import float_power
from .registry import function

ir = LazyModule("llvmlite.ir")


def divide(e: Emitter, x: Any, y: Any, signed: bool) -> tuple[Any, Any]:
    """(quotient, remainder), the quotient rounded towards zero."""
    bits = bits_of(x.type)
    power = _exponent(y) if signed else None
    if power is not None:
        return _shifted(e, x, *power)
    unsafe = e.compare("==", y, 0)
    minus = e.compare("==", y, -1) if signed else unsafe
    divisor = e.select(e.or_(unsafe, minus), 1, y)
    if bits == 64 or isinstance(y, ir.Constant):  # LLVM turns a division by a constant into a multiplication
        quotient = (e.builder.sdiv if signed else e.builder.udiv)(x, divisor)
    else:
        kind = e.float if bits < 32 else e.double
        top, bottom = (e.cast(v, kind, signed_from=signed) for v in (x, divisor))
        quotient = e.cast(e.div(top, bottom), element_of(x.type), signed_to=signed)
    if signed:
        quotient = e.select(minus, e.neg(x), quotient)
        divisor = e.select(minus, -1, divisor)
    return quotient, e.sub(x, e.mul(quotient, divisor))


def _exponent(y: Any) -> tuple[int, bool] | None:
    """(k, False) if y is the constant 2**k, (k, True) if it is -2**k, for k > 0."""
    number = integer_of(y)
    size = 0 if number is None else abs(number)
    if number is None or size < 2 or size & (size - 1):
        return None
    return size.bit_length() - 1, number < 0


def _shifted(e: Emitter, x: Any, power: int, negative: bool) -> tuple[Any, Any]:
    """`divide` by a power of two, or by a negative one."""
    floor = e.shift_right(x, power, signed=True)
    low = e.and_(x, (1 << power) - 1)
    up = e.and_(e.compare("<", x, 0), e.compare("!=", low, 0))
    quotient = e.add(floor, e.builder.zext(up, x.type))
    return e.neg(quotient) if negative else quotient, e.sub(x, e.shift_left(quotient, power))


def _floored(e: Emitter, x: Any, y: Any, signed: bool) -> tuple[Any, Any]:
    """(quotient, remainder), the quotient rounded down."""
    power = _exponent(y) if signed else None
    if power is not None and not power[1]:
        return e.shift_right(x, power[0], signed=True), e.and_(x, (1 << power[0]) - 1)
    quotient, rest = divide(e, x, y, signed)
    if not signed:
        return quotient, rest
    other_sign = e.compare("<", e.xor(rest, y), 0)
    below = e.and_(e.compare("!=", rest, 0), other_sign)
    return e.select(below, e.sub(quotient, 1), quotient), e.select(below, e.add(rest, y), rest)


@function(by_sign=True)
def floor_div(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return rounding.floor_div(e, x, y) if is_float(x.type) else _floored(e, x, y, signed)[0]


@function(by_sign=True)
def remainder(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return rounding.remainder(e, x, y) if is_float(x.type) else _floored(e, x, y, signed)[1]


@function(by_sign=True)
def trunc_div(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return e.trunc(e.div(x, y)) if is_float(x.type) else divide(e, x, y, signed)[0]


@function(by_sign=True)
def fmod(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return rounding.fmod(e, x, y) if is_float(x.type) else divide(e, x, y, signed)[1]


@function(by_sign=True)
def gcd(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    """Euclid's algorithm on magnitudes, until the last lane is done."""
    if signed:
        x, y = e.abs(x), e.abs(y)

    def step(a: Any, b: Any) -> tuple[Any, list[Any]]:
        rest = divide(e, a, b, signed=False)[1]
        done = e.compare("==", b, 0)
        b, a = e.select(done, b, rest), e.select(done, a, b)
        return e.any(e.compare("!=", b, 0)), [a, b]

    return e.repeat([x, y], step)[0]


@function()
def bitwise_left_shift(e: Emitter, x: Any, count: Any) -> Any:
    """0 for counts beyond the width, and negative ones."""
    inside = e.compare("<", count, bits_of(x.type), signed=False)
    return e.select(inside, e.shift_left(x, e.select(inside, count, 0)), 0)


@function(by_sign=True)
def bitwise_right_shift(e: Emitter, x: Any, count: Any, *, signed: bool) -> Any:
    """Copies of the sign, or 0 if unsigned, for counts beyond the width, and negative ones."""
    bits = bits_of(x.type)
    inside = e.compare("<", count, bits, signed=False)
    if signed:
        return e.shift_right(x, e.select(inside, count, bits - 1), signed=True)
    return e.select(inside, e.shift_right(x, e.select(inside, count, 0)), 0)


@function("pow", by_sign=True)
def power(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return float_power(e, x, y) if is_float(x.type) else integer_power(e, x, y, signed)


def integer_power(e: Emitter, x: Any, y: Any, signed: bool) -> Any:
    """By repeated squaring, wrapping around; 1 / x**-y truncated for negative y: 0 unless x is 1 or -1."""
    negative = e.compare("<", y, 0) if signed else None
    exponent = y if negative is None else e.select(negative, 0, y)

    def step(base: Any, left: Any, result: Any) -> tuple[Any, list[Any]]:
        odd = e.compare("!=", e.and_(left, 1), 0)
        result = e.select(odd, e.mul(result, base), result)
        left = e.shift_right(left, 1)
        return e.any(e.compare("!=", left, 0)), [e.mul(base, base), left, result]

    result = e.repeat([x, exponent, e.constant(1, x)], step)[2]
    if negative is None:
        return result
    sign = e.select(e.compare("!=", e.and_(y, 1), 0), e.constant(-1, x), 1)
    inverse = e.select(e.compare("==", x, 1), 1, e.select(e.compare("==", x, -1), sign, 0))
    return e.select(negative, inverse, result)

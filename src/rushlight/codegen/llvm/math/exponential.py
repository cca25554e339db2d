"""exp and what is made of it: exp2, expm1, sigmoid, tanh, sinh, cosh.

x = n ln 2 + r with |r| <= ln(2) / 2, so that e**x = 2**n e**r and e**r is a polynomial. n is found by adding
1.5 * 2**p, p the number of bits after the leading one: the sum's low bits are the integer n, without a
conversion that NaN could upset.
"""

from __future__ import annotations

from typing import Any

from ..emitter import Emitter
from ..types import EXPONENT_BIAS, MANTISSA_BITS, bits_of
from . import coefficients as table
from .registry import function

LOG2_E = 1.4426950408889634
# The high part has so few bits that n * high is exact for every exponent n.
LN2 = {
    32: (0.693359375, -2.1219444005469058e-4),
    64: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
MAGIC = {32: 1.5 * 2.0**23, 64: 1.5 * 2.0**52}
MAGIC_BITS = {32: 0x4B400000, 64: 0x4338000000000000}

# Beyond these the result is 0 or infinity. At the lower ends 2**n is made of factors that are 0 themselves:
# to multiply by small ones until nothing is left takes the machine long, and masks are full of e**-inf.
_LN2 = 0.6931471805599453
_EXP_RANGE = {32: (-254 * _LN2, 89.0), 64: (-2046 * _LN2, 710.0)}
_EXP2_RANGE = {32: (-254.0, 129.0), 64: (-2046.0, 1025.0)}
_EXPM1_RANGE = {32: (-20.0, 89.0), 64: (-40.0, 710.0)}


def reduce_exp(e: Emitter, x: Any) -> tuple[Any, Any]:
    """(n + MAGIC, r) for x in the range of exp."""
    bits = bits_of(x.type)
    shifted = e.mul_add(x, LOG2_E, MAGIC[bits])
    n = e.sub(shifted, MAGIC[bits])
    high, low = LN2[bits]
    return shifted, e.mul_add(n, -low, e.mul_add(n, -high, x))


def expm1_reduced(e: Emitter, r: Any, coefficients: Any) -> Any:
    """e**r - 1 for a reduced r."""
    return e.mul_add(e.mul(r, r), e.horner(r, coefficients), r)


def power(e: Emitter, shifted: Any, minus: int = 0) -> Any:
    """2**(n - minus) from n + MAGIC, if that is a normal number; from NaN, anything."""
    bits = bits_of(shifted.type)
    exponent = e.shift_left(e.bits(shifted), MANTISSA_BITS[bits])
    return e.from_bits(e.add(exponent, (EXPONENT_BIAS[bits] - minus) << MANTISSA_BITS[bits]))


def scale_fully(e: Emitter, x: Any, shifted: Any, minus: int = 0) -> Any:
    """x * 2**(n - minus) by two factors, each normal: right for results that are subnormal or infinite."""
    bits = bits_of(x.type)
    mantissa, bias = MANTISSA_BITS[bits], EXPONENT_BIAS[bits]
    both = e.add(e.bits(shifted), 2 * bias - minus - MAGIC_BITS[bits])
    first = e.shift_right(both, 1)
    second = e.sub(both, first)
    x = e.mul(x, e.from_bits(e.shift_left(first, mantissa)))
    return e.mul(x, e.from_bits(e.shift_left(second, mantissa)))


@function()
def exp(e: Emitter, x: Any) -> Any:
    bits = bits_of(x.type)
    shifted, r = reduce_exp(e, e.clamp(x, *_EXP_RANGE[bits]))
    return scale_fully(e, e.add(expm1_reduced(e, r, table.EXP[bits]), 1.0), shifted)


# What e**x for x <= 0 is multiplied by meanwhile: its logarithm to the base 2.
_LIFT = {32: 64, 64: 512}


@function()
def exp_nonpositive(e: Emitter, x: Any) -> Any:
    """exp for x <= 0 or NaN: one factor is enough, as 2**n can be lifted to where it is normal (or 0, at the
    end)."""
    bits = bits_of(x.type)
    shifted, r = reduce_exp(e, e.at_least(x, -(EXPONENT_BIAS[bits] + _LIFT[bits]) * _LN2))
    factor = power(e, shifted, minus=-_LIFT[bits])
    return e.mul(e.mul_add(expm1_reduced(e, r, table.EXP[bits]), factor, factor), 2.0 ** -_LIFT[bits])


def exp_normal(e: Emitter, x: Any) -> Any:
    """exp for x known to give a normal number."""
    shifted, r = reduce_exp(e, x)
    return e.mul(e.add(expm1_reduced(e, r, table.EXP[bits_of(x.type)]), 1.0), power(e, shifted))


def exp_parts(e: Emitter, x: Any) -> tuple[Any, Any]:
    """(m, n + MAGIC) with e**x = m 2**n, for what is to be multiplied by m before it is scaled: n may exceed
    exponents, as far as two factors can express it."""
    low, high = _EXP_RANGE[bits_of(x.type)]
    shifted, r = reduce_exp(e, e.clamp(x, low, 2 * high - 3.0))
    return e.add(expm1_reduced(e, r, table.EXP[bits_of(x.type)]), 1.0), shifted


@function()
def exp2(e: Emitter, x: Any) -> Any:
    bits = bits_of(x.type)
    x = e.clamp(x, *_EXP2_RANGE[bits])
    shifted = e.add(x, MAGIC[bits])
    r = e.sub(x, e.sub(shifted, MAGIC[bits]))
    return scale_fully(e, e.mul_add(r, e.horner(r, table.EXP2[bits]), 1.0), shifted)


_EXPM1_IS_X = {32: 2.0**-26, 64: 2.0**-55}


@function()
def expm1(e: Emitter, x: Any) -> Any:
    """2**n (e**r - 1) + (2**n - 1), halved meanwhile because 2**n may overflow when the result does not."""
    bits = bits_of(x.type)
    shifted, r = reduce_exp(e, e.clamp(x, *_EXPM1_RANGE[bits]))
    p = expm1_reduced(e, r, table.EXPM1[bits])
    half = power(e, shifted, minus=1)
    result = e.mul(e.mul_add(p, half, e.sub(half, 0.5)), 2.0)
    # as exact as can be near 0; and -0.0 stays, and the smallest numbers, which have no half
    return e.select(e.compare("<", e.abs(x), _EXPM1_IS_X[bits]), x, result)


@function()
def sigmoid(e: Emitter, x: Any) -> Any:
    """1 / (1 + e**-x) as (1/2) / (1/2 + 2**(n-1) (1 + p)), where 1/2 + 2**(n-1) is exact or nearly so.

    What would be subnormal beyond the largest e**-x is 0.
    """
    bits = bits_of(x.type)
    end = _EXP_RANGE[bits][1]
    shifted, r = reduce_exp(e, e.clamp(e.neg(x), -80.0, end))
    half = power(e, shifted, minus=1)
    half_sum = e.mul_add(expm1_reduced(e, r, table.EXP[bits]), half, e.add(half, 0.5))
    return e.select(e.compare("<", x, -end), 0.0, e.div(0.5, half_sum))


# Where tanh is about 1/2, and what |x| is multiplied by to give n. For float n is 1 up to there.
_TANH_HALF = 0.5494
_TANH_STEPS = {32: 1.5 / _TANH_HALF, 64: 2 * LOG2_E}


@function()
def tanh(e: Emitter, x: Any) -> Any:
    """|x| = n ln(2) / 2 + u: with f = 2**n and t = tanh u, a short polynomial, the addition theorem gives
    ((f - 1) + (f + 1) t) / ((f + 1) + (f - 1) t).

    Above 1/2 it is taken as 1 - 2 (1 - t) / ((f + 1) + (f - 1) t), whose rounding errors weigh less. For
    float, n falls behind for large x, where t counts for little.
    """
    bits = bits_of(x.type)
    a = e.at_most(e.abs(x), 10.0 if bits == 32 else 20.0)
    shifted = e.mul_add(a, _TANH_STEPS[bits], MAGIC[bits])
    n = e.sub(shifted, MAGIC[bits])
    high, low = LN2[bits]
    if bits == 32:  # n is small: ln 2 rounded to float is good enough
        u = e.mul_add(n, -(high + low) / 2, a)
    else:
        u = e.mul_add(n, -low / 2, e.mul_add(n, -high / 2, a))
    z = e.mul(u, u)
    t = e.mul_add(e.mul(u, z), e.horner(z, table.TANH[bits]), u)
    f = power(e, shifted)
    less, more = e.sub(f, 1.0), e.add(f, 1.0)
    far = e.compare(">", a, _TANH_HALF)
    above = e.mul_add(e.select(far, 2.0, more), t, e.select(far, -2.0, less))
    start = e.select(far, e.constant(1.0, x.type), 0.0)
    return e.with_sign(e.add(e.div(above, e.mul_add(less, t, more)), start), x)


def exp_over(e: Emitter, a: Any, power: int) -> Any:
    """e**a / 2**power for a >= 0, infinite only if that is."""
    bits = bits_of(a.type)
    shifted, r = reduce_exp(e, e.at_most(a, _EXP_RANGE[bits][1] + power))
    return scale_fully(e, e.add(expm1_reduced(e, r, table.EXP[bits]), 1.0), shifted, minus=power)


def sinh_cosh(e: Emitter, x: Any) -> tuple[Any, Any]:
    """Both, from h = e**|x| / 2: h - 1 / (4 h), near 0 a polynomial instead, and h + 1 / (4 h)."""
    a = e.abs(x)
    half = exp_over(e, a, 1)
    inverse = e.div(0.25, half)
    z = e.mul(a, a)
    small = e.mul_add(e.mul(a, z), e.horner(z, table.SINH[bits_of(x.type)]), a)
    sine = e.select(e.compare("<", a, 1.0), small, e.sub(half, inverse))
    return e.copysign(sine, x), e.add(half, inverse)


@function()
def sinh(e: Emitter, x: Any) -> Any:
    return sinh_cosh(e, x)[0]


@function()
def cosh(e: Emitter, x: Any) -> Any:
    return sinh_cosh(e, x)[1]

"""erf, erfc, erfcx, the normal distribution ndtr with its density, and the inverses erfinv and ndtri.

erfc x = e**(-x**2) erfcx x, and erfcx x = g(q) / (x + c) with q = (x - c) / (x + c), which maps x >= 0 to
[-1, 1): one polynomial g holds for all x >= 0, so that erfc keeps its relative accuracy in the tail.
"""

from __future__ import annotations

import math
from typing import Any

from ..emitter import Emitter
from ..types import EXPONENT_BIAS, MANTISSA_BITS, bits_of
from . import coefficients as table
from .exponential import LOG2_E, MAGIC, exp, exp_nonpositive, exp_normal
from .logarithm import INFINITY, log_of_parts, log_parts
from .registry import function

_CENTRE = {32: 3.0, 64: 4.0}
_ERFC_END = {32: 10.1, 64: 27.5}  # beyond, erfc rounds to 0
_HALF_ROOT_PI = math.sqrt(math.pi) / 2


def _scaled_erfc(e: Emitter, a: Any) -> Any:
    """e**(a**2) erfc(a) for finite a >= 0."""
    bits = bits_of(a.type)
    centre = _CENTRE[bits]
    below, above = e.sub(a, centre), e.add(a, centre)
    inverse = e.div(1.0, above)
    q = e.mul(below, inverse)
    # For small a the result depends steeply on q, so q is corrected for the rounding of all that it is made
    # of.
    above_rest, below_rest = e.sub(a, e.sub(above, centre)), e.sub(a, e.add(below, centre))
    rest = e.add(e.fma(e.neg(q), above, below), e.mul_add(e.neg(q), above_rest, below_rest))
    q = e.mul_add(rest, inverse, q)
    g = e.horner(q, table.ERFCX[bits])
    # 1 / (a + centre) likewise.
    rest = e.mul_add(e.neg(inverse), above_rest, e.fma(e.neg(inverse), above, 1.0))
    return e.mul_add(g, inverse, e.mul(g, e.mul(rest, inverse)))


def _times_exp_of_square(e: Emitter, factor: Any, a: Any, sign: int) -> Any:
    """factor e**(sign a**2); what rounding takes from a**2 is multiplied in to first order."""
    square, rest = e.two_product(a, a)
    if sign < 0:
        square, rest = e.neg(square), e.neg(rest)
    return e.mul(exp(e, square), e.mul_add(factor, rest, factor))


def _erfc_roughly(e: Emitter, a: Any) -> Any:
    """erfc a for 1 <= a <= 6, with some units of error, which do not matter in 1 - erfc a."""
    inverse = e.div(1.0, e.add(a, _CENTRE[64]))
    q = e.mul(e.sub(a, _CENTRE[64]), inverse)
    return e.mul(e.mul(inverse, e.horner(q, table.ERFCX[64])), exp_normal(e, e.mul(e.neg(a), a)))


def _erfc_positive(e: Emitter, a: Any) -> Any:
    a = e.at_most(a, _ERFC_END[bits_of(a.type)])
    return _times_exp_of_square(e, _scaled_erfc(e, a), a, -1)


@function()
def erf(e: Emitter, x: Any) -> Any:
    """x (1 + p(x**2)) near 0; else 1 - erfc, which for floats is the eighth power of a polynomial."""
    bits = bits_of(x.type)
    a = e.abs(x)
    near = e.mul_add(x, e.horner(e.mul(x, x), table.ERF[bits]), x)
    if bits == 32:
        root = e.horner(e.at_most(a, 4.0), table.ERFC_ROOT[32])
        for _ in range(3):
            root = e.mul(root, root)
        far = e.sub(1.0, root)
    else:
        far = e.sub(1.0, _erfc_roughly(e, e.at_most(a, 6.0)))
    return e.select(e.compare("<", a, 1.1 if bits == 32 else 1.0), near, e.with_sign(far, x))


@function()
def ndtr(e: Emitter, x: Any) -> Any:
    """1/2 + erf(x / sqrt 2) / 2.

    For floats erf is taken as the sine of three times an angle, (3 y - y**3) / 2 with y twice the angle's
    sine. Where erf is near 1 that is flat and forgives errors of y, so that y is a short polynomial for all
    x: odd, hence right near 0, and growing beyond 1, where y ends.
    """
    if bits_of(x.type) == 64:
        return e.mul_add(erf(e, e.mul(x, math.sqrt(0.5))), 0.5, 0.5)
    y = e.clamp(e.mul(x, e.horner(e.mul(x, x), table.NDTR_SINE[32])), -1.0, 1.0)
    return e.at_least(e.mul_add(y, e.mul_add(e.mul(y, y), -0.25, 0.75), 0.5), 0.0)  # rounding may go below


# Where 2**n is 0 for floats, as its bits are.
_DENSITY_END = 2 * EXPONENT_BIAS[32] / LOG2_E


@function()
def density(e: Emitter, x: Any) -> Any:
    """e**(-x**2 / 2) / sqrt(2 pi), the derivative of ndtr.

    For floats as 2**(n + r) with a polynomial for 2**r / sqrt(2 pi). What n is rounded with has the bias of
    exponents in it, so that the sum's low bits, shifted, are 2**n. Results below 2**-127.8 are 0.
    """
    z = e.mul(x, x)
    if bits_of(x.type) == 64:
        return e.mul(exp_nonpositive(e, e.mul(z, -0.5)), 1 / math.sqrt(2 * math.pi))
    z, start = e.at_most(z, _DENSITY_END), MAGIC[32] + EXPONENT_BIAS[32]
    shifted = e.mul_add(z, -LOG2_E / 2, start)
    r = e.mul_add(z, -LOG2_E / 2, e.sub(start, shifted))
    power = e.from_bits(e.shift_left(e.bits(shifted), MANTISSA_BITS[32]))
    return e.mul(e.horner(r, table.DENSITY[32]), power)


@function()
def erfc(e: Emitter, x: Any) -> Any:
    tail = _erfc_positive(e, e.abs(x))
    return e.select(e.compare("<", x, 0.0), e.sub(2.0, tail), tail)


@function()
def erfcx(e: Emitter, x: Any) -> Any:
    """e**(x**2) erfc(x), for x < 0 as 2 e**(x**2) - erfcx(-x)."""
    a = e.abs(x)
    scaled = _scaled_erfc(e, e.select(e.compare("==", a, INFINITY), 1.0, a))
    scaled = e.select(e.compare("==", a, INFINITY), 0.0, scaled)
    bounded = e.at_least(e.at_most(x, 0.0), -_ERFC_END[bits_of(x.type)])
    back = e.sub(_times_exp_of_square(e, e.constant(2.0, x), bounded, 1), scaled)
    return e.select(e.compare("<", x, 0.0), back, scaled)


def _inverse(e: Emitter, x: Any, y: Any, refine: bool) -> Any:
    """erfinv(|x|) for doubles, where y = 1 - |x| is given too, exactly, for |x| > 1/2.

    There v with erfc(v) = y is a polynomial of sqrt(-log y), right to 2**-24, and for doubles one step of
    Halley's method on erfc(v) - y, written with erfcx so that nothing underflows.
    """
    near = e.mul(x, e.horner(e.mul(x, x), table.ERFINV[64]))
    w = e.neg(log_of_parts(e, *log_parts(e, y)))
    s = e.sqrt(w)
    middle = e.horner(e.sub(s, 3.5), table.ERFCINV_MIDDLE[64])
    far = e.mul(s, e.horner(e.div(1.0, s), table.ERFCINV_FAR[64]))
    v = e.select(e.compare("<", s, 6.2), middle, far)
    if refine:
        square, rest = e.two_product(v, v)
        ratio = exp_normal(e, e.add(e.sub(square, w), rest))  # y e**(v**2)
        step = e.mul(e.sub(ratio, _scaled_erfc(e, v)), _HALF_ROOT_PI)
        v = e.sub(v, e.div(step, e.mul_add(v, step, 1.0)))
    v = e.select(e.compare("==", y, 0.0), e.constant(INFINITY, x), v)
    v = e.select(e.compare("<", y, 0.0), e.constant(float("nan"), x), v)
    return e.select(e.compare(">", x, 0.5), v, near)  # of NaN, near is NaN


@function()
def erfinv(e: Emitter, x: Any) -> Any:
    double = e.is_double(x)
    wide = x if double else e.widen(x)
    a = e.abs(wide)
    result = e.copysign(_inverse(e, a, e.sub(1.0, a), refine=double), wide)
    return result if double else e.narrow(result)


@function()
def ndtri(e: Emitter, p: Any) -> Any:
    """The x below which the normal distribution has probability p: sqrt(2) erfinv(2 p - 1)."""
    double = e.is_double(p)
    wide = p if double else e.widen(p)
    other = e.sub(1.0, wide)
    tail = e.mul(e.select(e.compare("<", wide, 0.5), wide, other), 2.0)
    x = e.sub(wide, other)
    size = _inverse(e, e.abs(x), tail, refine=double)
    result = e.mul(e.copysign(size, x), math.sqrt(2.0))
    return result if double else e.narrow(result)

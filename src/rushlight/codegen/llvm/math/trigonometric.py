"""sin, cos and tan of any angle, however large.

With x = n pi/2 + r, |r| <= pi/4, each is sin r or cos r with a sign, by n modulo 4.
"""

from __future__ import annotations

from typing import Any

from ..emitter import Emitter
from ..types import bits_of
from . import coefficients as table
from .registry import function
from .turns import reduce_turns


def sine_reduced(e: Emitter, r: Any, rest: Any) -> Any:
    """sin(r + rest) for |r| <= 0.8."""
    z = e.mul(r, r)
    return e.add(r, e.mul_add(e.mul(r, z), e.horner(z, table.SIN[bits_of(r.type)]), rest))


def cosine_reduced(e: Emitter, r: Any, rest: Any, precise: bool = False) -> Any:
    """cos(r + rest) for |r| <= 0.8; `precise` adds what rounding takes from 1 - r**2 / 2."""
    z = e.mul(r, r)
    tail = e.mul_add(e.mul(z, z), e.horner(z, table.COS[bits_of(r.type)]), e.mul(e.neg(r), rest))
    top = e.mul_add(z, -0.5, 1.0)
    if precise:
        tail = e.add(tail, e.mul_add(z, -0.5, e.sub(1.0, top)))
    return e.add(tail, top)


def _is_odd(e: Emitter, n: Any) -> Any:
    return e.compare("!=", e.and_(n, 1), 0)


def _negated_in_second_half(e: Emitter, x: Any, n: Any) -> Any:
    """-x where n modulo 4 is 2 or 3."""
    return e.from_bits(e.xor(e.bits(x), e.shift_left(e.and_(n, 2), bits_of(x.type) - 2)))


@function()
def sin(e: Emitter, x: Any) -> Any:
    r, rest, n = reduce_turns(e, x)
    result = e.select(_is_odd(e, n), cosine_reduced(e, r, rest), sine_reduced(e, r, rest))
    return e.select(e.compare("==", x, 0.0), x, _negated_in_second_half(e, result, n))  # keeps -0.0


@function()
def cos(e: Emitter, x: Any) -> Any:
    r, rest, n = reduce_turns(e, x)
    result = e.select(_is_odd(e, n), sine_reduced(e, r, rest), cosine_reduced(e, r, rest))
    return _negated_in_second_half(e, result, e.add(n, 1))


def sin_cos(e: Emitter, x: Any) -> tuple[Any, Any]:
    """Both at once, from one reduction: what complex functions need."""
    r, rest, n = reduce_turns(e, x)
    sine, cosine = sine_reduced(e, r, rest), cosine_reduced(e, r, rest)
    odd = _is_odd(e, n)
    first = _negated_in_second_half(e, e.select(odd, cosine, sine), n)
    second = _negated_in_second_half(e, e.select(odd, sine, cosine), e.add(n, 1))
    return e.select(e.compare("==", x, 0.0), x, first), second


@function()
def tan(e: Emitter, x: Any) -> Any:
    """sin r / cos r, or -cos r / sin r an odd number of quarter turns on."""
    r, rest, n = reduce_turns(e, x)
    sine, cosine = sine_reduced(e, r, rest), cosine_reduced(e, r, rest, precise=True)
    odd = _is_odd(e, n)
    quotient = e.div(e.select(odd, cosine, sine), e.select(odd, sine, cosine))
    return e.select(e.compare("==", x, 0.0), x, e.select(odd, e.neg(quotient), quotient))

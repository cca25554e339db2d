"""Hurwitz' zeta function, computed in double."""

from __future__ import annotations

from typing import Any

from ..emitter import Emitter
from .logarithm import INFINITY, NAN
from .power import float_power
from .registry import function, in_double

# B(2 j) / (2 j)! for j = 1, 2, ...: the weights of Euler's and Maclaurin's sum formula.
_WEIGHTS = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
)
_TERMS = 9  # summed one by one, and as many more as it takes for q + k to exceed this


def _zeta(e: Emitter, x: Any, q: Any) -> Any:
    """The sum of (q + k)**-x: some terms one by one, the rest by Euler's and Maclaurin's formula."""
    minus_x = e.neg(x)
    valid = e.and_(e.compare(">", x, 1.0), e.compare(">", q, -(2.0**20)))
    start = e.select(valid, q, 1.0)

    def term(a: Any, total: Any, power: Any, count: Any) -> tuple[Any, list[Any]]:
        going_on = e.or_(e.compare("<", count, float(_TERMS)), e.compare("<=", a, float(_TERMS)))
        power = e.select(going_on, float_power(e, a, minus_x), power)
        total = e.select(going_on, e.add(total, power), total)
        a = e.select(going_on, e.add(a, 1.0), a)
        return e.any(going_on), [a, total, power, e.add(count, 1.0)]

    zero = e.constant(0.0, x)
    a, total, power, _ = e.repeat([start, zero, zero, zero], term)
    # `power` is the last term summed, that of w = a - 1: the integral from w on, less half that term, and the
    # corrections.
    w = e.sub(a, 1.0)
    total = e.add(total, e.sub(e.div(e.mul(power, w), e.sub(x, 1.0)), e.mul(power, 0.5)))
    factor, rising = e.div(power, w), x
    correction: Any = zero
    for j, weight in enumerate(_WEIGHTS):
        correction = e.add(correction, e.mul(e.mul(factor, rising), weight))
        rising = e.mul(rising, e.mul(e.add(x, 2.0 * j + 1), e.add(x, 2.0 * j + 2)))
        factor = e.div(factor, e.mul(w, w))
    total = e.add(total, correction)
    return _edges(e, x, q, total)


def _edges(e: Emitter, x: Any, q: Any, result: Any) -> Any:
    """As SciPy has them: infinite at x = 1 and at q = 0, -1, ...; NaN for x < 1, and for q < 0 unless x is an
    integer."""
    nan, infinite = e.constant(NAN, x), e.constant(INFINITY, x)
    at_infinity = e.select(e.compare("<", q, 1.0), infinite, e.select(e.compare("==", q, 1.0), 1.0, nan))
    result = e.select(e.compare("==", x, INFINITY), at_infinity, result)
    result = e.select(e.compare("==", q, INFINITY), 0.0, result)
    result = e.select(e.builder.fcmp_unordered("uno", x, q), nan, result)
    below = e.compare("<=", q, 0.0)
    result = e.select(e.and_(below, e.compare("!=", e.floor(x), x)), nan, result)
    result = e.select(e.and_(below, e.compare("==", e.floor(q), q)), infinite, result)
    result = e.select(e.compare("<", x, 1.0), nan, result)
    return e.select(e.compare("==", x, 1.0), infinite, result)


function("zeta")(in_double(_zeta))

"""lgamma and digamma, computed in double.

Positive arguments are moved to [1, 2.5] or [1, 2] by the recurrence or, if large, given by Stirling's series
with coefficients fitted to the interval in use; negative ones are reflected. Near the zeros at negative
arguments the error is small absolutely, not relatively.
"""

from __future__ import annotations

import math
from typing import Any

from ..emitter import Emitter
from . import coefficients as table
from .logarithm import INFINITY, NAN, log, log_of_parts, log_parts
from .registry import function, in_double

_HALF_LOG_TWO_PI = 0.9189385332046728
_STIRLING_FROM = 8
_DIGAMMA_TAIL_FROM = 4.0
_DIGAMMA_ROOT = (0.46163214496836236, -1.5522348162858677e-17)  # the zero of digamma(1 + t), and the rest


def _log_positive(e: Emitter, x: Any) -> Any:
    return log_of_parts(e, *log_parts(e, x))


def sin_pi(e: Emitter, r: Any) -> Any:
    """sin(pi r) for |r| <= 1/2."""
    return e.mul(r, e.horner(e.mul(r, r), table.SIN_PI[64]))


def _lgamma_positive(e: Emitter, a: Any) -> Any:
    """lgamma a for a >= 0: log of the product (a - 1) (a - 2) ... (1 + t) plus lgamma(1 + t), or Stirling's
    series.

    No product is needed on [1, 2.5), so that nothing cancels at the zeros 1 and 2.
    """
    small = e.compare("<", a, 1.0)
    t = e.sub(a, e.at_least(e.floor(e.sub(a, 0.5)), 1.0))
    t = e.select(small, a, t)
    product = e.select(small, a, 1.0)
    for k in range(1, _STIRLING_FROM - 1):
        product = e.mul(product, e.select(e.compare(">=", a, k + 1.5), e.sub(a, float(k)), 1.0))
    large = e.compare(">=", a, float(_STIRLING_FROM))
    logarithm = _log_positive(e, e.select(large, a, product))
    base = e.mul(e.mul(t, e.sub(t, 1.0)), e.horner(e.sub(t, 0.75), table.LGAMMA[64]))
    near = e.add(base, e.select(small, e.neg(logarithm), logarithm))
    inverse = e.div(1.0, a)
    series = e.mul(inverse, e.horner(e.mul(inverse, inverse), table.STIRLING[64]))
    lead = e.mul_add(e.sub(a, 0.5), e.sub(logarithm, 1.0), _HALF_LOG_TWO_PI - 0.5)
    return e.select(large, e.add(lead, series), near)


def _lgamma(e: Emitter, x: Any) -> Any:
    """lgamma(-a) = log(pi / (a |sin(pi a)|)) - lgamma(a)."""
    a = e.abs(x)
    positive = _lgamma_positive(e, a)
    sine = e.abs(sin_pi(e, e.sub(a, e.round(a))))
    reflected = e.sub(log(e, e.div(math.pi, e.mul(a, sine))), positive)
    result = e.select(e.compare("<", x, 0.0), reflected, positive)
    pole = e.and_(e.compare("<=", x, 0.0), e.compare("==", e.floor(x), x))
    return e.select(e.or_(pole, e.compare("==", a, INFINITY)), e.constant(INFINITY, x), result)


def _digamma_positive(e: Emitter, a: Any) -> tuple[Any, Any]:
    """(digamma a, digamma(1 + a)) for a > 0: the recurrence to 1 + t with t in [0, 1), or the series for
    large a."""
    small = e.compare("<", a, 1.0)
    two, three = e.compare(">=", a, 2.0), e.compare(">=", a, 3.0)
    large = e.compare(">=", a, _DIGAMMA_TAIL_FROM)
    t = e.select(small, a, e.sub(a, e.floor(a)))
    # The terms of the recurrence over one denominator: -1/a, 0, 1/(a - 1), or 1/(a - 1) + 1/(a - 2).
    once, twice = e.sub(a, 1.0), e.sub(a, 2.0)
    numerator = e.select(small, -1.0, e.select(two, e.constant(1.0, a), 0.0))
    numerator = e.select(three, e.add(once, twice), numerator)
    denominator = e.select(three, e.mul(once, twice), e.select(two, once, 1.0))
    denominator = e.select(small, a, denominator)
    numerator, denominator = e.select(large, 1.0, numerator), e.select(large, a, denominator)
    terms = e.div(numerator, denominator)
    root, rest = _DIGAMMA_ROOT
    base = e.mul(e.sub(e.sub(t, root), rest), e.horner(e.sub(t, 0.5), table.DIGAMMA[64]))
    square = e.mul(terms, terms)  # 1 / a**2 if a is large
    series = e.mul(square, e.horner(square, table.DIGAMMA_TAIL[64]))
    tail = e.sub(_log_positive(e, a), e.mul_add(terms, 0.5, series))
    result = e.select(large, tail, e.add(base, terms))
    return result, e.select(small, base, e.add(result, e.div(1.0, a)))


def _digamma(e: Emitter, x: Any) -> Any:
    """digamma(-a) = digamma(1 + a) + pi cot(pi a); NaN at negative integers, infinite at 0."""
    a = e.abs(x)
    positive, following = _digamma_positive(e, a)
    r = e.sub(a, e.round(a))
    size = e.abs(r)
    cotangent = e.copysign(e.div(sin_pi(e, e.sub(0.5, size)), sin_pi(e, size)), r)
    reflected = e.add(following, e.mul(cotangent, math.pi))
    negative = e.compare("<", x, 0.0)
    result = e.select(negative, reflected, positive)
    whole = e.and_(negative, e.compare("==", e.floor(x), x))
    result = e.select(whole, e.constant(NAN, x), result)
    result = e.select(e.compare("==", a, 0.0), e.copysign(e.constant(INFINITY, x), e.neg(x)), result)
    return e.select(e.compare("==", x, INFINITY), x, result)


function("lgamma")(in_double(_lgamma))
function("digamma")(in_double(_digamma))

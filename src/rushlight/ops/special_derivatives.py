"""Derivatives of special functions that no other operator gives, to any order.

Each is differentiated `order` times in its first argument, so that its own derivative in that argument is the
same operator of the next order. As the functions, those of gamma and zeta work in double precision and round
once, and polynomials in the precision of their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.declare_pointwise import pointwise
from ..core.dtypes import DTYPES
from ..core.registry import INTERNAL, define
from .dtype_sets import FLOATS
from .rules import like

DOUBLE, LONG = DTYPES["float64"], DTYPES["int64"]
Series = list[Any]  # the coefficients of 1, e, e**2, ... of a function of (first argument + e)


def in_double(ops: Any, *values: Any) -> list[Any]:
    return [ops.cast(value, DOUBLE) for value in values]


def product(ops: Any, a: Sequence[Any], b: Sequence[Any]) -> Series:
    return [total(ops, [ops.mul(a[j], b[i - j]) for j in range(i + 1)]) for i in range(len(a))]


def total(ops: Any, values: Sequence[Any]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = ops.add(result, value)
    return result


def times(ops: Any, x: Any, number: float) -> Any:
    return ops.mul(x, ops.constant(number, like=x))


def over_shifted(ops: Any, a: Sequence[Any], shift: Any) -> Series:
    """The series divided by (shift + e)."""
    quotient = [ops.div(a[0], shift)]
    for coefficient in a[1:]:
        quotient.append(ops.div(ops.sub(coefficient, quotient[-1]), shift))
    return quotient


def times_shifted(ops: Any, a: Sequence[Any], shift: Any) -> Series:
    """The series times (shift + e)."""
    return [ops.mul(a[0], shift), *[ops.add(ops.mul(a[i], shift), a[i - 1]) for i in range(1, len(a))]]


def exponential(ops: Any, slopes: Sequence[Any]) -> Series:
    """The series of exp(f) / exp(f(0)), given the first, second, ... derivative of f."""
    series = [ops.constant(1, like=slopes[0])]
    for i in range(1, len(slopes) + 1):
        terms = [
            times(ops, ops.mul(slopes[j - 1], series[i - j]), 1 / (i * math.factorial(j - 1)))
            for j in range(1, i + 1)
        ]
        series.append(total(ops, terms))
    return series


# The lower incomplete gamma function P(a, x) = integral from 0 to x of t**(a - 1) exp(-t) / gamma(a).

SERIES_TERMS = 20  # for x up to 1
STEP, FIRST_NODE, NODE_COUNT = 1 / 12, -43, 99  # of the double exponential rule


@pointwise("_igamma_slope(Tensor self, Tensor other, int order) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def igamma_slope(ops: Any, self: Any, other: Any, order: int) -> Any:
    """The derivative of P in a. 1 / gamma(a) is taken as a / gamma(a + 1): nothing cancels for small a."""
    a, x = in_double(ops, self, other)
    zero, one = ops.constant(0, like=x), ops.constant(1, like=x)
    small = ops.le(x, one)
    after = ops.add(a, one)
    # The derivatives of -log gamma(a + 1); with log t added to the first, those of log(t**a / gamma(a + 1)).
    slopes = [ops.neg(ops.digamma(after))]
    for k in range(2, order + 1):
        polygamma = ops.zeta(ops.constant(k, like=a), after)
        slopes.append(times(ops, polygamma, (-1) ** (k + 1) * math.factorial(k - 1)))
    scale = ops.exp(ops.sub(ops.sub(ops.mul(a, ops.log(x)), x), ops.lgamma(after)))
    near = _igamma_series(ops, a, ops.where(small, x, one), slopes, steps(ops, small, SERIES_TERMS, 0))
    far = _igamma_integral(ops, a, ops.where(small, one, x), slopes, steps(ops, small, 0, NODE_COUNT))
    value = ops.mul(times(ops, scale, math.factorial(order)), ops.where(small, near, far))
    flat = ops.logical_or(ops.eq(scale, zero), ops.logical_or(ops.isinf(a), ops.isinf(x)))
    value = ops.where(flat, zero, value)
    outside = ops.logical_or(ops.lt(a, zero), ops.lt(x, zero))
    return ops.cast(ops.where(outside, ops.constant(math.nan, like=x), value), ops.dtype(self))


def steps(ops: Any, condition: Any, number: int, otherwise: int) -> Any:
    whole = ops.cast(condition, LONG)
    return ops.where(condition, ops.constant(number, like=whole), ops.constant(otherwise, like=whole))


def _igamma_series(ops: Any, a: Any, x: Any, slopes: Series, count: Any) -> Any:
    """By the sum of x**k / ((a + 1) ... (a + k)), times what `scale` stands for."""
    one = ops.constant(1, like=x)
    order = len(slopes)
    start = [one, *[ops.constant(0, like=x)] * order]

    def next_term(k: Any, *state: Any) -> tuple[Any, ...]:
        last, whole = state[: order + 1], state[order + 1 :]
        term = over_shifted(ops, [ops.mul(x, c) for c in last], ops.add(a, ops.add(k, one)))
        return (*term, *[ops.add(w, t) for w, t in zip(whole, term, strict=True)])

    state = ops.iterate(count, (*start, *start), next_term)
    power = exponential(ops, [ops.add(slopes[0], ops.log(x)), *slopes[1:]])
    return product(ops, power, state[order + 1 :])[order]


def _igamma_integral(ops: Any, a: Any, x: Any, slopes: Series, count: Any) -> Any:
    """By the integral over the tail (below x or above it) in which the integrand of order 1 has one sign.

    All of them are 0 over both tails together. With t = x exp(+-width * v) the integrand decays as exp(-v),
    and a sum over equal steps of u, where v = exp(u - exp(-u)), converges doubly exponentially.
    """
    zero, one = ops.constant(0, like=x), ops.constant(1, like=x)
    order = len(slopes)
    first = ops.add(ops.log(x), slopes[0])
    below = ops.lt(first, ops.neg(ops.div(one, a)))  # log x < digamma(a)
    side = ops.where(below, ops.neg(one), one)
    spread = ops.div(x, ops.sqrt(ops.add(x, one)))
    width = ops.div(one, ops.add(ops.abs(ops.sub(a, x)), spread))

    def next_node(k: Any, result: Any) -> tuple[Any]:
        u = times(ops, ops.add(k, ops.constant(FIRST_NODE, like=k)), STEP)
        inner = ops.exp(ops.neg(u))
        node = ops.exp(ops.sub(u, inner))
        weight = times(ops, ops.mul(node, ops.add(inner, ops.constant(1, like=k))), STEP)
        v = ops.mul(side, ops.mul(width, node))
        density = ops.exp(ops.sub(ops.mul(a, v), ops.mul(x, ops.expm1(v))))
        power = times_shifted(ops, exponential(ops, [ops.add(first, v), *slopes[1:]]), a)[order]
        value = ops.where(ops.gt(density, zero), ops.mul(density, power), zero)
        return (ops.add(result, ops.mul(value, weight)),)

    (result,) = ops.iterate(count, (zero,), next_node)
    return ops.mul(ops.neg(side), ops.mul(width, result))


# Hurwitz' zeta function, the sum over k of (q + k)**-s, by the formula of Euler and Maclaurin.

DIRECT_TERMS = 10
BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
    854513 / 138,
    -236364091 / 2730,
)


@pointwise("_zeta_slope(Tensor self, Tensor other, int order) -> Tensor", dtypes=FLOATS, api=INTERNAL)
def zeta_slope(ops: Any, self: Any, other: Any, order: int) -> Any:
    """The derivative in s."""
    s, q = in_double(ops, self, other)
    one = ops.constant(1, like=s)
    result = ops.constant(0, like=s)
    for k in range(DIRECT_TERMS):
        result = ops.add(result, power_series(ops, s, ops.add(q, ops.constant(k, like=q)), order)[order])
    t = ops.add(q, ops.constant(DIRECT_TERMS, like=q))
    last = power_series(ops, s, t, order)
    integral = over_shifted(ops, [ops.mul(t, c) for c in last], ops.sub(s, one))
    result = ops.add(result, ops.add(integral[order], times(ops, last[order], 0.5)))
    last = [ops.div(c, t) for c in times_shifted(ops, last, s)]
    # Now `last` is s (s + 1) ... (s + 2 j - 2) / t**(s + 2 j - 1), for j = 1 and on.
    for j, number in enumerate(BERNOULLI, 1):
        result = ops.add(result, times(ops, last[order], number / math.factorial(2 * j)))
        for shift in (2 * j - 1, 2 * j):
            last = [ops.div(c, t) for c in times_shifted(ops, last, ops.add(s, ops.constant(shift, like=s)))]
    result = times(ops, result, math.factorial(order))
    result = ops.where(ops.eq(s, one), ops.constant(math.inf * (-1) ** order, like=s), result)
    return ops.cast(ops.where(ops.lt(s, one), ops.constant(math.nan, like=s), result), ops.dtype(self))


def power_series(ops: Any, s: Any, t: Any, order: int) -> Series:
    """The series of t**-(s + e)."""
    slope = ops.neg(ops.log(t))
    series = [ops.pow(t, ops.neg(s))]
    for k in range(1, order + 1):
        series.append(times(ops, ops.mul(series[-1], slope), 1 / k))
    return series


# Orthogonal polynomials: p_(k+1) = (a x + b) p_k - c p_(k-1), differentiated as it stands.


def chebyshev(ops: Any, k: Any) -> tuple[Any, Any, Any]:
    return ops.constant(2, like=k), ops.constant(0, like=k), ops.constant(1, like=k)


def hermite_h(ops: Any, k: Any) -> tuple[Any, Any, Any]:
    return ops.constant(2, like=k), ops.constant(0, like=k), times(ops, k, 2)


def hermite_he(ops: Any, k: Any) -> tuple[Any, Any, Any]:
    return ops.constant(1, like=k), ops.constant(0, like=k), k


def laguerre(ops: Any, k: Any) -> tuple[Any, Any, Any]:
    one = ops.constant(1, like=k)
    after = ops.add(k, one)
    return ops.div(ops.neg(one), after), ops.div(ops.add(k, after), after), ops.div(k, after)


def legendre(ops: Any, k: Any) -> tuple[Any, Any, Any]:
    after = ops.add(k, ops.constant(1, like=k))
    return ops.div(ops.add(k, after), after), ops.constant(0, like=k), ops.div(k, after)


# The recurrence, p_1 as (slope, value at 0), the highest degrees that are not NaN (single, double precision).
Recurrence = tuple[Callable[[Any, Any], tuple[Any, Any, Any]], tuple[int, int], tuple[int, int] | None]
RECURRENCES: dict[str, Recurrence] = {
    "chebyshev_polynomial_t": (chebyshev, (1, 0), None),
    "chebyshev_polynomial_u": (chebyshev, (2, 0), None),
    "chebyshev_polynomial_v": (chebyshev, (2, -1), None),
    "chebyshev_polynomial_w": (chebyshev, (2, 1), None),
    "hermite_polynomial_h": (hermite_h, (2, 0), (128, 512)),
    "hermite_polynomial_he": (hermite_he, (1, 0), (128, 512)),
    "laguerre_polynomial_l": (laguerre, (-1, 1), None),
    "legendre_polynomial_p": (legendre, (1, 0), None),
}


@pointwise(
    "_polynomial_slope(Tensor x, Tensor n, str polynomial, int order) -> Tensor", dtypes=FLOATS, api=INTERNAL
)
def polynomial_slope(ops: Any, x: Any, n: Any, polynomial: str, order: int) -> Any:
    """The derivative in x of the polynomial of degree n."""
    step, (slope, start), limits = RECURRENCES[polynomial]
    zero, one = ops.constant(0, like=x), ops.constant(1, like=x)
    whole = ops.cast(n, LONG)
    first = ops.constant(1, like=whole)
    limit = 2**62 if limits is None else limits[ops.dtype(x) is DOUBLE]
    too_high = ops.gt(whole, ops.constant(limit, like=whole))
    degree = ops.where(too_high, first, ops.maximum(whole, first))
    p = [
        ops.add(times(ops, x, slope), ops.constant(start, like=x)),
        ops.constant(slope, like=x),
        *[zero] * (order - 1),
    ]
    previous = [one, *[zero] * order]

    def next_degree(k: Any, *state: Any) -> tuple[Any, ...]:
        a, b, c = step(ops, ops.add(k, one))
        factor = ops.add(ops.mul(a, x), b)
        now, before = state[: order + 1], state[order + 1 :]
        after = [ops.sub(ops.mul(factor, now[0]), ops.mul(c, before[0]))]
        for i in range(1, order + 1):  # Leibniz' rule, for a factor that is linear in x
            lower = ops.mul(times(ops, a, i), now[i - 1])
            after.append(ops.add(ops.sub(ops.mul(factor, now[i]), ops.mul(c, before[i])), lower))
        return (*after, *now)

    state = ops.iterate(ops.sub(degree, first), (*p, *previous), next_degree)
    value = ops.where(ops.lt(whole, first), zero, state[order])
    return ops.where(too_high, ops.constant(math.nan, like=x), value)


# The derivative of the Airy function; its second derivative is x times the function.

define("_airy_ai_slope(Tensor x) -> Tensor", shape=lambda x: like(x), api=INTERNAL)

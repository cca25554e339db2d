"""Orthogonal polynomials, by their three-term recurrences.

The degree n is an operand: it is truncated to an integer, and the polynomial of negative degree is 0. Inside
(-1, 1) Chebyshev polynomials of high degree are computed by their trigonometric form, whose cost does not
grow with n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.declare_pointwise import pointwise
from ..core.dtypes import DTYPES
from .special import SPECIAL

RECURRENCE_LIMIT = 8  # inside (-1, 1) Chebyshev polynomials of a higher degree use their trigonometric form


def polynomial(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The three overloads special_`name`(x, n) of one polynomial."""
    return pointwise(
        f"special_{name}(Tensor x, Tensor n) -> Tensor",
        f"special_{name}.x_scalar(Scalar x, Tensor n) -> Tensor",
        f"special_{name}.n_scalar(Tensor x, Scalar n) -> Tensor",
        public_name=name,
        **SPECIAL,
    )


def by_recurrence(ops: Any, n: Any, first: Any, step: Callable[[Any, Any, Any], Any]) -> Any:
    """p_n for p_0 = 1, p_1 = first and p_(k+1) = step(k, p_k, p_(k-1)); 0 for n < 0."""
    zero, one = ops.constant(0, like=first), ops.constant(1, like=first)
    steps = ops.sub(ops.maximum(n, ops.constant(1, like=n)), ops.constant(1, like=n))
    value, _ = ops.iterate(
        steps, (first, one), lambda k, p, previous: (step(ops.add(k, one), p, previous), p)
    )
    start = ops.constant(0, like=n)
    return ops.where(ops.lt(n, start), zero, ops.where(ops.eq(n, start), one, value))


def degree(ops: Any, n: Any) -> Any:
    return ops.cast(n, DTYPES["int64"])


def chebyshev(ops: Any, x: Any, n: Any, first: Any, trigonometric: Callable[[Any, Any], Any]) -> Any:
    """p_(k+1) = 2 x p_k - p_(k-1), or `trigonometric(n, arccos x)`."""
    one = ops.constant(1, like=x)
    twice = ops.add(x, x)
    whole = degree(ops, n)
    high = ops.logical_and(ops.gt(whole, ops.constant(RECURRENCE_LIMIT, like=whole)), ops.lt(ops.abs(x), one))
    low = ops.where(high, ops.constant(0, like=whole), whole)
    recurrent = by_recurrence(ops, low, first, lambda k, p, previous: ops.fma(twice, p, ops.neg(previous)))
    inside = ops.where(high, x, ops.constant(0.5, like=x))
    return ops.where(high, trigonometric(ops.trunc(n), ops.acos(inside)), recurrent)


def plus(ops: Any, x: Any, number: float) -> Any:
    return ops.add(x, ops.constant(number, like=x))


def times(ops: Any, x: Any, number: float) -> Any:
    return ops.mul(x, ops.constant(number, like=x))


def chebyshev_t(ops: Any, x: Any, n: Any) -> Any:
    return chebyshev(ops, x, n, x, lambda n, angle: ops.cos(ops.mul(n, angle)))


def chebyshev_u(ops: Any, x: Any, n: Any) -> Any:
    return chebyshev(
        ops,
        x,
        n,
        ops.add(x, x),
        lambda n, angle: ops.div(ops.sin(ops.mul(plus(ops, n, 1), angle)), ops.sin(angle)),
    )


def chebyshev_v(ops: Any, x: Any, n: Any) -> Any:
    return chebyshev(
        ops,
        x,
        n,
        plus(ops, ops.add(x, x), -1),
        lambda n, angle: ops.div(ops.cos(ops.mul(plus(ops, n, 0.5), angle)), ops.cos(times(ops, angle, 0.5))),
    )


def chebyshev_w(ops: Any, x: Any, n: Any) -> Any:
    return chebyshev(
        ops,
        x,
        n,
        plus(ops, ops.add(x, x), 1),
        lambda n, angle: ops.div(ops.sin(ops.mul(plus(ops, n, 0.5), angle)), ops.sin(times(ops, angle, 0.5))),
    )


def on_unit_interval(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The polynomial moved from (-1, 1) to (0, 1)."""

    def shifted(ops: Any, x: Any, n: Any) -> Any:
        return formula(ops, plus(ops, ops.add(x, x), -1), n)

    return shifted


for _letter, _formula in {"t": chebyshev_t, "u": chebyshev_u, "v": chebyshev_v, "w": chebyshev_w}.items():
    polynomial(f"chebyshev_polynomial_{_letter}")(_formula)
    polynomial(f"shifted_chebyshev_polynomial_{_letter}")(on_unit_interval(_formula))


def hermite_limit(ops: Any, x: Any) -> int:
    """The degree from which on the values are not representable, and given as NaN."""
    return 512 if ops.dtype(x) is DTYPES["float64"] else 128


def hermite(ops: Any, x: Any, n: Any, scale: float) -> Any:
    """p_(k+1) = scale (x p_k - k p_(k-1))."""
    whole = degree(ops, n)
    limit = ops.constant(hermite_limit(ops, x), like=whole)
    too_high = ops.gt(whole, limit)
    scaled = times(ops, x, scale)

    def step(k: Any, p: Any, previous: Any) -> Any:
        return ops.fma(scaled, p, ops.neg(ops.mul(times(ops, k, scale), previous)))

    value = by_recurrence(ops, ops.where(too_high, ops.constant(0, like=whole), whole), scaled, step)
    return ops.where(too_high, ops.constant(math.nan, like=x), value)


@polynomial("hermite_polynomial_h")
def hermite_polynomial_h(ops: Any, x: Any, n: Any) -> Any:
    return hermite(ops, x, n, 2)


@polynomial("hermite_polynomial_he")
def hermite_polynomial_he(ops: Any, x: Any, n: Any) -> Any:
    return hermite(ops, x, n, 1)


@polynomial("laguerre_polynomial_l")
def laguerre_polynomial_l(ops: Any, x: Any, n: Any) -> Any:
    def step(k: Any, p: Any, previous: Any) -> Any:
        slope = ops.sub(plus(ops, ops.add(k, k), 1), x)
        return ops.div(ops.fma(slope, p, ops.neg(ops.mul(k, previous))), plus(ops, k, 1))

    return by_recurrence(ops, degree(ops, n), ops.sub(ops.constant(1, like=x), x), step)


@polynomial("legendre_polynomial_p")
def legendre_polynomial_p(ops: Any, x: Any, n: Any) -> Any:
    def step(k: Any, p: Any, previous: Any) -> Any:
        slope = ops.mul(plus(ops, ops.add(k, k), 1), x)
        return ops.div(ops.fma(slope, p, ops.neg(ops.mul(k, previous))), plus(ops, k, 1))

    return by_recurrence(ops, degree(ops, n), x, step)

"""Modified Bessel functions of order 0 and 1, computed in double: I (i0, i1, scaled i0e, i1e) and K (scaled
bessel_k0e, k1e)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..emitter import Emitter
from . import coefficients as table
from .exponential import exp, exp_over
from .logarithm import INFINITY, NAN, log_of_parts, log_parts
from .registry import function, in_double

_I = (
    (table.I0[64], table.I0_LARGE[64], table.I0_SMALL[64]),
    (table.I1[64], table.I1_LARGE[64], table.I1_SMALL[64]),
)
_K = ((table.K0_SMALL[64], table.K0_LARGE[64]), (table.K1_SMALL[64], table.K1_LARGE[64]))
_SPLIT = 8.0  # where I changes from a polynomial in x**2 to one in 1 / x
_UNDER = 8  # e**x is computed as 2**8 times e**x / 2**8, as it overflows before I does


def _i(e: Emitter, x: Any, order: int, scaled: bool) -> Any:
    small, large, _ = _I[order]
    a = e.abs(x)
    near = e.horner(e.mul(a, a), small)
    near = e.mul(near, a) if order else near
    b = e.at_least(a, _SPLIT)
    far = e.div(e.horner(e.sub(e.div(16.0, b), 1.0), large), e.sqrt(b))
    if scaled:
        near = e.mul(near, exp(e, e.neg(e.at_most(a, _SPLIT))))
    else:
        far = e.mul(e.mul(far, 2.0**_UNDER), exp_over(e, b, _UNDER))
    far = e.select(e.compare("==", a, INFINITY), e.constant(0.0 if scaled else INFINITY, x), far)
    result = e.select(e.compare("<", a, _SPLIT), near, far)
    result = e.select(e.is_nan(x), x, result)
    return e.copysign(result, x) if order else result


def _k(e: Emitter, x: Any, order: int, scaled: bool) -> Any:
    """For x <= 1 by I and log x, beyond by a polynomial in (x - 1) / (x + 1); infinite at 0, NaN below."""
    small, large = _K[order]
    z = e.mul(x, x)
    logarithm = log_of_parts(e, *log_parts(e, x))
    regular, product = e.horner(z, small), e.mul(logarithm, e.horner(z, _I[order][2]))
    if order:
        near = e.mul_add(product, x, e.div(regular, x))
    else:
        near = e.sub(regular, product)
    b = e.select(e.compare("<", x, INFINITY), x, 1.0)
    q = e.sub(e.div(e.sub(b, 1.0), e.add(b, 1.0)), 0.5)
    far = e.div(e.horner(q, large), e.sqrt(b))
    if scaled:
        near = e.mul(near, exp(e, e.at_most(x, 1.0)))
    else:
        far = e.mul(far, exp(e, e.neg(b)))
    far = e.select(e.compare("<", x, INFINITY), far, 0.0)
    result = e.select(e.compare("<=", x, 1.0), near, far)
    result = e.select(e.compare("==", x, 0.0), e.constant(INFINITY, x), result)
    return e.select(e.compare("<", x, 0.0, unordered=True), e.constant(NAN, x), result)


def _register(name: str, formula: Callable[..., Any], order: int, scaled: bool) -> None:
    function(name)(in_double(lambda e, x: formula(e, x, order, scaled)))


for _order in (0, 1):
    _register(f"i{_order}", _i, _order, False)
    _register(f"i{_order}e", _i, _order, True)
    _register(f"bessel_k{_order}", _k, _order, False)
    _register(f"bessel_k{_order}e", _k, _order, True)

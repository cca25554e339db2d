"""Elementwise functions of analysis: exponentials, logarithms, trigonometric and hyperbolic functions.

Functions beyond these (error functions, gamma functions, ...) are in special.py.
"""

from __future__ import annotations

import math
from typing import Any

from ..core.declare_pointwise import instruction, pointwise
from ..core.promotion import Promotion
from ..core.registry import FUNCTION, INPLACE, METHOD, OUT
from .dtype_sets import FLOATS, INEXACT, REALS
from .pointwise import BINARY, QUERY

FLOATING = Promotion.FLOATING
XLOGY = FUNCTION | METHOD | INPLACE | OUT

for _name in (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
):
    instruction(f"{_name}(Tensor self) -> Tensor", promote=FLOATING)

instruction("atan2(Tensor self, Tensor other) -> Tensor", promote=FLOATING, dtypes=REALS, api=BINARY)


@pointwise("deg2rad(Tensor self) -> Tensor", promote=FLOATING, dtypes=REALS)
def deg2rad(ops: Any, self: Any) -> Any:
    return ops.mul(self, ops.constant(math.pi / 180, like=self))


@pointwise("rad2deg(Tensor self) -> Tensor", promote=FLOATING, dtypes=REALS)
def rad2deg(ops: Any, self: Any) -> Any:
    return ops.mul(self, ops.constant(180 / math.pi, like=self))


@pointwise("sinc(Tensor self) -> Tensor", promote=FLOATING)
def sinc(ops: Any, self: Any) -> Any:
    zero, one = ops.constant(0, like=self), ops.constant(1, like=self)
    angle = ops.mul(self, ops.constant(math.pi, like=self))
    return ops.where(ops.eq(self, zero), one, ops.div(ops.sin(angle), angle))


@pointwise("sigmoid(Tensor self) -> Tensor", promote=FLOATING)
def sigmoid(ops: Any, self: Any) -> Any:
    one = ops.constant(1, like=self)
    return ops.div(one, ops.add(one, ops.exp(ops.neg(self))))


@pointwise("logit(Tensor self, float? eps=None) -> Tensor", promote=FLOATING, dtypes=REALS)
def logit(ops: Any, self: Any, eps: float | None) -> Any:
    if eps is not None:
        low, high = ops.constant(eps, like=self), ops.constant(1 - eps, like=self)
        self = ops.where(ops.lt(self, low), low, ops.where(ops.gt(self, high), high, self))
    return ops.log(ops.div(self, ops.sub(ops.constant(1, like=self), self)))


@pointwise(
    "xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
    "xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor",
    promote=FLOATING,
    dtypes=REALS,
    api=XLOGY,
)
@pointwise(
    "xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor",
    promote=FLOATING,
    dtypes=REALS,
    api=FUNCTION | OUT,
)
def xlogy(ops: Any, self: Any, other: Any) -> Any:
    return zero_times(ops, self, other, ops.log(other))


def zero_times(ops: Any, x: Any, y: Any, value: Any) -> Any:
    """x * value, where value is computed from y: 0 where x is 0 whatever the value, NaN where y is NaN."""
    zero = ops.constant(0, like=x)
    return ops.where(ops.isnan(y), y, ops.where(ops.eq(x, zero), zero, ops.mul(x, value)))


def log_of_sum(ops: Any, a: Any, b: Any, exp: Any, log1p: Any) -> Any:
    """log(exp(a) + exp(b)) for real a and b, without overflow."""
    larger = ops.maximum(a, b)
    same_infinity = ops.logical_and(ops.isinf(a), ops.eq(a, b))
    return ops.where(same_infinity, a, ops.add(larger, log1p(exp(ops.neg(ops.abs(ops.sub(a, b)))))))


@pointwise("logaddexp(Tensor self, Tensor other) -> Tensor", dtypes=INEXACT, api=QUERY)
def logaddexp(ops: Any, self: Any, other: Any) -> Any:
    if not ops.dtype(self).is_complex:
        return log_of_sum(ops, self, other, ops.exp, ops.log1p)
    self_first = ops.ge(ops.real(self), ops.real(other))
    larger = ops.where(self_first, self, other)
    smaller = ops.where(self_first, other, self)
    return ops.add(larger, ops.log1p(ops.exp(ops.sub(smaller, larger))))


@pointwise("logaddexp2(Tensor self, Tensor other) -> Tensor", dtypes=FLOATS, api=QUERY)
def logaddexp2(ops: Any, self: Any, other: Any) -> Any:
    per_ln2 = ops.constant(1 / math.log(2), like=self)
    return log_of_sum(ops, self, other, ops.exp2, lambda x: ops.mul(ops.log1p(x), per_ln2))

"""Special functions: error, gamma, zeta and Bessel functions. Polynomials are in special_polynomials.py."""

from __future__ import annotations

import math
from typing import Any

from ..core.declare_pointwise import instruction, pointwise
from ..core.errors import check
from ..core.promotion import Promotion
from ..core.registry import FUNCTION, INPLACE_METHOD, METHOD, OUT
from .dtype_sets import FLOATS, REALS
from .pointwise import BINARY
from .pointwise_functions import zero_times

FLOATING = Promotion.FLOATING
SPECIAL: dict[str, Any] = {
    "promote": FLOATING,
    "dtypes": REALS,
    "api": FUNCTION | OUT,
    "namespace": "special",
}


def special(schema: str, name: str = "") -> None:
    """A function of rushlight.special that is one instruction of the handler."""
    public = schema.partition("(")[0].removeprefix("special_")
    instruction(schema, name=name or public, public_name=public, **SPECIAL)


# Error functions and the normal distribution.

instruction("erf(Tensor self) -> Tensor", "erfc(Tensor self) -> Tensor", promote=FLOATING, dtypes=REALS)
instruction("erfinv(Tensor self) -> Tensor", promote=FLOATING, dtypes=REALS, api=BINARY)
special("special_erfcx(Tensor self) -> Tensor")
special("special_ndtri(Tensor self) -> Tensor")


@pointwise("special_log_ndtr(Tensor self) -> Tensor", public_name="log_ndtr", **SPECIAL)
def log_ndtr(ops: Any, self: Any) -> Any:
    half, minus_one = ops.constant(0.5, like=self), ops.constant(-1, like=self)
    scaled = ops.mul(self, ops.constant(math.sqrt(0.5), like=self))
    tail = ops.sub(ops.log(ops.mul(ops.erfcx(ops.neg(scaled)), half)), ops.mul(scaled, scaled))
    body = ops.log1p(ops.mul(ops.erfc(scaled), ops.neg(half)))
    return ops.where(ops.lt(self, minus_one), tail, body)


@pointwise("special_entr(Tensor self) -> Tensor", public_name="entr", **SPECIAL)
def entr(ops: Any, self: Any) -> Any:
    zero, lowest = ops.constant(0, like=self), ops.constant(-math.inf, like=self)
    value = ops.neg(ops.mul(self, ops.log(self)))
    inside = ops.where(ops.eq(self, zero), zero, ops.where(ops.lt(self, zero), lowest, value))
    return ops.where(ops.isnan(self), self, inside)


@pointwise(
    "special_xlog1py(Tensor self, Tensor other) -> Tensor",
    "special_xlog1py.self_scalar(Scalar self, Tensor other) -> Tensor",
    "special_xlog1py.other_scalar(Tensor self, Scalar other) -> Tensor",
    public_name="xlog1py",
    **SPECIAL,
)
def xlog1py(ops: Any, self: Any, other: Any) -> Any:
    return zero_times(ops, self, other, ops.log1p(other))


# Gamma functions.

instruction(
    "lgamma(Tensor self) -> Tensor",
    "digamma(Tensor self) -> Tensor",
    promote=FLOATING,
    dtypes=REALS,
    api=BINARY,
)
instruction(
    "igamma(Tensor self, Tensor other) -> Tensor",
    "igammac(Tensor self, Tensor other) -> Tensor",
    dtypes=FLOATS,
    api=BINARY,
)


@pointwise(
    "special_zeta(Tensor self, Tensor other) -> Tensor",
    "special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor",
    "special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor",
    public_name="zeta",
    **SPECIAL,
)
def zeta(ops: Any, self: Any, other: Any) -> Any:
    return ops.zeta(self, other)


def check_order(n: int) -> None:
    check(n >= 0, f"polygamma(n, x) does not support negative n, got {n}")


@pointwise(
    "polygamma(int n, Tensor self) -> Tensor",
    promote=FLOATING,
    dtypes=REALS,
    check=check_order,
    api=FUNCTION | OUT,
)
def polygamma(ops: Any, n: int, self: Any) -> Any:
    if n == 0:
        return ops.digamma(self)
    if n == 1:
        return trigamma(ops, self)
    scale = (
        ops.constant(math.factorial(n) * (1 if n % 2 else -1), like=self)
        if n < 30
        else ops.mul(
            ops.constant(1 if n % 2 else -1, like=self), ops.exp(ops.constant(math.lgamma(n + 1), like=self))
        )
    )
    return ops.mul(scale, ops.zeta(ops.constant(n + 1, like=self), self))


def trigamma(ops: Any, x: Any) -> Any:
    """The Hurwitz zeta function of order 2, reflected to the right half plane."""
    one, pi = ops.constant(1, like=x), ops.constant(math.pi, like=x)
    left = ops.lt(x, ops.constant(0.5, like=x))
    value = ops.zeta(ops.constant(2, like=x), ops.where(left, ops.sub(one, x), x))
    slope = ops.div(pi, ops.sin(ops.mul(pi, x)))
    return ops.where(left, ops.fma(slope, slope, ops.neg(value)), value)


def check_dimension(p: int) -> None:
    check(p >= 1, f"mvlgamma: p has to be greater than or equal to 1, got {p}")


@pointwise(
    "mvlgamma(Tensor self, int p) -> Tensor",
    promote=FLOATING,
    dtypes=REALS,
    check=check_dimension,
    api=FUNCTION | METHOD | INPLACE_METHOD | OUT,
)
def mvlgamma(ops: Any, self: Any, p: int) -> Any:
    total = ops.constant(p * (p - 1) / 4 * math.log(math.pi), like=self)
    for j in range(p):
        total = ops.add(total, ops.lgamma(ops.sub(self, ops.constant(j / 2, like=self))))
    return total


# Bessel and Airy functions.

instruction("i0(Tensor self) -> Tensor", promote=FLOATING, dtypes=REALS)
special("special_i0e(Tensor self) -> Tensor")
special("special_i1(Tensor self) -> Tensor")
special("special_i1e(Tensor self) -> Tensor")
special("special_bessel_j0(Tensor self) -> Tensor")
special("special_bessel_j1(Tensor self) -> Tensor")
special("special_bessel_y0(Tensor self) -> Tensor")
special("special_bessel_y1(Tensor self) -> Tensor")
special("special_modified_bessel_i0(Tensor self) -> Tensor", name="i0")
special("special_modified_bessel_i1(Tensor self) -> Tensor", name="i1")
special("special_modified_bessel_k0(Tensor self) -> Tensor", name="bessel_k0")
special("special_modified_bessel_k1(Tensor self) -> Tensor", name="bessel_k1")
special("special_scaled_modified_bessel_k0(Tensor x) -> Tensor", name="bessel_k0e")
special("special_scaled_modified_bessel_k1(Tensor x) -> Tensor", name="bessel_k1e")
special("special_airy_ai(Tensor x) -> Tensor")


@pointwise("special_spherical_bessel_j0(Tensor x) -> Tensor", public_name="spherical_bessel_j0", **SPECIAL)
def spherical_bessel_j0(ops: Any, x: Any) -> Any:
    """sin(x) / x, which is 1 at 0 and tends to 0."""
    zero, one = ops.constant(0, like=x), ops.constant(1, like=x)
    inside = ops.where(ops.eq(x, zero), one, ops.div(ops.sin(x), x))
    return ops.where(ops.isinf(x), zero, inside)

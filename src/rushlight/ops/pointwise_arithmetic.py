"""Elementwise arithmetic: sums, products, quotients, powers, rounding, signs and extremes."""

from __future__ import annotations

from typing import Any

from ..core.declare_pointwise import instruction, pointwise
from ..core.dtypes import Category
from ..core.errors import check, fail
from ..core.promotion import Promotion
from ..core.registry import FUNCTION, Api
from ..core.tensor import Tensor
from ..core.traits import Trait
from .dtype_sets import BOOL, FLOATS, INEXACT, INTEGRAL, NUMBERS, REAL_NUMBERS, REALS
from .pointwise import BINARY, QUERY, dtype_of, is_bool, refuse_complex, same_dtype

DEFAULT, FLOATING, REAL = Promotion.DEFAULT, Promotion.FLOATING, Promotion.REAL


# Sums and differences.

_SUM = BINARY | Api.LEGACY | Api.NUMBERS


def check_alpha(self: Any, other: Any, alpha: Any) -> None:
    category = dtype_of(self, other).category
    check(
        not isinstance(alpha, bool) or category is Category.BOOL,
        "Boolean alpha only supported for Boolean results.",
    )
    check(
        not isinstance(alpha, float) or category >= Category.FLOATING,
        "For integral input tensors, argument alpha must not be a floating point number.",
    )
    check(
        not isinstance(alpha, complex) or category is Category.COMPLEX,
        "For non-complex input tensors, argument alpha must not be a complex number.",
    )


def check_difference(self: Any, other: Any, alpha: Any) -> None:
    if is_bool(self) and is_bool(other):
        fail(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if is_bool(self) or is_bool(other):
        fail(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    check_alpha(self, other, alpha)


def scaled(ops: Any, x: Any, alpha: Any) -> Any:
    return x if alpha == 1 else ops.mul(ops.constant(alpha, like=x), x)


@pointwise(
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    parameters=("alpha",),
    check=check_alpha,
    instruction="add",
    api=_SUM,
    traits=Trait.EXACT | Trait.NUMBER_AS_TENSOR,
)
def add(ops: Any, self: Any, other: Any, alpha: Any) -> Any:
    return ops.add(self, scaled(ops, other, alpha))


@pointwise(
    "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    parameters=("alpha",),
    check=check_difference,
    instruction="sub",
    api=_SUM,
    traits=Trait.EXACT | Trait.NUMBER_AS_TENSOR,
)
def sub(ops: Any, self: Any, other: Any, alpha: Any) -> Any:
    return ops.sub(self, scaled(ops, other, alpha))


@pointwise(
    "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    parameters=("alpha",),
    check=check_difference,
    api=FUNCTION,
    traits=Trait.EXACT,
)
def rsub(ops: Any, self: Any, other: Any, alpha: Any) -> Any:
    return ops.sub(other, scaled(ops, self, alpha))


def check_negation(self: Tensor) -> None:
    check(
        not is_bool(self),
        "Negation, the `-` operator, on a bool tensor is not supported. If you are "
        "trying to invert a mask, use the `~` or `logical_not()` operator instead.",
    )


instruction("neg(Tensor self) -> Tensor", check=check_negation, traits=Trait.EXACT | Trait.INVOLUTION)


# Products and quotients.

instruction(
    "mul.Tensor(Tensor self, Tensor other) -> Tensor",
    "mul.Scalar(Tensor self, Scalar other) -> Tensor",
    exact=("other",),
    api=BINARY | Api.NUMBERS,
    traits=Trait.EXACT | Trait.NUMBER_AS_TENSOR,
)
instruction(
    "div.Tensor(Tensor self, Tensor other) -> Tensor",
    "div.Scalar(Tensor self, Scalar other) -> Tensor",
    promote=FLOATING,
    exact=("other",),
    api=BINARY | Api.NUMBERS,
    traits=Trait.EXACT | Trait.NUMBER_AS_TENSOR | Trait.DIVIDES,
)


def check_rounding_mode(self: Any, other: Any, rounding_mode: str | None) -> None:
    check(
        rounding_mode in (None, "trunc", "floor"),
        f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'",
    )
    if rounding_mode is not None:
        dtype = dtype_of(self, other)
        check(
            dtype in REAL_NUMBERS,
            f"\"div_{rounding_mode}\" not implemented for '{dtype.torch_name}'",
            NotImplementedError,
        )


@pointwise(
    "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
    promote=lambda rounding_mode: FLOATING if rounding_mode is None else DEFAULT,
    check=check_rounding_mode,
    exact=("other",),
    api=BINARY | Api.NUMBERS,
    traits=Trait.EXACT | Trait.NUMBER_AS_TENSOR | Trait.DIVIDES,
)
def div(ops: Any, self: Any, other: Any, rounding_mode: str | None) -> Any:
    if rounding_mode is None:
        return ops.div(self, other)
    return (ops.trunc_div if rounding_mode == "trunc" else ops.floor_div)(self, other)


instruction(
    "floor_divide(Tensor self, Tensor other) -> Tensor",
    "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
    name="floor_div",
    dtypes=REAL_NUMBERS,
    exact=("other",),
    api=BINARY | Api.NUMBERS,
    traits=Trait.DIVIDES,
)
instruction(
    "fmod.Tensor(Tensor self, Tensor other) -> Tensor",
    "fmod.Scalar(Tensor self, Scalar other) -> Tensor",
    dtypes=REAL_NUMBERS,
    api=BINARY,
    traits=Trait.DIVIDES,
)
instruction(
    "remainder.Tensor(Tensor self, Tensor other) -> Tensor",
    "remainder.Scalar(Tensor self, Scalar other) -> Tensor",
    dtypes=REAL_NUMBERS,
    api=BINARY,
    traits=Trait.DIVIDES,
)
instruction(
    "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
    dtypes=REAL_NUMBERS,
    api=FUNCTION,
    traits=Trait.DIVIDES,
)


@pointwise("reciprocal(Tensor self) -> Tensor", promote=FLOATING)
def reciprocal(ops: Any, self: Any) -> Any:
    return ops.div(ops.constant(1, like=self), self)


def check_integer_quotient(tensor1: Any, tensor2: Any) -> None:
    check(
        max(tensor1.dtype.category, tensor2.dtype.category) > Category.INTEGRAL,
        "addcdiv: integer division of tensor1 by tensor2 is not supported; use addcmul with "
        "div(..., rounding_mode='trunc'), or convert to a floating dtype",
    )


@pointwise(
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    parameters=("value",),
    dtypes=NUMBERS,
    api=BINARY | Api.LEGACY,
)
def addcmul(ops: Any, self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    return ops.add(self, ops.mul(scaled(ops, tensor1, value), tensor2))


@pointwise(
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    parameters=("value",),
    dtypes=INEXACT,
    check=check_integer_quotient,
    api=BINARY | Api.LEGACY,
)
def addcdiv(ops: Any, self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    return ops.add(self, ops.div(scaled(ops, tensor1, value), tensor2))


def check_lerp(self: Tensor, end: Tensor, weight: Any) -> None:
    check(
        self.dtype in INEXACT, f"\"lerp\" not implemented for '{self.dtype.torch_name}'", NotImplementedError
    )
    same_dtype("lerp", "self", self, "end", end)
    if isinstance(weight, Tensor):
        if weight.ndim:
            same_dtype("lerp", "self", self, "weight", weight)
    else:
        check(
            not isinstance(weight, complex) or self.dtype.is_complex,
            "lerp: a complex weight needs complex tensors; value cannot be converted to a real number",
        )


@pointwise(
    "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
    "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
    check=check_lerp,
    exact=("weight",),
    api=BINARY,
)
def lerp(ops: Any, self: Any, end: Any, weight: Any) -> Any:
    # From the nearer end, so that weight 0 gives self and weight 1 gives end exactly.
    step = ops.sub(end, self)
    rest = ops.sub(ops.constant(1, like=weight), weight)
    size = ops.abs(weight)
    return ops.where(
        ops.lt(size, ops.constant(0.5, like=size)),
        ops.add(self, ops.mul(weight, step)),
        ops.sub(end, ops.mul(step, rest)),
    )


# Powers and roots.


def check_exponent(self: Tensor, exponent: Any) -> None:
    if self.dtype.category <= Category.INTEGRAL and isinstance(exponent, int) and exponent < 0:
        fail("Integers to negative integer powers are not allowed.")


instruction("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", dtypes=NUMBERS, api=BINARY)
instruction(
    "pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor",
    dtypes=NUMBERS,
    check=check_exponent,
    checks_numbers=True,
    api=BINARY,
)
instruction("pow.Scalar(Scalar self, Tensor exponent) -> Tensor", dtypes=NUMBERS, api=QUERY)
instruction("sqrt(Tensor self) -> Tensor", promote=FLOATING)
instruction("hypot(Tensor self, Tensor other) -> Tensor", dtypes=FLOATS, api=BINARY)


@pointwise("rsqrt(Tensor self) -> Tensor", promote=FLOATING)
def rsqrt(ops: Any, self: Any) -> Any:
    return ops.div(ops.constant(1, like=self), ops.sqrt(self))


# Rounding.


def rounding(schema: str) -> None:
    """An operator that rounds floats and leaves integers alone."""
    name = schema.partition("(")[0]

    @pointwise(schema, dtypes=REAL_NUMBERS, check=refuse_complex(name), traits=Trait.IDEMPOTENT)
    def body(ops: Any, self: Any) -> Any:
        return getattr(ops, name)(self) if ops.dtype(self).is_floating_point else self


rounding("ceil(Tensor self) -> Tensor")
rounding("floor(Tensor self) -> Tensor")
rounding("round(Tensor self) -> Tensor")
rounding("trunc(Tensor self) -> Tensor")


@pointwise("round.decimals(Tensor self, *, int decimals) -> Tensor", dtypes=FLOATS)
def round_decimals(ops: Any, self: Any, decimals: int) -> Any:
    scale = ops.constant(10.0 ** abs(decimals), like=self)
    if decimals < 0:
        return ops.mul(ops.round(ops.div(self, scale)), scale)
    return ops.div(ops.round(ops.mul(self, scale)), scale)


@pointwise("frac(Tensor self) -> Tensor", dtypes=FLOATS)
def frac(ops: Any, self: Any) -> Any:
    return ops.sub(self, ops.trunc(self))


# Signs.

instruction("abs(Tensor self) -> Tensor", promote=REAL, dtypes=NUMBERS, traits=Trait.EXACT | Trait.IDEMPOTENT)
instruction(
    "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
    "copysign.Scalar(Tensor self, Scalar other) -> Tensor",
    promote=FLOATING,
    dtypes=REALS,
    api=BINARY,
)


def real_sign(ops: Any, x: Any) -> Any:
    if ops.dtype(x).category is Category.BOOL:
        return x
    zero, one = ops.constant(0, like=x), ops.constant(1, like=x)
    positive = ops.where(ops.gt(x, zero), one, zero)
    return ops.where(ops.lt(x, zero), ops.neg(one), positive) if ops.dtype(x).is_signed else positive


@pointwise(
    "sign(Tensor self) -> Tensor",
    dtypes=REALS,
    api=BINARY,
    check=refuse_complex("sign", "; use sgn, which gives x / |x|"),
)
def sign(ops: Any, self: Any) -> Any:
    return real_sign(ops, self)


@pointwise("sgn(Tensor self) -> Tensor", api=BINARY)
def sgn(ops: Any, self: Any) -> Any:
    if not ops.dtype(self).is_complex:
        return real_sign(ops, self)
    size = ops.abs(self)
    direction = ops.complex(ops.div(ops.real(self), size), ops.div(ops.imag(self), size))
    return ops.where(ops.eq(size, ops.constant(0, like=size)), ops.constant(0, like=self), direction)


@pointwise(
    "signbit(Tensor self) -> Tensor",
    promote=Promotion.BOOLEAN,
    dtypes=REALS,
    api=QUERY,
    check=refuse_complex("signbit"),
)
def signbit(ops: Any, self: Any) -> Any:
    if ops.dtype(self).is_floating_point:
        return ops.signbit(self)
    return ops.lt(self, ops.constant(0, like=self))


def check_heaviside(self: Tensor, values: Tensor) -> None:
    check(
        not self.dtype.is_complex and not values.dtype.is_complex,
        "heaviside is not implemented for complex tensors: they have no order",
    )
    check(
        self.dtype is values.dtype,
        "heaviside is not yet implemented for tensors with different dtypes. "
        f"They are {self.dtype.name} and {values.dtype.name}",
    )


@pointwise("heaviside(Tensor self, Tensor values) -> Tensor", check=check_heaviside, api=BINARY)
def heaviside(ops: Any, self: Any, values: Any) -> Any:
    zero, one = ops.constant(0, like=self), ops.constant(1, like=self)
    return ops.where(ops.eq(self, zero), values, ops.where(ops.gt(self, zero), one, zero))


# Extremes: maximum and minimum propagate NaN, fmax and fmin ignore it.

for _name in ("maximum", "minimum", "fmax", "fmin"):
    instruction(f"{_name}(Tensor self, Tensor other) -> Tensor", dtypes=REALS, api=QUERY, traits=Trait.EXACT)


def check_bounds(self: Tensor, min: Any, max: Any) -> None:
    check(min is not None or max is not None, "clamp: at least one of 'min' or 'max' must not be None")


def clamped(ops: Any, x: Any, low: Any, high: Any) -> Any:
    x = x if low is None else ops.maximum(x, low)
    return x if high is None else ops.minimum(x, high)


@pointwise(
    "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    dtypes=REALS,
    check=check_bounds,
)
def clamp(ops: Any, self: Any, min: Any, max: Any) -> Any:
    return clamped(ops, self, min, max)


@pointwise(
    "clamp_min(Tensor self, Scalar min) -> Tensor",
    "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
    dtypes=REALS,
)
def clamp_min(ops: Any, self: Any, min: Any) -> Any:
    return ops.maximum(self, min)


@pointwise(
    "clamp_max(Tensor self, Scalar max) -> Tensor",
    "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
    dtypes=REALS,
)
def clamp_max(ops: Any, self: Any, max: Any) -> Any:
    return ops.minimum(self, max)


def check_relu(self: Tensor) -> None:
    check(not is_bool(self), "relu: bool inputs are not supported; use a numeric dtype")


@pointwise(
    "relu(Tensor self) -> Tensor", dtypes=REAL_NUMBERS | BOOL, check=check_relu, traits=Trait.IDEMPOTENT
)
def relu(ops: Any, self: Any) -> Any:
    return ops.maximum(self, ops.constant(0, like=self))


# Integers, and the format of floats.

instruction("gcd(Tensor self, Tensor other) -> Tensor", dtypes=INTEGRAL)


@pointwise("lcm(Tensor self, Tensor other) -> Tensor", dtypes=INTEGRAL)
def lcm(ops: Any, self: Any, other: Any) -> Any:
    divisor = ops.gcd(self, other)
    zero, one = ops.constant(0, like=self), ops.constant(1, like=self)
    divisor = ops.where(ops.eq(divisor, zero), one, divisor)
    return ops.abs(ops.mul(ops.trunc_div(self, divisor), other))


instruction("nextafter(Tensor self, Tensor other) -> Tensor", dtypes=FLOATS, moves=True, api=BINARY)


def check_frexp(self: Tensor) -> None:
    check(self.dtype.is_floating_point, f"frexp only supports floating-point dtypes, not {self.dtype.name}")


@pointwise("frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", check=check_frexp, api=QUERY)
def frexp(ops: Any, self: Any) -> Any:
    return ops.frexp(self)

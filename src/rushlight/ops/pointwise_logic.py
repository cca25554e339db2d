"""Elementwise comparison, logic, bits, tests of numbers and selection."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..core.declare_pointwise import instruction, pointwise
from ..core.dtypes import DTYPES, Category, finfo
from ..core.errors import check
from ..core.promotion import Promotion
from ..core.registry import FUNCTION, METHOD, OUT
from ..core.tensor import Tensor
from ..core.traits import Trait
from .dtype_sets import BITS, INTEGRAL, REALS
from .pointwise import BINARY, QUERY, refuse_complex

BOOLEAN = Promotion.BOOLEAN

for _name in ("eq", "ne"):
    instruction(
        f"{_name}.Tensor(Tensor self, Tensor other) -> Tensor",
        f"{_name}.Scalar(Tensor self, Scalar other) -> Tensor",
        promote=BOOLEAN,
        api=BINARY,
        traits=Trait.EXACT,
    )
for _name in ("lt", "le", "gt", "ge"):
    instruction(
        f"{_name}.Tensor(Tensor self, Tensor other) -> Tensor",
        f"{_name}.Scalar(Tensor self, Scalar other) -> Tensor",
        promote=BOOLEAN,
        dtypes=REALS,
        api=BINARY,
        traits=Trait.EXACT,
    )
for _name in ("logical_and", "logical_or", "logical_xor"):
    instruction(
        f"{_name}(Tensor self, Tensor other) -> Tensor", promote=BOOLEAN, api=BINARY, traits=Trait.EXACT
    )
instruction(
    "logical_not(Tensor self) -> Tensor", promote=BOOLEAN, api=BINARY, traits=Trait.EXACT | Trait.INVOLUTION
)

for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    instruction(
        f"{_name}.Tensor(Tensor self, Tensor other) -> Tensor",
        f"{_name}.Scalar(Tensor self, Scalar other) -> Tensor",
        dtypes=BITS,
        api=BINARY,
    )
    instruction(f"{_name}.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", dtypes=BITS, api=FUNCTION)
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    instruction(
        f"{_name}.Tensor(Tensor self, Tensor other) -> Tensor",
        f"{_name}.Tensor_Scalar(Tensor self, Scalar other) -> Tensor",
        dtypes=INTEGRAL,
        api=BINARY,
    )
    instruction(f"{_name}.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", dtypes=INTEGRAL, api=FUNCTION)
instruction("bitwise_not(Tensor self) -> Tensor", dtypes=BITS, api=BINARY, traits=Trait.INVOLUTION)


# Tests of numbers.

for _name in ("isnan", "isinf", "isfinite"):
    instruction(f"{_name}(Tensor self) -> Tensor", promote=BOOLEAN, api=FUNCTION | METHOD)


def equals_infinity(ops: Any, x: Any, infinity: float) -> Any:
    if not ops.dtype(x).is_floating_point:
        return ops.constant(False, like=ops.ne(x, x))
    return ops.eq(x, ops.constant(infinity, like=x))


@pointwise(
    "isposinf(Tensor self) -> Tensor",
    promote=BOOLEAN,
    dtypes=REALS,
    check=refuse_complex("isposinf"),
    api=QUERY,
)
def isposinf(ops: Any, self: Any) -> Any:
    return equals_infinity(ops, self, math.inf)


@pointwise(
    "isneginf(Tensor self) -> Tensor",
    promote=BOOLEAN,
    dtypes=REALS,
    check=refuse_complex("isneginf"),
    api=QUERY,
)
def isneginf(ops: Any, self: Any) -> Any:
    return equals_infinity(ops, self, -math.inf)


@pointwise("isreal(Tensor self) -> Tensor", promote=BOOLEAN, api=FUNCTION | METHOD)
def isreal(ops: Any, self: Any) -> Any:
    if not ops.dtype(self).is_complex:
        return ops.constant(True, like=ops.ne(self, self))
    imag = ops.imag(self)
    return ops.eq(imag, ops.constant(0, like=imag))


# Selection.


def check_condition(condition: Tensor) -> None:
    check(
        condition.dtype in (DTYPES["bool"], DTYPES["uint8"]),
        f"where expected condition to be a boolean tensor, but got one of dtype {condition.dtype.name}",
    )
    if condition.dtype is DTYPES["uint8"]:
        warnings.warn("where: uint8 conditions are deprecated; use a bool tensor", UserWarning, stacklevel=2)


@pointwise(
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    conditions=("condition",),
    moves=True,
    check=check_condition,
    api=FUNCTION | OUT,
    traits=Trait.EXACT,
)
@pointwise(
    "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
    "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
    "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
    conditions=("condition",),
    moves=True,
    check=check_condition,
    api=FUNCTION,
    traits=Trait.EXACT,
)
def where(ops: Any, condition: Any, self: Any, other: Any) -> Any:
    return ops.where(condition, self, other)


@pointwise(
    "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", moves=True
)
def nan_to_num(ops: Any, self: Any, nan: float | None, posinf: float | None, neginf: float | None) -> Any:
    dtype = ops.dtype(self)
    if dtype.category <= Category.INTEGRAL:
        return self
    limits = finfo(dtype)

    def finite(x: Any) -> Any:
        zero = 0.0 if nan is None else nan
        high = limits.max if posinf is None else posinf
        low = limits.min if neginf is None else neginf
        x = ops.where(ops.eq(x, ops.constant(math.inf, like=x)), ops.constant(high, like=x), x)
        x = ops.where(ops.eq(x, ops.constant(-math.inf, like=x)), ops.constant(low, like=x), x)
        return ops.where(ops.isnan(x), ops.constant(zero, like=x), x)

    if dtype.is_complex:
        return ops.complex(finite(ops.real(self)), finite(ops.imag(self)))
    return finite(self)

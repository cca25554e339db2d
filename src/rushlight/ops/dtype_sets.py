"""Sets of dtypes that operators restrict their operands to."""

from __future__ import annotations

from ..core.dtypes import DTYPES, Category, DType


def of_category(*categories: Category) -> frozenset[DType]:
    return frozenset(dtype for dtype in DTYPES.values() if dtype.category in categories)


BOOL = of_category(Category.BOOL)
INTEGRAL = of_category(Category.INTEGRAL)
FLOATS = of_category(Category.FLOATING)
COMPLEX = of_category(Category.COMPLEX)
BITS = BOOL | INTEGRAL
NUMBERS = INTEGRAL | FLOATS | COMPLEX
REAL_NUMBERS = INTEGRAL | FLOATS
REALS = BOOL | INTEGRAL | FLOATS
INEXACT = FLOATS | COMPLEX

"""Which dtype an elementwise operator computes in, and which one it returns.

`resolve(promote, operands)` follows PyTorch: tensors with dimensions decide, then 0-d tensors, then Python
scalars, each only if it is of a higher category than those before it.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from . import dtypes
from .dtype_promotion import common_dtype
from .dtypes import Category, DType


class Promotion(enum.Enum):
    """Which dtype an elementwise operator computes in and gives.

    >>> rl.library.Promotion.FLOATING.name
    'FLOATING'
    """

    DEFAULT = "common dtype"
    FLOATING = "common dtype; integers become the default floating dtype"
    BOOLEAN = "computes in the common dtype, returns bool"
    REAL = "computes in the common dtype; complex inputs give a real result"
    FLOATING_REAL = "integers become floating; complex inputs give a real result"
    BOOL_TO_LONG = "common dtype; bool becomes int64"
    COMPLEX = "computes in the common dtype, which is floating; returns the complex dtype of that precision"


def common(operands: Sequence[Any]) -> DType:
    """The common dtype of operands given as (dtype, is 0-d) for tensors and as Python scalars otherwise."""
    dimensional: list[DType] = []
    zero_dim: list[DType] = []
    scalars: list[Any] = []
    for operand in operands:
        if isinstance(operand, tuple):
            (zero_dim if operand[1] else dimensional).append(operand[0])
        elif operand is not None:
            scalars.append(operand)
    return common_dtype(dimensional, zero_dim, scalars)


def resolve(promote: Promotion, dtype: DType) -> tuple[DType, DType]:
    """(compute dtype, result dtype) for the common `dtype`."""
    if promote in (Promotion.FLOATING, Promotion.FLOATING_REAL) and dtype.category <= Category.INTEGRAL:
        dtype = dtypes.get_default_dtype()
    if promote is Promotion.BOOL_TO_LONG and dtype.category is Category.BOOL:
        dtype = dtypes.DTYPES["int64"]
    result = dtype
    if promote is Promotion.BOOLEAN:
        result = dtypes.DTYPES["bool"]
    elif promote in (Promotion.REAL, Promotion.FLOATING_REAL):
        result = dtype.to_real()
    elif promote is Promotion.COMPLEX:
        result = dtype.to_complex()
    return dtype.opmath, result

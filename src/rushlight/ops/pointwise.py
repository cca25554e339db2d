"""Elementwise operators, in parts: arithmetic, functions of analysis, comparison and logic, complex numbers.

What the parts share is here: the ways a pointwise operator is exposed, and checks.
"""

from __future__ import annotations

from typing import Any

from ..core.dtypes import Category, DType
from ..core.errors import fail
from ..core.promotion import common
from ..core.registry import FUNCTION, INPLACE_METHOD, METHOD, OUT
from ..core.tensor import Tensor

BINARY = FUNCTION | METHOD | INPLACE_METHOD | OUT  # add, add_ as a method only, out=
QUERY = FUNCTION | METHOD | OUT  # never in place


def dtype_of(*operands: Any) -> DType:
    """The common dtype of tensors and numbers."""
    return common([(o.dtype, o.ndim == 0) if isinstance(o, Tensor) else o for o in operands])


def is_bool(operand: Any) -> bool:
    if isinstance(operand, Tensor):
        return operand.dtype.category is Category.BOOL
    return isinstance(operand, bool)


def same_dtype(name: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    """Refuse to promote."""
    if a.dtype is not b.dtype:
        fail(
            f"{name}: expected {first} and {second} to have the same dtype, but got {a.dtype.name} and "
            f"{b.dtype.name}; convert one of them with .to(dtype)"
        )


def refuse_complex(name: str, hint: str = "") -> Any:
    """A check that refuses complex inputs with a word on what to use instead."""

    def check(self: Tensor) -> None:
        if self.dtype.is_complex:
            fail(f"{name} is not supported for complex inputs{hint}", NotImplementedError)

    return check

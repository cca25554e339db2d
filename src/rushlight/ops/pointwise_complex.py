"""Elementwise operators on complex numbers. Views of their parts (real, imag, conj) are in view.py."""

from __future__ import annotations

import math
from typing import Any

from ..core.declare_pointwise import instruction, pointwise
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.promotion import Promotion
from ..core.registry import EXACT_OUT, FUNCTION, METHOD
from ..core.tensor import Tensor
from .dtype_sets import COMPLEX
from .pointwise import QUERY


@pointwise("angle(Tensor self) -> Tensor", promote=Promotion.FLOATING_REAL, api=QUERY)
def angle(ops: Any, self: Any) -> Any:
    if ops.dtype(self).is_complex:
        return ops.atan2(ops.imag(self), ops.real(self))
    zero, pi = ops.constant(0, like=self), ops.constant(math.pi, like=self)
    return ops.where(ops.isnan(self), self, ops.where(ops.lt(self, zero), pi, zero))


PARTS = frozenset(DTYPES[name] for name in ("float16", "float32", "float64"))


def check_parts(name: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    check(
        a.dtype in PARTS and b.dtype in PARTS,
        f"{name}: Expected both inputs to be Half, Float or Double tensors but got {a.dtype.torch_name} "
        f"and {b.dtype.torch_name}",
    )
    check(
        a.dtype is b.dtype,
        f"{name}: Expected object of scalar type {a.dtype.torch_name} but got scalar "
        f"type {b.dtype.torch_name} for second argument; {first} and {second} must have the same dtype",
    )


def check_complex(real: Tensor, imag: Tensor) -> None:
    check_parts("complex", "real", real, "imag", imag)


def check_polar(abs: Tensor, angle: Tensor) -> None:
    check_parts("polar", "abs", abs, "angle", angle)


instruction(
    "complex(Tensor real, Tensor imag) -> Tensor",
    promote=Promotion.COMPLEX,
    check=check_complex,
    api=FUNCTION | EXACT_OUT,
)


@pointwise(
    "polar(Tensor abs, Tensor angle) -> Tensor",
    promote=Promotion.COMPLEX,
    check=check_polar,
    api=FUNCTION | EXACT_OUT,
)
def polar(ops: Any, abs: Any, angle: Any) -> Any:
    return ops.complex(ops.mul(abs, ops.cos(angle)), ops.mul(abs, ops.sin(angle)))


instruction("_conj_physical(Tensor self) -> Tensor", name="conj", dtypes=COMPLEX, api=FUNCTION | METHOD)

"""Facts about dtypes, under the names of `torch._prims_common`."""

from __future__ import annotations

from .core import dtypes
from .core.dtypes import DType
from .core.errors import check

__all__ = [
    "corresponding_complex_dtype",
    "corresponding_real_dtype",
    "dtype_to_type",
    "get_computation_dtype",
    "is_boolean_dtype",
    "is_complex_dtype",
    "is_float_dtype",
    "is_integer_dtype",
    "is_low_precision_dtype",
]

# what reduced precision is computed in
_COMPUTED_IN = {
    dtypes.bfloat16: dtypes.float32,
    dtypes.float16: dtypes.float32,
    dtypes.complex32: dtypes.complex64,
}
_REAL = {
    dtypes.complex32: dtypes.float16,
    dtypes.complex64: dtypes.float32,
    dtypes.complex128: dtypes.float64,
}
_COMPLEX = {real: kind for kind, real in _REAL.items()} | {dtypes.bfloat16: dtypes.complex64}


def is_boolean_dtype(dtype: DType) -> bool:
    return dtype is dtypes.bool_


def is_integer_dtype(dtype: DType) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype is dtypes.bool_)


def is_float_dtype(dtype: DType) -> bool:
    return dtype.is_floating_point


def is_complex_dtype(dtype: DType) -> bool:
    return dtype.is_complex


def is_low_precision_dtype(dtype: DType) -> bool:
    return dtype in _COMPUTED_IN


def get_computation_dtype(dtype: DType) -> DType:
    """The dtype in which operators on `dtype` compute."""
    return _COMPUTED_IN.get(dtype, dtype)


def corresponding_real_dtype(dtype: DType) -> DType:
    return _REAL[dtype]


def corresponding_complex_dtype(dtype: DType) -> DType:
    return _COMPLEX[dtype]


def dtype_to_type(dtype: DType) -> type:
    """Python's type of the numbers in a tensor of `dtype`."""
    check(isinstance(dtype, DType), f"expected a dtype, got {type(dtype).__name__}", AssertionError)
    if is_boolean_dtype(dtype):
        return bool
    return complex if dtype.is_complex else float if dtype.is_floating_point else int

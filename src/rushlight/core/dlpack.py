"""DLPack: memory shared with other array libraries.

NumPy makes and reads the capsules, and owns what they own. It knows neither bfloat16 nor the 8-bit floats nor
complex32: tensors of those travel as integers of the same size, and only the type in the capsule's
description is written or read here.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import check

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_CPU = 1

# (code, bits) of DLPack for the types that NumPy does not exchange
_CODES: dict[DType, tuple[int, int]] = {
    dtypes.bfloat16: (4, 16),
    dtypes.complex32: (5, 32),
    dtypes.float8_e4m3fn: (10, 8),
    dtypes.float8_e4m3fnuz: (11, 8),
    dtypes.float8_e5m2: (12, 8),
    dtypes.float8_e5m2fnuz: (13, 8),
    dtypes.float8_e8m0fnu: (14, 8),
}
_BY_CODE = {code: dtype for dtype, code in _CODES.items()}
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32}
_UINT = 1


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _prototype(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    function.restype, function.argtypes = result, arguments
    return function


_is_valid = _prototype("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _prototype("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)


def _description(capsule: Any) -> _Tensor:
    """The part of a capsule that tells type and shape, to be read and written."""
    if _is_valid(capsule, _PLAIN):
        return _Tensor.from_address(_pointer(capsule, _PLAIN))
    check(
        _is_valid(capsule, _VERSIONED),
        "from_dlpack received an invalid capsule. Note that DLTensor "
        "capsules can be consumed only once, so you might have already constructed a tensor from it once.",
    )
    versioned = _Versioned.from_address(_pointer(capsule, _VERSIONED))
    check(
        versioned.major == 1,
        f"from_dlpack: the capsule has version {versioned.major} of DLPack, not 1",
        BufferError,
    )
    return versioned.tensor


def export(array: np.ndarray, dtype: DType, **options: Any) -> Any:
    """A capsule over the memory of `array`."""
    code = _CODES.get(dtype)
    if code is None:
        return array.__dlpack__(**options)
    capsule = array.view(_UNSIGNED[code[1]]).__dlpack__(**options)
    description = _description(capsule)
    description.code, description.bits = code
    return capsule


class _Capsule:
    """A capsule as an object that gives it away, which is what NumPy asks for."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (_CPU, 0)


def is_capsule(value: Any) -> bool:
    return type(value).__name__ == "PyCapsule"


def imported(source: Any, copy: bool | None) -> np.ndarray:
    """An array over the memory of a capsule, or of an object that gives one."""
    capsule = source
    if not is_capsule(source):
        check(
            hasattr(source, "__dlpack__"),
            f"from_dlpack: a {type(source).__name__} does not implement __dlpack__",
        )
        capsule = _capsule_of(source, copy)
        check(
            is_capsule(capsule),
            f"from_dlpack: __dlpack__ gave a {type(capsule).__name__}, not a capsule",
            TypeError,
        )
    description = _description(capsule)
    dtype = _BY_CODE.get((description.code, description.bits)) if description.lanes == 1 else None
    if dtype is not None:
        description.code = _UINT
    unversioned = bool(_is_valid(capsule, _PLAIN))
    array = np.from_dlpack(_Capsule(capsule))
    if unversioned and not array.flags.writeable:
        array = np.asarray(_Writable(array))
    return array if dtype is None else array.view(dtype.numpy)


class _Writable:
    """The memory of an array as one that may be written. The first version of DLPack does not say, and NumPy
    takes it for read-only; PyTorch, and those that exchange tensors with it, for writable."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # keeps the memory
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def _capsule_of(source: Any, copy: bool | None) -> Any:
    options: dict[str, Any] = {"max_version": (1, 0)}
    if copy is not None:
        options["copy"] = copy
    try:
        return source.__dlpack__(**options)
    except TypeError:  # it follows the first version of the protocol
        return source.__dlpack__()

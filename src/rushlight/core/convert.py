"""One value of a user's call against the type of an argument, by PyTorch's rules for what fits what."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import fail
from .generator import Generator
from .nested_int import NestedInt
from .schema import Argument, Type
from .symbols import SymInt
from .tensor import Tensor
from .tokens import device, layout, memory_format, place

_PYTHON_DTYPES = {float: "float64", int: "int64", bool: "bool", complex: "complex128"}
LARGEST = 2**63


class _NoMatch:
    pass


NO_MATCH = _NoMatch()


def _to_tensor(value: Any, type_: Type) -> Any:
    return value if isinstance(value, Tensor) else NO_MATCH


def _to_scalar(value: Any, type_: Type) -> Any:
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.number | np.bool_):
        return value.item()
    if isinstance(value, Tensor) and value.ndim == 0 and not value.requires_grad:
        return value.item()
    return NO_MATCH


def _to_int(value: Any, type_: Type) -> Any:
    if type(value) is int:
        return (
            value
            if -LARGEST <= value < LARGEST
            else fail(f"Overflow when unpacking long long: {value} is not a 64-bit integer", ValueError)
        )
    if type(value) is SymInt:
        return value if value.symbols.capturing else int(value)
    if isinstance(value, bool | np.bool_):
        return NO_MATCH
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, NestedInt):
        return value
    if isinstance(value, Tensor):
        if (
            value.ndim == 0
            and not value.dtype.is_floating_point
            and not value.dtype.is_complex
            and value.dtype is not dtypes.DTYPES["bool"]
        ):
            return int(value.item())
        return NO_MATCH
    if hasattr(value, "__index__") and (
        not hasattr(value, "__array__")
        or (isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu")
    ):
        return operator.index(value)
    return NO_MATCH


def _to_float(value: Any, type_: Type) -> Any:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, np.floating | np.integer):
        return float(value)
    if (
        isinstance(value, Tensor)
        and value.ndim == 0
        and not value.dtype.is_complex
        and not value.requires_grad
    ):
        return float(value.item())
    return NO_MATCH


def _to_bool(value: Any, type_: Type) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return NO_MATCH


def _to_dtype(value: Any, type_: Type) -> Any:
    if isinstance(value, DType):
        return value
    name = _PYTHON_DTYPES.get(value) if isinstance(value, type) else None
    return NO_MATCH if name is None else dtypes.DTYPES[name]


def _to_device(value: Any, type_: Type) -> Any:
    if value.__class__ is device or isinstance(value, str):
        return place(value)
    return NO_MATCH


def _instance(cls: type) -> Callable[[Any, Type], Any]:
    return lambda value, type_: value if isinstance(value, cls) else NO_MATCH


_CONVERT: dict[str, Callable[[Any, Type], Any]] = {
    "Tensor": _to_tensor,
    "Scalar": _to_scalar,
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "str": _instance(str),
    "ScalarType": _to_dtype,
    "Device": _to_device,
    "Layout": _instance(layout),
    "MemoryFormat": _instance(memory_format),
    "Generator": _instance(Generator),
    "complex": _to_scalar,
}


def convert(value: Any, type_: Type) -> Any:
    """`value` as an argument of `type_`, or NO_MATCH."""
    if value is None:
        return None if type_.optional else NO_MATCH
    to_element = _CONVERT.get(type_.base)
    if to_element is None:
        return NO_MATCH
    if not type_.is_list:
        return to_element(value, type_)
    if isinstance(value, list | tuple):
        items = [
            None if item is None and type_.element_optional else to_element(item, type_) for item in value
        ]
        return NO_MATCH if any(item is NO_MATCH for item in items) else tuple(items)
    if type_.base == "Tensor":
        return NO_MATCH
    if isinstance(value, Tensor) and value.ndim == 1 and type_.base == "int" and not value.requires_grad:
        return tuple(value.tolist())
    if type_.size is not None:
        item = to_element(value, type_)
        return NO_MATCH if item is NO_MATCH else (item,) * type_.size
    return NO_MATCH


def converted(value: Any, argument: Argument) -> Any:
    """`convert`, where None may also stand for an empty list that is the default (`dims` of roll)."""
    return () if value is None and argument.default == () else convert(value, argument.type)

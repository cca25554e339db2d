"""Numbers and nested sequences of numbers as NumPy arrays, with PyTorch's dtype inference and range checks.

In:  Python numbers, NumPy scalars and arrays, one-element tensors, and sequences of those to any depth.
Out: an array of the dtype asked for, or of the smallest that all leaves promote to.

The first element of each sequence decides the shape. Leaves are converted as PyTorch converts them: by
`__index__` for integers (floats are cut off), by `__float__` for floating dtypes; an integer out of range is
an error, never wrapped, except that unsigned types take small negative integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from . import dtypes
from .dtype_promotion import promote_types
from .dtypes import Category, DType
from .shapes import check_rank
from .tensor import Tensor

_NUMBERS = frozenset((bool, int, float))
_TEXT = (str, bytes)
_EXACT = 2**53  # integers up to here are what they are in double precision, and no number overflows in single


def array_from(data: Any, dtype: DType | None) -> np.ndarray:
    """`data`, a number or a nested sequence, as a contiguous array."""
    if type(data) is float or type(data) is int:
        found = _one_number(data, dtype)
        if found is not None:
            return found
    if dtype is None and _equal_arrays(data):
        return np.stack(data).astype(_infer(data, set()).numpy, copy=False)
    shape = _shape_of(data)
    check_rank(shape)
    if 0 in shape:
        return np.empty(shape, (dtype or dtypes.get_default_dtype()).numpy)
    leaves: list[Any] = []
    if shape:
        _collect(data, shape, 0, leaves)
    else:
        leaves.append(data)
    kinds = set(map(type, leaves))
    target = dtype or _infer(leaves, kinds)
    values = _plain_values(leaves, kinds, target) if kinds <= _NUMBERS else None
    if values is None:
        convert = _converter(target)
        values = np.array([convert(leaf, target) for leaf in leaves], _wide(target))
    return _rounded(values, target).reshape(shape)


def _one_number(value: float | int, dtype: DType | None) -> np.ndarray | None:
    """A number as an array, if its dtype is a usual one and it is none that needs care."""
    kind = type(value)
    target = dtype or (dtypes.get_default_dtype() if kind is float else dtypes.int64)
    if target is dtypes.int64 and kind is int:
        return np.array(value, np.int64) if -(2**63) <= value < 2**63 else None
    if target is dtypes.float64 or target is dtypes.float32:
        return np.array(value, target.numpy) if -_EXACT < value < _EXACT else None
    return None


def _equal_arrays(data: Any) -> bool:
    """Whether `data` is a sequence of arrays of one shape, which need not be taken apart."""
    if not isinstance(data, list | tuple) or not data or type(data[0]) is not np.ndarray:
        return False
    shape = data[0].shape
    return (
        len(shape) > 0
        and 0 not in shape
        and all(isinstance(item, np.ndarray) and item.shape == shape for item in data)
    )


# Shape.


def _is_sequence(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return True
    if isinstance(value, Tensor | np.generic | dict | set | frozenset | str | bytes):
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _shape_of(data: Any) -> tuple[int, ...]:
    """The lengths of `data`, of its first element, and so on."""
    if isinstance(data, _TEXT):
        raise TypeError(f"tensor(): invalid data type '{type(data).__name__}'; give numbers")
    shape = []
    while _is_sequence(data):
        length = len(data)
        shape.append(length)
        if len(shape) > 128:
            raise ValueError("tensor(): more than 128 dimensions; is the sequence nested in itself?")
        if length == 0:
            break
        try:
            data = data[0]
        except TypeError as error:
            raise ValueError(
                "tensor(): could not determine the shape of an object of type "
                f"'{type(data).__name__}': it has a length and no first element"
            ) from error
        if isinstance(data, _TEXT):
            raise ValueError(f"tensor(): too many dimensions '{type(data).__name__}'")
    return tuple(shape)


def _collect(data: Sequence[Any], shape: tuple[int, ...], dim: int, leaves: list[Any]) -> None:
    """Append the leaves of `data`, checking the lengths on the way."""
    if not _is_sequence(data):
        raise TypeError(
            f"tensor(): a {type(data).__name__} is not a sequence, but the first element at dim "
            f"{dim} is one of length {shape[dim]}"
        )
    if len(data) != shape[dim]:
        raise ValueError(f"tensor(): expected sequence of length {shape[dim]} at dim {dim} (got {len(data)})")
    if dim == len(shape) - 1:
        leaves.extend(data)
        return
    for item in data:
        _collect(item, shape, dim + 1, leaves)


# Dtype.


def _infer(leaves: list[Any], kinds: set[type]) -> DType:
    """The dtype that all leaves promote to."""
    plain = kinds and kinds <= _NUMBERS
    found = {dtypes.scalar_dtype(kind()) for kind in kinds} if plain else set(map(_leaf_dtype, leaves))
    result = found.pop()
    for other in found:
        result = promote_types(result, other)
    return result


def _leaf_dtype(leaf: Any) -> DType:
    if isinstance(leaf, Tensor):
        return leaf.dtype
    if isinstance(leaf, float) and not isinstance(leaf, np.generic):
        return dtypes.scalar_dtype(leaf)
    if isinstance(leaf, np.generic | np.ndarray):
        return dtypes.from_numpy(leaf.dtype)
    if isinstance(leaf, bool | int | complex):
        return dtypes.scalar_dtype(leaf)
    if isinstance(leaf, _TEXT):
        raise TypeError(f"tensor(): invalid data type '{type(leaf).__name__}'; give numbers")
    if _is_sequence(leaf):
        raise TypeError(f"tensor(): a sequence of length {len(leaf)} where the first element is a number")
    raise RuntimeError(f"tensor(): Could not infer dtype of {type(leaf).__name__}; give numbers")


# Values.


def _wide(target: DType) -> np.dtype:
    """The dtype in which values are held until they are rounded to `target`."""
    if target.name == "uint64":
        return np.dtype(np.uint64)
    return np.dtype(
        {
            Category.BOOL: np.bool_,
            Category.INTEGRAL: np.int64,
            Category.FLOATING: np.float64,
            Category.COMPLEX: np.complex128,
        }[target.category]
    )


def _rounded(values: np.ndarray, target: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        if target.itemsize < 4 and target.is_floating_point:
            values = values.astype(np.float32)  # PyTorch rounds twice on the way to the small floats
        return values.astype(target.numpy, copy=False)


def _plain_values(leaves: list[Any], kinds: set[type], target: DType) -> np.ndarray | None:
    """Python numbers all at once; None where they need the care of one-by-one conversion."""
    try:
        if target.category is Category.BOOL:
            return np.fromiter(map(bool, leaves), np.bool_, len(leaves))
        if target.category >= Category.FLOATING:
            return np.array(leaves, np.float64)
        if float in kinds or target.name == "uint64":
            return None
        values = np.array(leaves, np.int64)
    except OverflowError:
        return None
    info = dtypes.iinfo(target)
    low = info.min if target.is_signed else -info.max
    return values if low <= values.min() and values.max() <= info.max else None


def _converter(target: DType) -> Callable[[Any, DType], Any]:
    if target.category is Category.INTEGRAL:
        return _to_uint64 if target.name == "uint64" else _to_integer
    return {Category.BOOL: _to_bool, Category.FLOATING: _to_float, Category.COMPLEX: _to_complex}[
        target.category
    ]


def _to_bool(leaf: Any, target: DType) -> bool:
    if isinstance(leaf, float | complex | int | np.bool_):
        return bool(leaf)
    return operator.index(leaf) != 0


def _to_integer(leaf: Any, target: DType) -> int:
    info = dtypes.iinfo(target)
    if isinstance(leaf, float):
        if not info.min <= leaf <= info.max:
            _overflow(leaf, target)
        return int(leaf)
    value = operator.index(leaf)
    if not -(2**63) <= value < 2**63:
        raise ValueError(
            f"tensor(): Overflow when unpacking the integer {value}; 64 bits are not enough for it"
        )
    if not (info.min if target.is_signed else -info.max) <= value <= info.max:
        _overflow(value, target)
    return value


def _to_uint64(leaf: Any, target: DType) -> int:
    if not isinstance(leaf, int):
        raise TypeError(f"tensor(): uint64 takes integers, not {type(leaf).__name__}")
    if leaf < 0:
        raise OverflowError(f"tensor(): can't convert the negative integer {leaf} to uint64")
    if leaf >= 2**64:
        raise OverflowError(f"tensor(): the integer {leaf} is too big for uint64")
    return leaf


def _to_float(leaf: Any, target: DType) -> float:
    if isinstance(leaf, complex | np.complexfloating) and not isinstance(leaf, np.complex64):
        raise TypeError(f"tensor(): a complex number cannot become {target.name}; take its real part")
    return float(leaf.real) if isinstance(leaf, np.complex64) else float(leaf)


def _to_complex(leaf: Any, target: DType) -> complex:
    return complex(leaf)


def _overflow(value: Any, target: DType) -> NoReturn:
    raise RuntimeError(f"tensor(): value cannot be converted to type {target.name} without overflow: {value}")

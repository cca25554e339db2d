"""Tensors from data: tensor, as_tensor, from_numpy, frombuffer, asarray and DLPack.

`from_numpy` shares memory with the array, `tensor` always copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import check, fail
from .shapes import Spec
from .storage import Storage
from .tensor import META_DEVICE, Tensor, _new, meta_tensor, wrap
from .tokens import device as Device


def tensor(data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False,
           pin_memory: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: a number, a (nested) sequence, an ndarray or a tensor."""
    array = _array_of(data, dtype)
    if array is data or (isinstance(data, np.ndarray) and np.may_share_memory(array, data)):
        array = array.copy()
    return _placed(wrap(np.ascontiguousarray(array) if array.ndim else array), device, requires_grad)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory with a tensor or an ndarray where dtype and device allow it."""
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray) and (dtype is None or dtypes.BY_NUMPY.get(data.dtype) is dtype):
        return _placed(from_numpy(data), device, False)
    return tensor(data, dtype=dtype, device=device)


def asarray(obj: Any, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None,
            requires_grad: bool = False) -> Tensor:
    """`obj` as a tensor; `copy` True always copies, False never does (ValueError where it would have to)."""
    shareable = isinstance(obj, Tensor | np.ndarray) or hasattr(obj, "__dlpack__")
    if hasattr(obj, "__dlpack__") and not isinstance(obj, Tensor | np.ndarray):
        obj = from_dlpack(obj)
    result = as_tensor(obj, dtype=dtype, device=device) if copy is not True else \
        (obj.clone() if isinstance(obj, Tensor) else tensor(obj)).to(device=device, dtype=dtype)
    if copy is False:
        shared = shareable and (dtype is None or result.dtype is _dtype_of(obj))
        check(shared, "asarray: can't alias the data (another dtype or a Python sequence); pass copy=None to allow a "
              "copy", ValueError)
    if isinstance(obj, Tensor) and result is obj and requires_grad != obj.requires_grad:
        result = result.detach()
    return result.requires_grad_(requires_grad) if requires_grad else result


def _dtype_of(obj: Any) -> DType:
    return obj.dtype if isinstance(obj, Tensor) else dtypes.from_numpy(obj.dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with `array`."""
    check(isinstance(array, np.ndarray), f"expected np.ndarray (got {type(array).__name__})", TypeError)
    dtype = dtypes.from_numpy(array.dtype)
    check(array.dtype.isnative, "given numpy array has byte order different from the native byte order. Conversion "
          "between byte orders is currently not supported.", ValueError)
    check(all(s >= 0 for s in array.strides), "At least one stride in the given numpy array is negative, and tensors "
          "with negative strides are not supported. Make a copy of the array first: array.copy().", ValueError)
    check(all(s % array.itemsize == 0 for s in array.strides) or array.size == 0, "given numpy array strides not a "
          "multiple of the element byte size. Copy the numpy array to reallocate the memory.", ValueError)
    shared = array.view()
    result = _new(Tensor)
    result._array, result.dtype = shared, dtype
    result._strides = tuple([s // array.itemsize for s in array.strides])
    return result


def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A 1-D tensor that shares memory with an object that has the buffer protocol."""
    size = memoryview(buffer).nbytes
    check(size > 0 and count != 0, f"both buffer length ({size}) and count ({count}) must not be 0", ValueError)
    check(0 <= offset < size, f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
          f"({size} bytes) minus 1", ValueError)
    check(count > 0 or (size - offset) % dtype.itemsize == 0, f"buffer length ({size - offset} bytes) after offset "
          f"({offset} bytes) must be a multiple of element size ({dtype.itemsize})", ValueError)
    check(offset + max(count, 0) * dtype.itemsize <= size, f"requested buffer length ({count} * {dtype.itemsize} bytes) "
          f"after offset ({offset} bytes) must not be greater than actual buffer length ({size} bytes)", ValueError)
    result = from_numpy(np.frombuffer(buffer, dtype.numpy, count, offset))
    return result.requires_grad_() if requires_grad else result


def from_dlpack(source: Any) -> Tensor:
    """A tensor over the memory of any object with `__dlpack__`."""
    if isinstance(source, Tensor):
        return source.view_as(source)
    array = np.from_dlpack(source)
    if not array.flags.writeable:
        # NumPy marks DLPack imports read-only where the producer does not say; PyTorch's producers are writable.
        span = Storage.of_array(array).buffer
        assert span is not None
        span.flags.writeable = False
    return from_numpy(array)


def scalar_tensor(value: Any, dtype: DType | None = None) -> Tensor:
    """A 0-d tensor of a Python number."""
    return wrap(_array_of(value, dtype))


def _placed(result: Tensor, device: Any, requires_grad: bool) -> Tensor:
    if device is not None and Device(device) == META_DEVICE:
        result = meta_tensor(Spec(tuple(result.shape), result.dtype))
    return result.requires_grad_() if requires_grad else result


def _array_of(data: Any, dtype: DType | None) -> np.ndarray:
    if isinstance(data, Tensor):
        array = data.numpy_array()
    elif isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        dtypes.from_numpy(array.dtype)
    elif isinstance(data, bool | int | float | complex):
        array = np.asarray(data, dtype=_python_dtype(data, dtype))
    elif isinstance(data, list | tuple):
        array = _from_sequence(data, dtype)
    elif hasattr(data, "__array__"):
        array = np.asarray(data)
    else:
        raise TypeError(f"tensor(): cannot build a tensor from {type(data).__name__}; give numbers, sequences of "
                        "numbers, arrays or tensors")
    with np.errstate(all="ignore"):
        return array if dtype is None else array.astype(dtype.numpy, copy=False)


def _python_dtype(value: Any, dtype: DType | None) -> np.dtype:
    natural = dtypes.scalar_dtype(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        if dtype is not None and dtype.name == "uint64":
            return dtype.numpy
        if dtype is None or dtype.category == dtypes.Category.INTEGRAL:
            raise RuntimeError(f"value cannot be converted to type int64 without overflow: {value}")
        return dtype.numpy
    if dtype is not None and (dtype.category >= natural.category):
        wide = np.result_type(natural.numpy, np.float64) if natural.is_floating_point else natural.numpy
        return wide if dtype.itemsize >= 8 or natural.category < dtype.category else natural.numpy
    return natural.numpy


def _from_sequence(data: Sequence[Any], dtype: DType | None) -> np.ndarray:
    """The array of a nested sequence; its dtype is that of its widest Python number."""
    shape = _sequence_shape(data)
    flat: list[Any] = []
    _flatten(data, shape, flat)
    if not flat:
        return np.empty(shape, (dtype or dtypes.get_default_dtype()).numpy)
    kinds = {_leaf_dtype(value) for value in flat}
    natural = kinds.pop()
    for other in kinds:
        natural = dtypes.promote_types(natural, other)
    target = dtype or natural
    values = [_leaf_value(value) for value in flat]
    exact = _exact_dtype(natural, target)
    try:
        return np.array(values, exact).reshape(shape)
    except OverflowError as error:
        raise RuntimeError(f"value cannot be converted to type {target.name} without overflow") from error


def _exact_dtype(natural: DType, target: DType) -> np.dtype:
    """A NumPy dtype wide enough to hold the values before they are rounded to `target` once."""
    if natural.is_complex or target.is_complex:
        return np.dtype(np.complex128) if target.itemsize != 8 else target.numpy
    if natural.is_floating_point:
        return np.dtype(np.float64) if target.category < natural.category or target.itemsize == 8 else target.numpy
    return target.numpy if target.name == "uint64" else natural.numpy


def _leaf_dtype(value: Any) -> DType:
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, np.generic):
        return dtypes.from_numpy(value.dtype)
    if isinstance(value, bool | int | float | complex):
        return dtypes.scalar_dtype(value)
    raise TypeError(f"tensor(): element of type {type(value).__name__} is not a number")


def _leaf_value(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value


def _length(value: Any) -> int | None:
    """The length of a sequence, None for a leaf."""
    if isinstance(value, str | bytes | dict | set):
        raise TypeError(f"tensor(): new tensors cannot hold {type(value).__name__} values")
    if isinstance(value, list | tuple | range):
        return len(value)
    if isinstance(value, Tensor | np.ndarray) and value.ndim > 0:
        return len(value)
    return None


def _sequence_shape(data: Any) -> tuple[int, ...]:
    shape = []
    length = _length(data)
    while length is not None:
        shape.append(length)
        check(len(shape) <= 128, "tensor(): too many dimensions; is the sequence nested in itself?", ValueError)
        if length == 0:
            break
        data = data[0]
        length = _length(data)
    return tuple(shape)


def _flatten(data: Any, shape: tuple[int, ...], flat: list[Any], depth: int = 0) -> None:
    length = _length(data)
    if depth == len(shape):
        if length is not None:
            fail(f"expected a number at dimension {depth} but got a sequence of length {length}", ValueError)
        flat.append(data)
        return
    if length != shape[depth]:
        got = "a number" if length is None else f"length {length}"
        error = TypeError if length is None else ValueError
        fail(f"expected sequence of length {shape[depth]} at dim {depth} (got {got})", error)
    for item in data:
        _flatten(item, shape, flat, depth + 1)

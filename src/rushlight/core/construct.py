"""Tensors from data: tensor, as_tensor, from_numpy, frombuffer, asarray and DLPack.

`from_numpy` and `frombuffer` share memory with their argument, `tensor` always copies, the others copy where
they must.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dlpack, dtypes
from .dispatch import lifted, run_name
from .dtypes import DType
from .errors import check, warn_once
from .modes import MODES
from .overrides import plainly
from .sequence import array_from
from .shapes import Spec
from .storage import Storage
from .tensor import Tensor, _new, alias, meta_tensor, wrap
from .tokens import place

_PYTHON_DTYPES = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool_, complex: dtypes.complex128}


def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of `data`: a number, a (nested) sequence, an ndarray or a tensor.

    >>> rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    dtype, device = _checked_dtype(dtype, "tensor"), _wanted(device)
    if type(data) is float or type(data) is int:
        result = _placed(scalar_tensor(data, dtype), device)
    elif isinstance(data, Tensor):
        with plainly():
            result = data.detach().to(device=device, dtype=dtype, copy=True)
    elif hasattr(type(data), "specialise"):  # a number that is known only when a compiled function is called
        result = run_name("full", (), data, dtype, None, device, False)
    elif isinstance(data, np.ndarray):
        result = _placed(over_array(_whole_strides(data)).to(dtype=dtype, copy=True), device)
    elif hasattr(data, "_untyped_storage") or isinstance(data, Storage):
        result = of_storage(data, dtype or dtypes.get_default_dtype())
    elif (
        hasattr(data, "__dlpack__")
        and hasattr(data, "__dlpack_device__")
        and not isinstance(data, np.generic)
    ):
        result = from_dlpack(data).to(device=device, dtype=dtype, copy=True)
    else:
        result = _placed(scalar_tensor(data, dtype), device)
    if not isinstance(data, Tensor) and result._trace is None:
        result = lifted(result)
    return result._set_requires_grad() if requires_grad else result


def of_storage(memory: Any, dtype: DType) -> Tensor:
    """A 1-D tensor over a whole storage; one that knows its dtype must be of `dtype`."""
    untyped = untyped_of(memory, dtype)
    carrier = meta_tensor(Spec((0,), dtype, (1,)))
    carrier._storage = untyped
    if untyped.buffer is not None:
        carrier._keys = 0
    return alias(carrier, Spec((untyped.nbytes() // dtype.itemsize,), dtype, (1,), 0))


def untyped_of(memory: Any, dtype: DType) -> Storage:
    """The bytes of a storage, which must be numbers of `dtype` where it says what they are."""
    if isinstance(memory, Storage):
        return memory
    check(
        memory._dtype is dtype,
        f"Expected a Storage of type {dtype.name} or an UntypedStorage, but got a "
        f"storage of type {memory._dtype.name}",
    )
    return memory._untyped_storage


def as_tensor(data: Any, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory with a tensor or an ndarray where dtype and device allow it.

    >>> array = np.zeros(2)
    >>> rl.as_tensor(array)[0] = 5
    >>> rl.as_tensor(array)
    tensor([5., 0.], dtype=rushlight.float64)
    """
    dtype, device = _checked_dtype(dtype, "as_tensor"), _wanted(device)
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray):
        return _placed(from_numpy(_whole_strides(data)).to(dtype=dtype), device)
    return tensor(data, dtype=dtype, device=device)


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """`obj` as a tensor; `copy` True always copies, False never does (ValueError where it would have to).

    >>> rl.asarray([1, 2])
    tensor([1, 2])
    """
    dtype, device = _checked_dtype(dtype, "asarray"), _wanted(device)
    source = _shared(obj, dtype)
    if source is None:
        check(
            copy is not False,
            "asarray: can't alias arbitrary sequence or number; pass copy=None to allow a copy",
            RuntimeError if isinstance(obj, np.generic) else ValueError,
        )
        result = tensor(np.asarray(obj) if isinstance(obj, np.generic) else obj, dtype=dtype, device=device)
    else:
        result = source.to(device=device, dtype=dtype, copy=bool(copy))
        check(
            copy is not False or result is source,
            "asarray: can't alias the data of a tensor "
            f"with dtype '{source.dtype.name}' into dtype '{result.dtype.name}', or from device "
            f"'{source.device}' to '{result.device}'; pass copy=None to allow a copy",
            ValueError,
        )
    if requires_grad is None:
        return result
    if result.grad_fn is not None and not requires_grad:
        return result.detach()
    return result._set_requires_grad(requires_grad)


def _shared(obj: Any, dtype: DType | None) -> Tensor | None:
    """A tensor over the memory of `obj`, None if it has no memory to share."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(_whole_strides(obj))
    if isinstance(obj, np.generic):
        return None
    if hasattr(obj, "__dlpack__") or dlpack.is_capsule(obj):
        return from_dlpack(obj)
    if _has_buffer(obj):
        return frombuffer(obj, dtype=dtype or dtypes.get_default_dtype())
    return None


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def _checked_dtype(dtype: Any, name: str) -> DType | None:
    """`dtype`, which may be one of Python's number types."""
    dtype = _PYTHON_DTYPES.get(dtype, dtype) if isinstance(dtype, type) else dtype
    check(
        dtype is None or isinstance(dtype, DType),
        f"{name}(): argument 'dtype' must be a rushlight dtype, not {type(dtype).__name__}",
        TypeError,
    )
    check(
        dtype is None or not dtype.is_quantized,
        f"{name}(): cannot make a tensor of a quantized dtype; "
        "quantize_per_tensor and quantize_per_channel do",
    )
    return dtype


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares memory with `array`, and whose storage cannot be resized therefore.

    >>> array = np.zeros(2)
    >>> rl.from_numpy(array)[0] = 5
    >>> array.tolist()
    [5.0, 0.0]
    """
    result = over_array(array)
    if not array.flags.writeable:
        warn_once(
            "The given NumPy array is not writable, and there are no non-writable tensors: writing to "
            "this one is an error. Copy the array, array.copy(), to write to the tensor.",
            2,
        )
    result._foreign = True
    return result


def over_array(array: np.ndarray) -> Tensor:
    """A tensor over the memory of `array`, which nobody else keeps."""
    check(isinstance(array, np.ndarray), f"expected np.ndarray (got {type(array).__name__})", TypeError)
    dtype = dtypes.from_numpy(array.dtype)
    _whole_strides(array)
    result = _new(Tensor)
    result._array, result.dtype = np.asarray(array).view(), dtype
    return result


def _whole_strides(array: np.ndarray) -> np.ndarray:
    """`array` if a tensor can have its strides; ValueError otherwise."""
    dtypes.from_numpy(array.dtype)
    check(
        all(s >= 0 for s in array.strides),
        "At least one stride in the given numpy array is negative, and "
        "tensors with negative strides are not supported. Make a copy of the array first: array.copy().",
        ValueError,
    )
    check(
        all(s % array.itemsize == 0 for s in array.strides) or array.size == 0,
        "given numpy array strides "
        "not a multiple of the element byte size. Copy the numpy array to reallocate the memory.",
        ValueError,
    )
    return array


def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-D tensor that shares memory with an object that has the buffer protocol.

    >>> rl.frombuffer(bytearray([1, 2]), dtype=rl.uint8)
    tensor([1, 2], dtype=rushlight.uint8)
    """
    check(
        _has_buffer(buffer),
        f"frombuffer: the {type(buffer).__name__} object does not implement Python buffer protocol.",
        ValueError,
    )
    _checked_dtype(dtype, "frombuffer")
    size, item = memoryview(buffer).nbytes, dtype.itemsize
    check(
        size > 0 and count != 0, f"both buffer length ({size}) and count ({count}) must not be 0", ValueError
    )
    check(
        0 <= offset < size,
        f"offset ({offset} bytes) must be non-negative and no greater than buffer "
        f"length ({size} bytes) minus 1",
        ValueError,
    )
    check(
        count > 0 or (size - offset) % item == 0,
        f"buffer length ({size - offset} bytes) after offset "
        f"({offset} bytes) must be a multiple of element size ({item})",
        ValueError,
    )
    check(
        offset + max(count, 0) * item <= size,
        f"requested buffer length ({count} * {item} bytes) after "
        f"offset ({offset} bytes) must not be greater than actual buffer length ({size} bytes)",
        ValueError,
    )
    array = np.frombuffer(buffer, dtype.numpy, max(count, -1), offset)
    if not array.flags.writeable:
        warn_once(
            "The given buffer is not writable, and there are no non-writable tensors: writing to this "
            "one is an error. Copy the buffer, bytearray(buffer), to write to the tensor.",
            2,
        )
    result = over_array(array)
    result._foreign = True
    return result._set_requires_grad() if requires_grad else result


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule over the memory of `tensor`, for one library to read.

    >>> rl.from_dlpack(rl.to_dlpack(rl.tensor([1, 2])))
    tensor([1, 2])
    """
    return tensor.__dlpack__()


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of a capsule or of any object with `__dlpack__`; with `copy` over its own.

    >>> rl.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    if device is not None:
        check(
            place(device).type == "cpu",
            f"from_dlpack: memory on the cpu cannot be shared with {device}",
            BufferError,
        )
    if isinstance(ext_tensor, Tensor) and not copy and type(ext_tensor).__dlpack__ is Tensor.__dlpack__:
        check(not ext_tensor.is_meta, "from_dlpack: a tensor on the meta device has no memory", ValueError)
        return _normalised(ext_tensor.view_as(ext_tensor))
    shared = over_array(dlpack.imported(ext_tensor, copy))
    shared._foreign = True
    return shared.clone() if copy else shared


def _normalised(tensor: Tensor) -> Tensor:
    """With stride 1 of dimensions of size 1, as libraries exchange them."""
    strides = tensor.strides()
    if all(n != 1 or s == 1 for n, s in zip(tensor.shape, strides, strict=True)):
        return tensor
    plain = tuple([1 if n == 1 else s for n, s in zip(tensor.shape, strides, strict=True)])
    return tensor.as_strided(tuple(tensor.shape), plain)


def scalar_tensor(value: Any, dtype: DType | None = None) -> Tensor:
    """A tensor of a Python number or a nested sequence of them."""
    if isinstance(value, np.ndarray):
        return tensor(value, dtype=dtype)
    return wrap(array_from(value, dtype))


def _wanted(device: Any) -> Any:
    """The device that is asked for, or else the default of this thread, None if there is none."""
    return MODES.devices[-1] if device is None and MODES.devices else device


def _placed(result: Tensor, device: Any) -> Tensor:
    if device is not None and place(device).type == "meta":
        return meta_tensor(Spec(tuple(result.shape), result.dtype))
    return result

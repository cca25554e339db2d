"""What makes a Tensor a Python object: values, conversion, printing, iteration, copying and the special
methods.

Importing this module attaches the methods. Operator methods come from the registry (api.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from . import construct, dlpack, dtypes, printing
from .conversions import _type
from .copying import copy_tensor, deepcopy_tensor, reduce_tensor
from .determinism import alert
from .dispatch import AMBIENT, read_array, read_number, run_name
from .dtypes import Category, DType
from .errors import check
from .indexing import get_item, set_item
from .modes import MODES
from .mutation import assign, call_inplace, check_target
from .overlap import check_no_partial_overlap
from .overrides import ask, overriding_types
from .pointwise import copy_in_place
from .registry import REGISTRY, Api
from .resizing import set_geometry
from .shapes import channels_last_strides, contiguous_strides
from .sparse import make_sparse
from .storage import Storage
from .tensor import (
    AUTOGRAD,
    DISPATCH,
    LAZY,
    META,
    QUANTIZED,
    SPARSE,
    TRACED,
    Tensor,
    alias,
    tensor_method,
    wrap,
)
from .tokens import channels_last, channels_last_3d, contiguous_format, memory_format, preserve_format
from .transforms import describe


@tensor_method
def item(self: Tensor) -> Any:
    """The value of a tensor with one element, as a Python number."""
    array = self._array
    if (
        array is not None
        and array.size == 1
        and array.dtype.isbuiltin == 1
        and self._keys <= AUTOGRAD
        and self._spec is None
        and AMBIENT.trace is None
        and not AMBIENT.keys
    ):
        return array.item()
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    if self._keys & META and not self._keys & TRACED:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    if self._quantizer is not None:
        return run_name("dequantize.self", self).item()
    if (self._keys | AMBIENT.keys) & DISPATCH and not self._keys & TRACED and not MODES.undispatched:
        return read_number(self)
    trace = self._trace if self._keys & TRACED else AMBIENT.trace
    if trace is not None and (later := trace.item(self)) is not NotImplemented:
        return later
    value = read_array(self)
    if value.dtype.isbuiltin != 1:
        return (complex if self.dtype.is_complex else float)(value.reshape(()))
    return value.item()


@tensor_method
def tolist(self: Tensor) -> Any:
    """The values as nested Python lists (a number for a 0-d tensor)."""
    trace = self._trace if self._keys & TRACED else AMBIENT.trace
    if trace is not None and (later := trace.tolist(self)) is not NotImplemented:
        return later
    array = read_array(self)
    if self.dtype.opmath is not self.dtype:
        array = array.astype(self.dtype.opmath.numpy)
    return array.tolist()


@tensor_method
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The values as an ndarray that shares memory with the tensor."""
    if not force:
        check(
            not (self.requires_grad and MODES.grad),
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        )
        check(
            not self._keys & LAZY,
            f"Can't call numpy() on Tensor that has {'conjugate' if self._conj else 'negative'} bit set. Use "
            "tensor.resolve_conj().resolve_neg().numpy() instead.",
        )
        check(
            self._array is not None or not self._keys & DISPATCH,
            ".numpy() is not supported for tensor subclasses without data; tolist() reads the elements",
        )
        if self._keys & META:
            raise TypeError("can't convert a meta tensor to numpy: it has no data")
    array = read_array(self)
    keep_memory(self)
    return array


def keep_memory(tensor: Tensor) -> None:
    """Note that others hold the memory of `tensor` from now on: its storage cannot be resized any more."""
    if tensor._storage is not None:
        tensor._storage._fixed = True
    elif tensor._array is not None:
        tensor._foreign = True


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    array = self.numpy()
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def _array_wrap(self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Tensor:
    """What NumPy's functions of this tensor and arrays give: a tensor, of uint8 instead of bool."""
    array = np.asarray(array)
    return construct.from_numpy(array.astype(np.uint8) if array.dtype == bool else array)


def _dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """A capsule over the memory of this tensor."""
    check(
        not self.requires_grad, "Can't export tensors that require gradient, use tensor.detach()", BufferError
    )
    check(not self._keys & LAZY, "Can't export tensors with the conjugate bit set", BufferError)
    check(self._parts is None, "Can't export tensors with layout other than torch.strided", BufferError)
    check(stream is None or type(stream) is int, "stream must be ``int`` or ``none``", TypeError)
    check(stream in (None, -1), f"stream should be None on cpu, not {stream}", AssertionError)
    array = self.numpy()
    options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    return dlpack.export(array, self.dtype, **{k: v for k, v in options.items() if v is not None})


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    check(not self.is_meta, "Unknown device type meta for Dlpack", ValueError)
    return (1, 0)


@tensor_method
def new_tensor(
    self: Tensor, data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of `data`, of this tensor's dtype and device unless told otherwise."""
    return construct.tensor(
        data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad
    )


@tensor_method
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write `src`, broadcast and cast, into this tensor."""
    if not MODES.plain and overriding_types((src,)):
        made: Tensor = ask(copy_, overriding_types((self, src)), (self, src, non_blocking), {})
        return made
    if not isinstance(src, Tensor):
        check(
            isinstance(src, int | float | complex),
            f"copy_(): argument 'src' must be a Tensor or a number, not {src.__class__.__name__}",
            TypeError,
        )
        src = construct.scalar_tensor(src)
    if self.is_meta != src.is_meta:
        check(self.is_meta, "copy_: Cannot copy out of meta tensor; no data!", NotImplementedError)
        src = src.to(self.device)
    if (self._keys | src._keys | AMBIENT.keys) & DISPATCH and not MODES.undispatched:
        return call_inplace(REGISTRY["copy"], (self, src, non_blocking))
    check_target(self, "copy_", Api.EXPANDED if src is self else Api.NONE)
    check_no_partial_overlap(self, src)
    if not AMBIENT.keys and copy_in_place(self, src):
        return self
    value = run_name("copy", self, src, non_blocking)
    assign(self, value)
    return self


@tensor_method
def resize_(self: Tensor, *size: Any, memory_format: memory_format = contiguous_format) -> Tensor:
    """Change the shape in place; storage grows if needed and new elements are undefined (zero here)."""
    check(len(size) > 0, "resize_(): missing the size", TypeError)
    if self.dtype.category is Category.QUANTIZED:
        alert("quantized_resize_cpu_")
    sizes = size[0] if len(size) == 1 and isinstance(size[0], tuple | list) else size
    shape = tuple([_size_of(n) for n in sizes])
    check(
        not self.requires_grad or (self._inference and MODES.inference),
        "cannot resize variables that require grad",
    )
    check(all(n >= 0 for n in shape), f"resize_: negative sizes are not allowed, got {list(shape)}")
    if memory_format in (channels_last, channels_last_3d):
        rank = 4 if memory_format is channels_last else 5
        check(len(shape) == rank, f"resize_: required rank {rank} tensor to use {memory_format.name} format")
        strides = channels_last_strides(shape)
    elif memory_format is preserve_format:
        raise RuntimeError("resize_: unsupported memory format preserve_format")
    else:
        strides = contiguous_strides(shape)
    if shape != tuple(self.shape) or memory_format is not contiguous_format:
        set_geometry(self, shape, strides)
        self.version_counter.value += 1
    return self


def _size_of(value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"resize_(): argument 'size' must be a tuple of ints, not one with a {value.__class__.__name__}"
        )
    return int(value.__index__())


@tensor_method
def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """Change the shape in place to that of `the_template`.

    Preserve_format takes over channels-last order as well.
    """
    self.resize_(the_template.shape)
    if memory_format is preserve_format:
        formats = [f for f in (channels_last, channels_last_3d) if the_template.is_contiguous(f)]
        memory_format = contiguous_format if the_template.is_contiguous() or not formats else formats[0]
    return (
        self.resize_(the_template.shape, memory_format=memory_format) if memory_format is not None else self
    )


@tensor_method
def set_(
    self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None
) -> Tensor:
    """Make this tensor look at the storage of another tensor, at a storage, or at nothing."""
    check(
        not self.requires_grad or not MODES.grad,
        "set_: a leaf Variable that requires grad is being used in an in-place operation; use no_grad()",
    )
    if source is None:
        source = wrap(np.empty((0,), self.dtype.numpy))
    typed = hasattr(source, "_untyped_storage")
    check(
        typed or isinstance(source, Tensor | Storage),
        f"set_(): source must be a tensor or a storage, not a {source.__class__.__name__}",
        TypeError,
    )
    own = isinstance(source, Tensor) and source._trace is not None and self._trace is not None
    if AMBIENT.trace is not None and not own:
        AMBIENT.trace.refuse("set_: it makes a tensor look at other memory")
    if isinstance(source, Tensor):
        check(
            source.dtype is self.dtype,
            f"Could not set tensor of type {source.dtype.name} to a tensor of type {self.dtype.name}",
        )
        if size is None:
            size, stride, storage_offset = source.shape, source.strides(), source.storage_offset()
        source = source.storage_object
    source = construct.untyped_of(source, self.dtype)
    check(
        own or (source.buffer is None) == self.is_meta,
        f"set_(): the storage is on {source.device}, the tensor on {self.device}; they must be on one device",
    )
    if size is None:
        size = (source.nbytes() // self.dtype.itemsize,)
    shape = tuple([_size_of(n) for n in size])
    strides = contiguous_strides(shape) if stride is None else tuple([_size_of(n) for n in stride])
    check(
        len(strides) == len(shape),
        f"set_(): mismatch in length of strides {list(strides)} and shape {list(shape)}",
    )
    check(all(n >= 0 for n in shape), f"set_(): negative sizes are not allowed, got {list(shape)}")
    check(storage_offset >= 0, f"Tensor: invalid storage offset {storage_offset}")
    check(all(n >= 0 for n in strides), f"set_(): negative strides are not supported, got {list(strides)}")
    before, self._storage = self._storage, source
    try:
        set_geometry(self, shape, strides, storage_offset)
    except BaseException:
        self._storage = before
        raise
    self._accumulator = None  # that of a graph that is alive takes gradients of the former shape
    self.version_counter.value += 1
    return self


@property  # type: ignore[misc]
def _data(self: Tensor) -> Tensor:
    """The same memory without history; writes through it are not seen by version checks."""
    if self._parts is not None:
        return make_sparse(self._parts, tuple(self.shape))
    captured = AMBIENT.trace is not None and self._trace in (None, AMBIENT.trace)
    dispatched = (self._keys | AMBIENT.keys) & DISPATCH and not self._keys & TRACED and not MODES.undispatched
    result: Tensor = run_name("detach", self) if captured or dispatched else alias(self, self.spec())
    result._versions = None
    return result


def _set_data(self: Tensor, value: Tensor) -> None:
    check(isinstance(value, Tensor), "Variable data has to be a tensor", TypeError)
    check(
        not self.requires_grad or value.dtype.is_floating_point or value.dtype.is_complex,
        "data set to a tensor that requires gradients must be floating point or complex dtype, not "
        f"{value.dtype.name}",
    )
    kinds = META | LAZY | SPARSE | QUANTIZED
    check(
        not (self._keys ^ value._keys) & kinds & ~LAZY and self.layout is value.layout,
        "Attempted to set the data of a tensor to a tensor that has an incompatible tensor type (device or "
        "layout)",
    )
    if AMBIENT.trace is not None and AMBIENT.trace.replace_data(self, value):
        return
    if self.dtype is not value.dtype:
        self._accumulator = None  # that of a graph that is alive adds gradients of the old dtype
    self._array, self.dtype, self._spec = value._array, value.dtype, value._spec
    self._storage = value.storage_object if value._parts is None else None
    self._offset, self._strides, self._parts = value._offset, value._strides, value._parts
    self._conj, self._neg, self._quantizer = value._conj, value._neg, value._quantizer
    self._keys = (self._keys & ~kinds) | (value._keys & kinds)


@tensor_method
def _fix_weakref(self: Tensor) -> None:
    """Nothing: a tensor is the Python object itself, and references to it live as long."""


def _len(self: Tensor) -> int:
    if self.ndim == 0:
        raise TypeError("len() of a 0-d tensor")
    return self.shape[0]


def _delete_item(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


def _reversed(self: Tensor) -> Tensor:
    return run_name("flip", self, (0,)) if self.ndim else self


def _iter(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def _truth(self: Tensor) -> bool:
    count = self.numel()
    if count != 1:
        what = "no values" if count == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(self.item())


def _number(self: Tensor) -> Any:
    """The value of a one-element tensor, for Python's number types."""
    if self.numel() != 1:
        raise ValueError(
            f"only one element tensors can be converted to Python scalars, not one with {self.numel()}"
        )
    return self.item()


def _real_number(self: Tensor) -> Any:
    value = _number(self)
    check(
        not isinstance(value, complex) or value.imag == 0,
        f"value cannot be converted to a real number: {value}",
    )
    return value.real if isinstance(value, complex) else value


def _index(self: Tensor) -> int:
    if self.numel() != 1 or self.dtype.category > dtypes.Category.INTEGRAL:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


def _contains(self: Tensor, element: Any) -> bool:
    if not isinstance(element, Tensor | int | float | complex | bool):
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {element.__class__}."
        )
    return bool((self == element).any().item())


def _format(self: Tensor, spec: str) -> str:
    if self.ndim == 0 and not self.is_meta and type(self) is Tensor:
        return format(self.item(), spec)  # a number, also without a format, unless it has a class of its own
    return str(self) if not spec else object.__format__(self, spec)


def _repr(self: Tensor, *, tensor_contents: str | None = None) -> str:
    if AMBIENT.trace is not None and self._trace in (None, AMBIENT.trace) and self._parts is None:
        read_array(self)  # a captured program prints a value: its capture refuses, or ends
    if self._quantizer is not None:
        return printing.format_quantized(self, run_name("dequantize.self", self))
    if self._parts is not None:
        return printing.format_sparse(self)
    if MODES.transforms:
        return describe(self, lambda tensor: _strided_repr(tensor, tensor_contents))
    return _strided_repr(self, tensor_contents)


def _strided_repr(self: Tensor, tensor_contents: str | None) -> str:
    if not (self._overrides or self._dispatches):
        return printing.format_tensor(self, given=tensor_contents)
    if tensor_contents is None and self._dispatches and self._array is None:
        tensor_contents = "..."
    text = printing.format_tensor(self, prefix=f"{type(self).__name__}(", given=tensor_contents)
    return f"Parameter({text})" if getattr(self, "_is_param", False) else text


def _real(self: Tensor) -> Tensor:
    return run_name("real", self)


def _imag(self: Tensor) -> Tensor:
    return run_name("imag", self)


def _set_part(name: str) -> Any:
    return lambda self, value: getattr(self, name).copy_(value)


def _transpose_property(name: str) -> Any:
    return property(lambda self: run_name(name, self), doc=f"The view {name} of this tensor.")


SPECIAL_METHODS: dict[str, Any] = {
    "__array__": _array,
    "__array_wrap__": _array_wrap,
    "__array_priority__": 1000,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "__len__": _len,
    "__iter__": _iter,
    "__reversed__": _reversed,
    "__bool__": _truth,
    "__int__": lambda self: int(_real_number(self)),
    "__float__": lambda self: float(_real_number(self)),
    "__complex__": lambda self: complex(_number(self)),
    "__index__": _index,
    "__contains__": _contains,
    "__format__": _format,
    "__repr__": _repr,
    "__hash__": lambda self: id(self),
    "__delitem__": _delete_item,
    "__getitem__": get_item,
    "__setitem__": set_item,
    "__deepcopy__": deepcopy_tensor,
    "__copy__": copy_tensor,
    "__reduce_ex__": lambda self, p: reduce_tensor(self),
    "type": _type,
    "data": _data.setter(_set_data),  # type: ignore[attr-defined]
    "real": property(_real, _set_part("real")),
    "imag": property(_imag, _set_part("imag")),
    "T": _transpose_property("numpy_T"),
    "mT": _transpose_property("mT"),
    "H": _transpose_property("matrix_H"),
    "mH": _transpose_property("mH"),
}

for _name, _method in SPECIAL_METHODS.items():
    setattr(Tensor, _name, _method)

"""TypedStorage: memory as numbers, the older way. It is an untyped storage and a dtype.

As in PyTorch, the first use of one warns that they are deprecated.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.construct import of_storage, scalar_tensor
from ..core.dtypes import DType
from ..core.errors import check
from ..core.shown_name import SHOWN
from ..core.storage import UntypedStorage, storage_device
from ..core.tensor import Tensor

_INTEGERS = {
    "qint8": dtypes.int8,
    "quint8": dtypes.uint8,
    "qint32": dtypes.int32,
    "quint4x2": dtypes.uint8,
    "quint2x4": dtypes.uint8,
}

LEGACY: list[Any] = []  # the classes of storages of one dtype, from rushlight.storage
_always_warn = [False]
_has_warned = [False]


_WITH_CLASS = (
    "float64",
    "float32",
    "float16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
    "bfloat16",
    "complex128",
    "complex64",
    "qint8",
    "qint32",
    "quint8",
    "quint4x2",
    "quint2x4",
)


@functools.cache
def _dtype_to_storage_type_map() -> dict[DType, str]:
    """Dtypes with a storage class of their own; the others' storages are written as bytes."""
    return {dtype: f"{dtype.torch_name}Storage" for dtype in map(dtypes.dtype_named, _WITH_CLASS)}


@functools.cache
def _storage_type_to_dtype_map() -> dict[str, DType]:
    return {name: dtype for dtype, name in _dtype_to_storage_type_map().items()}


def _warn_typed_storage_removal(stacklevel: int = 2) -> None:
    if _always_warn[0] or not _has_warned[0]:
        _has_warned[0] = True
        warnings.warn(
            "TypedStorage is deprecated. PyTorch will remove it, and UntypedStorage will be the "
            "only storage class: use tensor.untyped_storage() instead of tensor.storage()",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _get_always_warn_typed_storage_removal() -> bool:
    return _always_warn[0]


def _set_always_warn_typed_storage_removal(always_warn: bool) -> None:
    _always_warn[0] = always_warn


def _reset_warn_typed_storage_removal() -> None:
    _has_warned[0] = False


def _deprecated(function: Callable[..., Any]) -> Callable[..., Any]:
    """A public method of typed storages."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _warn_typed_storage_removal()
        return function(*args, **kwargs)

    return call


class TypedStorage:
    """Memory as a flat sequence of numbers of one dtype.

    >>> rl.tensor([1.0, 2.0]).storage().dtype
    rushlight.float32
    """

    __module__ = "rushlight.storage"

    dtype: Any
    is_sparse = False
    _untyped_storage: UntypedStorage

    def __init__(
        self,
        *args: Any,
        device: Any = None,
        dtype: Any = None,
        wrap_storage: Any = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            _warn_typed_storage_removal()
        if wrap_storage is not None:
            self._wrap(args, device, dtype, wrap_storage)
            return
        self.dtype = dtypes.get_default_dtype() if dtype is None else dtype
        check(
            isinstance(self.dtype, DType),
            f"TypedStorage: Argument 'dtype' must be torch.dtype, not {type(self.dtype).__name__}",
            TypeError,
        )
        check(len(args) <= 1, "TypedStorage: Too many positional arguments; it takes a size or a sequence")
        place = storage_device(device)
        content = args[0] if args else 0
        if isinstance(content, int | np.integer):
            self._untyped_storage = UntypedStorage(int(content) * self.dtype.itemsize, device=place)
            return
        check(
            isinstance(content, Sequence),
            f"TypedStorage: Argument type not recognized: {type(content).__name__}",
            TypeError,
        )
        numbers = scalar_tensor(content, _INTEGERS.get(self.dtype.name, self.dtype)).reshape(-1)
        self._untyped_storage = numbers.untyped_storage().to(device=place)

    def _wrap(self, args: tuple[Any, ...], device: Any, dtype: Any, wrap_storage: Any) -> None:
        check(not args, "TypedStorage: No positional arguments should be given when using 'wrap_storage'")
        check(dtype is not None, "TypedStorage: Argument 'dtype' must be specified with 'wrap_storage'")
        check(
            isinstance(dtype, DType),
            f"TypedStorage: Argument 'dtype' must be torch.dtype, not {type(dtype).__name__}",
            TypeError,
        )
        check(device is None, "TypedStorage: Argument 'device' should not be specified beside 'wrap_storage'")
        check(
            isinstance(wrap_storage, UntypedStorage),
            "TypedStorage: Argument 'wrap_storage' must be "
            f"UntypedStorage, but got {type(wrap_storage).__name__}",
            TypeError,
        )
        self.dtype, self._untyped_storage = dtype, wrap_storage

    def _wrapping(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)

    # For this package's own use, without the warning.

    @property
    def _dtype(self) -> DType:
        return self.dtype

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def _numbers(self) -> Tensor:
        """The numbers as a tensor over this memory; those of quantized dtypes as the integers they are."""
        self._untyped_storage.bytes_()
        return of_storage(self._untyped_storage, _INTEGERS.get(self.dtype.name, self.dtype))

    def _size(self) -> int:
        return self._untyped_storage.nbytes() // self._element_size()

    def _nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def _element_size(self) -> int:
        return int(self.dtype.itemsize)

    def _data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    def _is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def _share_memory_(self) -> TypedStorage:
        self._untyped_storage.share_memory_()
        return self

    def _resize_(self, size: int) -> None:
        self._untyped_storage.resize_(size * self._element_size())

    def _getitem(self, index: Any) -> Any:
        self._untyped_storage.bytes_()
        check(not isinstance(index, slice), "slices are only supported in UntypedStorage.__getitem__")
        check(isinstance(index, int), f"can't index a TypedStorage with {type(index).__name__}")
        size = self._size()
        check(-size <= index < size, f"index {index} is out of range for a storage of {size}", IndexError)
        return self._numbers()[index].item()

    def _setitem(self, index: Any, value: Any) -> None:
        check(isinstance(index, int | slice), f"can't index a TypedStorage with {type(index).__name__}")
        check(
            not isinstance(value, TypedStorage | UntypedStorage),
            f"cannot set item of a storage with a {type(value).__name__}",
        )
        self._numbers()[index] = value

    def _deepcopy(self, memo: dict[int, Any]) -> TypedStorage:
        return self._wrapping(copy.deepcopy(self._untyped_storage, memo))

    def _pickle_storage_type(self) -> str:
        found = _dtype_to_storage_type_map().get(self.dtype)
        if found is None:
            raise KeyError(f"dtype {self.dtype} has no storage class of its own")
        return found

    def _legacy_class(self) -> Any:
        on_processor = self._untyped_storage.buffer is not None
        return next((kind for kind in LEGACY if kind._dtype is self.dtype), None) if on_processor else None

    def _weak_ref(self) -> int:
        return self._untyped_storage._weak_ref()

    def _share_fd_cpu_(self) -> tuple[int, int]:
        descriptor, size = self._untyped_storage._share_fd_cpu_()
        return descriptor, size // self._element_size()

    def _share_filename_cpu_(self) -> tuple[bytes, bytes, int]:
        manager, name, size = self._untyped_storage._share_filename_cpu_()
        return manager, name, size // self._element_size()

    def _write_file(self, file: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
        self._untyped_storage._write_file(file, is_real_file, save_size, element_size)

    def _new_shared(self, size: int, *, device: Any = None) -> TypedStorage:
        return self._wrapping(UntypedStorage._new_shared(size * self._element_size(), device=device))

    @classmethod
    def _expired(cls, handle: int) -> bool:
        return UntypedStorage._expired(handle)

    @classmethod
    def _free_weak_ref(cls, handle: int) -> None:
        UntypedStorage._free_weak_ref(handle)

    def __reduce__(self) -> Any:
        return _typed_storage, (self._untyped_storage, self.dtype)

    @property
    def filename(self) -> str | None:
        return self._untyped_storage.filename

    # What programs call.

    @property
    def is_cuda(self) -> bool:
        _warn_typed_storage_removal()
        return False

    is_hpu = is_cuda

    @property
    def device(self) -> Any:
        _warn_typed_storage_removal()
        return self._untyped_storage.device

    @_deprecated
    def untyped(self) -> UntypedStorage:
        return self._untyped_storage

    @_deprecated
    def __len__(self) -> int:
        return self._size()

    @_deprecated
    def __getitem__(self, index: Any) -> Any:
        return self._getitem(index)

    @_deprecated
    def __setitem__(self, index: Any, value: Any) -> None:
        self._setitem(index, value)

    @_deprecated
    def fill_(self, value: Any) -> TypedStorage:
        self._setitem(slice(None), value)
        return self

    @_deprecated
    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        source = source._untyped_storage if isinstance(source, TypedStorage) else source
        self._untyped_storage.copy_(source, non_blocking)
        return self

    @_deprecated
    def type(self, dtype: Any = None, non_blocking: bool = False) -> str:
        check(
            dtype is None,
            "type(): a storage is converted by double(), float(), half() and so on",
            NotImplementedError,
        )
        found = self._legacy_class()
        return f"{SHOWN.package}.{'storage.TypedStorage' if found is None else found.__name__}"

    @_deprecated
    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        return self._wrapping(self._untyped_storage.to(device=device))

    @_deprecated
    def get_device(self) -> int:
        return self._untyped_storage.get_device()

    @_deprecated
    def __iter__(self) -> Iterator[Any]:
        return iter(self._numbers().tolist())

    @_deprecated
    def tolist(self) -> list[Any]:
        return self._numbers().tolist()

    @_deprecated
    def __copy__(self) -> TypedStorage:
        return self._wrapping(self._untyped_storage.clone())

    @_deprecated
    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return self._deepcopy(memo)

    @_deprecated
    def clone(self) -> TypedStorage:
        return self._wrapping(self._untyped_storage.clone())

    @_deprecated
    def cpu(self) -> TypedStorage:
        return self._wrapping(self._untyped_storage.cpu())

    @_deprecated
    def resizable(self) -> bool:
        return self._untyped_storage.resizable()

    @_deprecated
    def is_pinned(self, device: Any = None) -> bool:
        return False

    @_deprecated
    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._nbytes()

    @_deprecated
    def __repr__(self) -> str:
        kind = f"storage.TypedStorage(dtype={self.dtype}, device={self._untyped_storage.device})"
        end = f"[{SHOWN.package}.{kind} of size {self._size()}]"
        if self._untyped_storage.buffer is None:
            return f"...\n{end}"
        return "".join(f" {value}\n" for value in self._numbers().tolist()) + end

    size = _deprecated(_size)
    nbytes = _deprecated(_nbytes)
    element_size = _deprecated(_element_size)
    data_ptr = _deprecated(_data_ptr)
    is_shared = _deprecated(_is_shared)
    share_memory_ = _deprecated(_share_memory_)
    resize_ = _deprecated(_resize_)
    pickle_storage_type = _deprecated(_pickle_storage_type)

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        *,
        dtype: Any = None,
        device: Any = None,
    ) -> TypedStorage:
        """A copy of the numbers in an object with the buffer protocol; see UntypedStorage.from_buffer."""
        _warn_typed_storage_removal()
        dtype = dtypes.get_default_dtype() if dtype is None else dtype
        check(storage_device(device).type == "cpu", "TypedStorage.from_buffer: Not available for device meta")
        return TypedStorage(
            wrap_storage=UntypedStorage.from_buffer(buffer, byte_order, count, offset, dtype),
            dtype=dtype,
            _internal=True,
        )

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """`size` numbers in a file; see UntypedStorage.from_file."""
        raise RuntimeError("from_file can only be called on derived classes, such as FloatStorage")


def _typed_storage(storage: UntypedStorage, dtype: DType) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


# Conversions, of both classes.


def _converted(self: Any, dtype: DType) -> TypedStorage:
    check(
        isinstance(dtype, DType),
        f"Argument 'dtype' must be torch.dtype, not {type(dtype).__name__}",
        TypeError,
    )
    numbers = self._numbers() if isinstance(self, TypedStorage) else of_storage(self, dtypes.uint8)
    return _typed_storage(numbers.to(dtype, copy=True).untyped_storage(), dtype)


def _add_conversion(name: str, dtype: DType) -> None:
    def convert(self: Any) -> TypedStorage:
        return _converted(self, dtype)

    convert.__name__, convert.__doc__ = name, f"A copy as numbers of {dtype.name}."
    setattr(UntypedStorage, name, convert)
    setattr(TypedStorage, name, _deprecated(convert))


for _name, _dtype in {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "complex_float": "complex64",
    "complex_double": "complex128",
    "float8_e5m2": "float8_e5m2",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2fnuz": "float8_e5m2fnuz",
    "float8_e4m3fnuz": "float8_e4m3fnuz",
}.items():
    _add_conversion(_name, dtypes.DTYPES[_dtype])

for _kind in (UntypedStorage, TypedStorage):
    setattr(_kind, "_to", _converted)  # noqa: B010  a method of both


def _untyped_type(self: UntypedStorage, dtype: Any = None, non_blocking: bool = False) -> str:
    check(
        dtype is None,
        "type(): a storage is converted by double(), float(), half() and so on",
        NotImplementedError,
    )
    return f"{SHOWN.package}.storage.{type(self).__name__}"


setattr(UntypedStorage, "type", _untyped_type)  # noqa: B010

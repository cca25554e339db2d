"""Storages: the memory of tensors as bytes (`UntypedStorage`) or, the older way, as numbers (`TypedStorage`,
`FloatStorage` and its like).

A typed storage is an untyped one and a dtype. `FloatStorage` makes typed storages of float32, and
`isinstance` asks for dtype and device. As in PyTorch, the first use of a typed storage warns that they are
deprecated.
"""

from __future__ import annotations

from typing import Any

from ._api.typed_storage import (  # noqa: F401  PyTorch has the functions about warnings here
    LEGACY,
    TypedStorage,
    _dtype_to_storage_type_map,
    _get_always_warn_typed_storage_removal,
    _reset_warn_typed_storage_removal,
    _set_always_warn_typed_storage_removal,
    _storage_type_to_dtype_map,
    _typed_storage,
    _warn_typed_storage_removal,
)
from .core import dtypes
from .core.construct import of_storage
from .core.dtypes import DType
from .core.errors import check
from .core.storage import UntypedStorage, storage_device
from .core.tensor import Tensor, tensor_method

__all__ = ["TypedStorage", "UntypedStorage"]

# FloatStorage and its like.


class _LegacyStorageMeta(type):
    @property
    def dtype(cls: Any) -> DType:
        _warn_typed_storage_removal()
        return cls._dtype

    def __instancecheck__(cls: Any, instance: object) -> bool:
        return (
            type(instance) is TypedStorage
            and instance.dtype is getattr(cls, "_dtype", None)
            and instance._untyped_storage.buffer is not None
        )


class _LegacyStorage(TypedStorage, metaclass=_LegacyStorageMeta):
    """What storages of one dtype are called; their objects are TypedStorage."""

    _dtype: Any = None

    def __new__(
        cls,
        *args: Any,
        wrap_storage: Any = None,
        dtype: Any = None,
        device: Any = None,
        _internal: bool = False,
    ) -> Any:
        if not _internal:
            _warn_typed_storage_removal()
        check(cls is not _LegacyStorage, "Only child classes of _LegacyStorage can be instantiated")
        name = cls.__name__
        check(device is None, f"{name}: Keyword argument 'device' cannot be specified")
        check(dtype is None, f"{name}: Keyword argument 'dtype' cannot be specified")
        check(
            wrap_storage is None or isinstance(wrap_storage, UntypedStorage),
            f"{name}: Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage).__name__}",
            TypeError if not args else RuntimeError,
        )
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls._dtype, _internal=True)

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
        _warn_typed_storage_removal()
        for name, value in (("dtype", dtype), ("device", device)):
            check(
                value is None,
                f"from_buffer: '{name}' can only be specified in UntypedStorage.from_buffer "
                "and TypedStorage.from_buffer",
            )
        return _typed_storage(
            UntypedStorage.from_buffer(buffer, byte_order, count, offset, cls._dtype), cls._dtype
        )

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        _warn_typed_storage_removal()
        return _typed_storage(
            UntypedStorage.from_file(filename, shared, size * cls._dtype.itemsize), cls._dtype
        )

    @classmethod
    def _new_shared(cls, size: int) -> TypedStorage:  # type: ignore[override]
        return _typed_storage(UntypedStorage._new_shared(size * cls._dtype.itemsize), cls._dtype)

    @classmethod
    def _new_shared_filename(cls, manager: Any, obj: Any, size: int) -> TypedStorage:
        return _typed_storage(
            UntypedStorage._new_shared_filename_cpu(manager, obj, size * cls._dtype.itemsize), cls._dtype
        )


def _legacy_storage(dtype: DType, name: str) -> Any:
    return _LegacyStorageMeta(
        name,
        (_LegacyStorage,),
        {
            "_dtype": dtype,
            "__module__": "rushlight",
            "__doc__": f"Storages of {dtype.name}.\n\n>>> rl.{name}(2).size()\n2\n",
            "is_cuda": False,
        },
    )


LEGACY.extend(_legacy_storage(dtype, name) for dtype, name in _dtype_to_storage_type_map().items())
_storage_classes = {UntypedStorage, TypedStorage, *LEGACY}
LEGACY_STORAGES: dict[str, Any] = {kind.__name__: kind for kind in LEGACY}


def is_storage(obj: Any) -> bool:
    """Whether `obj` is the memory of a tensor.

    >>> rl.is_storage(rl.ones(1).untyped_storage())
    True
    """
    return isinstance(obj, UntypedStorage | TypedStorage)


# Tensors.


def _typed(self: Tensor) -> TypedStorage:
    return _typed_storage(self.untyped_storage(), self.dtype)


setattr(Tensor, "_typed_storage", _typed)  # noqa: B010


@tensor_method
def storage(self: Tensor) -> TypedStorage:
    """The memory of this tensor, as numbers of its dtype."""
    _warn_typed_storage_removal()
    return _typed(self)


@tensor_method
def storage_type(self: Tensor) -> Any:
    """The storage class of this tensor's dtype."""
    _warn_typed_storage_removal()
    return _typed(self)._legacy_class() or TypedStorage


@tensor_method
def is_shared(self: Tensor) -> bool:
    """Whether other processes can reach the memory of this tensor."""
    return self._parts is None and self._storage is not None and self._storage.is_shared()


@tensor_method
def share_memory_(self: Tensor) -> Tensor:
    """Move the memory of this tensor to where other processes can reach it; aliases move along."""
    self.untyped_storage().share_memory_()
    return self


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A 1-D tensor of `size` numbers in a file; with `shared` writes reach the file.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = rl.from_file(file.name, shared=True, size=3).copy_(rl.arange(3.0))
    ...     np.fromfile(file.name, np.float32)
    array([0., 1., 2.], dtype=float32)
    """
    check(storage_device(device).type == "cpu", "from_file: a file can only be mapped on the cpu")
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    memory = UntypedStorage.from_file(filename, bool(shared), (size or 0) * dtype.itemsize)
    return of_storage(memory, dtype).narrow(0, 0, size or 0)

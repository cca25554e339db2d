"""How tensors and storages go to another process: not as copies, but as the shared memory that they lie in.

A storage that is sent moves to shared memory first, and stays there. What is sent is a file descriptor (or a
name, if the strategy is file_system) and its size; the receiver maps the same bytes. A storage that was
received before and is still alive is the same object again, so that tensors sent one by one share memory as
they did. Tensors that need more than a storage to be described (sparse, nested, quantized) are pickled.
"""

from __future__ import annotations

import os
import threading
import weakref
from multiprocessing import reduction
from typing import Any

from ..core.copying import own_attributes
from ..core.dtypes import DTYPES
from ..core.nested import NestedTensor
from ..core.overrides import as_class
from ..core.shapes import Spec
from ..core.storage import UntypedStorage
from ..core.tensor import Tensor, alias, meta_tensor
from ..storage import TypedStorage

__all__ = [
    "StorageWeakRef",
    "init_reductions",
    "rebuild_storage",
    "rebuild_tensor",
    "reduce_storage",
    "reduce_tensor",
]


class StorageWeakRef:
    """A reference to a storage that does not keep it; equal for the same storage."""

    __slots__ = ("cdata",)

    def __init__(self, storage: Any) -> None:
        self.cdata = storage._weak_ref()

    @classmethod
    def from_weakref(cls, cdata: int) -> StorageWeakRef:
        made = cls.__new__(cls)
        made.cdata = cdata
        return made

    def expired(self) -> bool:
        return UntypedStorage._expired(self.cdata)

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


# Storages that came from other processes, by the file that their memory is.
_received: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def reduce_storage(storage: UntypedStorage) -> Any:
    """A storage as a way to reach its memory."""
    if storage.buffer is None or not storage.nbytes():
        return storage.__reduce__()
    storage.share_memory_()
    mapping = storage._mapping
    assert mapping is not None
    _remember(os.fstat(mapping.descriptor), storage)
    if mapping.path is not None:
        return rebuild_storage_filename, (type(storage), mapping.path, storage.nbytes())
    return rebuild_storage, (type(storage), reduction.DupFd(mapping.descriptor), storage.nbytes())


def _remember(stat: os.stat_result, storage: UntypedStorage) -> None:
    with _lock:
        _received[stat.st_dev, stat.st_ino] = storage


def rebuild_storage(cls: Any, handle: Any, size: int) -> UntypedStorage:
    """The storage over the memory that a descriptor leads to."""
    descriptor = handle.detach()
    try:
        return _attached(cls, descriptor, size, None)
    finally:
        os.close(descriptor)


def rebuild_storage_filename(cls: Any, path: str, size: int) -> UntypedStorage:
    with open(path, "r+b") as file:
        return _attached(cls, file.fileno(), size, path)


def _attached(cls: Any, descriptor: int, size: int, path: str | None) -> UntypedStorage:
    stat = os.fstat(descriptor)
    with _lock:
        known = _received.get((stat.st_dev, stat.st_ino))
    if known is not None:
        return known
    storage = (
        cls._new_shared_fd_cpu(descriptor, size)
        if path is None
        else cls._new_shared_filename_cpu(b"", os.fsencode(path), size)
    )
    _remember(stat, storage)
    return storage


def reduce_typed_storage(storage: TypedStorage) -> Any:
    return rebuild_typed_storage, (storage._untyped_storage, storage._dtype)


def rebuild_typed_storage(storage: UntypedStorage, dtype: Any) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def reduce_tensor(tensor: Tensor) -> Any:
    """A tensor as its storage and its place in it."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad: its history "
            "cannot go to another process. To send the values alone, send tensor.detach()"
        )
    plain = (
        tensor._parts is None
        and tensor._quantizer is None
        and not tensor.is_meta
        and not isinstance(tensor, NestedTensor)
        and type(tensor).__reduce_ex__ is Tensor.__reduce_ex__
    )
    if not plain or tensor._array is None:
        return tensor.__reduce_ex__(2)
    storage = tensor.untyped_storage()
    place = (tensor.dtype.name, tuple(tensor.shape), tensor.strides(), tensor.storage_offset())
    bits = (tensor.is_conj(), tensor.is_neg())
    return rebuild_tensor, (type(tensor), storage, place, bits, tensor.requires_grad, own_attributes(tensor))


def rebuild_tensor(
    cls: Any,
    storage: UntypedStorage,
    place: tuple[Any, ...],
    bits: tuple[bool, bool],
    requires_grad: bool,
    attributes: dict[str, Any],
) -> Tensor:
    name, shape, strides, offset = place
    dtype = DTYPES[name]
    carrier = meta_tensor(Spec((0,), dtype, (1,)))
    carrier._storage, carrier._keys = storage, 0
    made = alias(carrier, Spec(shape, dtype, strides, offset, conj=bits[0], neg=bits[1]))
    made._versions = None
    result = as_class(made, cls).requires_grad_(requires_grad)
    result.__dict__.update(attributes)
    return result


def init_reductions() -> None:
    """Let processes send tensors to each other in this way."""
    register = reduction.ForkingPickler.register
    register(UntypedStorage, reduce_storage)
    register(TypedStorage, reduce_typed_storage)
    register(Tensor, reduce_tensor)


def register_class(cls: type[Tensor]) -> None:
    """Let tensors of a class of its own go the same way: pickling looks at the very class."""
    reduction.ForkingPickler.register(cls, reduce_tensor)

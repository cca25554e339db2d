"""Memory shared by tensors: the byte buffer, and the counter that tells when it was written.

A fresh tensor owns its NumPy array and has neither object yet; both are made when a view, a detached alias or
an in-place write first needs them, and are then shared by all aliases.

Only this file replaces the buffer of a storage, and then tells the tensors that look at it. Methods that make
tensors or typed storages are attached by `rushlight.storage`.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .errors import check
from .mapped import Mapping, anonymous, attached, named, of_file
from .tokens import device as Device

_CPU, _META = Device("cpu"), Device("meta")
_new = object.__new__
_BYTES = np.dtype(np.uint8)


class VersionCounter:
    """How many in-place writes the aliases that share it have seen."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value


class StorageBase:
    """One allocation: bytes. `buffer` is a 1-D uint8 array, or None for a tensor on the meta device."""

    __slots__ = ("__dict__", "__weakref__", "_meta_bytes", "buffer")

    buffer: np.ndarray | None
    _meta_bytes: int
    _fixed: bool = False  # memory of something else: its size cannot change
    _mapping: Mapping | None = None  # of memory that other processes can reach, or of a file
    is_cuda = is_hpu = is_sparse = is_sparse_csr = False

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return _new(cls)

    def __init__(self, *args: Any, device: Any = None) -> None:
        """No bytes, a number of bytes that are not set, or a sequence of bytes."""
        check(type(self) is not StorageBase, "cannot construct StorageBase directly; use UntypedStorage")
        check(
            len(args) <= 1,
            f"{type(self).__name__}() takes a size or a sequence of bytes, not {len(args)} arguments",
            TypeError,
        )
        place = storage_device(device)
        buffer = _new_buffer(args[0] if args else 0)
        self.buffer, self._meta_bytes = (None, buffer.nbytes) if place is _META else (buffer, 0)

    @classmethod
    def of_buffer(cls, buffer: np.ndarray) -> Any:
        """The storage of a row of bytes."""
        storage = _new(cls)
        storage.buffer, storage._meta_bytes = buffer, 0
        return storage

    @classmethod
    def of_size(cls, nbytes: int) -> Any:
        """A storage on the meta device."""
        storage = _new(cls)
        storage.buffer, storage._meta_bytes = None, nbytes
        return storage

    @classmethod
    def of_array(cls, array: np.ndarray) -> Any:
        """The storage of the memory that `array` spans; `array` begins at its offset 0."""
        if array.flags.c_contiguous:
            size = array.nbytes
            buffer = np.ndarray((size,), _BYTES, array) if size else array.reshape(-1).view(_BYTES)
        else:
            # Another memory order, or an array with gaps: take its whole span of bytes.
            low, high = np.lib.array_utils.byte_bounds(array)
            first = _lowest(array).view(np.uint8)
            buffer = np.lib.stride_tricks.as_strided(first, (high - low,), (1,))
        return cls.of_buffer(buffer)

    @classmethod
    def of_mapping(cls, mapping: Mapping) -> Any:
        storage = cls.of_buffer(mapping.buffer)
        storage._mapping, storage._fixed = mapping, True
        return storage

    # What it is.

    @property
    def device(self) -> Device:
        return _META if self.buffer is None else _CPU

    def get_device(self) -> int:
        return -1

    def nbytes(self) -> int:
        return self._meta_bytes if self.buffer is None else self.buffer.nbytes

    size = nbytes

    def __len__(self) -> int:
        return self.nbytes()

    def element_size(self) -> int:
        return 1

    def data_ptr(self) -> int:
        if self.buffer is None or not self.buffer.nbytes:
            return 0
        return int(self.buffer.__array_interface__["data"][0])

    def untyped(self) -> Any:
        return self

    def resizable(self) -> bool:
        return not self._fixed

    @property
    def _cdata(self) -> int:
        """A number that no other storage has had or will have."""
        own = self.__dict__
        if "_handle" not in own:
            own["_handle"] = next(_handles)
        return own["_handle"]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    # Values.

    def bytes_(self) -> np.ndarray:
        """The buffer of a storage that has data."""
        if self.buffer is None:
            raise NotImplementedError("Not available for 'meta' device type: a storage there has no data")
        return self.buffer

    def __getitem__(self, index: Any) -> Any:
        data = self.bytes_()
        if isinstance(index, slice):
            start, stop, step = index.indices(data.nbytes)
            check(step == 1, f"a storage can be sliced with step 1 only, not {step}", ValueError)
            part = type(self).of_buffer(data[start:stop])
            part._fixed = True
            return part
        return int(data[_position(index, data.nbytes)])

    def __setitem__(self, index: Any, value: Any) -> None:
        data = self.bytes_()
        check(
            hasattr(value, "__index__"),
            f"a storage of bytes takes integers, not {type(value).__name__}",
            TypeError,
        )
        where = index if isinstance(index, slice) else _position(index, data.nbytes)
        data[where] = int(value.__index__()) & 0xFF

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        return self.bytes_().tolist()

    def fill_(self, value: Any) -> Any:
        self[:] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> Any:
        """Take over the bytes of another storage of the same size."""
        source = source.untyped()
        if source.buffer is None and self.buffer is not None:
            raise NotImplementedError("Cannot copy out of meta storage; no data!")
        check(
            source.nbytes() == self.nbytes(),
            f"size does not match: self has {self.nbytes()} bytes, source {source.nbytes()}",
        )
        if self.buffer is not None:
            np.copyto(self.buffer, source.buffer)
        return self

    def new(self) -> Any:
        return type(self)()

    def clone(self) -> Any:
        if self.buffer is None:
            return type(self).of_size(self._meta_bytes)
        return type(self).of_buffer(self.buffer.copy())

    def cpu(self) -> Any:
        if self.buffer is None:
            raise NotImplementedError("Cannot copy out of meta storage; no data!")
        return self

    def to(self, *, device: Any, non_blocking: bool = False) -> Any:
        place = storage_device(device)
        if place is self.device:
            return self
        return type(self).of_size(self.nbytes()) if place is _META else self.cpu()

    def __copy__(self) -> Any:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self.clone()
        return memo[id(self)]

    def __reduce__(self) -> Any:
        if self.buffer is None:
            return _storage_of_size, (type(self), self._meta_bytes)
        return _storage_of_bytes, (type(self), self.buffer.tobytes())

    def __repr__(self) -> str:
        kind = f"[rushlight.storage.{type(self).__name__}(device={self.device}) of size {self.nbytes()}]"
        if self.buffer is None:
            return f"...\n{kind}"
        return "".join(f" {value}\n" for value in self.tolist()) + kind

    def byteswap(self, dtype: Any) -> None:
        """Reverse the bytes of each number of `dtype`."""
        self._byteswap(dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize)

    def _byteswap(self, elem_size: int) -> None:
        data = self.bytes_()
        whole = data[: data.nbytes // elem_size * elem_size].reshape(-1, elem_size)
        whole[...] = whole[:, ::-1].copy()

    # Memory.

    def resize_(self, size: int) -> Any:
        """Another number of bytes; those that stay keep their values. Tensors over it move along."""
        check(size >= 0, f"resize_: a storage cannot have {size} bytes")
        if self.buffer is None:
            self._meta_bytes = size
            return self
        if size != self.buffer.nbytes:
            resize_storage(self, size, True)
        return self

    def is_shared(self) -> bool:
        """Whether other processes can reach this memory."""
        return self._mapping is not None and self._mapping.shared

    @property
    def filename(self) -> str | None:
        """The file that `from_file` mapped with shared=True."""
        return None if self._mapping is None else self._mapping.filename

    def share_memory_(self) -> Any:
        """Move the bytes to memory that other processes can reach; tensors over it move along."""
        if not self.is_shared():
            self._share(anonymous if _STRATEGY[0] == "file_descriptor" else named)
        return self

    def _share(self, allocate: Callable[[int], Mapping]) -> Mapping:
        check(self.buffer is not None, "share_memory_: only available on CPU")
        assert self.buffer is not None
        mapping = allocate(self.buffer.nbytes)
        mapping.buffer[...] = self.buffer
        self.buffer = mapping.buffer
        self._mapping, self._fixed = mapping, True
        move_tensors(self)
        return mapping

    def _share_fd_cpu_(self) -> tuple[int, int]:
        """Share the memory; its file descriptor and size."""
        mapping = self._mapping if self.is_shared() else self._share(anonymous)
        assert mapping is not None
        return os.dup(mapping.descriptor), self.nbytes()

    def _share_filename_cpu_(self) -> tuple[bytes, bytes, int]:
        """Share the memory under a name; the manager (none is needed), the name and the size."""
        mapping = self._mapping if self.is_shared() else self._share(named)
        assert mapping is not None
        check(mapping.path is not None, "this memory is shared by a file descriptor and has no name")
        return b"", os.fsencode(str(mapping.path)), self.nbytes()

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> Any:
        if storage_device(device) is _META:
            return cls.of_size(size)
        return cls.of_mapping((anonymous if _STRATEGY[0] == "file_descriptor" else named)(size))

    @classmethod
    def _new_shared_fd_cpu(cls, descriptor: int, size: int) -> Any:
        return cls.of_mapping(attached(descriptor, size))

    @classmethod
    def _new_shared_filename_cpu(cls, manager: Any, obj: bytes, size: int) -> Any:
        with open(os.fsdecode(obj), "r+b") as file:
            return cls.of_mapping(attached(file.fileno(), size, os.fsdecode(obj)))

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        """The bytes of a file. With `shared` writes reach the file, which is made as long as needed."""
        return cls.of_mapping(of_file(os.fspath(filename), shared, nbytes))

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str | None = None, count: int = -1, offset: int = 0, dtype: Any = None
    ) -> Any:
        """A copy of the numbers in an object with the buffer protocol, in this machine's byte order."""
        item = 1 if dtype is None else dtype.itemsize
        check(
            item == 1 or byte_order is not None,
            f"from_buffer: byte_order ('native', 'little' or 'big') is needed for numbers of {item} bytes",
            TypeError,
        )
        check(
            byte_order in (None, "native", "little", "big"),
            f"invalid byte_order {byte_order!r}; it is 'native', 'little' or 'big'",
            ValueError,
        )
        data = np.frombuffer(buffer, np.uint8)
        check(
            0 <= offset <= data.nbytes,
            f"offset must be non-negative and no greater than buffer length "
            f"({data.nbytes}), but got {offset}",
            ValueError,
        )
        if count < 0:
            check(
                (data.nbytes - offset) % item == 0,
                f"buffer size ({data.nbytes - offset}) must be a multiple of element size ({item})",
                ValueError,
            )
            count = (data.nbytes - offset) // item
        check(
            offset + count * item <= data.nbytes,
            f"buffer has only {data.nbytes - offset} bytes after "
            f"offset {offset}, but {count * item} were asked for",
            ValueError,
        )
        result = cls.of_buffer(data[offset : offset + count * item].copy())
        if item > 1 and byte_order not in ("native", sys.byteorder):
            result.byteswap(dtype)
        if dtype is not None and dtype.name == "bool":
            result.buffer[...] = result.buffer != 0
        return result

    # Files of bytes.

    def _write_file(self, file: Any, is_real_file: bool, save_size: bool, element_size: int) -> None:
        """Write the number of elements, if asked for, and the bytes."""
        if self.buffer is None:
            raise NotImplementedError("Cannot copy out of meta storage; no data!")
        data = (self.nbytes() // element_size).to_bytes(8, "little") if save_size else b""
        file.write(data + self.buffer.tobytes())

    @classmethod
    def _new_with_file(cls, file: Any, element_size: int) -> Any:
        """The storage that `_write_file` wrote, read from where the file stands."""
        source = (
            io.BytesIO(file.read()) if isinstance(file, io.BufferedIOBase) and not file.seekable() else file
        )
        count = source.read(8)
        check(len(count) == 8, "unexpected end of file: the size of a storage is missing")
        size = int.from_bytes(count, "little") * element_size
        data = source.read(size)
        check(len(data) == size, f"unexpected end of file: a storage of {size} bytes has {len(data)}")
        return cls.of_buffer(np.frombuffer(bytearray(data), np.uint8))

    # References that do not keep the memory.

    def _fix_weakref(self) -> None:
        """Nothing: a storage lives as long as a tensor over it, and so do references to it."""

    def _weak_ref(self) -> int:
        """A number for `_expired` and `_new_with_weak_ptr`; equal for the same storage."""
        handle = self._cdata
        _WEAK.setdefault(handle, weakref.ref(self))
        return handle

    @classmethod
    def _expired(cls, handle: int) -> bool:
        return cls._new_with_weak_ptr(handle) is None

    @classmethod
    def _new_with_weak_ptr(cls, handle: int) -> Any:
        found = _WEAK.get(handle)
        return None if found is None else found()

    @classmethod
    def _free_weak_ref(cls, handle: int) -> None:
        found = _WEAK.get(handle)
        if found is not None and found() is None:
            del _WEAK[handle]


class UntypedStorage(StorageBase):
    """The memory of tensors, as bytes.

    >>> rl.tensor([1.0, 2.0]).untyped_storage().nbytes()
    8
    """

    __slots__ = ()


Storage = UntypedStorage  # the short name, for this package's own use

_handles = itertools.count(1)
_WEAK: dict[int, weakref.ref[Any]] = {}
_STRATEGY = ["file_descriptor"]  # how new shared memory is reached: see rushlight.multiprocessing


def _storage_of_bytes(cls: Any, data: bytes) -> Any:
    return cls.of_buffer(np.frombuffer(bytearray(data), np.uint8))


def _storage_of_size(cls: Any, nbytes: int) -> Any:
    return cls.of_size(nbytes)


def storage_device(where: Any) -> Device:
    place = _CPU if where is None else Device(where)
    check(place.type in ("cpu", "meta"), f"Storage device not recognized: {place.type}")
    return _META if place.type == "meta" else _CPU


def _new_buffer(content: Any) -> np.ndarray:
    """Bytes for a size or a sequence of numbers."""
    if hasattr(content, "__index__"):
        size = content.__index__()
        check(size >= 0, f"a storage cannot have {size} bytes")
        return empty_bytes(size)
    check(
        hasattr(content, "__len__") and hasattr(content, "__getitem__"),
        f"a storage is made of a size or of a sequence of bytes, not of a {type(content).__name__}",
        TypeError,
    )
    if isinstance(content, StorageBase):
        return content.bytes_().copy()
    check(all(hasattr(item, "__index__") for item in content), "a storage of bytes takes integers", TypeError)
    return np.array([item.__index__() & 0xFF for item in content], np.uint8)


def empty_bytes(size: int) -> np.ndarray:
    """Memory that is not set; RuntimeError where there is not so much, as of every allocation."""
    try:
        return np.empty(size, np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise RuntimeError(f"not enough memory: you tried to allocate {size} bytes") from None


def _position(index: Any, size: int) -> int:
    check(hasattr(index, "__index__"), f"can't index a storage with a {type(index).__name__}", TypeError)
    position = int(index.__index__())
    check(-size <= position < size, f"index {position} out of range for storage of size {size}", IndexError)
    return position % size


def _lowest(array: np.ndarray) -> np.ndarray:
    """The element of `array` with the lowest address, as a view of one element."""
    index = tuple(slice(-1, None) if stride < 0 else slice(0, 1) for stride in array.strides)
    return array[index].reshape(1)


# Tensors over memory that moves.

_move: list[Callable[[Any], None]] = []


def when_moved(move: Callable[[Any], None]) -> None:
    """Say how tensors take a new look at a storage whose buffer was replaced; tensor.py does, once."""
    _move.append(move)


def move_tensors(storage: StorageBase) -> None:
    for move in _move:
        move(storage)


def resize_storage(storage: StorageBase, size: int, others: bool) -> None:
    """`size` bytes for a storage; new ones are zero. With `others` the tensors over it move along."""
    check(
        not storage._fixed,
        "Trying to resize storage that is not resizable: its memory belongs to an "
        "array, a file or other processes",
    )
    assert storage.buffer is not None
    kept = min(size, storage.buffer.nbytes)
    resized = empty_bytes(size)
    resized[:kept] = storage.buffer[:kept]
    resized[kept:] = 0
    storage.buffer = resized
    if others:
        move_tensors(storage)

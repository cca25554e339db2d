"""Reading files in PyTorch's format: a pickle with the tensors' bytes beside it.

In:  a binary file, either a zip archive (`data.pkl`, `data/0`, ...) or the older row of pickles.
Out: the saved object, its tensors where `restore` puts them.

Unless the caller says weights_only=False, only names that `_serialization/trusted.py` knows are found, and
nothing in a file is executed.
"""

from __future__ import annotations

import importlib
import pickle
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ..core.dtypes import DTYPES, DType
from ..core.mapped import of_file
from ..core.storage import UntypedStorage
from ..storage import TypedStorage
from . import trusted
from .archives import ArchiveReader
from .pickled import MAGIC, PROTOCOL
from .safetensors import SerializationError

_ZIP, _PICKLE = b"PK\x03\x04", pickle.PROTO

Restore = Callable[[UntypedStorage, str], UntypedStorage]


class Options:
    """How a file is read."""

    def __init__(
        self,
        restore: Restore,
        weights_only: bool = True,
        pickle_module: Any = None,
        without_data: bool = False,
        mapped: str | None = None,
        shared: bool = False,
        endianness: str | None = None,
        pickle_args: dict[str, Any] | None = None,
    ) -> None:
        self.restore = restore  # a storage, and where it was, to the storage where it shall be
        self.weights_only, self.pickle_module = weights_only, pickle_module
        self.without_data = without_data  # storages on the meta device
        self.mapped, self.shared = mapped, shared  # the path of the file to be mapped
        self.endianness = endianness  # of numbers in files that do not say it
        self.pickle_args = pickle_args or {}


def is_checkpoint(file: Any) -> bool:
    """Whether a binary file begins as one in PyTorch's format; its position stays. Streams are not asked."""
    seekable = getattr(file, "seekable", None)
    if seekable is None:
        if not hasattr(file, "seek") or not hasattr(file, "tell"):
            return False
    elif not seekable():
        return False
    position = file.tell()
    start = file.read(9)
    file.seek(position)
    if start[8:9] == b"{":  # the header of a safetensors file, whose length may look like a pickle
        return False
    return is_zip(start[:4]) or (start[:1] == _PICKLE and start[1:2] <= bytes([pickle.HIGHEST_PROTOCOL]))


def is_zip(start: bytes) -> bool:
    return start == _ZIP


def read_checkpoint(file: BinaryIO, options: Options) -> Any:
    position = file.tell()
    start = file.read(4)
    file.seek(position)
    if is_zip(start):
        return _read_archive(_from_here(file, position), options)
    if options.mapped is not None:
        raise RuntimeError(
            "mmap can only be used with files saved with `save(_use_new_zipfile_serialization="
            "True)`, please save the object again in that format"
        )
    return _read_pickles(file, options)


class _Window:
    """A file from some position on, as a file."""

    def __init__(self, file: Any, start: int) -> None:
        self._file, self._start = file, start

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell()) - self._start

    def seek(self, offset: int, whence: int = 0) -> int:
        self._file.seek(offset + self._start if whence == 0 else offset, whence)
        return self.tell()

    def read(self, count: int = -1) -> Any:
        return self._file.read(count)


def _from_here(file: Any, position: int) -> Any:
    return _Window(file, position) if position or not hasattr(file, "seekable") else file


# Where the bytes are.


def _located(count: Any, item: int) -> int:
    if type(count) is not int or not 0 <= count < 2**62:
        raise SerializationError(f"load: damaged file: a storage of {count!r} numbers")
    return count * item


def _read_archive(file: Any, options: Options) -> Any:
    with ArchiveReader(file) as archive:
        if not archive.has_pickle:
            raise SerializationError("load: this zip archive is none that PyTorch's save wrote: no data.pkl")
        if archive.has_record("constants.pkl"):
            raise SerializationError(
                "load: this is a TorchScript archive, which holds code; load a state dict"
            )
        swap = _is_foreign(archive.byte_order(), options.endianness)
        whole = None if options.mapped is None else of_file(options.mapped, options.shared, 0).buffer
        storages: dict[str, TypedStorage] = {}

        def data_of(key: str, size: int) -> UntypedStorage:
            name = f"data/{key}"
            if archive.size(name) != size:
                raise SerializationError(
                    f"load: damaged file: the storage {key!r} has {archive.size(name)} bytes, not {size}"
                )
            if options.without_data:
                return UntypedStorage.of_size(size)
            if whole is None:
                return UntypedStorage.of_buffer(np.frombuffer(bytearray(archive.get_record(name)), np.uint8))
            start = archive.get_record_offset(name)
            if start + size > whole.nbytes:
                raise SerializationError("load: damaged file: it is cut short")
            mapped = UntypedStorage.of_buffer(whole[start : start + size])
            mapped._fixed = True
            return mapped

        def storage_of(kind: DType | None, key: str, location: str, count: Any, view: Any) -> TypedStorage:
            if key not in storages:
                dtype = DTYPE_OF_BYTES if kind is None else kind
                storage = data_of(key, _located(count, dtype.itemsize))
                if swap and storage.buffer is not None:
                    storage.byteswap(dtype)
                storages[key] = _typed(options.restore(storage, location), dtype)
            return storages[key]

        try:
            with archive.open("data.pkl") as text:
                return _load(text, storage_of, options)
        except (zipfile.BadZipFile, zlib.error) as error:
            raise SerializationError(f"load: damaged file: {error}") from None


DTYPE_OF_BYTES: DType = DTYPES["uint8"]


def _typed(storage: UntypedStorage, dtype: DType) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


def _is_foreign(order: str | None, default: str | None) -> bool:
    """Whether the numbers of a file have the other byte order."""
    if order is None:
        if default is None and sys.byteorder == "big":
            warnings.warn(
                "The default load endianness for checkpoints without a byteorder mark on big "
                "endian machines was changed from 'native' to 'little' endian",
                UserWarning,
                stacklevel=6,
            )
        order = {None: "little", "native": sys.byteorder}.get(default, default)
    return order != sys.byteorder


def _read_pickles(file: BinaryIO, options: Options) -> Any:
    """The older format: magic number, protocol, description of the machine, object, keys, then the bytes."""
    storages: dict[str, TypedStorage] = {}
    sizes: dict[str, int] = {}
    views: dict[str, TypedStorage] = {}

    def storage_of(kind: DType | None, key: str, location: str, count: Any, view: Any) -> TypedStorage:
        dtype = DTYPE_OF_BYTES if kind is None else kind
        if key not in storages:
            size = sizes[key] = _located(count, dtype.itemsize)
            left = _bytes_left(file)
            if left is not None and size > left:
                raise SerializationError("load: damaged file: it is cut short")
            memory = (
                UntypedStorage.of_size(size)
                if options.without_data
                else UntypedStorage.of_buffer(np.zeros(size, np.uint8))
            )
            storages[key] = _typed(options.restore(memory, location), dtype)
        if view is None:
            return storages[key]
        name, offset, length = view
        first, size = _located(offset, dtype.itemsize), _located(length, dtype.itemsize)
        if first + size > sizes[key]:
            raise SerializationError("load: damaged file: a view reaches beyond its storage")
        if str(name) not in views:
            whole = storages[key]._untyped_storage
            part = UntypedStorage.of_size(size) if options.without_data else whole[first : first + size]
            views[str(name)] = _typed(part, dtype)
        return views[str(name)]

    def next_object() -> Any:
        return _load(file, storage_of, options)

    if next_object() != MAGIC or next_object() != PROTOCOL:
        raise SerializationError("load: this is a pickle that PyTorch's save did not write")
    machine = next_object()
    swap = bool(machine.get("little_endian", True)) != (sys.byteorder == "little")
    with trusted.indices_come_later():
        result = next_object()
        _read_storages(file, next_object(), storages, sizes, swap)
    return result


def _read_storages(
    file: BinaryIO, keys: Any, storages: dict[str, TypedStorage], sizes: dict[str, int], swap: bool
) -> None:
    """Fill the storages that the pickle named with the bytes that follow it."""
    for key in keys:
        count = int.from_bytes(file.read(8), "little")
        key = _word(key)
        typed = storages.get(key)
        if typed is None or count * typed._element_size() != sizes[key]:
            raise SerializationError(f"load: damaged file: the storage {key!r} is not as described")
        data = file.read(sizes[key])
        if len(data) != sizes[key]:
            raise SerializationError("load: damaged file: it is cut short")
        if typed._untyped_storage.buffer is not None:
            typed._untyped_storage.buffer[...] = np.frombuffer(data, np.uint8)
            if swap:
                typed._untyped_storage.byteswap(typed._dtype)


def _bytes_left(file: Any) -> int | None:
    if not hasattr(file, "seek"):
        return None
    here = file.tell()
    end = file.seek(0, 2)
    file.seek(here)
    return None if end is None else int(end) - int(here)


# The pickle.

_PythonUnpickler: Any = pickle._Unpickler
StorageOf = Callable[[DType | None, str, str, Any, Any], TypedStorage]


def _reference(storage_of: StorageOf, pid: Any) -> Any:
    """What a reference of a pickle to something outside of it means."""
    if isinstance(pid, tuple) and pid and pid[0] in ("storage", b"storage") and len(pid) >= 5:
        _, kind, key, location, count, *view = pid
        kind = kind if isinstance(kind, trusted.StorageType) else trusted.StorageType(kind._dtype)
        words = [word.decode("ascii") if isinstance(word, bytes) else str(word) for word in (key, location)]
        return storage_of(kind.dtype, words[0], words[1], count, view[0] if view else None)
    raise SerializationError(f"load: damaged file: the reference {pid!r}")


def _load(file: Any, storage_of: StorageOf, options: Options) -> Any:
    if not options.weights_only:
        return _load_anything(file, storage_of, options)
    reader = _SafeUnpickler(file, storage_of, options.pickle_args)
    try:
        return reader.load()
    except SerializationError:
        raise
    except (
        EOFError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RuntimeError,
        ArithmeticError,
        MemoryError,
        AssertionError,
        NameError,
        ImportError,
        struct.error,
        pickle.UnpicklingError,
    ) as error:
        raise SerializationError(f"load: damaged file: {type(error).__name__}: {error}") from None


class _SafeUnpickler(_PythonUnpickler):  # type: ignore[misc]
    """Finds the names that `_trusted` knows, and no others. In Python, whose instructions can be replaced;
    the bytes of tensors are elsewhere."""

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def __init__(self, file: Any, storage_of: StorageOf, options: dict[str, Any]) -> None:
        super().__init__(file, encoding=options.get("encoding", "utf-8"))
        self._storage_of = storage_of

    def find_class(self, module: str, name: str) -> Any:
        return trusted.found(_word(module), _word(name))

    def persistent_load(self, pid: Any) -> Any:
        return _reference(self._storage_of, pid)

    def load_build(self) -> None:
        """The instruction that gives an object its attributes: not of functions, classes, shared objects."""
        kind = type(self.stack[-2])
        if not trusted.may_build(kind):
            raise trusted.refuse(
                f"The file sets attributes of a {kind.__module__}.{kind.__qualname__}, which is not trusted"
            )
        super().load_build()

    dispatch[pickle.BUILD[0]] = load_build


def _word(text: Any) -> str:
    return text.decode("ascii") if isinstance(text, bytes) else str(text)


def _load_anything(file: Any, storage_of: StorageOf, options: Options) -> Any:
    """All that a pickle can do: the caller said that the file is trusted."""
    module = options.pickle_module or pickle

    class Unpickler(module.Unpickler):  # type: ignore[name-defined, misc]
        def find_class(self, module: str, name: str) -> Any:
            known = trusted.NAMES.get(f"{module}.{name}") or trusted.storage_or_dtype(module, name)
            return known if known is not None else super().find_class(_here(module), name)

        def persistent_load(self, pid: Any) -> Any:
            if isinstance(pid, tuple) and pid and pid[0] == "module":  # a class with its source, of old files
                return pid[1]
            return _reference(storage_of, pid)

    try:
        return Unpickler(file, **{"encoding": "utf-8", **options.pickle_args}).load()
    except (EOFError, struct.error) as error:
        raise SerializationError(f"load: damaged file: {type(error).__name__}: {error}") from None


def _here(module: str) -> str:
    """The module of this package that stands for one of PyTorch's, if there is one."""
    if module.partition(".")[0] != "torch":
        return module
    own = __package__.partition(".")[0] + module.removeprefix("torch")
    try:
        importlib.import_module(own)
    except ModuleNotFoundError:
        return module
    return own


# What a file would use.


class _Inert:
    """Stands for whatever a file names: it can be called and filled, and does nothing."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _Inert()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    append = extend = add = update = __call__


class _Recorder(_PythonUnpickler):  # type: ignore[misc]
    """Reads a pickle for its names alone."""

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def __init__(self, file: Any) -> None:
        super().__init__(file, encoding="latin1")
        self.names: dict[tuple[str, str], None] = {}

    def find_class(self, module: str, name: str) -> Any:
        self.names[_word(module), _word(name)] = None
        return _Inert

    def persistent_load(self, pid: Any) -> Any:
        return _Inert()

    def load_build(self) -> None:
        self.stack.pop()

    dispatch[pickle.BUILD[0]] = load_build


def unsafe_names(file: BinaryIO) -> list[str]:
    """The names in a zip archive that are not trusted, in the order of their first use."""
    position = file.tell()
    if not is_zip(file.read(4)):
        raise ValueError("get_unsafe_globals_in_checkpoint: only files in the zip format can be asked")
    file.seek(position)
    with ArchiveReader(_from_here(file, position)) as archive, archive.open("data.pkl") as text:
        recorder = _Recorder(text)
        recorder.load()
    return [f"{module}.{name}" for module, name in recorder.names if not trusted.is_safe(module, name)]

"""Reading files that PyTorch's `save` wrote: a pickle with the tensors' bytes beside it.

In:  a binary file, either a zip archive (`data.pkl`, `data/0`, ...) or the older row of pickles.
Out: the saved object, its tensors on the device asked for.

A pickle names the functions that build its objects. Only those in a table are found here, and they only build
tensors and plain containers: nothing in a file is executed. Other names are refused, unless the program said
with `add_safe_globals` that it trusts them.
"""

from __future__ import annotations

import collections
import contextlib
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np

from ._safetensors import SerializationError
from .core.construct import over_array
from .core.dtypes import DTYPES, DType
from .core.lazy import LazyModule
from .core.shapes import Spec, extent
from .core.tensor import Tensor, alias, meta_tensor
from .core.tokens import LAYOUTS, Size, device
from .sparse import sparse_compressed_tensor, sparse_coo_tensor

pickle = LazyModule("pickle")
zipfile = LazyModule("zipfile")

_MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of the older format
_PROTOCOL = 1001

_STORAGES = {f"{dtype.torch_name}Storage": dtype for dtype in DTYPES.values() if not dtype.is_quantized}

_trusted: dict[str, Any] = {}


_ZIP, _PICKLE = b"PK\x03\x04", b"\x80\x02"


def is_checkpoint(file: Any) -> bool:
    """Whether a binary file begins as one that PyTorch wrote; its position stays. Streams cannot be asked."""
    seekable = getattr(file, "seekable", None)
    if seekable is None or not seekable():
        return False
    position = file.tell()
    start = file.read(4)
    file.seek(position)
    return start == _ZIP or start[:2] == _PICKLE


def read_checkpoint(file: BinaryIO, place: device, parameter: Callable[[Tensor], Tensor]) -> Any:
    """The object in `file`; `parameter` makes a Parameter of a tensor."""
    position = file.tell()
    start = file.read(4)
    file.seek(position)
    if start == _ZIP:
        return _read_archive(file, place, parameter)
    return _read_pickles(file, place, parameter)


# Where the bytes are.


class _Memory:
    """A storage of the file: bytes that several tensors may look at; None if data is not wanted."""

    def __init__(self, dtype: DType | None, data: np.ndarray | None) -> None:
        self.dtype = dtype
        self.tensor = None if data is None else over_array(data)


def _read_archive(file: BinaryIO, place: device, parameter: Callable[[Tensor], Tensor]) -> Any:
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise SerializationError(f"load: damaged file: {error}") from None
    names = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(names) != 1:
        raise SerializationError("load: this zip archive is none that PyTorch's save wrote: no data.pkl")
    folder = names[0].removesuffix("data.pkl")
    if f"{folder}constants.pkl" in archive.namelist():
        raise SerializationError("load: this is a TorchScript archive, which holds code; load a state dict")
    order = archive.read(f"{folder}byteorder") if f"{folder}byteorder" in archive.namelist() else b"little"
    if order != b"little":
        raise SerializationError("load: the file has its numbers in big-endian order")
    memories: dict[str, _Memory] = {}

    def memory_of(dtype: DType | None, key: str, count: int) -> _Memory:
        if key not in memories:
            data = None
            if place.type != "meta":
                data = np.frombuffer(bytearray(_entry(archive, f"{folder}data/{key}")), np.uint8)
            memories[key] = _Memory(dtype, data)
        return memories[key]

    with archive.open(names[0]) as text:
        return _Unpickler(text, memory_of, parameter).load_checked()


def _entry(archive: Any, name: str) -> bytes:
    try:
        data: bytes = archive.read(name)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SerializationError(f"load: damaged file: {error}") from None
    return data


def _read_pickles(file: BinaryIO, place: device, parameter: Callable[[Tensor], Tensor]) -> Any:
    """The older format: magic number, protocol, description of the machine, object, keys, then the bytes."""
    memories: dict[str, _Memory] = {}
    sizes: dict[str, int] = {}

    def memory_of(dtype: DType | None, key: str, count: int) -> _Memory:
        if key not in memories:
            size = count * (1 if dtype is None else dtype.itemsize)
            memories[key] = _Memory(dtype, None if place.type == "meta" else np.zeros(size, np.uint8))
            sizes[key] = size
        return memories[key]

    def next_object() -> Any:
        return _Unpickler(file, memory_of, parameter).load_checked()

    if next_object() != _MAGIC or next_object() != _PROTOCOL:
        raise SerializationError("load: this is a pickle that PyTorch's save did not write")
    machine = next_object()
    if not machine.get("little_endian", True):
        raise SerializationError("load: the file has its numbers in big-endian order")
    result = next_object()
    for key in next_object():
        count = int.from_bytes(file.read(8), "little")
        memory = memories.get(key)
        if memory is None or count * (memory.dtype.itemsize if memory.dtype else 1) != sizes[key]:
            raise SerializationError(f"load: damaged file: the storage {key!r} is not as described")
        data = file.read(sizes[key])
        if len(data) != sizes[key]:
            raise SerializationError("load: damaged file: it is cut short")
        if memory.tensor is not None:
            memory.tensor.numpy_array()[...] = np.frombuffer(data, np.uint8)
    return result


# What a pickle may name.


class _StorageType:
    """`torch.FloatStorage` and its like: what a storage is a row of."""

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype


class _Unpickler:
    """Reads one pickle with the names of `_names` and the storages of `memory_of`."""

    def __init__(self, file: Any, memory_of: Callable[[DType | None, str, int], _Memory],
                 parameter: Callable[[Tensor], Tensor]) -> None:
        names = _names(parameter)

        # in Python, of which single instructions can be replaced; the bytes of tensors are elsewhere
        class Reader(pickle._Unpickler):  # type: ignore[name-defined, misc]
            dispatch = pickle._Unpickler.dispatch | {pickle.BUILD[0]: _build}

            def find_class(self, module: str, name: str) -> Any:
                return _found(names, module, name)

            def persistent_load(self, pid: Any) -> Any:
                if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
                    raise SerializationError(f"load: damaged file: the reference {pid!r}")
                _, kind, key, _, count, *view = pid
                if view and view[0] is not None:
                    raise SerializationError("load: files with views of storages are too old to be read")
                return memory_of(kind.dtype, str(key), count)

        self._reader = Reader(file)

    def load_checked(self) -> Any:
        try:
            return self._reader.load()
        except SerializationError:
            raise
        except (EOFError, KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError,
                struct.error, pickle.UnpicklingError) as error:
            raise SerializationError(f"load: damaged file: {type(error).__name__}: {error}") from None


def _build(reader: Any) -> None:
    """The instruction that gives an object its attributes: not of functions, classes and shared objects."""
    kind = type(reader.stack[-2])
    if kind not in (collections.OrderedDict, collections.defaultdict, collections.Counter) and not any(
            kind is trusted for trusted in _trusted.values()):
        raise SerializationError(f"load: the file sets attributes of a {kind.__name__}, which is not trusted")
    pickle._Unpickler.load_build(reader)


def _found(names: dict[str, Any], module: str, name: str) -> Any:
    full = f"{module}.{name}"
    if full in names:
        return names[full]
    if full in _trusted:
        return _trusted[full]
    short = full.removeprefix("torch.").removeprefix("storage.")
    if module in ("torch", "torch.storage"):
        if name in DTYPES:
            return DTYPES[name]
        if short in _STORAGES:
            return _StorageType(_STORAGES[short])
        if short == "UntypedStorage":
            return _StorageType(None)
    raise SerializationError(
        f"load: the file names {full}, which may run code and is not trusted; save a state dict of tensors "
        "and plain containers, or call serialization.add_safe_globals first")


def _names(parameter: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    def rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any, state: Any = None) -> Tensor:
        return parameter(data.requires_grad_(requires_grad))

    return {
        "collections.OrderedDict": collections.OrderedDict,
        "collections.defaultdict": collections.defaultdict,
        "collections.Counter": collections.Counter,
        "builtins.set": set,
        "builtins.frozenset": frozenset,
        "builtins.bytearray": bytearray,
        "builtins.complex": complex,
        "builtins.slice": slice,
        "torch.Size": lambda sizes: Size(sizes),
        "torch.device": lambda *place: device(*place),
        "torch._utils._rebuild_tensor": _tensor,
        "torch._utils._rebuild_tensor_v2": _tensor,
        "torch._utils._rebuild_tensor_v3": _typed_tensor,
        "torch._utils._rebuild_parameter": rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": rebuild_parameter,
        "torch._utils._rebuild_sparse_tensor": _sparse,
        "torch._tensor._rebuild_from_type_v2": lambda function, kind, args, state: function(*args),
        "torch.Tensor": None,
        "torch.nn.parameter.Parameter": None,
        "torch.serialization._get_layout": lambda name: LAYOUTS[name.removeprefix("torch.")],
        "_codecs.encode": _encoded,
    }


def _encoded(text: str, coding: str) -> bytes:
    """How a pickle of protocol 2 spells bytes."""
    return text.encode(coding)


def _tensor(memory: _Memory, offset: int, size: Any, stride: Any, requires_grad: bool = False,
            hooks: Any = None, metadata: Any = None) -> Tensor:
    if memory.dtype is None:
        raise SerializationError("load: damaged file: a storage without a dtype")
    return _typed_tensor(memory, offset, size, stride, requires_grad, hooks, memory.dtype, metadata)


def _typed_tensor(memory: _Memory, offset: int, size: Any, stride: Any, requires_grad: bool, hooks: Any,
                  dtype: DType, metadata: Any = None) -> Tensor:
    shape, strides = tuple(size), tuple(stride)
    counts = all(type(n) is int and 0 <= n < 2**62 for n in (*shape, *strides, offset))
    if not counts or len(shape) != len(strides):
        raise SerializationError(f"load: damaged file: shape {shape}, strides {strides}, offset {offset}")
    spec = Spec(shape, dtype, strides, offset)
    if memory.tensor is None:
        return meta_tensor(Spec(shape, dtype, strides)).requires_grad_(requires_grad)
    if (offset + extent(shape, strides)) * dtype.itemsize > memory.tensor.nbytes and 0 not in shape:
        raise SerializationError("load: damaged file: a tensor reaches beyond its storage")
    result = alias(memory.tensor, spec)
    if metadata and metadata.get("conj"):
        result = result.conj()
    if metadata and metadata.get("neg"):
        result = result._neg_view()
    return result.requires_grad_(requires_grad)


def _sparse(layout: Any, data: tuple[Any, ...]) -> Tensor:
    if layout.name == "sparse_coo":
        indices, values, size, *coalesced = data
        return sparse_coo_tensor(indices, values, size, check_invariants=True,
                                 is_coalesced=coalesced[0] if coalesced else None)
    compressed, plain, values, size = data
    return sparse_compressed_tensor(compressed, plain, values, size, layout=layout, check_invariants=True)


# What a program trusts.


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let `load` build objects of these classes, or with these functions, from PyTorch's files.

    Each is a class or function, or a pair of one and the full name that files have for it.
    """
    for item in safe_globals:
        value, name = item if isinstance(item, tuple) else (item, f"{item.__module__}.{item.__qualname__}")
        _trusted[name] = value


def get_safe_globals() -> list[Any]:
    return list(_trusted.values())


def clear_safe_globals() -> None:
    _trusted.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """`add_safe_globals` for the time of a with block."""
    before = dict(_trusted)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _trusted.clear()
        _trusted.update(before)

"""Writing objects that are no plain data, such as whole modules, the way PyTorch's `save` does: a pickle,
with the bytes of tensors beside it.

In:  any object that can be pickled, and a binary file.
Out: a zip archive, or the older row of pickles.

Tensors, dtypes and the like are written under PyTorch's names, so that PyTorch reads what consists of them;
classes of programs, and this package's modules, are written under their own.
"""

from __future__ import annotations

import collections
import copyreg
import io
import pickle
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar

from .._api.typed_storage import _dtype_to_storage_type_map
from ..core.copying import own_attributes
from ..core.dtypes import DType, QuantizedDType
from ..core.nested_base import NestedBase
from ..core.sparse import Coo
from ..core.storage import UntypedStorage
from ..core.tensor import Tensor
from ..core.tokens import Size, device, layout
from ..storage import TypedStorage
from .archives import ArchiveWriter, write_notes

MAGIC = 0x1950A86A20F9469CFC6C  # the first pickle of the older format
PROTOCOL = 1001


class Name:
    """A global name that is written as it is, whether or not it exists here."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.module}.{self.name} stands for a name in a file")


_REBUILD = {
    name: Name("torch._utils", f"_rebuild_{name}")
    for name in (
        "tensor_v2",
        "tensor_v3",
        "parameter",
        "parameter_with_state",
        "sparse_tensor",
        "meta_tensor_no_storage",
        "wrapper_subclass",
    )
}
_FROM_TYPE = Name("torch._tensor", "_rebuild_from_type_v2")
_SIZE, _DEVICE = Name("torch", "Size"), Name("torch", "device")
_GET_LAYOUT = Name("torch.serialization", "_get_layout")
_TENSOR, _PARAMETER = Name("torch", "Tensor"), Name("torch.nn.parameter", "Parameter")
_UNTYPED = Name("torch.storage", "UntypedStorage")
_LEGACY = {name: Name("torch", name) for name in _dtype_to_storage_type_map().values()}


# functions that build tensors, by which PyTorch's files name them; `_utils.py` fills it
BUILDERS: dict[Any, Name] = {}


class Storages:
    """The storages that a pickle refers to, each under a key of its own."""

    def __init__(self, older: bool = False) -> None:
        self._rest = (None,) if older else ()  # which part of the storage: all of it
        self.keys: dict[Any, str] = {}
        self.found: dict[str, UntypedStorage] = {}
        self._dtypes: dict[str, DType | None] = {}

    def reference(self, storage: TypedStorage | UntypedStorage) -> tuple[Any, ...]:
        """What is written in place of a storage."""
        dtype = storage._dtype if isinstance(storage, TypedStorage) else None
        untyped = storage._untyped_storage if isinstance(storage, TypedStorage) else storage
        same = (id(untyped), None if untyped.nbytes() else dtype)  # an empty one is of any type
        key = self.keys.setdefault(same, str(len(self.keys)))
        known = self._dtypes.setdefault(key, dtype)
        if known is not dtype:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as "
                f"different types: {known} and {dtype}"
            )
        self.found[key] = untyped
        kind = _UNTYPED if dtype is None else _LEGACY[_dtype_to_storage_type_map()[dtype]]
        count = untyped.nbytes() // (1 if dtype is None else dtype.itemsize)
        return ("storage", kind, key, "cpu", count, *self._rest)


_PythonPickler: Any = pickle._Pickler


class _Pickler(_PythonPickler):  # type: ignore[misc]
    """Writes tensors as PyTorch does; the instructions themselves are Python's."""

    dispatch: ClassVar[dict[Any, Any]] = dict(_PythonPickler.dispatch)

    def __init__(self, file: Any, protocol: int, storages: Storages) -> None:
        super().__init__(file, protocol)
        self._storages = storages

    def save_name(self, value: Name) -> None:
        self._save_words(value, value.module, value.name)

    def save_dtype(self, dtype: DType) -> None:
        self._save_words(dtype, "torch", dtype.name)

    def _save_words(self, value: Any, module: str, name: str) -> None:
        found = self.memo.get(id(value))
        if found is not None:
            self.write(self.get(found[0]))
            return
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(value)

    def save_function(self, function: Any) -> None:
        known = BUILDERS.get(function)
        if known is None:
            self.save_global(function)
        else:
            self._save_words(function, known.module, known.name)

    dispatch[FunctionType] = save_function
    dispatch[Name] = save_name
    dispatch[DType] = save_dtype
    dispatch[QuantizedDType] = save_dtype

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, TypedStorage | UntypedStorage):
            return None
        return self._storages.reference(obj)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return reduce_tensor(obj)
        if isinstance(obj, Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, layout):
            return _GET_LAYOUT, (f"torch.{obj.name}",)
        return NotImplemented


def reduce_tensor(tensor: Tensor) -> Any:
    """How a tensor is made again: a name of PyTorch's and its arguments."""
    kind = type(tensor)
    if (
        kind.__reduce_ex__ is not Tensor.__reduce_ex__
        or isinstance(tensor, NestedBase)
        or tensor._quantizer is not None
    ):
        return NotImplemented  # these say themselves how they are made again
    state: Any = own_attributes(tensor)
    if kind.__name__ == "Parameter" and kind.__module__.endswith("nn.parameter"):
        parts: tuple[Any, ...] = (tensor.detach(), tensor.requires_grad, collections.OrderedDict())
        if state:
            return _REBUILD["parameter_with_state"], (*parts, state)
        return _REBUILD["parameter"], parts
    function, args = _rebuilding(tensor)
    if kind is Tensor and not state:
        return function, args
    getstate = getattr(kind, "__getstate__", None)
    slots = {
        name: getattr(tensor, name)
        for name in copyreg._slotnames(kind)  # type: ignore[attr-defined]
        if hasattr(tensor, name)
    }
    if getstate is not None and getstate is not getattr(object, "__getstate__", None):
        state = tensor.__getstate__()
    elif slots:
        state = (state, slots)
    return _FROM_TYPE, (function, _TENSOR if kind is Tensor else kind, args, state)


def _rebuilding(tensor: Tensor) -> tuple[Name, tuple[Any, ...]]:
    if tensor._dispatches and tensor._array is None:
        return _REBUILD["wrapper_subclass"], (
            type(tensor),
            tensor.dtype,
            tuple(tensor.shape),
            tensor.strides(),
            tensor.storage_offset(),
            tensor.layout,
            tensor.device,
            tensor.requires_grad,
        )
    if tensor._parts is not None:
        return _REBUILD["sparse_tensor"], (tensor.layout, _members(tensor))
    if tensor.is_meta:
        return _REBUILD["meta_tensor_no_storage"], (
            tensor.dtype,
            tuple(tensor.shape),
            tensor.strides(),
            tensor.requires_grad,
        )
    place: tuple[Any, ...] = (
        tensor.storage_offset(),
        tuple(tensor.shape),
        tensor.strides(),
        tensor.requires_grad,
        collections.OrderedDict(),
    )
    bits = {name: True for name, is_set in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if is_set}
    storage = tensor.untyped_storage()
    if tensor.dtype not in _dtype_to_storage_type_map():
        return _REBUILD["tensor_v3"], (storage, *place, tensor.dtype, *((bits,) if bits else ()))
    typed = TypedStorage(wrap_storage=storage, dtype=tensor.dtype, _internal=True)
    return _REBUILD["tensor_v2"], (typed, *place, *((bits,) if bits else ()))


def _members(tensor: Tensor) -> tuple[Any, ...]:
    parts: Any = tensor._parts
    if isinstance(parts, Coo):
        return parts.indices, parts.values, tensor.shape, parts.coalesced
    return parts.compressed, parts.plain, parts.values, tensor.shape


# Files.


def write_archive(
    file: Any, obj: Any, folder: str, pickle_module: Any, protocol: int, skip_data: bool = False
) -> None:
    """`obj` as a zip archive. Nothing is written before all of it could be pickled."""
    storages = Storages()
    text = io.BytesIO()
    if pickle_module is None:
        _Pickler(text, protocol, storages).dump(obj)
    else:
        pickle_module.dump(obj, text, protocol)
    with ArchiveWriter(file, folder) as archive:
        archive.write_record("data.pkl", text.getbuffer())
        write_notes(archive)
        for key, storage in storages.found.items():
            if skip_data:
                archive.write_record_metadata(f"data/{key}", storage.nbytes())
            else:
                archive.write_record(f"data/{key}", storage.bytes_().data)


def write_pickles(file: Any, obj: Any, pickle_module: Any, protocol: int) -> None:
    """`obj` in the older format: magic number, protocol, machine, object, keys, then the bytes."""
    storages = Storages(older=True)
    text = io.BytesIO()
    dump: Callable[..., None] = (pickle_module or pickle).dump
    machine = {
        "protocol_version": PROTOCOL,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 8},
    }
    for value in (MAGIC, PROTOCOL, machine):
        dump(value, text, protocol)
    if pickle_module is None:
        _Pickler(text, protocol, storages).dump(obj)
    else:
        dump(obj, text, protocol)
    keys = sorted(storages.found)
    dump(keys, text, protocol)
    file.write(text.getbuffer())
    for key in keys:
        storage = storages.found[key]
        dtype = storages._dtypes[key]
        item = 1 if dtype is None else dtype.itemsize
        file.write((storage.nbytes() // item).to_bytes(8, "little"))
        file.write(storage.bytes_().data)
    file.flush()

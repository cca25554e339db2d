"""Plain data as a tree of JSON with its tensors as entries of a safetensors file.

In:  dict, list, tuple, str, bytes, numbers, None, Size, dtype, device, NumPy arrays and tensors, nested.
Out: JSON and arrays, and back. `NotPlain` says that an object holds anything else.

Tensors that share memory are one entry, and share memory again when they are read. A sparse or nested tensor
is several entries, one for each of its members, and is put together of them again by the functions that make
such tensors, which check them. Numbers of complex dtype are stored as pairs of reals. A tensor's strides are
kept where it is dense; a view of part of a storage that nothing else in the tree uses is stored alone,
without the rest of the storage.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from ..core.construct import over_array
from ..core.copying import own_attributes
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.nested import NestedTensor, rebuild
from ..core.nested_strided import StridedNestedTensor
from ..core.nested_strided import rebuild as rebuild_strided
from ..core.shapes import Shape, Spec, contiguous_strides, extent, is_contiguous, is_dense
from ..core.sparse import Coo
from ..core.storage import UntypedStorage
from ..core.tensor import Tensor, alias, meta_tensor
from ..core.tokens import LAYOUTS, Size, device
from ..sparse import sparse_compressed_tensor, sparse_coo_tensor
from .classes import TENSOR_CLASSES
from .safetensors import Entry, Header, SerializationError, in_file_order, read_array

CODES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "uint16": "U16",
    "int16": "I16",
    "uint32": "U32",
    "int32": "I32",
    "uint64": "U64",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
}
_BY_CODE = {code: name for name, code in CODES.items()} | {"C64": "complex64"}
_TAG = "$"  # marks a JSON object as anything but a plain value; no other JSON objects are written


class NotPlain(Exception):
    """An object that a tree cannot hold; what it is, and where."""


# Objects to trees.


class TreeWriter:
    """Encodes a tree and collects its tensors; those that share a storage are put together by `arrays`."""

    def __init__(self) -> None:
        self._groups: dict[int, list[tuple[Tensor, dict[str, Any]]]] = {}
        self._single: list[tuple[str, str, Shape, np.ndarray]] = []
        self._names: set[str] = {"__metadata__"}
        self._open: set[int] = set()

    def encode(self, value: Any, path: tuple[str, ...]) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {_TAG: "float", "value": repr(value)}
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if type(value) in (list, tuple, Size, dict, OrderedDict):
            return self._container(value, path)
        return self._other(value, path)

    def _container(self, value: Any, path: tuple[str, ...]) -> Any:
        if id(value) in self._open:
            raise NotPlain(f"the object at {_place(path)} contains itself")
        self._open.add(id(value))
        try:
            if isinstance(value, dict):
                return self._dict(value, path)
            items = [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]
        finally:
            self._open.discard(id(value))
        return (
            items
            if type(value) is list
            else {_TAG: "size" if type(value) is Size else "tuple", "items": items}
        )

    def _dict(self, value: Any, path: tuple[str, ...]) -> Any:
        items = [[self._key(key, path), self.encode(item, (*path, str(key)))] for key, item in value.items()]
        encoded = {_TAG: "dict" if type(value) is dict else "ordered", "items": items}
        extra = getattr(value, "_metadata", None)  # versions of the modules in a state dict
        if extra is not None:
            encoded["metadata"] = self.encode(extra, (*path, "_metadata"))
        return encoded

    def _key(self, key: Any, path: tuple[str, ...]) -> Any:
        if key is None or type(key) in (bool, int, float, str, tuple):
            return self.encode(key, path)
        raise NotPlain(f"a key of the dict at {_place(path)} is a {type(key).__name__}")

    def _other(self, value: Any, path: tuple[str, ...]) -> Any:
        if type(value) is complex:
            return {_TAG: "complex", "value": [repr(value.real), repr(value.imag)]}
        if type(value) is bytes:
            return {_TAG: "bytes", "value": base64.b64encode(value).decode()}
        if isinstance(value, DType):
            return {_TAG: "dtype", "value": value.name}
        if isinstance(value, device):
            return {_TAG: "device", "value": str(value)}
        if isinstance(value, np.ndarray | np.generic) and np.asarray(value).dtype.kind in "biufc":
            tensor = over_array(np.array(value, order="C"))
            return {
                **self._tensor(tensor, path),
                _TAG: "array" if isinstance(value, np.ndarray) else "scalar",
            }
        raise NotPlain(f"the {type(value).__name__} at {_place(path)}")

    def _tensor(self, value: Tensor, path: tuple[str, ...]) -> dict[str, Any]:
        kind = type(value).__name__
        if isinstance(value, NestedTensor):
            members = {"values": value._values, "offsets": value.offsets(), "lengths": value.lengths()}
            return {_TAG: "nested", "ragged_idx": value._ragged_idx, **self._members(members, path)}
        if isinstance(value, StridedNestedTensor):
            sizes, strides, offsets, dims = value._rows.parts()
            return {
                _TAG: "strided nested",
                "sizes": sizes,
                "strides": strides,
                "offsets": offsets,
                "dims": dims,
                **self._members({"values": value._values}, path),
            }
        if (
            (type(value) is not Tensor and kind not in TENSOR_CLASSES)
            or value._quantizer is not None
            or own_attributes(value)
        ):
            raise NotPlain(f"the {kind} at {_place(path)}")
        record: dict[str, Any] = {_TAG: "tensor", "dtype": value.dtype.name, "shape": list(value.shape)}
        if kind != "Tensor":
            record["class"] = kind
        if value.requires_grad:
            record["requires_grad"] = True
        if value._parts is not None:
            return {**record, _TAG: "sparse", **self._sparse(value, path)}
        if value.is_meta:
            return {**record, "device": "meta"}
        record["entry"] = self._name(path)
        storage = value.storage_object
        key = id(storage) if not value.is_conj() and not value.is_neg() and storage.nbytes() else id(record)
        self._groups.setdefault(key, []).append((value, record))
        return record

    def _sparse(self, value: Tensor, path: tuple[str, ...]) -> dict[str, Any]:
        parts = value._parts
        if isinstance(parts, Coo):
            members = {"indices": parts.indices, "values": parts.values}
            return {"layout": "sparse_coo", "coalesced": parts.coalesced, **self._members(members, path)}
        members = {
            "compressed_indices": parts.compressed,
            "plain_indices": parts.plain,
            "values": parts.values,
        }
        return {"layout": value.layout.name, **self._members(members, path)}

    def _members(self, members: Mapping[str, Tensor | None], path: tuple[str, ...]) -> dict[str, Any]:
        """The tensors that a tensor consists of, each an entry of its own."""
        return {"members": {name: self.encode(member, (*path, name)) for name, member in members.items()}}

    def _name(self, path: tuple[str, ...]) -> str:
        name = base = ".".join(path) or "tensor"
        count = 1
        while name in self._names:
            count += 1
            name = f"{base}#{count}"
        self._names.add(name)
        return name

    def arrays(self) -> list[tuple[str, str, Shape, np.ndarray]]:
        """The entries of the file; completes the records of the tensors in them."""
        result = []
        for group in self._groups.values():
            result.append(_alone(*group[0]) if len(group) == 1 else self._shared(group))
        return result

    def _shared(self, group: list[tuple[Tensor, dict[str, Any]]]) -> tuple[str, str, Shape, np.ndarray]:
        """One entry for several tensors over one storage: the bytes that any of them uses."""
        spans = [_span(tensor) for tensor, _ in group]
        low, high = min(span[0] for span in spans), max(span[1] for span in spans)
        low -= low % 16  # the offset of every tensor stays a whole number of its elements
        covers = [i for i, span in enumerate(spans) if span == (low, high) and group[i][0].is_contiguous()]
        whole = covers[0] if covers else None
        name = group[0 if whole is None else whole][1]["entry"]
        for tensor, record in group:
            record["entry"] = name
            record["strides"] = list(tensor.strides())
            record["offset"] = tensor.storage_offset() - low // tensor.dtype.itemsize
        if whole is not None:
            return _values(name, group[whole][0])
        memory = group[0][0].storage_object.buffer
        assert memory is not None
        return name, "U8", (high - low,), memory[low:high]


def _span(tensor: Tensor) -> tuple[int, int]:
    """The first byte of the storage that `tensor` uses, and the one after the last."""
    start = tensor.storage_offset()
    stop = start + extent(tuple(tensor.shape), tensor.strides())
    return start * tensor.dtype.itemsize, stop * tensor.dtype.itemsize


def _alone(tensor: Tensor, record: dict[str, Any]) -> tuple[str, str, Shape, np.ndarray]:
    strides = tensor.strides()
    if is_dense(tensor.shape, strides) and not is_contiguous(tensor.shape, strides):
        record["strides"] = list(strides)
    return _values(record["entry"], tensor)


def _values(name: str, tensor: Tensor) -> tuple[str, str, Shape, np.ndarray]:
    array = np.ascontiguousarray(tensor.numpy_array())
    shape = tuple(tensor.shape)
    if tensor.dtype.is_complex:
        return name, CODES[tensor.dtype.to_real().name], (*shape, 2), array
    return name, CODES[tensor.dtype.name], shape, array


def _place(path: tuple[str, ...]) -> str:
    return repr(".".join(path)) if path else "the top"


# Trees to objects.


class TreeReader:
    """Decodes a tree, checking each record against the entries of the file."""

    def __init__(
        self,
        file: BinaryIO,
        header: Header,
        without_data: bool,
        restore: Callable[[UntypedStorage, str], UntypedStorage],
        mapped: np.ndarray | None = None,
    ) -> None:
        """`restore` tells where storages go; `mapped` is the data of the file, if it need not be read."""
        self._without_data = without_data
        self._entries = header.entries
        self._storages: dict[str, Tensor] = {}
        for entry in () if without_data else in_file_order(list(header.entries.values())):
            data = read_array(file, entry) if mapped is None else mapped[entry.start : entry.stop]
            memory = UntypedStorage.of_buffer(data)
            memory._fixed = mapped is not None
            memory = restore(memory, "cpu")
            if memory.buffer is None:
                self._without_data = True
                return
            carrier = over_array(memory.buffer)
            carrier._storage = memory
            self._storages[entry.name] = carrier

    def whole(self, name: str) -> Tensor:
        """The entry `name` as a tensor of its own."""
        entry = self._entries[name]
        strides = contiguous_strides(entry.shape)
        return self._view(entry, DTYPES[_BY_CODE[entry.code]], entry.shape, strides, 0)

    def decode(self, tree: Any, path: str) -> Any:
        if not isinstance(tree, dict):
            if isinstance(tree, list):
                return [self.decode(item, f"{path}.{i}") for i, item in enumerate(tree)]
            return tree
        build = _DECODERS.get(tree.get(_TAG, ""))
        try:
            if build is not None:
                return build(self, tree, path)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
            raise _damaged(path, f"{type(error).__name__}: {error}") from None
        raise _damaged(path, f"unknown kind {tree.get(_TAG)!r}")

    def tensor(self, record: dict[str, Any], path: str) -> Tensor:
        dtype, shape = DTYPES[record["dtype"]], tuple(record["shape"])
        strides = tuple(record["strides"]) if "strides" in record else contiguous_strides(shape)
        offset = record.get("offset", 0)
        counts = all(type(n) is int and 0 <= n < 2**62 for n in (*shape, *strides, offset))
        if not counts or len(shape) != len(strides):
            raise _damaged(path, f"shape {shape}, strides {strides}, offset {offset}")
        if record.get("device") == "meta":
            result = meta_tensor(Spec(shape, dtype, strides))
        else:
            result = self._placed(self._entries[record["entry"]], record, dtype, shape, strides, offset, path)
        return _finished(result, record)

    def sparse(self, record: dict[str, Any], path: str) -> Tensor:
        members, shape = self._members(record, path), tuple(record["shape"])
        if not all(type(n) is int and 0 <= n < 2**62 for n in shape):
            raise _damaged(path, f"shape {shape}")
        try:
            if record["layout"] == "sparse_coo":
                result = sparse_coo_tensor(
                    members["indices"],
                    members["values"],
                    shape,
                    check_invariants=True,
                    is_coalesced=bool(record["coalesced"]),
                )
            else:
                result = sparse_compressed_tensor(
                    **members, size=shape, layout=LAYOUTS[record["layout"]], check_invariants=True
                )
        except RuntimeError as error:
            raise _damaged(path, str(error)) from None
        return _finished(result, record)

    def nested(self, record: dict[str, Any], path: str) -> Tensor:
        members, dim = self._members(record, path), record["ragged_idx"]
        values, offsets, lengths = (members[name] for name in ("values", "offsets", "lengths"))
        if type(dim) is not int or not 1 <= dim <= values.ndim:
            raise _damaged(path, f"ragged_idx {dim}")
        try:
            return rebuild(values, offsets, lengths, dim)
        except RuntimeError as error:
            raise _damaged(path, str(error)) from None

    def strided_nested(self, record: dict[str, Any], path: str) -> Tensor:
        values = self._members(record, path)["values"]
        sizes, strides, offsets, dims = (record[name] for name in ("sizes", "strides", "offsets", "dims"))
        numbers = [n for row in (*sizes, *strides, offsets) for n in row]
        if not all(type(n) is int and 0 <= n < 2**62 for n in (*numbers, dims)):
            raise _damaged(path, "the sizes, strides or offsets of rows")
        try:
            return rebuild_strided(values, sizes, strides, offsets, dims)
        except RuntimeError as error:
            raise _damaged(path, str(error)) from None

    def _members(self, record: dict[str, Any], path: str) -> dict[str, Any]:
        check(
            not self._without_data,
            f"load: {path.lstrip('.') or 'the object'} is a {record[_TAG]} "
            "tensor, which is not made without data; load the file without map_location",
            NotImplementedError,
        )
        return {name: self.decode(member, f"{path}.{name}") for name, member in record["members"].items()}

    def _placed(
        self,
        entry: Entry,
        record: dict[str, Any],
        dtype: DType,
        shape: Shape,
        strides: Shape,
        offset: int,
        path: str,
    ) -> Tensor:
        shared = "offset" in record
        needed = extent(shape, strides)
        end = (offset + needed) * dtype.itemsize if needed else 0
        if end > entry.stop - entry.start or (not shared and entry != _expected(entry, dtype, shape)):
            raise _damaged(
                path, f"it does not fit entry {entry.name!r} ({entry.code}, shape {list(entry.shape)})"
            )
        if shared or is_contiguous(shape, strides):
            return self._view(entry, dtype, shape, strides, offset)
        if not is_dense(shape, strides):
            raise _damaged(path, f"strides {strides} do not fit shape {shape}")
        return self._reordered(entry, dtype, shape, strides)

    def _view(self, entry: Entry, dtype: DType, shape: Shape, strides: Shape, offset: int) -> Tensor:
        if self._without_data:
            return meta_tensor(Spec(shape, dtype, strides))
        return alias(self._storages[entry.name], Spec(shape, dtype, strides, offset))

    def _reordered(self, entry: Entry, dtype: DType, shape: Shape, strides: Shape) -> Tensor:
        """Values stored in the order of their indices, in memory in the order of `strides`."""
        source = self._view(entry, dtype, shape, contiguous_strides(shape), 0)
        if self._without_data:
            return meta_tensor(Spec(shape, dtype, strides))
        memory = over_array(np.empty(source.nbytes, np.uint8))
        result = alias(memory, Spec(shape, dtype, strides))
        np.copyto(result.numpy_array(), source.numpy_array())
        return result


def _finished(tensor: Tensor, record: dict[str, Any]) -> Tensor:
    if record.get("requires_grad"):
        tensor._set_requires_grad()
    return TENSOR_CLASSES[record["class"]](tensor) if "class" in record else tensor


def _expected(entry: Entry, dtype: DType, shape: Shape) -> Entry:
    code, stored = CODES.get(dtype.name), shape
    if dtype.is_complex:
        code, stored = CODES[dtype.to_real().name], (*shape, 2)
    return Entry(entry.name, code or "", stored, entry.start, entry.stop)


def _damaged(path: str, what: str) -> SerializationError:
    return SerializationError(f"load: damaged file: the record of {path.lstrip('.') or 'the object'}: {what}")


def _decode_dict(reader: TreeReader, tree: dict[str, Any], path: str) -> Any:
    result: Any = OrderedDict() if tree[_TAG] == "ordered" else {}
    for key, item in tree["items"]:
        key = reader.decode(key, path)
        result[key] = reader.decode(item, f"{path}.{key}")
    if "metadata" in tree:
        result._metadata = reader.decode(tree["metadata"], f"{path}._metadata")
    return result


def _decode_items(reader: TreeReader, tree: dict[str, Any], path: str) -> Any:
    kind = tuple if tree[_TAG] == "tuple" else Size
    return kind(reader.decode(item, f"{path}.{i}") for i, item in enumerate(tree["items"]))


def _decode_array(reader: TreeReader, tree: dict[str, Any], path: str) -> Any:
    array = reader.tensor(tree, path).numpy()
    return array if tree[_TAG] == "array" else array[()]


_DECODERS: dict[str, Callable[[TreeReader, dict[str, Any], str], Any]] = {
    "dict": _decode_dict,
    "ordered": _decode_dict,
    "tuple": _decode_items,
    "size": _decode_items,
    "tensor": TreeReader.tensor,
    "sparse": TreeReader.sparse,
    "nested": TreeReader.nested,
    "strided nested": TreeReader.strided_nested,
    "array": _decode_array,
    "scalar": _decode_array,
    "float": lambda reader, tree, path: float(tree["value"]),
    "complex": lambda reader, tree, path: complex(float(tree["value"][0]), float(tree["value"][1])),
    "bytes": lambda reader, tree, path: base64.b64decode(tree["value"], validate=True),
    "dtype": lambda reader, tree, path: DTYPES[tree["value"]],
    "device": lambda reader, tree, path: device(tree["value"]),
}

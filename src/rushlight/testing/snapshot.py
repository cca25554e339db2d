"""Sample inputs as plain data: a picture of torch arguments from which any backend builds fresh tensors.

In:  nested arguments holding torch tensors, tokens (dtype, device, ...) and functions.
Out: the same tree with every tensor replaced by a `TensorSpec` over a NumPy copy of its storage, and every
     other torch object wrapped in `Foreign`. Python values stay as they are.

Invariants
- A snapshot shares no memory with the tensors it was taken of; tensors that shared a storage share a
  `StorageSpec`.
- Size, stride, storage offset and requires_grad are kept exactly; conjugate and negative bits are resolved.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import torch

# dtypes that NumPy does not know: the integer view through which the bytes travel, and the array type.
_VIA_INTEGER: dict[torch.dtype, tuple[torch.dtype, Any]] = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fnuz: (torch.uint8, ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2fnuz: (torch.uint8, ml_dtypes.float8_e5m2fnuz),
    torch.float8_e8m0fnu: (torch.uint8, ml_dtypes.float8_e8m0fnu),
    torch.complex32: (torch.int32, ml_dtypes.complex32),
}
_NUMPY_RANK = 64  # NumPy's limit on dimensions; torch has none


@dataclass(frozen=True, eq=False)
class StorageSpec:
    """All elements of one storage, in one dtype."""

    array: np.ndarray
    shared: bool = False  # more than one tensor of the snapshot lies on it


@dataclass(frozen=True, eq=False)
class TensorSpec:
    storage: StorageSpec
    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool
    device: str = "cpu"

    @property
    def is_plain(self) -> bool:
        """Contiguous, alone on its storage and within NumPy's rank, so it can be built without as_strided."""
        return (
            self.offset == 0
            and len(self.size) <= _NUMPY_RANK
            and self.stride == _contiguous(self.size)
            and self.storage.array.size == math.prod(self.size)
        )


@dataclass(frozen=True, eq=False)
class SparseSpec:
    """A sparse tensor by its parts, in the order its constructor takes them."""

    layout: str
    parts: tuple[TensorSpec, ...]
    size: tuple[int, ...]
    requires_grad: bool


@dataclass(frozen=True, eq=False)
class Foreign:
    """A torch object that is no tensor: a dtype, a device, a function, a module."""

    value: Any


def take(tree: Any) -> Any:
    """The snapshot of an argument tree."""
    return map_tree(_Camera().leaf, tree)


def tensors(snapshot: Any) -> Iterator[TensorSpec]:
    """The dense tensors of a snapshot, in the order of the tree."""
    found: list[TensorSpec] = []

    def visit(leaf: Any) -> None:
        if isinstance(leaf, TensorSpec):
            found.append(leaf)

    map_tree(visit, snapshot)
    yield from found


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with every leaf replaced; lists, tuples, named tuples, dicts and slices are walked through."""
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, slice):
        return slice(*(map_tree(function, part) for part in (tree.start, tree.stop, tree.step)))
    if type(tree) is list:
        return [map_tree(function, item) for item in tree]
    if type(tree) is tuple:
        return tuple(map_tree(function, item) for item in tree)
    return function(tree)


class _Camera:
    """Remembers the storages of one snapshot, so that sharing is kept."""

    def __init__(self) -> None:
        self.storages: dict[tuple[int, torch.dtype], list[Any]] = {}

    def leaf(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if is_foreign(value):
            return Foreign(value)
        return value

    def tensor(self, tensor: torch.Tensor) -> TensorSpec | SparseSpec:
        requires_grad = tensor.requires_grad
        tensor = tensor.detach()
        if tensor.layout != torch.strided:
            return self.sparse(tensor, requires_grad)
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        storage = self.storage(tensor)
        return TensorSpec(
            storage,
            dtype_name(tensor.dtype),
            tuple(tensor.shape),
            tensor.stride(),
            tensor.storage_offset(),
            requires_grad,
            tensor.device.type,
        )

    def storage(self, tensor: torch.Tensor) -> StorageSpec:
        untyped = tensor.untyped_storage()
        key = (untyped._cdata, tensor.dtype)
        if key in self.storages:
            spec: StorageSpec = self.storages[key][0]
            object.__setattr__(spec, "shared", True)
            return spec
        flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(untyped)
        spec = StorageSpec(
            to_array(flat if flat.device.type == "cpu" else torch.zeros_like(flat, device="cpu")).copy()
        )
        self.storages[key] = [spec, untyped]  # keeps the storage alive, so that its address stays its name
        return spec

    def sparse(self, tensor: torch.Tensor, requires_grad: bool) -> SparseSpec:
        layout = str(tensor.layout).removeprefix("torch.")
        if tensor.layout == torch.sparse_coo:
            parts = [tensor._indices(), tensor._values()]
        elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        else:
            parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
        specs = tuple(self.tensor(part) for part in parts)
        return SparseSpec(layout, specs, tuple(tensor.shape), requires_grad)  # type: ignore[arg-type]


def is_foreign(value: Any) -> bool:
    """Whether a value means something to torch alone and must be translated for another backend."""
    if value is None or isinstance(
        value, bool | int | float | complex | str | bytes | np.ndarray | np.generic
    ):
        return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
        return True
    return type(value).__module__.partition(".")[0] == "torch"


def dtype_name(dtype: Any) -> str:
    """torch.float32 or rushlight.float32 -> "float32"."""
    return str(dtype).rpartition(".")[2]


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A dense CPU tensor as an array, without a copy where NumPy allows it; complex32 widens to complex64."""
    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if tensor.dtype in _VIA_INTEGER:
        integer, array_type = _VIA_INTEGER[tensor.dtype]
        return tensor.contiguous().view(integer).numpy().view(array_type)
    if tensor.dtype == torch.complex32:
        tensor = tensor.to(torch.complex64)
    return tensor.numpy()


def from_array(array: np.ndarray, dtype: str) -> torch.Tensor:
    """A torch tensor that shares the memory of `array`, which holds elements of the named dtype."""
    wanted = getattr(torch, dtype)
    if wanted in _VIA_INTEGER:
        integer, _ = _VIA_INTEGER[wanted]
        carrier = np.int16 if integer == torch.int16 else np.uint8
        return torch.from_numpy(array.view(carrier)).view(wanted)
    tensor = torch.from_numpy(array)
    return tensor if tensor.dtype == wanted else tensor.to(wanted)


def _contiguous(size: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for extent in reversed(size):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))

"""The two sides of a comparison: torch, the oracle, and a backend under test that spells torch's API.

A backend builds tensors from snapshots, finds its counterpart of a torch function, and describes results as
plain data. `RushlightBackend` is the product. `TorchBackend` maps torch to torch: as the reference side of
every comparison, and in the self-test as the backend under test, which proves that the harness itself is
right.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from . import snapshot
from .outcome import TensorOutcome, Token, describe_sequence
from .snapshot import Foreign, SparseSpec, StorageSpec, TensorSpec, dtype_name, map_tree
from .translate import Translator

_SPARSE_CONSTRUCTORS = {
    "sparse_coo": "sparse_coo_tensor",
    "sparse_csr": "sparse_csr_tensor",
    "sparse_csc": "sparse_csc_tensor",
    "sparse_bsr": "sparse_bsr_tensor",
    "sparse_bsc": "sparse_bsc_tensor",
}


class Memory:
    """The storages of the tensors of one call, to see afterwards what was written to and what is shared."""

    def __init__(self) -> None:
        self.copies: list[tuple[np.ndarray, StorageSpec]] = []

    def copy(self, storage: StorageSpec) -> np.ndarray:
        array = storage.array.copy()
        self.copies.append((array, storage))
        return array

    def changed(self) -> bool:
        """Whether the call wrote to any of its inputs."""
        return any(array.tobytes() != storage.array.tobytes() for array, storage in self.copies)

    def shares(self, outcome: TensorOutcome) -> bool:
        """Whether a result lies in the memory of an input."""
        result = outcome.array
        return result is not None and any(np.may_share_memory(result, array) for array, _ in self.copies)


class Backend:
    """What the harness needs of a tensor library that spells torch's API under `namespace`."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace
        self.name: str = namespace.__name__
        self.translate = Translator(namespace)

    def compile(self, function: Callable[..., Any], dynamic: bool = False) -> Callable[..., Any]:
        return self.namespace.compile(function, fullgraph=True, dynamic=dynamic)

    # -- tensors ---------------------------------------------------------------------------------------

    def from_array(self, array: np.ndarray, dtype: str) -> Any:
        """A 1-d (or contiguous n-d) tensor sharing the memory of `array`."""
        raise NotImplementedError

    def to_array(self, tensor: Any) -> np.ndarray:
        raise NotImplementedError

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, self.namespace.Tensor)

    def build(
        self, tree: Any, *, device: str = "cpu", requires_grad: bool = False, memory: Memory | None = None
    ) -> Any:
        """Fresh tensors, and translated tokens and functions, from a snapshot.

        With `requires_grad`, the tensors that required it in the snapshot do so again. `memory` is told of
        every storage that was made.
        """
        storages: dict[int, Any] = {}
        memory = Memory() if memory is None else memory

        def leaf(value: Any) -> Any:
            if isinstance(value, TensorSpec):
                tensor = self._dense(value, storages, memory)
            elif isinstance(value, SparseSpec):
                tensor = self._sparse(value, storages, memory)
            elif isinstance(value, Foreign):
                return self._token(value.value, device)
            else:
                return value
            place = device if isinstance(value, SparseSpec) or value.device == "cpu" else value.device
            if place != "cpu":
                tensor = tensor.to(place)
            return tensor.requires_grad_() if requires_grad and value.requires_grad else tensor

        return map_tree(leaf, tree)

    def _token(self, value: Any, device: str) -> Any:
        if isinstance(value, torch.device):
            value = torch.device(device)
        return self.translate(value)

    def _dense(self, spec: TensorSpec, storages: dict[int, Any], memory: Memory) -> Any:
        if spec.is_plain and not spec.storage.shared:
            return self.from_array(memory.copy(spec.storage).reshape(spec.size), spec.dtype)
        if id(spec.storage) not in storages:
            storages[id(spec.storage)] = self.from_array(memory.copy(spec.storage), spec.dtype)
        return storages[id(spec.storage)].as_strided(spec.size, spec.stride, spec.offset)

    def _sparse(self, spec: SparseSpec, storages: dict[int, Any], memory: Memory) -> Any:
        constructor = self.translate.resolve(_SPARSE_CONSTRUCTORS[spec.layout])
        parts = [self._dense(part, storages, memory) for part in spec.parts]
        return constructor(*parts, spec.size)

    # -- results ---------------------------------------------------------------------------------------

    def describe(self, value: Any) -> Any:
        """A result as plain data; see `outcome`."""
        if self.is_tensor(value):
            return self._describe_tensor(value)
        if isinstance(value, list | tuple):
            return describe_sequence(value, self.describe)
        if isinstance(value, dict):
            return {key: self.describe(item) for key, item in value.items()}
        if value is None or isinstance(value, bool | int | float | complex | str):
            return value
        return Token(dtype_name(value))

    def _describe_tensor(self, tensor: Any) -> TensorOutcome:
        layout = dtype_name(tensor.layout)
        device = tensor.device.type
        strided = layout == "strided"
        if device == "meta":
            array = None
        else:
            array = self.to_array(tensor if strided else tensor.to_dense())
        return TensorOutcome(
            dtype_name(tensor.dtype),
            tuple(tensor.shape),
            tuple(tensor.stride()) if strided else None,
            device,
            layout,
            array,
        )

    def flat_tensors(self, value: Any) -> list[Any]:
        """The tensors of a result tree, left to right."""
        if self.is_tensor(value):
            return [value]
        if isinstance(value, list | tuple):
            return [tensor for item in value for tensor in self.flat_tensors(item)]
        if isinstance(value, dict):
            return [tensor for item in value.values() for tensor in self.flat_tensors(item)]
        return []


class TorchBackend(Backend):
    """torch under its own name."""

    def __init__(self) -> None:
        super().__init__(torch)

    def compile(self, function: Callable[..., Any], dynamic: bool = False) -> Callable[..., Any]:
        return function  # the oracle is compared as it is; its compiler is not what is tested

    def from_array(self, array: np.ndarray, dtype: str) -> torch.Tensor:
        return snapshot.from_array(array, dtype)

    def to_array(self, tensor: torch.Tensor) -> np.ndarray:
        return snapshot.to_array(tensor)


class RushlightBackend(Backend):
    """The product."""

    def __init__(self) -> None:
        super().__init__(importlib.import_module("rushlight"))

    def from_array(self, array: np.ndarray, dtype: str) -> Any:
        return self.namespace.from_numpy(array)

    def to_array(self, tensor: Any) -> np.ndarray:
        return tensor.detach().resolve_conj().resolve_neg().numpy()

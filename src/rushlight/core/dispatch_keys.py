"""PyTorch's dispatch keys, by name: what rules of operators are registered for, and what a program may exclude.

Dispatch here has keys of its own (`tensor.py`: AUTOGRAD, TRACED, ...); a `DispatchKey` is a name of PyTorch's.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

_BACKENDS = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta"
_FUNCTIONALITIES = ("", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "Autograd")
_ALIASES = (
    "Autograd CompositeImplicitAutograd CompositeImplicitAutogradNestedTensor CompositeExplicitAutograd "
    "CompositeExplicitAutogradNonFunctional"
)
_TRANSFORMS = (
    "FuncTorchBatched FuncTorchBatchedDecomposition FuncTorchVmapMode FuncTorchGradWrapper "
    "FuncTorchDynamicLayerBackMode FuncTorchDynamicLayerFrontMode Functionalize"
)
_OTHERS = (
    "Undefined Dense Quantized Sparse SparseCsr NestedTensor BackendSelect Python Conjugate Negative "
    "ZeroTensor ADInplaceOrView AutogradFunctionality AutogradOther AutogradNestedTensor AutocastCPU "
    "AutocastCUDA AutocastHPU AutocastIPU AutocastMPS AutocastMTIA AutocastXLA AutocastXPU "
    "AutocastPrivateUse1 PreDispatch PythonDispatcher PythonTLSSnapshot"
)
BACKENDS, ALIASES, TRANSFORMS = _BACKENDS.split(), _ALIASES.split(), _TRANSFORMS.split()
_PER_BACKEND = [functionality + backend for functionality in _FUNCTIONALITIES for backend in BACKENDS]

DispatchKey = enum.Enum("DispatchKey", [*_OTHERS.split(), *_PER_BACKEND, *TRANSFORMS, *ALIASES])  # type: ignore[misc]
RECORDING = frozenset(  # without one of these nothing is recorded, whatever the backend
    DispatchKey[f"Autograd{backend}"] for backend in (*BACKENDS, "Functionality")
)


class DispatchKeySet:
    """A set of dispatch keys that does not change."""

    def __init__(self, keys: DispatchKey | Iterable[DispatchKey] = ()) -> None:
        self._keys = frozenset((keys,) if isinstance(keys, DispatchKey) else keys)

    def has(self, key: DispatchKey | str) -> bool:
        return (DispatchKey[key] if isinstance(key, str) else key) in self._keys

    def add(self, key: DispatchKey) -> DispatchKeySet:
        return DispatchKeySet(self._keys | {key})

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        return DispatchKeySet(self._keys - {key})

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(sorted(self._keys, key=lambda key: key.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"

"""Subclasses of Tensor that files may hold."""

from __future__ import annotations

from collections.abc import Callable

from ..core.tensor import Tensor

TENSOR_CLASSES: dict[str, Callable[[Tensor], Tensor]] = {}


def register_tensor_class(name: str, build: Callable[[Tensor], Tensor]) -> None:
    """Let instances of the Tensor subclass `name` be saved; `build` makes one again from a plain tensor."""
    if name in TENSOR_CLASSES:
        raise ValueError(f"the tensor class {name} is already registered")
    TENSOR_CLASSES[name] = build

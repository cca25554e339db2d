"""Subclasses of Tensor that files may hold."""

from __future__ import annotations

from collections.abc import Callable

from ..core.tensor import Tensor
from ..nn.parameter import parameter_of

TENSOR_CLASSES: dict[str, Callable[[Tensor], Tensor]] = {"Parameter": parameter_of}


def register_tensor_class(name: str, build: Callable[[Tensor], Tensor]) -> None:
    """Let instances of the Tensor subclass `name` be saved; `build` makes one again from a plain tensor."""
    if name in TENSOR_CLASSES:
        raise ValueError(f"the tensor class {name} is already registered")
    TENSOR_CLASSES[name] = build

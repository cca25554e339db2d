"""Subclasses of Tensor that files may hold."""

from __future__ import annotations

from collections.abc import Callable

from ..core.tensor import Tensor
from ..nn.parameter import parameter_of

TENSOR_CLASSES: dict[str, Callable[[Tensor], Tensor]] = {"Parameter": parameter_of}


def register_tensor_class(name: str, build: Callable[[Tensor], Tensor]) -> None:
    """Let instances of the Tensor subclass `name` be saved; `build` makes one again from a plain tensor.

    >>> import io
    >>> class Labelled(rl.Tensor):
    ...     pass
    >>> rl.serialization.register_tensor_class("Labelled", lambda tensor: tensor.as_subclass(Labelled))
    >>> file = io.BytesIO()
    >>> rl.save(rl.ones(2).as_subclass(Labelled), file)
    >>> _ = file.seek(0)
    >>> type(rl.load(file)).__name__
    'Labelled'
    """
    if name in TENSOR_CLASSES:
        raise ValueError(f"the tensor class {name} is already registered")
    TENSOR_CLASSES[name] = build

"""What `torch._C._functorch` tells of transforms and of the tensors inside of them."""

from __future__ import annotations

import contextlib
from typing import Any

from ..autograd.levels import has_escaped
from ..batching.vmap import BatchedTensor
from ..core.functionalize import FunctionalTensor
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..core.transforms import TransformType, levels_tracking

__all__ = [
    "DisableFuncTorch",
    "TransformType",
    "dlevel",
    "get_unwrapped",
    "is_batchedtensor",
    "is_functionaltensor",
    "maybe_current_level",
    "maybe_get_bdim",
]

DisableFuncTorch = contextlib.nullcontext


def is_batchedtensor(tensor: Tensor) -> bool:
    return isinstance(tensor, BatchedTensor)


def is_functionaltensor(tensor: Tensor) -> bool:
    return isinstance(tensor, FunctionalTensor)


def get_unwrapped(tensor: Tensor) -> Any:
    """What a batched tensor wraps, its batch dimension included, or a functional one, its writes included."""
    if isinstance(tensor, FunctionalTensor):
        return tensor._trace.value_of(tensor)
    return tensor._value if isinstance(tensor, BatchedTensor) else tensor


def maybe_get_bdim(tensor: Tensor) -> int:
    """The batch dimension of a batched tensor; -1 if it has none."""
    return tensor._bdim if isinstance(tensor, BatchedTensor) and tensor._bdim is not None else -1


def dlevel(tensor: Tensor) -> int:
    """The level of the innermost derivative that follows `tensor`; 0 if none does, and -1 if it was computed
    inside of one that has ended since."""
    levels = levels_tracking(tensor)
    return levels[-1] if levels else -1 if has_escaped(tensor) else 0


def maybe_current_level() -> int | None:
    """The number of the innermost open transform."""
    return len(MODES.transforms) or None


def _add_batch_dim(tensor: Tensor, bdim: int, level: int) -> Tensor:
    """`tensor` as a batched tensor of the vmap that has this number."""
    batched: Tensor = MODES.transforms[level - 1].lift(tensor, bdim)
    return batched


def _unwrap_for_grad(tensor: Tensor, level: int) -> Tensor:
    """What there is of `tensor` below a level of reverse mode: reverse mode wraps nothing here."""
    return tensor


def _wrap_for_grad(tensor: Tensor, level: int) -> Tensor:
    return tensor


def _is_vmap_fallback_enabled() -> bool:
    return False

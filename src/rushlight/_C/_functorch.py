"""What `torch._C._functorch` tells of tensors inside of vmap."""

from __future__ import annotations

import contextlib
from typing import Any

from ..batching.vmap import BatchedTensor
from ..core.tensor import Tensor

DisableFuncTorch = contextlib.nullcontext


def is_batchedtensor(tensor: Tensor) -> bool:
    return isinstance(tensor, BatchedTensor)


def get_unwrapped(tensor: Tensor) -> Any:
    """What a batched tensor wraps, its batch dimension included."""
    return tensor._value if isinstance(tensor, BatchedTensor) else tensor


def maybe_get_bdim(tensor: Tensor) -> int:
    """The batch dimension of a batched tensor; -1 if it has none."""
    return tensor._bdim if isinstance(tensor, BatchedTensor) and tensor._bdim is not None else -1


def _is_vmap_fallback_enabled() -> bool:
    return False

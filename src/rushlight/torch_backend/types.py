"""PyTorch's dtypes, layouts and formats as ours."""

from __future__ import annotations

from typing import Any

import torch

from ..core import tokens
from ..core.dtypes import DTYPES, DType

TO_OURS: dict[torch.dtype, DType] = {
    getattr(torch, name): dtype
    for name, dtype in DTYPES.items()
    if isinstance(getattr(torch, name, None), torch.dtype)
}
TO_TORCH = {ours: theirs for theirs, ours in TO_OURS.items()}

_LAYOUTS = {torch.strided: tokens.strided}
_FORMATS = {
    getattr(torch, name): getattr(tokens, name)
    for name in ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
}


def is_known(value: Any) -> bool:
    """Whether native code can take a tensor, given as the fake tensor that describes it; also for tensors in
    tuples. Anything else is known."""
    if isinstance(value, (tuple, list)):
        return all(map(is_known, value))
    if not isinstance(value, torch.Tensor):
        return True
    return value.layout is torch.strided and value.device.type == "cpu" and value.dtype in TO_OURS


def to_ours(argument: Any) -> Any:
    """An argument of an operator that is no tensor and no size."""
    if isinstance(argument, torch.dtype):
        return TO_OURS[argument]
    if isinstance(argument, torch.device):
        return tokens.device(argument.type)
    if isinstance(argument, torch.layout):
        return _LAYOUTS[argument]
    if isinstance(argument, torch.memory_format):
        return _FORMATS[argument]
    return argument

"""Operators that PyTorch's own modules call as `torch._C._nn`."""

from __future__ import annotations

from typing import Any

from .._api import link as _functions
from ..nn import functional as _functional

# those that are functions of nn.functional under this name
_PUBLIC = (
    "avg_pool2d", "avg_pool3d", "elu_", "gelu", "hardtanh_", "leaky_relu_", "linear", "one_hot",
    "scaled_dot_product_attention", "softplus", "softshrink",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(_functional, name)
    if name == "log_sigmoid":
        return _functional.logsigmoid
    try:
        return getattr(_functions.ops.aten, name)  # type: ignore[attr-defined]
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None

"""Operators that PyTorch's own modules call as `torch._C._nn`."""

from __future__ import annotations

from typing import Any

from .._api import link as _functions


def __getattr__(name: str) -> Any:
    try:
        return getattr(_functions.ops.aten, name)  # type: ignore[attr-defined]
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None

"""vmap under the name it had before `func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .func.vmap import vmap


def _vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    return vmap(func, in_dims, out_dims)


__all__ = ["vmap"]

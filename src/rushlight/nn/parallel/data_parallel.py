"""Data parallel modules; there is one device."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module
from ..modules.parallel import DataParallel

__all__ = ["DataParallel", "data_parallel"]


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """`module` on its inputs.

    >>> rl.nn.parallel.data_parallel(nn.Linear(2, 3), rl.ones(5, 2)).shape
    rushlight.Size([5, 3])
    """
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))

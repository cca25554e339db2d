"""skip_init."""

from __future__ import annotations

import inspect
from typing import Any

from ...core.errors import check
from ..modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters are not initialised.

    >>> nn.utils.skip_init(nn.Linear, 2, 3)
    Linear(in_features=2, out_features=3, bias=True)
    """
    check(issubclass(module_cls, Module), f"Expected a Module; got {module_cls}")
    check(
        "device" in inspect.signature(module_cls).parameters,
        "Module must support a 'device' arg to skip initialization",
    )
    place = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=place)

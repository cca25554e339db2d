"""DataParallel: there is one device, so that it is the module itself."""

from __future__ import annotations

from typing import Any

from .module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Calls `module`; its state dict has the names that data parallel training gives them.

    >>> nn.DataParallel(nn.Linear(2, 3))(rl.ones(5, 2)).shape
    rushlight.Size([5, 3])
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.dim = dim
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

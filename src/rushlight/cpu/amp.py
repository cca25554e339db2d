"""The older names of `rushlight.amp` for the processor."""

from __future__ import annotations

import warnings

from .. import amp
from ..core.dtypes import DType, bfloat16

__all__ = ["GradScaler", "autocast"]


def _warn(name: str) -> None:
    warnings.warn(
        f"`torch.cpu.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}('cpu', args...)` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """`amp.autocast("cpu", ...)`."""

    def __init__(self, enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True) -> None:
        _warn("autocast")
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`amp.GradScaler("cpu", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _warn("GradScaler")
        super().__init__(
            "cpu",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )

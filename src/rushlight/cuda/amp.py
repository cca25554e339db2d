"""The older names of `rushlight.amp` for CUDA: without a device they warn or are switched off there."""

from __future__ import annotations

import functools
from typing import Any

from .. import amp
from ..core.dtypes import DType, float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`amp.autocast("cuda", ...)`."""

    def __init__(self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`amp.GradScaler("cuda", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__(
            "cuda",
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=enabled,
        )


custom_fwd: Any = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd: Any = functools.partial(amp.custom_bwd, device_type="cuda")

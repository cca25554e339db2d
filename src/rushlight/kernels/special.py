"""Special functions: eager kernels on NumPy arrays. Most are instructions, see handler_special.py."""

from __future__ import annotations

import numpy as np

from ..core.lazy import LazyModule
from ..core.registry import kernel

special = LazyModule("scipy.special")


@kernel("_airy_ai_slope")
def airy_ai_slope(x: np.ndarray) -> np.ndarray:
    """SciPy gives up beyond a million: 0 on the right, the leading oscillation on the left."""
    x = x.astype(np.float64)
    distance = np.abs(x)
    far = np.isfinite(x) & (distance > 1e6)
    phase = 2 / 3 * distance * np.sqrt(distance) + np.pi / 4
    leading = np.where(x > 0, 0.0, -np.sqrt(np.sqrt(distance) / np.pi) * np.cos(phase))
    return np.where(far, leading, special.airy(np.where(far, 0.0, x))[1])

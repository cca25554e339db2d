"""What tests of views and writes share: tensors of either library."""

from __future__ import annotations

from typing import Any

import numpy as np


def ramp(T: Any, *shape: int, dtype: str = "float32") -> Any:
    """0, 1, 2, ... in memory of its own."""
    return T.from_numpy(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype).copy())

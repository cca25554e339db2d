"""What deterministic mode does about memory that nobody has written: `fill_uninitialized_memory`."""

from __future__ import annotations

import sys
import types
from typing import Any

from ..core.determinism import DETERMINISM, set_fill


class _Deterministic(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether uninitialised memory holds NaN or the largest integer in deterministic mode."""
        return DETERMINISM.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: Any) -> None:
        set_fill(mode)


sys.modules[__name__].__class__ = _Deterministic

"""Deterministic mode: whether operators may give different results in different runs, and what happens then.

Every operator here gives the same result in every run, so the mode changes two things, which programs written
for PyTorch count on: operators without a deterministic form there are refused or warned of (`alert`), and
memory that nobody has written holds NaN or the largest integer (`DETERMINISM.fills`), so that a read shows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .dtypes import Category, DType


class _Determinism:
    enabled = False
    warn_only = False
    fill = True  # uninitialised memory, while enabled
    fills = False  # enabled and fill

    @property
    def key(self) -> tuple[bool, ...]:
        """What compiled programs depend on."""
        return self.enabled, self.warn_only, self.fills


DETERMINISM = _Determinism()
_on_change: list[Callable[[], None]] = []


def on_change(listener: Callable[[], None]) -> None:
    _on_change.append(listener)


def set_determinism(
    *, enabled: bool | None = None, warn_only: bool | None = None, fill: bool | None = None
) -> None:
    """Change what is given, and tell whoever depends on it."""
    state = DETERMINISM
    state.enabled = state.enabled if enabled is None else enabled
    state.warn_only = state.warn_only if warn_only is None else warn_only
    state.fill = state.fill if fill is None else fill
    state.fills = state.enabled and state.fill
    for listener in _on_change:
        listener()


def set_fill(mode: object) -> None:
    """Whether memory that nobody has written is filled in deterministic mode."""
    if not isinstance(mode, bool):
        raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
    set_determinism(fill=mode)


def alert(name: str) -> None:
    """Refuse an operator that PyTorch has no deterministic implementation of, or warn of it."""
    if not DETERMINISM.enabled:
        return
    message = (
        f"{name} does not have a deterministic implementation, but you set "
        "use_deterministic_algorithms(True). Turn determinism off for this operation, or pass "
        "warn_only=True if a warning is enough"
    )
    if not DETERMINISM.warn_only:
        raise RuntimeError(message)
    warnings.warn(message, UserWarning, stacklevel=3)


def undefined(dtype: DType) -> Any:
    """The value of memory that nobody has written, in deterministic mode."""
    if dtype.category in (Category.FLOATING, Category.COMPLEX):
        return float("nan")
    return True if dtype.category is Category.BOOL else int(np.iinfo(dtype.numpy).max)

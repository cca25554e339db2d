"""MKL, which is not called."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    return False

"""oneDNN, which is not called."""

from __future__ import annotations

__all__ = ["enabled", "is_available"]

enabled = False


def is_available() -> bool:
    return False

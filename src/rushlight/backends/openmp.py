"""OpenMP, which is not used: threads are the runtime's own."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    return False

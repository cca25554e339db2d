"""Processes that train together: not available, as in a PyTorch that was built without it."""

from __future__ import annotations

__all__ = ["is_available", "is_initialized"]


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False

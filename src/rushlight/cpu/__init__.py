"""The processor as a device like others: one, always there, never behind."""

from __future__ import annotations

from typing import Any

from . import amp

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    return None


def synchronize(device: Any = None) -> None:
    """Operators have run when their call returns."""

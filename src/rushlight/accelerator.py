"""The accelerator of this machine, of which there is none."""

from __future__ import annotations

from typing import Any

from .core.tokens import device

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "is_available",
    "set_device_index",
    "synchronize",
]


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    return None


def current_device_index() -> int:
    raise RuntimeError("there is no accelerator; ask accelerator.is_available() first")


def set_device_index(device: Any) -> None:
    current_device_index()


def synchronize(device: Any = None) -> None:
    current_device_index()

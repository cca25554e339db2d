"""cuDNN, which is not called."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "version",
]

enabled = True
deterministic = False
benchmark = False
benchmark_limit: int | None = None
allow_tf32 = True


def is_available() -> bool:
    return False


def version() -> int | None:
    return None


def is_acceptable(tensor: Any) -> bool:
    return False


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """A context with these switches."""
    new = {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
    }
    old = {name: globals()[name] for name in new}
    globals().update(new)
    try:
        yield
    finally:
        globals().update(old)

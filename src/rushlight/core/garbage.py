"""Python's collector of cyclic garbage, held back while much is made that stays or is not cyclic."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_PAUSED: list[bool] = []  # pauses of a collector that was on before


@contextmanager
def uncollected() -> Iterator[None]:
    """No automatic collection inside: it would look through everything again and again, and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    if enabled:
        _PAUSED.append(True)
    try:
        yield
    finally:
        if enabled:
            _PAUSED.pop()
            gc.enable()


def collect_again() -> None:
    """Let the collector go on inside of `uncollected`: what runs from here on may take long."""
    if _PAUSED:
        gc.enable()

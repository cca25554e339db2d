"""What a program prints: every call of it must print again, so that there is no graph of one that does.

While a capture is open in some thread, `print` is a function that asks the capture of its thread first.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.dispatch import AMBIENT

_lock = threading.Lock()
_open = 0
_print = builtins.print


def _asking(*args: Any, **kwargs: Any) -> None:
    if AMBIENT.trace is not None:
        AMBIENT.trace.refuse("it prints")
    _print(*args, **kwargs)


@contextmanager
def watched() -> Iterator[None]:
    """Let captures know of `print`."""
    global _open, _print
    with _lock:
        if builtins.print is not _asking:
            _print, builtins.print = builtins.print, _asking
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if not _open and builtins.print is _asking:
                builtins.print = _print

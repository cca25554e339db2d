"""Red zones: a mode in which compiled programs run so that every write outside of their buffers is found.

With RUSHLIGHT_GUARD=1 in the environment, or inside of `guarding()`, each buffer of a call (inputs, outputs,
and every temporary, which share the workspace otherwise) lies alone between two zones of a known pattern,
which are looked at after every segment. The pattern is NaN for floats, so a value read from outside of a
buffer shows in the results. Row temporaries, on the stack of generated code, have zones in programs that were
compiled in this mode; the code looks at them itself and reports an error. Slow; for tests and for finding
bugs. This module has the mode and the pattern, runtime/guarded_run.py the calls.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

ZONE = 512  # bytes on each side
PATTERN = 0xFF
ROW_ZONE = 64  # bytes on each side of a row temporary

_enabled = bool(os.environ.get("RUSHLIGHT_GUARD"))


_listeners: list[Callable[[], None]] = []


def enabled() -> bool:
    return _enabled


def on_change(listener: Callable[[], None]) -> None:
    """Have `listener` called when the mode is entered or left."""
    _listeners.append(listener)


@contextlib.contextmanager
def guarding() -> Iterator[None]:
    """Run compiled programs between guard zones."""
    before = _enabled
    _set(True)
    try:
        yield
    finally:
        _set(before)


def _set(value: bool) -> None:
    global _enabled
    _enabled = value
    for listener in _listeners:
        listener()

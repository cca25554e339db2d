"""What a program may do while it is captured without having asked for it: nothing that a graph would leave out.

Who calls `rushlight.compile` knows that a captured function is not run again. Code that is compiled on its own
must not change what it does: a log that is written, a warning that is shown, a file that is opened or a pause has
no place in a graph. (What prints, reads a clock, draws numbers or advances an iterator, a file for example, no
capture takes.) Logs and warnings are seen where all of them pass, and the rest is what Python tells its auditors.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ..core.dispatch import AMBIENT

AUDITED = ("open", "os.", "shutil.", "socket.", "subprocess.", "tempfile.", "time.sleep", "builtins.input")
PASSED = (  # functions that all of them pass: where, its name, what it does
    (logging.Logger, "handle", "it writes a log"),
    (warnings, "_showwarnmsg", "it shows a warning"),
)

_lock = threading.Lock()
_open = 0  # captures that ask
_originals: list[Callable[..., Any]] = []
_auditing = False


@contextmanager
def refused() -> Iterator[None]:
    """Have captures leave a program that does such a thing."""
    global _open
    with _lock:
        if not _open:
            _watch()
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            if not _open:
                for (owner, name, _), original in zip(PASSED, _originals, strict=True):
                    setattr(owner, name, original)


def _watch() -> None:
    global _auditing
    _originals[:] = [getattr(owner, name) for owner, name, _ in PASSED]
    for (owner, name, what), original in zip(PASSED, _originals, strict=True):
        setattr(owner, name, _refusing(original, what))
    if not _auditing:  # an auditor stays as long as the process does
        sys.addaudithook(_audit)
        _auditing = True


def _refusing(original: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def asking(*args: Any, **kwargs: Any) -> Any:
        if AMBIENT.trace is not None:
            AMBIENT.trace.refuse(what)
        return original(*args, **kwargs)

    return asking


def _audit(event: str, arguments: Any) -> None:
    if _open and event.startswith(AUDITED) and AMBIENT.trace is not None and _asked_by_program():
        AMBIENT.trace.refuse(f"it does what must happen in every call ({event})")


def _asked_by_program() -> bool:
    """Whether what happens is not of this package's own doing, such as an import or a look at a line of code."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == "rushlight":
            return False
        if package not in ("importlib", "linecache", "tokenize", "zipimport"):
            return True
        frame = frame.f_back
    return False

"""Work that is given up when it has become too long, or nobody waits for it any more.

A thread says with `giving_up` when its work is to end early; the compiler asks with `go_on` wherever it may be
for long. Work is given up between two steps, with nothing half done: an exception passes through all of it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class GivenUp(Exception):
    """Work has ended early. `again`: not for its own sake, it may be begun anew."""

    def __init__(self, reason: str, again: bool) -> None:
        super().__init__(reason)
        self.again = again


class _Local(threading.local):
    reason: Callable[[], GivenUp | None] | None = None


_local = _Local()


@contextlib.contextmanager
def giving_up(reason: Callable[[], GivenUp | None]) -> Iterator[None]:
    """Let work on this thread end with what `reason` gives, as soon as it gives something."""
    before, _local.reason = _local.reason, reason
    try:
        yield
    finally:
        _local.reason = before


def go_on() -> None:
    """Raise GivenUp if the work on this thread is to be given up."""
    if _local.reason is not None:
        found = _local.reason()
        if found is not None:
            raise found

"""Whether calls that are alike are to run the same kernel from now on.

Eager kernels may arrive in the background (docs/eager.md), with results that differ in the last bits. None does
in one of several ranks of a job, where it would come at another time in each, nor where results are compared bit
by bit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .dispatch import forget_runners

_holders: list[None] = []  # one for each who wants it so; a list, since threads may come and go at once


def is_held() -> bool:
    return bool(_holders)


def hold(steady: bool) -> None:
    """Let no kernel arrive from now on, or no longer. Each True is taken back by a False."""
    if steady:
        _holders.append(None)
    else:
        _holders.pop()
    if len(_holders) == int(steady):  # the first, or the last
        forget_runners()


@contextlib.contextmanager
def steady() -> Iterator[None]:
    """Let no kernel arrive meanwhile."""
    hold(True)
    try:
        yield
    finally:
        hold(False)

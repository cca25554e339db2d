"""What a process has one of, made when it is first asked for, by whichever thread that is."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Once(Generic[Made]):
    """Calls `make` once and gives what it gave; threads that ask meanwhile wait. `functools.cache` would let each
    of them make its own: two pools of threads, two linkers. Where `make` raises, the next call tries again."""

    def __init__(self, make: Callable[[], Made]) -> None:
        functools.update_wrapper(self, make)
        self._make = make
        self._made: list[Made] = []
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        """A lock that nobody holds: whoever held it before a fork is not in the child."""
        self._lock = threading.RLock()

    def __call__(self) -> Made:
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]

    def forget(self) -> None:
        """Let the next call make it anew."""
        self._made = []

"""Collectives under way.

A collective is a generator: it yields the requests it waits for, gets their statuses when they are complete, and
does the next step.
`Pending` runs one. Whoever waits for one moves all of them on, because another process may be waiting for the
next step of a collective that nobody waits for here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from typing import Any

from .mpi import DistBackendError, load, told

Steps = Generator[list[Any], list[Any], None]

PATIENCE = 0.05  # seconds of waiting after which a process sleeps between two looks
NAP = 100e-6

_under_way: dict[int, Pending] = {}
native_progress: list[Callable[[], None]] = []  # moves on collectives of compiled programs


class Pending:
    """A collective that has begun. `finish` runs on this thread once it has ended, before anyone is told so."""

    def __init__(
        self, name: str, steps: Steps, timeout: float | None = None, finish: Callable[[], None] | None = None
    ) -> None:
        self.name, self.timeout = name, timeout
        self._steps, self._finish = steps, finish
        self._requests: list[Any] = []
        self._statuses: list[Any] = []
        self.error: BaseException | None = None
        self.done = False
        _under_way[id(self)] = self
        self._step(first=True)

    def _step(self, first: bool = False) -> None:
        """Begin the next step, or end."""
        try:
            self._requests = next(self._steps) if first else self._steps.send(self._statuses)
            while not self._requests:
                self._requests = self._steps.send([])
            self._statuses = [load().Status() for _ in self._requests]
        except StopIteration:
            if self._finish is not None:
                self._finish()
            self._end(None)
        except BaseException as error:
            self._end(error)
            raise

    def _end(self, error: BaseException | None) -> None:
        self.done, self.error = True, error
        _under_way.pop(id(self), None)

    def advance(self) -> bool:
        """Go on as far as possible without waiting. Whether it has ended."""
        while not self.done and self._arrived():
            self._step()
        if self.error is not None:
            raise self.error
        return self.done

    def _arrived(self) -> bool:
        try:
            return bool(load().Request.Testall(self._requests, self._statuses))
        except load().Exception as error:
            failure = told(self.name, error.Get_error_code(), self._statuses)
            self._end(failure)
            raise failure from error

    def cancel(self) -> None:
        """Give up waiting for messages that nobody sends."""
        if not self.done:
            for request in self._requests:
                request.Cancel()
            self._end(None)

    def wait(self, timeout: float | None = None) -> None:
        """Return when it has ended; DistBackendError after `timeout` seconds."""
        timeout = self.timeout if timeout is None else timeout
        if self.advance():
            return
        began = time.monotonic()
        while not self.advance():
            progress(except_for=self)
            waited = time.monotonic() - began
            if timeout is not None and waited > timeout:
                raise DistBackendError(f"{self.name} timed out: not all processes took part in {timeout:g} s")
            if waited > PATIENCE:
                time.sleep(NAP)
            else:
                os.sched_yield()


def progress(except_for: Pending | None = None) -> None:
    """Move on all collectives that are under way."""
    for move_on in native_progress:
        move_on()
    python_progress(except_for)


def python_progress(except_for: Pending | None = None) -> None:
    """Move on those that were begun in Python."""
    if len(_under_way) > (except_for is not None):
        for pending in list(_under_way.values()):
            if pending is not except_for:
                pending.advance()


def drain(timeout: float) -> None:
    """End all collectives that are under way; those that do not end in `timeout` seconds are left."""
    deadline = time.monotonic() + timeout
    while _under_way and time.monotonic() < deadline:
        progress()
        os.sched_yield()

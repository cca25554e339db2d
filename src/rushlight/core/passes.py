"""A pass of the compiler, and how passes are run: timed, verified and shown in one way.

A pass takes what the pass before it made and returns what the next one takes; `compiler/pipeline.py` lists all
of them in the order in which they run. Each floor of the compiler declares its own: `graph/passes.py`,
`schedule/passes.py`, `plan/passes.py`.

Verification costs time that only tests, and people who look for a bug in a pass, want to spend: it runs where
RUSHLIGHT_VERIFY=1 is in the environment, or inside of `verifying()`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..logs import logger, wanted
from .giving_up import go_on
from .modes import MODES


@dataclass(frozen=True)
class Pass:
    """One step of the compiler."""

    name: str
    run: Callable[[Any], Any]
    verify: Callable[[Any], None] | None = None  # raises InternalError if what `run` returned is not valid
    show: Callable[[Any], str] | None = None  # what `run` returned, as text
    topic: str | None = None  # of RUSHLIGHT_LOG, under which the text is printed


@dataclass
class PassLog:
    """Which passes ran, in order, how long each took and, if `keep`, what it made, as text."""

    keep: bool = False
    names: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def run(self, step: Pass, value: Any) -> Any:
        """Run one pass on `value`."""
        result = self.timed(step.name, step.run, value)
        self.names.append(step.name)
        if VERIFY.on and step.verify is not None:
            step.verify(result)
        if step.show is not None:
            self._show(step, step.show, result)
        return result

    def timed(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Time something that is not a pass."""
        go_on()
        start = time.perf_counter()
        result = function(*args)
        end = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + end - start
        if MODES.profiler is not None:
            MODES.profiler.add(name, threading.get_ident(), 1e6 * start, 1e6 * end, category="compiler")
        return result

    def run_all(self, steps: Iterable[Pass], value: Any) -> Any:
        for step in steps:
            value = self.run(step, value)
        return value

    def _show(self, step: Pass, show: Callable[[Any], str], result: Any) -> None:
        printed = [topic for topic in (step.topic, "passes") if topic is not None and wanted(topic)]
        if not self.keep and not printed:
            return
        text = show(result)
        if self.keep:
            self.texts[step.name] = text
        for topic in printed:
            logger(topic).info("after %s\n%s", step.name, text)


class _Verification:
    on = os.environ.get("RUSHLIGHT_VERIFY", "") not in ("", "0")


VERIFY = _Verification()


@contextlib.contextmanager
def verifying(on: bool = True) -> Iterator[None]:
    """Verify after every pass that runs meanwhile."""
    saved, VERIFY.on = VERIFY.on, on
    try:
        yield
    finally:
        VERIFY.on = saved

"""`--report`: when a program ends, what was compiled, what was not and why, and the time beside eager calls.

Times are wall-clock times of this one run: of the calls of each piece, and from the end of one step of an
optimizer to the end of the next. The first call and calls that compiled something are left out of them.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TextIO

from ..logs import logger
from ..nn.modules.module import Module
from ..optim.optimizer import Optimizer
from .automatic import Piece

TOPICS = ("recompile", "breaks")


@dataclass
class Timing:
    """What calls of pieces of one name took, in seconds."""

    calls: int = 0
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)


class Report(logging.Handler):
    """Collects what is told of compiled functions and of calls of pieces, and prints it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.process = os.getpid()
        self.compiled: dict[str, list[str]] = {}  # by function, why each form of it was compiled
        self.eager: Counter[tuple[str, str]] = Counter()  # functions that run eagerly, and why
        self.timings: dict[str, Timing] = {}
        self.steps: list[tuple[float, int]] = []  # when steps of optimizers ended; compilations until then
        self.seconds = 0.0  # of calls of pieces that compiled something, or tried to
        for topic in TOPICS:
            logger(topic).addHandler(self)
            logger(topic).setLevel(logging.INFO)
            logger(topic).propagate = False

    @property
    def compilations(self) -> int:
        return sum(map(len, self.compiled.values()))

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and len(record.args) == 2:
            function: Any = record.args[0]
            name, reason = _name(function), str(record.args[1])
            if str(record.msg).startswith("compiled"):
                self.compiled.setdefault(name, []).append(reason)
            else:
                self.eager[name, reason] += 1

    def call(self, piece: Piece, args: Any, kwargs: Any) -> Any:
        """Call a piece, and keep what it took."""
        timing = self.timings.setdefault(_name(piece.function), Timing())
        compilations, began = self.compilations, time.perf_counter()
        try:
            return piece(args, kwargs)
        finally:
            ended = time.perf_counter()
            timing.calls += 1
            if self.compilations > compilations or piece.tried:
                self.seconds += ended - began
            elif piece.runs_compiled:
                timing.compiled.append(ended - began)
            elif timing.calls > 1:
                timing.eager.append(ended - began)
            if isinstance(piece.function.__self__, Optimizer):
                self.steps.append((ended, self.compilations))

    def print(self, program: str, file: TextIO | None = None) -> None:
        """Tell it, once, in the process that the program was started in."""
        if os.getpid() == self.process:
            print("\n".join(self._lines(program)), file=file or sys.stderr)

    def _lines(self, program: str) -> list[str]:
        lines = [f"rushlight run {program}", ""]
        if self.compiled:
            lines.append(f"compiled, {_counted(self.compilations, 'compilation')}, {self.seconds:.1f} s:")
            for name, reasons in self.compiled.items():
                lines += [f"  {name}", *(f"    {reason}" for reason in _distinct(reasons))]
        else:
            lines.append("nothing was compiled")
        if self.eager:
            lines += ["", "ran eagerly:"]
            lines += [f"  {name}: {reason}" for name, reason in self.eager]
        calls = [line for name, timing in self.timings.items() if (line := _compared(name, timing))]
        steps = self._steps()
        if calls or steps:
            lines += ["", "wall-clock time in this run, medians:", *calls, *steps]
        return lines

    def _steps(self) -> list[str]:
        """From step to step, while nothing was compiled and when nothing was compiled any more."""
        pairs = list(zip(self.steps, self.steps[1:], strict=False))
        eager = [end - begin for (begin, _), (end, made) in pairs if not made]
        last = self.steps[-1][1] if self.steps else 0
        compiled = [end - begin for (begin, made), (end, _) in pairs if made == last and last]
        line = _compared("from one step of an optimizer to the next", Timing(0, eager, compiled))
        return [line] if line else []


def _name(function: Callable[..., Any]) -> str:
    """A function as a user knows it: the class of a module or optimizer, or its name and place."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Optimizer):
        return f"{type(owner).__name__}.step"
    if isinstance(owner, Module):
        return f"{type(owner).__name__}.forward"
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name


def _compared(name: str, timing: Timing) -> str:
    """The medians of eager and compiled calls, and their ratio; nothing if there are not both."""
    if not timing.eager or not timing.compiled:
        return ""
    eager, compiled = median(timing.eager), median(timing.compiled)
    return (
        f"  {name}: {1e3 * eager:.2f} ms eager ({_counted(len(timing.eager), 'call')}), "
        f"{1e3 * compiled:.2f} ms compiled ({_counted(len(timing.compiled), 'call')}): "
        f"{eager / compiled:.2f} times as fast"
    )


def _distinct(reasons: Sequence[str]) -> list[str]:
    """Each reason once, and how often it was one."""
    return [
        reason if number == 1 else f"{reason} ({number} times)" for reason, number in Counter(reasons).items()
    ]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"

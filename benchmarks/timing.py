"""Fair timing of the same work in several libraries: interleaved rounds, the best of each.

In a round every contestant runs once, in turn, so that a noisy moment hits all of them; what counts is the
best round of each. A row compares Rushlight with its peers as a ratio, which must stay below a bar.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

OURS = "rushlight"

Thunk = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One measurement: contestants by name, and the bar for our time over the best peer's."""

    name: str
    contestants: Mapping[str, Callable[[], float]]  # each call gives seconds for one unit of work
    bar: float
    rounds: int = 30


@dataclass
class Outcome:
    """The best seconds of each contestant; peers that are not installed are left out."""

    row: Row
    best: dict[str, float] = field(default_factory=dict)

    @property
    def peer(self) -> float | None:
        return min((seconds for name, seconds in self.best.items() if name != OURS), default=None)

    @property
    def ratio(self) -> float | None:
        """Our time over the best peer's: smaller is better."""
        return self.best[OURS] / self.peer if self.peer and OURS in self.best else None

    @property
    def met(self) -> bool | None:
        return None if self.ratio is None else self.ratio <= self.row.bar


def measure(row: Row) -> Outcome:
    """Run the rounds of a row."""
    outcome = Outcome(row)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(row.rounds):
            for name, run in row.contestants.items():
                outcome.best[name] = min(outcome.best.get(name, float("inf")), run())
    finally:
        if collecting:
            gc.enable()
    return outcome


def timed(thunk: Thunk, *, seconds: float = 0.02) -> Callable[[], float]:
    """A contestant from a function: calls it in a loop long enough to measure; gives the time of one call."""
    count = _calls_for(thunk, seconds)

    def run() -> float:
        started = time.perf_counter()
        for _ in range(count):
            thunk()
        return (time.perf_counter() - started) / count

    return run


def _calls_for(thunk: Thunk, seconds: float) -> int:
    """How many calls take about so many seconds, found by doubling; this also warms up."""
    count = 1
    while True:
        started = time.perf_counter()
        for _ in range(count):
            thunk()
        if time.perf_counter() - started > seconds / 2:
            return max(1, count)
        count *= 2

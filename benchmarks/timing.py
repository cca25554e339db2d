"""Fair timing of the same work in several libraries: interleaved rounds, the best of each.

In a round every contestant runs once, in turn, so that a noisy moment hits all of them; what counts is the
best round of each. All share a process: before its turn, a contestant waits until the threads of the one
before have stopped looking for work, and makes a call that does not count, so that its own threads are awake
and its data where its last call left them, as in a loop of calls. A row compares Rushlight with its peers as
ratios, which must stay below bars.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

OURS = "rushlight"
BEST = "the best peer"

Thunk = Callable[[], object]

PAUSE = 0.02  # seconds; OpenMP's threads look for work for several milliseconds after a call


@dataclass(frozen=True)
class Row:
    """One measurement: contestants by name, and bars for our time over a peer's, or over that of BEST."""

    name: str
    contestants: Mapping[str, Callable[[], float]]  # each call gives seconds for one unit of work
    bars: Mapping[str, float]
    rounds: int = 30
    unit: str = "s"  # or B, or nothing for a count


@dataclass
class Outcome:
    """The best seconds of each contestant; peers that are not installed are left out."""

    row: Row
    best: dict[str, float] = field(default_factory=dict)

    def ratio(self, peer: str) -> float | None:
        """Our time over a peer's: smaller is better."""
        if peer == BEST:
            theirs = min((seconds for name, seconds in self.best.items() if name != OURS), default=None)
        else:
            theirs = self.best.get(peer)
        return self.best[OURS] / theirs if theirs else None

    def verdicts(self) -> list[tuple[str, float | None, float]]:
        """(peer, ratio, bar) for each bar of the row."""
        return [(peer, self.ratio(peer), bar) for peer, bar in self.row.bars.items()]

    @property
    def met(self) -> bool:
        """Whether every bar against a peer that is installed holds."""
        return all(ratio is None or ratio <= bar for _, ratio, bar in self.verdicts())


def measure(row: Row) -> Outcome:
    """Run the rounds of a row."""
    outcome = Outcome(row)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(row.rounds):
            for name, run in row.contestants.items():
                outcome.best[name] = min(outcome.best.get(name, float("inf")), run())
        for name, run in row.contestants.items():
            if isinstance(run, FirstCall):
                outcome.best[name] = run.result()
    finally:
        if collecting:
            gc.enable()
    return outcome


def timed(thunk: Thunk, *, seconds: float = 0.02) -> Callable[[], float]:
    """A contestant from a function: calls it in a loop long enough to measure; gives the time of one call."""
    count = _calls_for(thunk, seconds)

    def run() -> float:
        time.sleep(PAUSE)
        thunk()
        started = time.perf_counter()
        for _ in range(count):
            thunk()
        return (time.perf_counter() - started) / count

    return run


class FirstCall:
    """A contestant for what the first call of a function costs beyond the following ones.

    A round makes the function anew. What counts is the quickest first call of all rounds less the quickest
    following one: the difference within one round would credit a first call with the noise of the next ones.
    """

    def __init__(self, fresh: Callable[[], Thunk], following: int = 4) -> None:
        self._fresh, self._following = fresh, following
        self.first = self.next = float("inf")

    def __call__(self) -> float:
        thunk = self._fresh()
        gc.collect()
        self.first = min(self.first, seconds_of(thunk))
        self.next = min(self.next, *(seconds_of(thunk) for _ in range(self._following)))
        return self.first

    def result(self) -> float:
        """The whole first call, if it does not stand out from the noise of the following ones."""
        return self.first - self.next if self.first > self.next else self.first


def seconds_of(thunk: Thunk) -> float:
    started = time.perf_counter()
    thunk()
    return time.perf_counter() - started


def only_once(contestant: FirstCall) -> Callable[[], float]:
    """A first call that is too slow to be measured more than once: further rounds repeat the result."""
    results: list[float] = []

    def first() -> float:
        if not results:
            contestant()
            results.append(contestant.result())
        return results[0]

    return first


def _calls_for(thunk: Thunk, seconds: float) -> int:
    """How many calls take about so many seconds, found by doubling, after calls that may compile."""
    for _ in range(3):
        thunk()
    count = 1
    while True:
        started = time.perf_counter()
        for _ in range(count):
            thunk()
        if time.perf_counter() - started > seconds / 2:
            return max(1, count)
        count *= 2


def quantity(value: float | None, unit: str) -> str:
    """Seconds or bytes in a readable unit, or a count."""
    if value is None:
        return "-"
    if not unit:
        return f"{value:.0f}"
    if unit == "B":
        return f"{value / 2**20:.3g} MiB"
    for name, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value * 1e9:.3g} ns"

"""The program of one process: its kernels with the times they take here, and its collectives where they stand.

The step is compiled with clocks (runtime/profile.py) and called. Its process group is an imagined one, whose
collectives give results at once, so that what is measured is computation alone.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..compiler.collective_calls import CollectiveCalls, Entry, joined, transfer_of
from ..compiler.function import CompiledFunction
from ..runtime import profile
from .costs import Cost, cost_of
from .simulate import Begin, Compute, Copy, Item, Progress, Wait

WARM_UP = 3


@dataclass(frozen=True)
class Collective:
    """A collective of the step, or several small ones that are begun as one."""

    name: str
    ranks: int  # of its group
    joined: int  # how many of the graph
    size: int  # bytes of the results
    cost: Cost


@dataclass(frozen=True)
class Timeline:
    """One step of one process."""

    items: list[Item]
    collectives: list[Collective]
    outside: float  # seconds that a call takes outside of the compiled program
    workspace: int  # bytes of the program's memory

    @property
    def compute(self) -> float:
        """Seconds in kernels."""
        return sum(item.seconds for item in self.items if isinstance(item, Compute))

    def windows(self) -> list[float]:
        """Of each collective: seconds of computation between its begin and where the first result is read."""
        began: list[float] = []
        ended: dict[int, float] = {}
        now = 0.0
        for item in self.items:
            if isinstance(item, Compute):
                now += item.seconds
            elif isinstance(item, Begin):
                began.append(now)
            elif isinstance(item, Wait):
                ended.setdefault(item.begun, now)
        return [ended.get(i, now) - start for i, start in enumerate(began)]


def timeline_of(step: Callable[..., Any], inputs: Sequence[Any], calls: int) -> Timeline:
    """Compile and call a step, and look."""
    compiled = CompiledFunction(getattr(step, "function", step), fullgraph=True)
    log = profile.EventLog()
    walls: list[int] = []
    # of each call: launches as (place in the table of calls, nanoseconds)
    runs: list[list[tuple[int, int]]] = []
    work: list[tuple[tuple[int, int], ...]] = []  # of the launches of one call
    profile.start()
    try:
        for number in range(WARM_UP + calls):
            if number == WARM_UP:
                log.open()
            log.clear()
            start = time.perf_counter_ns()
            compiled(*inputs)
            if number >= WARM_UP:
                walls.append(time.perf_counter_ns() - start)
                events = log.events()
                runs.append([(e.timer.call, e.end - e.start) for e in events if e.timer.launch])
                work = work or _work(events)
        executable = _executable(compiled)  # the form with clocks, which `stop` puts away
    finally:
        log.close()
        profile.stop()
    if any([call for call, _ in run] != [call for call, _ in runs[0]] for run in runs):
        raise RuntimeError("plan_parallel: the step runs other kernels from call to call")
    return _timeline(executable, walls, runs, work)


def _work(events: Sequence[profile.TimedEvent]) -> list[tuple[tuple[int, int], ...]]:
    """Of each launch: what the kernels do that run until the next one."""
    found: list[set[profile.Timer]] = []
    for event in events:
        if event.timer.launch:
            found.append(set())
        elif found:
            found[-1].add(event.timer)
    return [tuple(sorted((timer.operations, timer.moved) for timer in timers)) for timers in found]


def _executable(compiled: CompiledFunction) -> Any:
    """The program that ran last."""
    (found,) = list(compiled.specializations.values())[-1][-1:]
    if found.backward is not None:
        raise RuntimeError(
            "plan_parallel: the result of the step requires grad: return its loss as loss.detach()"
        )
    return found.artifact.executable


def _timeline(
    executable: Any,
    walls: list[int],
    runs: list[list[tuple[int, int]]],
    work: Sequence[tuple[tuple[int, int], ...]],
) -> Timeline:
    """Launches take the median of all calls. Together they take as long as in the median call: where processes
    share a core, single launches are interrupted for long."""
    median = [statistics.median(times) for times in zip(*([t for _, t in run] for run in runs), strict=True)]
    launched = statistics.median(sum(t for call, t in run if call < 0) for run in runs)
    scale = launched / max(1, sum(t for t, (call, _) in zip(median, runs[0], strict=True) if call < 0))
    outside = statistics.median(wall - sum(t for _, t in run) for wall, run in zip(walls, runs, strict=True))
    calls = executable.calls
    entries = calls.entries if isinstance(calls, CollectiveCalls) else []
    begun, waited, found = _transfers(entries)
    items: list[Item] = []
    for time_taken, (call, _), kernels in zip(median, runs[0], work, strict=True):
        if call < 0:
            items.append(Compute(1e-9 * scale * time_taken, kernels))
        elif call == 0:
            items.append(Progress())
        else:
            items += begun.get(call - 1, ()) or waited.get(call - 1, ())
    collectives = [
        Collective(first.name, first.group.size() if first.group else 1, count, size, cost)
        for first, count, size, cost in found
    ]
    return Timeline(items, collectives, 1e-9 * outside, executable.workspace_size)


def share_times(timelines: Sequence[Timeline]) -> list[Timeline]:
    """The timelines with the median of their times for launches that do the same work in several of them, so that
    they differ where programs do and not where the machine was busier. Of a program's launches that do the same
    work the first is compared with the first of another, and so on."""
    times: dict[tuple[Any, int], list[float]] = {}
    numbered = [list(_numbered(timeline.items)) for timeline in timelines]
    for launches in numbered:
        for key, launch in launches:
            times.setdefault(key, []).append(launch.seconds)
    median = {key: statistics.median(found) for key, found in times.items()}
    shared = []
    for timeline, launches in zip(timelines, numbered, strict=True):
        of_launches = iter(replace(launch, seconds=median[key]) for key, launch in launches)
        items = [next(of_launches) if isinstance(item, Compute) else item for item in timeline.items]
        shared.append(replace(timeline, items=items))
    return shared


def _numbered(items: Sequence[Item]) -> Iterator[tuple[tuple[Any, int], Compute]]:
    """Launches with what they do, and how often the program has done that before."""
    seen: Counter[Any] = Counter()
    for item in items:
        if isinstance(item, Compute):
            yield (item.work, seen[item.work]), item
            seen[item.work] += 1


def _transfers(
    entries: Sequence[Entry],
) -> tuple[dict[int, list[Item]], dict[int, list[Item]], list[tuple[Entry, int, int, Cost]]]:
    """What happens at each place of the table of calls: what begins, what is waited for; and the transfers."""
    begun: dict[int, list[Item]] = {}
    waited: dict[int, list[Item]] = {}
    found: list[tuple[Entry, int, int, Cost]] = []
    begins = [i for i, e in enumerate(entries) if not e.waits and e.group is not None and e.group.size() > 1]
    native = [
        i for i in begins if entries[i].waited_at is not None and entries[i].whole and entries[i].temporary
    ]
    together = joined(entries, native)
    alone = sorted(set(begins) - {i for members in together for i in members})
    for members in sorted([*together, *([i] for i in alone)], key=lambda members: members[-1]):
        own = [entries[i] for i in members]
        group = own[0].group
        assert group is not None
        cost = cost_of(transfer_of(own, group)[1], group.size(), own[0].dtype.itemsize)
        for i in members[:-1]:
            begun[i] = _copied(entries[i])
        begun[members[-1]] = [Begin(cost)]
        for entry in own:
            if entry.waited_at is not None:
                waited[entry.waited_at] = [Wait(len(found)), *_copied(entries[entry.waited_at])]
        found.append((own[0], len(own), sum(entry.size for entry in own), cost))
    return begun, waited, found


def _copied(entry: Entry) -> list[Item]:
    return [] if entry.source == entry.target else [Copy(2 * entry.size)]

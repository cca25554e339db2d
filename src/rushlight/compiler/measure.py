"""What a compiled call does while it runs, measured: when each kernel ran on which thread.

The function is compiled once more, with clocks (runtime/profile.py), and called: a few times to warm up, then as
often as asked for; the quickest call is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..autograd.api import grad
from ..core.tensor import Tensor
from ..runtime import profile
from ..runtime.peaks import Peaks, peaks
from ..runtime.threads import pool
from .anatomy import Anatomy
from .call_key import leaves_of
from .function import CompiledFunction

WARM_UP = 3
GAP = 2_000  # nanoseconds between tasks of one kernel that are shown as one


@dataclass
class Measurement:
    """One call. Times are in microseconds from its beginning on."""

    calls: int  # of which it is the quickest
    seconds: float  # from outside
    launched: float  # seconds in launches: all that the calling thread spends in native code
    threads: list[int]
    # program, kernel, thread, begin, end, and how much of that it worked
    spans: list[tuple[int, int, int, float, float, float]]
    launches: list[tuple[int, str, float, float]]  # program, name, begin, end
    peaks: Peaks
    busy: list[list[float]] = field(
        default_factory=list
    )  # of each kernel of each program: seconds, all threads

    def to_data(self) -> dict[str, Any]:
        return {**asdict(self), "pool": pool().size}


def measure(
    function: Callable[..., Any], args: Any, kwargs: Any, programs: Sequence[Anatomy], calls: int
) -> Measurement:
    """Call `function`, whose programs are known, and look; gradients are taken where there is a program of
    them, and thrown away."""
    profile.start()
    log = profile.EventLog()
    before = len(profile.programs())
    try:
        compiled = CompiledFunction(function, fullgraph=False, use_cache=False)
        best: tuple[int, int, int] | None = None
        events: list[profile.TimedEvent] = []
        for number in range(WARM_UP + calls):
            if number == WARM_UP:
                log.open()
            log.clear()
            start = time.perf_counter_ns()
            result = compiled(*args, **kwargs)
            if len(programs) > 1:
                _differentiate(compiled, result)
            end = time.perf_counter_ns()
            if number >= WARM_UP and (best is None or end - start < best[0]):
                best, events = (end - start, start, end), log.events()
        linked = profile.programs()[before:]
    finally:
        log.close()
        profile.stop()
    assert best is not None
    return _measurement(calls, best, events, _matched(linked, programs), programs)


def _differentiate(compiled: CompiledFunction, result: Any) -> None:
    """Run the backward program, for gradients of ones."""
    leaves = [leaf for leaf in leaves_of((result,), {})[0] if isinstance(leaf, Tensor) and leaf.requires_grad]
    found: dict[int, Tensor] = {}
    left = [leaf.grad_fn for leaf in leaves]
    while left:
        node = left.pop()
        for after, _ in getattr(node, "next_functions", ()):
            if hasattr(after, "variable"):
                found[id(after.variable)] = after.variable
            elif after is not None:
                left.append(after)
    if leaves and found:
        ones: list[Any] = [leaf.detach() * 0 + 1 for leaf in leaves]
        grad(leaves, list(found.values()), ones, allow_unused=True)


def _matched(linked: Sequence[Any], programs: Sequence[Anatomy]) -> dict[int, tuple[int, int]]:
    """Which program and kernel each timer is of, by its identity; launches have the kernel -1."""
    found: dict[int, tuple[int, int]] = {}
    names = [{kernel["name"]: i for i, kernel in enumerate(program.kernels)} for program in programs]
    free = list(range(len(programs)))
    for program in linked:
        timed = {timer.kernel for timer in program.timers if not timer.launch}
        at = next((i for i in free if timed <= names[i].keys()), None)
        if at is None:
            continue  # the body of control flow
        free.remove(at)
        for timer in program.timers:
            found[id(timer)] = at, -1 if timer.launch else names[at][timer.kernel]
    return found


def _measurement(
    calls: int,
    best: tuple[int, int, int],
    events: Sequence[profile.TimedEvent],
    places: dict[int, tuple[int, int]],
    programs: Sequence[Anatomy],
) -> Measurement:
    seconds, start, _ = best
    threads: dict[int, int] = {}
    spans: list[tuple[int, int, int, float, float, float]] = []
    launches: list[tuple[int, str, float, float]] = []
    busy = [[0.0] * len(program.kernels) for program in programs]
    last: dict[int, int] = {}  # the last span of each thread
    for event in events:
        if id(event.timer) not in places:
            continue
        program, kernel = places[id(event.timer)]
        begin, end = (event.start - start) / 1e3, (event.end - start) / 1e3
        if kernel < 0:
            threads.setdefault(event.thread, len(threads))
            launches.append((program, event.timer.name, begin, end))
            continue
        thread = threads.setdefault(event.thread, len(threads))
        busy[program][kernel] += (event.end - event.start) / 1e9
        at = last.get(thread)
        if at is not None and spans[at][:2] == (program, kernel) and begin - spans[at][4] < GAP / 1e3:
            known = spans[at]
            spans[at] = (*known[:4], max(end, known[4]), known[5] + end - begin)
        else:
            last[thread] = len(spans)
            spans.append((program, kernel, thread, begin, end, end - begin))
    launched = sum(end - begin for _, _, begin, end in launches) / 1e6
    return Measurement(
        calls, seconds / 1e9, launched, list(range(len(threads))), spans, launches, peaks(again=True), busy
    )

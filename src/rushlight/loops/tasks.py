"""How work is shared by tasks, in numbers: the compiler asks while sizes are known, calls where they change."""

from __future__ import annotations

from collections.abc import Sequence

AWAKE_WORK = (
    250_000  # instructions from which waking threads pays, among launches that keep them awake (training)
)
TASK_WORK = 200_000  # instructions of a task at least: its launch is then 1 % of it
MOST_TASKS = 64  # tasks of a kernel: enough for the threads of a socket to share evenly


def split_rows(extent: int, work: int, unit: int, always: int) -> tuple[int, int]:
    """How many tasks share a loop, and how many of its points each has."""
    tasks = 1 if work < AWAKE_WORK else min(extent, max(2, work // TASK_WORK), MOST_TASKS)
    rows = -(-extent // tasks)
    step = max(unit if tasks > 1 else 1, always)
    rows = -(-rows // step) * step
    return (-(-extent // rows) if rows else 1), rows


def stage_numbers(counts: Sequence[int]) -> list[int]:
    """Of a stage of tasks that run so often: the number of all, where each part starts, and what is subtracted
    from a number of a part to give that of its task. The parts are the first half of each task, then the second
    halves in the opposite order."""
    halves = [-(-count // 2) for count in counts]
    spans = [(0, half) for half in halves]
    spans += [(half, count) for half, count in zip(reversed(halves), reversed(counts), strict=True)]
    starts, shifts, start = [], [], 0
    for first, last in spans:
        starts.append(start)
        shifts.append(start - first)
        start += last - first
    return [start, *starts, *shifts]

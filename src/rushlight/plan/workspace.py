"""Where temporary buffers lie in the workspace: buffers that do not live at the same time share memory.

In: the buffers that each stage uses, in order. Out: an offset for each temporary, 64-byte aligned, and the
workspace's size. The placement is first fit, large ones first, which is deterministic.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..loops.nest import Buffer, MemoryKind
from ..schedule.memory import bytes_of
from .cost import LARGE_BUFFER

ALIGNMENT = 64


@dataclass(frozen=True)
class Workspace:
    """Memory of a program while it runs."""

    offsets: Mapping[Buffer, int]
    size: int
    tops: tuple[int, ...] = ()  # for each stage, where the memory begins that nobody uses


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def place_temporaries(stages: Sequence[Sequence[Buffer]]) -> Workspace:
    """Offsets of the temporaries among the buffers of each stage; those of a stage are in use together."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for at, stage in enumerate(stages):
        for buffer in dict.fromkeys(stage):
            if buffer.memory is MemoryKind.TEMPORARY:
                first.setdefault(buffer, at)
                last[buffer] = at
    lengths = {b: aligned(max(bytes_of(b), 1)) for b in first}
    # What is largest is placed first, so that it does not have to fit between what is small; the many small
    # ones have a place of their own, where the order of first use will do.
    large = sorted((b for b in first if lengths[b] >= LARGE_BUFFER), key=lambda b: -lengths[b])
    small = [b for b in first if lengths[b] < LARGE_BUFFER]
    offsets: dict[Buffer, int] = {}
    size = _place(large, 0, first, last, lengths, offsets)
    size = max(size, _place(small, size, first, last, lengths, offsets))
    tops = [0] * len(stages)
    for buffer, start in offsets.items():
        for at in range(first[buffer], last[buffer] + 1):
            tops[at] = max(tops[at], start + lengths[buffer])
    return Workspace(offsets, size, tuple(tops))


def _place(
    buffers: list[Buffer],
    base: int,
    first: dict[Buffer, int],
    last: dict[Buffer, int],
    lengths: dict[Buffer, int],
    offsets: dict[Buffer, int],
) -> int:
    """Place buffers in turn, each in the first gap from `base` on that is free all its life; gives the end of
    the last one."""
    placed: list[tuple[int, int, Buffer]] = []  # (start, end, buffer), sorted by start
    size = base
    for buffer in buffers:
        start, born, dies = base, first[buffer], last[buffer]
        for low, high, other in placed:
            if first[other] <= dies and last[other] >= born:
                if low - start >= lengths[buffer]:
                    break
                start = max(start, high)
        offsets[buffer] = start
        insort(placed, (start, start + lengths[buffer], buffer), key=lambda item: item[0])
        size = max(size, start + lengths[buffer])
    return size

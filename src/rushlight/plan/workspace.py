"""Where temporary buffers lie in the workspace: buffers that do not live at the same time share memory.

In: the buffers that each stage uses, in order. Out: an offset for each temporary, 64-byte aligned, and the
workspace's size. Where they lie is found in plan/places.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..loops.nest import Buffer, MemoryKind
from ..schedule.memory import bytes_hint
from .places import Life, aligned, place


@dataclass(frozen=True)
class Workspace:
    """Memory of a program while it runs."""

    offsets: Mapping[Buffer, int]
    size: int
    tops: tuple[int, ...] = ()  # for each stage, where the memory begins that nobody uses
    lives: Mapping[Buffer, Life] = ()  # type: ignore[assignment]


def lives_of(stages: Sequence[Sequence[Buffer]]) -> dict[Buffer, Life]:
    """When the temporaries among the buffers of each stage are in use."""
    lives: dict[Buffer, Life] = {}
    for at, stage in enumerate(stages):
        for buffer in dict.fromkeys(stage):
            if buffer.memory is MemoryKind.TEMPORARY:
                lives[buffer] = (lives.get(buffer, (at, at))[0], at)
    return lives


def place_temporaries(stages: Sequence[Sequence[Buffer]]) -> Workspace:
    """Offsets of the temporaries among the buffers of each stage; those of a stage are in use together. Sizes
    that change count as they were in the call that is captured."""
    lives = lives_of(stages)
    lengths = [aligned(max(bytes_hint(b), 1)) for b in lives]
    places, size = place(lengths, list(lives.values()))
    offsets = dict(zip(lives, places, strict=True))
    tops = np.zeros(len(stages), np.int64)
    for (first, last), length, start in zip(lives.values(), lengths, places, strict=True):
        here = tops[first : last + 1]
        np.maximum(here, start + length, out=here)
    return Workspace(offsets, size, tuple(tops.tolist()), lives)

"""Where memory of given lengths and lives lies: first fit, large ones first, which is deterministic.

Where sizes change from call to call, `place` runs again when a program is called with sizes that it has not met
(runtime/sized.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .cost import LARGE_BUFFER

ALIGNMENT = 64

Life = tuple[int, int]  # the first and the last stage in which something is used


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def place(lengths: Sequence[int], lives: Sequence[Life]) -> tuple[list[int], int]:
    """Where memory of these lengths, used in these stages, begins; and the size of it all."""
    # What is largest is placed first, so that it does not have to fit between what is small; the many small
    # ones have a place of their own, where the order of first use will do.
    large = sorted((b for b, n in enumerate(lengths) if n >= LARGE_BUFFER), key=lambda b: -lengths[b])
    small = [b for b, n in enumerate(lengths) if n < LARGE_BUFFER]
    offsets = [0] * len(lengths)
    size = _place(large, 0, lives, lengths, offsets)
    size = max(size, _place(small, size, lives, lengths, offsets))
    return offsets, size


def _place(
    buffers: Sequence[int], base: int, lives: Sequence[Life], lengths: Sequence[int], offsets: list[int]
) -> int:
    """Place buffers in turn, each in the first gap from `base` on that is free all its life; gives the end of
    the last one."""
    # of those that have a place, in order: where they begin and end, and when their lives do
    placed = np.empty((4, len(buffers) + 1), np.int64)
    low, high, born, dead = placed
    size = base
    for number, buffer in enumerate(buffers):
        length, (first, last) = lengths[buffer], lives[buffer]
        meets = ((born[:number] <= last) & (dead[:number] >= first)).nonzero()[0]
        start = base
        if meets.size:
            starts, ends = low[meets], np.maximum.accumulate(high[meets])
            if starts[0] - base < length:
                fits = (starts[1:] - ends[:-1] >= length).nonzero()[0]
                start = int(ends[fits[0]] if fits.size else ends[-1])
        at = int(low[:number].searchsorted(start))
        placed[:, at + 1 : number + 1] = placed[:, at:number]
        placed[:, at] = start, start + length, first, last
        offsets[buffer] = start
        size = max(size, start + length)
    return size

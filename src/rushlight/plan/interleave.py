"""Rows that are computed together.

What is folded over a row is known only a while after its last element: that took long to compute itself, then
lanes are combined one after the other, and a root or a quotient follows. A short row is over before all this
is hidden behind anything. So a few rows take each step together: while the machine waits for the result of
one row, it computes the next. The results go through memory, and so do row temporaries, one for each row.

Rows with little arithmetic wait for their data rather, and do better one after the other.
"""

from __future__ import annotations

from ..core.symbols import hint_of
from ..loops.extents import extents
from ..loops.nest import Nest, Phase
from .cost import GROUP_BYTES, MOST_ROWS
from .vectors import folds_long


def steps_of(nest: Nest) -> list[list[Phase]]:
    """The phases, cut before each that has loops: those without go with what they follow."""
    found: list[list[Phase]] = []
    for phase in nest.phases:
        if phase.inner or not found:
            found.append([])
        found[-1].append(phase)
    return found


def rows_together(nest: Nest) -> int:
    """How many rows take each step together."""
    statements = [s for phase in nest.phases for s in phase.statements]
    if not nest.outer or len(steps_of(nest)) == 1 or not any(map(folds_long, statements)):
        return 1
    points = max(hint_of(extents(phase.inner)) for phase in nest.phases)
    inner = {var for phase in nest.phases for var in phase.inner}
    size = sum(
        access.buffer.dtype.itemsize
        for access in {*nest.reads(), *nest.writes()}
        if not access.index.atoms().isdisjoint(inner)
    )
    return max(1, min(MOST_ROWS, GROUP_BYTES // max(1, points * size)))

"""Which memory a phase of a nest asks for while it computes, so that others need not wait for it."""

from __future__ import annotations

from ..core.index import as_index
from ..core.symbols import hint_of
from ..loops.expr import Access, loads_in
from ..loops.extents import extents
from ..loops.nest import MemoryKind, Nest, Phase, Store
from .cost import ROW_BYTES
from .nest import Prefetch


def prefetched(nest: Nest, phase: Phase, rows: int) -> tuple[Prefetch, ...]:
    """What the next phase writes at the same points, and what the first phase reads so many rows later.

    Both come with little arithmetic to hide the wait behind, and the machine does not see a row coming that
    begins a new page.
    """
    at = nest.phases.index(phase)
    following = nest.phases[at + 1 : at + 2]
    if not nest.outer or not following or following[0].inner != phase.inner:
        return ()
    found = [
        Prefetch(s.access, write=True)
        for s in following[0].statements
        if isinstance(s, Store) and s.access.buffer.memory is not MemoryKind.ROW
    ]
    first, row = nest.phases[0], nest.outer[-1]
    if found and first.inner == phase.inner:
        reads = dict.fromkeys(access for value in first.values() for access in loads_in(value))
        found += [
            Prefetch(Access(a.buffer, a.index.substitute({row: as_index(row) + rows})), write=False)
            for a in reads
            if a.index.depends_on(row) and not a.indirect
        ]
    points = hint_of(extents(phase.inner))
    return tuple(p for p in found if _is_near(p.access, phase, points))


def _is_near(access: Access, phase: Phase, points: int) -> bool:
    """Whether a row of a buffer in memory is contiguous and stays in the first cache."""
    return (
        access.buffer.memory is not MemoryKind.ROW
        and not access.indirect
        and access.index.stride(phase.inner[-1]) == 1
        and points * access.buffer.dtype.itemsize <= ROW_BYTES
    )

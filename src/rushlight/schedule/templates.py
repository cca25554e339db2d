"""Templates in the schedule: what is fused with a scan.

A map may join a scan if it computes one element for each of the scan and reads what the scan and the maps
that joined before compute only at its own element: it then runs right after the running value, in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..core.index import Index, as_index
from ..loops.definitions import Definition, Map, points
from ..loops.expr import Access, Recorder, loads_in, reindex
from ..loops.extents import extents, unflatten
from ..loops.kernels import Scan, Sort
from ..loops.nest import Buffer, Nest, Phase, Statement, Store
from .nests import forwarded


def scan_obstacle(scan: Scan, written: set[Buffer], definition: Definition) -> str:
    """Why `definition` cannot run with the scan; empty if it can."""
    if not isinstance(definition, Map):
        return "a reduction does not run inside of a scan"
    position, nest = _position(scan), scan.nest
    if as_index(points(definition)) != extents((*nest.outer, *nest.phases[0].inner)):
        return f"{definition.buffer} has not one element for each of the scan"
    moved = dict(zip(definition.variables, unflatten(position, definition.variables), strict=True))
    for access in loads_in(definition.value):
        if access.buffer in written and (access.indirect or access.index.substitute(moved) != position):
            return f"{definition.buffer} reads {access.buffer} at another element than its own"
    return ""


def _position(scan: Scan) -> Index:
    """Where the scan writes at a point: the same in all of its buffers."""
    return scan.nest.writes()[0].index


def with_maps(recorder: Recorder, scan: Scan, maps: Sequence[Map], needed: Callable[[Buffer], bool]) -> Scan:
    """The scan with `maps` after it; what nobody reads is not stored."""
    nest, position = scan.nest, _position(scan)
    phase = nest.phases[0]
    stored = {s.access.buffer: (position, s.value) for s in phase.statements if isinstance(s, Store)}
    statements: list[Statement] = [
        s for s in phase.statements if not isinstance(s, Store) or needed(s.access.buffer)
    ]
    for member in maps:
        moved = dict(zip(member.variables, unflatten(position, member.variables), strict=True))
        value = forwarded(recorder, reindex(recorder, member.value, moved), stored)
        stored[member.buffer] = (position, value)
        if needed(member.buffer):
            statements.append(Store(Access(member.buffer, position), value))
    return replace(scan, nest=Nest(nest.name, nest.outer, (Phase(phase.inner, tuple(statements)),)))


def without_unread(sort: Sort, needed: Callable[[Buffer], bool]) -> Sort:
    """The sort without results that nobody reads."""
    values, positions = (
        buffer if buffer is not None and needed(buffer) else None for buffer in (sort.values, sort.positions)
    )
    return replace(sort, values=values, positions=positions)

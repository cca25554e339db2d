"""The layout of memory, once every kernel has its plan: temporaries, and scratch memory of products.

Products that may run at the same time have scratch memory of their own, above what anybody uses then; those
of different stages share it.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.dtypes import DTYPES
from ..core.index import as_index
from ..loops.nest import Buffer, MemoryKind
from .places import aligned
from .program import PlannedProgram
from .workspace import place_temporaries


def lay_out_memory(program: PlannedProgram) -> PlannedProgram:
    """The program with an offset for each temporary and for the scratch memory of each product."""
    if program.schedule.symbols is not None:
        return _sized_memory(program)
    workspace = place_temporaries([program.buffers_in(stage) for stage in program.stages])
    offsets: dict[str, int] = {}
    size = 0
    for stage, top in zip(program.stages, workspace.tops, strict=True):
        end = aligned(top)
        for name, plan in program.products_in(stage):
            offsets[name] = end
            end += plan.scratch_bytes
            size = max(size, end) if plan.scratch_bytes else size
    scratch = Buffer("scratch", DTYPES["uint8"], as_index(size), MemoryKind.TEMPORARY)
    if size:
        places = {**workspace.offsets, scratch: 0}
        workspace = replace(workspace, offsets=places, size=max(workspace.size, size))
    return replace(program, workspace=workspace, scratch=scratch, scratch_offsets=offsets)


def _sized_memory(program: PlannedProgram) -> PlannedProgram:
    """Where sizes change, the scratch memory of a product is a temporary like any other."""
    scratch = {
        name: Buffer(f"{name}.scratch", DTYPES["uint8"], plan.scratch_size, MemoryKind.TEMPORARY)
        for stage in program.stages
        for name, plan in program.products_in(stage)
    }
    workspace = place_temporaries(
        [
            [*program.buffers_in(stage), *(scratch[name] for name, _ in program.products_in(stage))]
            for stage in program.stages
        ]
    )
    return replace(program, workspace=workspace, scratches=scratch)

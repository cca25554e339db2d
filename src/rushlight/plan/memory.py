"""The layout of memory, once every kernel has its plan: temporaries, and scratch memory of products.

Products that may run at the same time have scratch memory of their own, above what anybody uses then; those
of different stages share it.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.dtypes import DTYPES
from ..loops.index import as_index
from ..loops.nest import Buffer, MemoryKind
from ..schedule.memory import ALIGNMENT, Workspace
from .product import ProductPlan
from .program import PlannedProgram


def lay_out_memory(program: PlannedProgram) -> PlannedProgram:
    """The program with an offset for each temporary and for the scratch memory of each product."""
    workspace = program.schedule.workspace
    tops = workspace.tops or [workspace.size] * len(program.stages)
    offsets: dict[str, int] = {}
    size = 0
    for stage, top in zip(program.stages, tops, strict=True):
        end = -(-top // ALIGNMENT) * ALIGNMENT
        for plan in (program.plans.get(step.name) for step in stage.steps):
            if isinstance(plan, ProductPlan):
                offsets[plan.name] = end
                end += plan.scratch_bytes
                size = max(size, end) if plan.scratch_bytes else size
    scratch = Buffer("scratch", DTYPES["uint8"], as_index(size), MemoryKind.TEMPORARY)
    if size:
        workspace = Workspace(
            {**workspace.offsets, scratch: 0}, max(workspace.size, size), list(workspace.tops)
        )
    return replace(program, workspace=workspace, scratch=scratch, scratch_offsets=offsets)

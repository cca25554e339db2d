"""The passes of scheduling, in the order they run: from definitions to kernels in stages.

Every pass takes a `Program` and gives another: the first seven rewrite definitions, fusion groups them, and what
comes after works on the kernels that the groups become. Thresholds are in schedule/cost.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.errors import InternalError
from ..core.passes import Pass
from ..loops.expr import Recorder
from ..loops.nest import MemoryKind
from ..loops.plans import LoopPlan
from ..loops.program import Program, Step
from ..loops.spec import verify_definition, verify_kernel
from .causal_bounds import limit_rows
from .forward_copies import forward_copies
from .fusion import fuse, small_first
from .kernels import build_kernels
from .nontemporal_stores import store_past_caches
from .products import transpose_products
from .rematerialize import rematerialize
from .reuse_memory import reuse_memory
from .save_derived_values import save_derived_values
from .split_reductions import split_reductions
from .stages import form_stages
from .triangles import find_triangles
from .update_in_place import update_in_place


def verify(program: Program) -> None:
    """Raise InternalError if a definition or step breaks a rule of the loop IR, or reads what nobody writes."""
    if not program.steps:
        for definition in program.definitions:
            verify_definition(definition)
    for step in program.steps:
        verify_kernel(step, program.updates.values())
        for buffer in step.inputs:
            if buffer.memory is MemoryKind.TEMPORARY and not program.writers(buffer):
                raise InternalError(f"{step.name} reads {buffer}, which nobody writes")
    staged = [step for stage in program.stages for step in stage.steps]
    if program.stages and staged != list(program.steps):
        raise InternalError("the stages do not have the steps of the program")


def show(program: Program) -> str:
    """The program as far as it is decided: definitions, groups, or kernels."""
    if program.steps:
        return "\n".join(map(_show_step, program.steps))
    if program.groups:
        return "\n".join(
            f"group {number}" + "".join(f"\n  {member}" for member in group.members)
            for number, group in enumerate(program.groups)
        )
    return "\n".join(map(str, program.definitions))


def _show_step(step: Step) -> str:
    if not isinstance(step, LoopPlan):
        return f"call {step}"
    vectors = "outer loop" if step.vector_outer else "inner loops"
    end = "" if step.limit is None else f", up to {step.limit}"
    return f"{step.nest}\n  -- {step.tasks} tasks, vectors along the {vectors}{end}"


SCHEDULE_PASSES: tuple[Pass, ...] = (
    Pass("find triangles", find_triangles, verify, show),
    Pass("forward copies", forward_copies, verify, show),
    Pass("save derived values", save_derived_values, verify, show),
    Pass("rematerialize", rematerialize, verify, show),
    Pass("split reductions", split_reductions, verify, show),
    Pass("move small definitions first", small_first, verify, show),
    Pass("transpose products", transpose_products, verify, show),
    Pass("fuse", fuse, verify, show),
    Pass("build kernels", build_kernels, verify, show),
    Pass("limit rows", limit_rows, verify, show),
    Pass("reuse memory", reuse_memory, verify, show),
    Pass("update in place and form stages", update_in_place, verify, show),
    Pass("store past caches", store_past_caches, verify, show, topic="loops"),
)


def schedule(program: Program) -> Program:
    """All passes of scheduling, one after the other."""
    for each in SCHEDULE_PASSES:
        program = each.run(program)
    return program


def staged(steps: Sequence[Step]) -> Program:
    """A program of steps that were made by hand, in stages."""
    stages = form_stages(steps)
    return replace(
        Program(Recorder()), steps=tuple(step for stage in stages for step in stage.steps), stages=stages
    )

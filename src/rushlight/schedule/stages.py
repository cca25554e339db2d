"""Stages: kernels that do not depend on each other, started together.

Every step runs as early as what it needs allows. The steps of a stage touch no memory that another step of
the stage writes, so their tasks may run in any order and at the same time: one launch serves them all, which
is what the many small kernels of an optimizer step need. Calls that are not native code have a stage of their
own, and nothing moves across them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..loops.nest import Buffer, Call
from ..loops.product import MATMUL, product_of
from ..loops.templates import SCAN, SCATTER, SORT
from .loops import SERIAL_WORK, LoopPlan

Step = LoopPlan | Call

NATIVE = (MATMUL, SCAN, SCATTER, SORT)


@dataclass
class Stage:
    """Steps in the order of the schedule; `parallel` if their work is worth waking other threads."""

    steps: list[Step]
    parallel: bool = False


def is_native(call: Call) -> bool:
    """Whether a call is generated code, which runs in tasks as nests do."""
    return call.routine in NATIVE


def work_of(step: Step) -> int:
    """Rough instructions."""
    if isinstance(step, LoopPlan):
        return step.work
    if step.routine == MATMUL:
        product = product_of(step)
        return product.size * product.depth
    plan = step.attributes.get("plan")
    return plan.work if isinstance(plan, LoopPlan) and plan.work else SERIAL_WORK


def reads_writes(step: Step) -> tuple[list[Buffer], list[Buffer]]:
    if isinstance(step, Call):
        return list(step.inputs), list(step.outputs)
    return [a.buffer for a in step.nest.reads()], [a.buffer for a in step.nest.writes()]


def form_stages(steps: Sequence[Step]) -> list[Stage]:
    """The steps by the stage in which they run."""
    stages: list[Stage] = []
    floor = 0  # nothing moves before this stage
    written: dict[Buffer, int] = {}
    read: dict[Buffer, int] = {}
    for step in steps:
        reads, writes = reads_writes(step)
        at = max([floor, *(written[b] + 1 for b in reads if b in written),
                  *(max(written.get(b, -1), read.get(b, -1)) + 1 for b in writes)])
        if isinstance(step, Call) and not is_native(step):
            at = floor = len(stages)
            floor += 1
        if at == len(stages):
            stages.append(Stage([]))
        stages[at].steps.append(step)
        for buffer in reads:
            read[buffer] = max(at, read.get(buffer, -1))
        for buffer in writes:
            written[buffer] = at
    for stage in stages:
        stage.parallel = sum(map(work_of, stage.steps)) >= SERIAL_WORK
    return stages

"""Stages: kernels that do not depend on each other, started together.

Every step runs as early as what it needs allows. The steps of a stage touch no memory that another step of
the stage writes, so their tasks may run in any order and at the same time: one launch serves them all, which
is what the many small kernels of an optimizer step need. A chain of steps (chains.py) counts as one. Calls
that are not native code have a stage of their own, and nothing moves across them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.symbols import hint, hint_of
from ..loops.expr import has_check
from ..loops.kernels import Extern, Product, Scan, Sort
from ..loops.nest import Buffer, MemoryKind, Phase
from ..loops.plans import LoopPlan
from ..loops.program import Chain, Stage, Step, Unit, steps_of
from ..loops.tasks import AWAKE_WORK
from .cost import LARGE_FILL, SERIAL_WORK


def work_of(step: Step) -> int:
    """Rough instructions."""
    if isinstance(step, LoopPlan):
        return step.work
    if isinstance(step, Product):
        return step.shape.terms
    if isinstance(step, Scan) and step.plan is not None and hint(step.plan.work):
        return step.plan.work
    return SERIAL_WORK


def form_stages(units: Sequence[Unit]) -> tuple[Stage, ...]:
    """Steps and chains by the stage in which they run."""
    stages = _earliest(units)
    _sink(stages)
    _fill(stages)
    work = [sum(work_of(step) for unit in stage for step in steps_of(unit)) for stage in stages]
    enough = AWAKE_WORK if max(map(hint, work), default=0) >= SERIAL_WORK else SERIAL_WORK
    return tuple(
        Stage(tuple(stage), hint(instructions) >= enough, instructions, enough)
        for stage, instructions in zip(stages, work, strict=True)
    )


def with_units(stage: Stage, units: Sequence[Unit]) -> Stage:
    """A stage of other units."""
    if len(units) == len(stage.units):
        return Stage(tuple(units), stage.parallel, stage.work, stage.enough)
    work = sum(work_of(step) for unit in units for step in steps_of(unit))
    return Stage(tuple(units), hint(work) >= stage.enough, work, stage.enough)


def _earliest(units: Sequence[Unit]) -> list[list[Unit]]:
    """Every step in the first stage that what it needs allows."""
    stages: list[list[Unit]] = []
    floor = 0  # nothing moves before this stage
    written: dict[Buffer, int] = {}
    read: dict[Buffer, int] = {}
    whole: dict[Buffer, int] = {}  # as `written`, but for parts
    for step in units:
        reads, writes = step.inputs, step.outputs
        part = isinstance(step, LoopPlan) and step.part and not step.overwrites
        before = whole if part else written
        at = max(
            [
                floor,
                *(written[b] + 1 for b in reads if b in written),
                *(max(before.get(b, -1), read.get(b, -1)) + 1 for b in writes),
            ]
        )
        if isinstance(step, Extern):
            at = floor = len(stages)
            floor += 1
        if at == len(stages):
            stages.append([])
        stages[at].append(step)
        for buffer in reads:
            read[buffer] = max(at, read.get(buffer, -1))
        for buffer in writes:
            written[buffer] = max(at, written.get(buffer, -1))
            if not part:
                whole[buffer] = at
    return stages


def _sink(stages: list[list[Unit]]) -> None:
    """Move large steps that need nothing but the caller's memory (zeros around an image, for example) to
    right before what needs them: their results are in cache then, and take memory for a shorter time."""
    needed: dict[Buffer, int] = {}  # the first stage that touches a buffer, of those seen so far
    for number in range(len(stages) - 1, -1, -1):
        kept: list[Unit] = []
        for step in stages[number]:
            touched = (*step.inputs, *step.outputs)
            latest = min((needed[b] - 1 for b in touched if b in needed), default=number)
            while latest > number and isinstance(stages[latest][0], Extern):
                latest -= 1
            if _is_fill(step) and latest > number:
                stages[latest].append(step)
                for buffer in touched:
                    needed[buffer] = min(latest, needed.get(buffer, latest))
            else:
                kept.append(step)
        stages[number] = kept
        for step in kept:
            for buffer in (*step.inputs, *step.outputs):
                needed[buffer] = number
    stages[:] = [stage for stage in stages if stage]


def _is_fill(step: Unit) -> bool:
    return (
        isinstance(step, LoopPlan)
        and not any(b.memory is MemoryKind.TEMPORARY for b in step.inputs)
        and any(b.memory is MemoryKind.TEMPORARY and hint_of(b.size) >= LARGE_FILL for b in step.outputs)
    )


def _fill(stages: list[list[Unit]]) -> None:
    """Move products whose results no later step touches, gradients of weights for example, to the stage of a
    chain right after them: a chain has few shares, and threads that have none left run their tasks."""
    later: set[Buffer] = set()
    for number in range(len(stages) - 1, 0, -1):
        stage, before = stages[number], stages[number - 1]
        if any(isinstance(unit, Chain) for unit in stage):
            here = later.union(*((*unit.inputs, *unit.outputs) for unit in stage))
            moved = [
                unit
                for unit in before
                if isinstance(unit, Product) and here.isdisjoint(unit.outputs) and _keeps(stage, unit)
            ]
            if len(moved) < len(before):
                stage += moved
                stages[number - 1] = [unit for unit in before if unit not in moved]
        later.update(b for unit in stage for b in (*unit.inputs, *unit.outputs))


def _keeps(stage: Sequence[Unit], product: Product) -> bool:
    """Whether nothing in a stage writes what a product reads."""
    return all(set(product.inputs).isdisjoint(unit.outputs) for unit in stage)


def may_fail(step: Step) -> bool:
    """Whether a step may find an error in the data."""
    if isinstance(step, Extern):
        return True
    if isinstance(step, Sort):
        return False
    nest = step.epilogue if isinstance(step, Product) else step.nest
    return nest is not None and any(map(_has_check, nest.phases))


def _has_check(phase: Phase) -> bool:
    return any(map(has_check, phase.values()))

"""Stages: kernels that do not depend on each other, started together.

Every step runs as early as what it needs allows. The steps of a stage touch no memory that another step of
the stage writes, so their tasks may run in any order and at the same time: one launch serves them all, which
is what the many small kernels of an optimizer step need. A chain of steps (chains.py) counts as one. Calls
that are not native code have a stage of their own, and nothing moves across them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..loops.extents import constant
from ..loops.kernels import Extern, Product, Routine, Scan
from ..loops.nest import Buffer, MemoryKind
from ..loops.plans import LoopPlan
from .loops import AWAKE_WORK, SERIAL_WORK

Step = LoopPlan | Routine


@dataclass
class Chain:
    """Steps that run one after the other on each of `shares` shares of their work, which do not depend on
    each other."""

    steps: list[Step]
    shares: int

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(b for step in self.steps for b in step.inputs)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(b for step in self.steps for b in step.outputs)


@dataclass
class Stage:
    """Steps and chains in the order of the schedule; `parallel` if their work is worth waking other threads."""

    units: list[Step | Chain]
    parallel: bool = False

    @property
    def steps(self) -> list[Step]:
        """All steps, those of chains too."""
        return [step for unit in self.units for step in steps_of(unit)]


def steps_of(unit: Step | Chain) -> list[Step]:
    return unit.steps if isinstance(unit, Chain) else [unit]


def work_of(step: Step) -> int:
    """Rough instructions."""
    if isinstance(step, LoopPlan):
        return step.work
    if isinstance(step, Product):
        return step.shape.size * step.shape.depth
    if isinstance(step, Scan) and step.plan is not None and step.plan.work:
        return step.plan.work
    return SERIAL_WORK


def form_stages(units: Sequence[Step | Chain]) -> list[Stage]:
    """Steps and chains by the stage in which they run."""
    stages: list[Stage] = []
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
            stages.append(Stage([]))
        stages[at].units.append(step)
        for buffer in reads:
            read[buffer] = max(at, read.get(buffer, -1))
        for buffer in writes:
            written[buffer] = max(at, written.get(buffer, -1))
            if not part:
                whole[buffer] = at
    _sink(stages)
    _fill(stages)
    work = [sum(map(work_of, stage.steps)) for stage in stages]
    enough = AWAKE_WORK if max(work, default=0) >= SERIAL_WORK else SERIAL_WORK
    for stage, instructions in zip(stages, work, strict=True):
        stage.parallel = instructions >= enough
    return stages


LARGE_FILL = 1 << 14  # elements


def _sink(stages: list[Stage]) -> None:
    """Move large steps that need nothing but the caller's memory (zeros around an image, for example) to
    right before what needs them: their results are in cache then, and take memory for a shorter time."""
    needed: dict[Buffer, int] = {}  # the first stage that touches a buffer, of those seen so far
    for number in range(len(stages) - 1, -1, -1):
        kept: list[Step | Chain] = []
        for step in stages[number].units:
            reads, writes = step.inputs, step.outputs
            latest = min((needed[b] - 1 for b in (*reads, *writes) if b in needed), default=number)
            while latest > number and _stands_alone(stages[latest]):
                latest -= 1
            fill = (
                isinstance(step, LoopPlan)
                and not any(b.memory is MemoryKind.TEMPORARY for b in reads)
                and any(b.memory is MemoryKind.TEMPORARY and constant(b.size) >= LARGE_FILL for b in writes)
            )
            if fill and latest > number:
                stages[latest].units.append(step)
                for buffer in (*reads, *writes):
                    needed[buffer] = min(latest, needed.get(buffer, latest))
            else:
                kept.append(step)
        stages[number].units = kept
        for step in kept:
            for buffer in (*step.inputs, *step.outputs):
                needed[buffer] = number
    stages[:] = [stage for stage in stages if stage.units]


def _fill(stages: list[Stage]) -> None:
    """Move products whose results no later step touches, gradients of weights for example, to the stage of a
    chain right after them: a chain has few shares, and threads that have none left run their tasks."""
    later: set[Buffer] = set()
    for number in range(len(stages) - 1, 0, -1):
        stage, before = stages[number], stages[number - 1]
        if any(isinstance(unit, Chain) for unit in stage.units):
            here = later.union(*((*unit.inputs, *unit.outputs) for unit in stage.units))
            moved = [
                unit
                for unit in before.units
                if isinstance(unit, Product) and here.isdisjoint(unit.outputs) and _keeps(stage, unit)
            ]
            if len(moved) < len(before.units):
                stage.units += moved
                before.units = [unit for unit in before.units if all(unit is not other for other in moved)]
        later.update(b for unit in stage.units for b in (*unit.inputs, *unit.outputs))


def _keeps(stage: Stage, product: Product) -> bool:
    """Whether nothing in a stage writes what a product reads."""
    return all(set(product.inputs).isdisjoint(unit.outputs) for unit in stage.units)


def _stands_alone(stage: Stage) -> bool:
    """Whether a stage is a call that is not native code."""
    return isinstance(stage.units[0], Extern)

"""How far beyond the end of a row its readers look: the vectors and tiles of this machine reach over it.

Where rows end at a diagonal (schedule/causal_bounds.py), what is stored after it is needed no further than that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..core.symbols import LARGEST
from ..loops.kernels import Product
from ..loops.nest import Buffer
from ..loops.plans import LoopPlan
from ..loops.product import Side
from ..loops.program import Step
from .cost import LIMITED_REGISTERS
from .nest import NestPlan, RestStore
from .product import ProductPlan
from .program import KernelPlan, PlannedProgram

# Elements, by a buffer and the step that writes it: later steps may write other rows to the same memory.
Reaches = dict[tuple[str, Buffer], int]


def bound_rows(program: PlannedProgram) -> PlannedProgram:
    """Plans that store after a diagonal no more than is looked at."""
    found = reaches(program)
    if not found:
        return program
    return program.with_plans({name: _bounded(name, plan, found) for name, plan in program.plans.items()})


def reaches(program: PlannedProgram) -> Reaches:
    """For buffers of which only what is near the limit is looked at: how near."""
    found: Reaches = {}
    written: dict[Buffer, str] = {}  # the step whose elements near the limit a buffer has
    for step in program.steps:
        for buffer in set(step.inputs) & written.keys():
            writer = written[buffer], buffer
            found[writer] = max(found[writer], _reach(program.plans[step.name]))
        near = set(_near(step))
        for buffer in step.outputs:
            if buffer in near:
                written[buffer] = step.name
                found[step.name, buffer] = 0
            else:
                written.pop(buffer, None)
    return found


def _near(step: Step) -> Iterator[Buffer]:
    if isinstance(step, LoopPlan):
        yield from step.near
    elif isinstance(step, Product) and step.near_diagonal:
        yield step.result


def _reach(plan: KernelPlan) -> int:
    """How far a kernel looks beyond the limit of what it reads."""
    if isinstance(plan, ProductPlan):
        triangle = plan.shape.triangle
        assert triangle is not None
        left = triangle.side in (Side.LEFT_LOWER, Side.LEFT_UPPER)
        return plan.chunk * plan.tile.height if left else plan.tile.width
    assert isinstance(plan, NestPlan)
    if plan.limit_unit is not None:
        return LIMITED_REGISTERS * plan.lanes
    ends = [phase.inner[-1].extent.constant_value() for phase in plan.nest.phases if phase.inner]
    return max(LARGEST if end is None else end for end in ends)


def _bounded(name: str, plan: KernelPlan, found: Reaches) -> KernelPlan:
    if isinstance(plan, ProductPlan):
        return replace(plan, reach=found.get((name, plan.product.result), plan.reach))
    if not isinstance(plan, NestPlan) or plan.limit is None:
        return plan
    phases = tuple(
        replace(
            phase,
            rest=tuple(RestStore(r.store, found.get((name, r.store.access.buffer))) for r in phase.rest),
        )
        for phase in plan.phases
    )
    return replace(plan, phases=phases)

"""How far beyond the end of a row its readers look: the vectors and tiles of this machine reach over it.

Where rows end at a diagonal (schedule/causal_bounds.py), what is stored after it is needed no further than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...loops.kernels import Product
from ...loops.nest import Buffer
from ...loops.plans import LoopPlan
from ...loops.product import Side
from ...runtime.target import Target
from ...schedule.stages import Step
from .keys import row_unit
from .matmul.plan import plan_product

Reaches = dict[Buffer, int]  # elements


def reaches(steps: Sequence[Step], target: Target) -> Reaches:
    """For buffers of which only what is near the limit is looked at: how near."""
    found: Reaches = {buffer: 0 for step in steps for buffer in _near(step)}
    for step in steps if found else ():
        for buffer in set(step.inputs) & found.keys():
            found[buffer] = max(found[buffer], _reach(step, target))
    return found


def _near(step: Step) -> Iterator[Buffer]:
    if isinstance(step, LoopPlan):
        yield from step.near
    elif isinstance(step, Product) and step.near_diagonal:
        yield step.result


def _reach(step: Step, target: Target) -> int:
    """How far a step looks beyond the limit of what it reads."""
    if isinstance(step, LoopPlan):
        return row_unit(step, target) or max(
            phase.inner[-1].extent.constant_value() or 0 for phase in step.nest.phases if phase.inner
        )
    assert isinstance(step, Product)
    product = step.shape
    assert product.triangle is not None
    plan = plan_product(product, target)
    left = product.triangle.side in (Side.LEFT_LOWER, Side.LEFT_UPPER)
    return plan.chunk * plan.height if left else plan.width

"""The plan of a scan: which loop its vectors run along."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core.symbols import divisible, hint
from ..loops.expr import cost
from ..loops.kernels import Fold, Scan
from ..runtime.target import Target
from .cost import LONG_STEP, MANY_ROWS
from .loops import outer_plan
from .nest import NestPlan, PhasePlan, fields_of
from .vectors import Tail, VectorLoop, extent_of


@dataclass(frozen=True)
class ScanPlan(NestPlan):
    """A nest of one phase whose reductions are running ones: each lane runs a row of its own, or a vector of a
    row is folded by doubling."""

    folds: tuple[tuple[str, Fold], ...] = ()

    def summary(self) -> str:
        how = "each lane a row of its own" if self.vector_outer else "rows folded by doubling"
        return f"{super().summary()}; scan, {how}"


def plan_scan(scan: Scan, target: Target) -> ScanPlan:
    """Where a step is long, each lane runs a row of its own, wherever the rows lie: it then takes one step an
    element, while a vector along the row takes as many as doubling does."""
    loops = scan.plan
    assert loops is not None
    long = any(cost(fold.step) >= LONG_STEP for fold in scan.folds.values())
    if long and loops.nest.outer and hint(extent_of(loops.nest.outer[-1])) >= MANY_ROWS:
        loops = replace(loops, vector_outer=True)
    plan = outer_plan(loops, target)
    (phase,) = plan.nest.phases
    if not plan.vector_outer and phase.inner:
        extent = extent_of(phase.inner[-1])
        width = plan.lanes if all(fold.associative for fold in scan.folds.values()) else 1
        tail = Tail.NONE if divisible(extent, width) else Tail.SCALAR
        plan = replace(plan, phases=(PhasePlan(VectorLoop(width, tail)),))
    return ScanPlan(**fields_of(plan), folds=tuple(scan.folds.items()))

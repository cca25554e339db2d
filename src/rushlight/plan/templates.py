"""The plans of scans, scatters and sorts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..loops.index import Var
from ..loops.kernels import Fold, Scan, Scatter, Sort
from ..loops.plans import ScatterPlan as ScatterLoops
from ..loops.plans import SortPlan
from ..runtime.target import Target
from .loops import outer_plan
from .nest import NestPlan, PhasePlan
from .vectors import Tail, VectorLoop, extent_of


@dataclass(frozen=True)
class ScanPlan(NestPlan):
    """A nest of one phase whose reductions are running ones: each lane runs a row of its own, or a vector of a
    row is folded by doubling."""

    folds: tuple[tuple[str, Fold], ...] = ()

    def summary(self) -> str:
        how = "each lane a row of its own" if self.vector_outer else "rows folded by doubling"
        return f"{super().summary()}; scan, {how}"


@dataclass(frozen=True)
class ScatterPlan(NestPlan):
    """A nest of one store. The first outer loop of the nest is the one that is split into tasks; `order` is
    how the loops nest; `loop` is the last of them."""

    order: tuple[Var, ...] = ()
    loop: VectorLoop | None = None

    def summary(self) -> str:
        order = ", ".join(map(str, self.order))
        vectors = "" if self.loop is None else f"; vectors along the last of {self.loop}"
        return f"{super().summary()}; scatter, loops in the order {order}{vectors}"


def plan_template(kernel: Scan | Scatter | Sort, target: Target) -> ScanPlan | ScatterPlan | SortPlan:
    match kernel:
        case Scan():
            return plan_scan(kernel, target)
        case Scatter():
            return plan_scatter(kernel, target)
        case Sort():
            assert kernel.plan is not None
            return kernel.plan


def plan_scan(scan: Scan, target: Target) -> ScanPlan:
    assert scan.plan is not None
    folds, plan = scan.folds, outer_plan(scan.plan, target)
    (phase,) = plan.nest.phases
    if not plan.vector_outer and phase.inner:
        extent = extent_of(phase.inner[-1])
        width = plan.lanes if all(fold.associative for fold in folds.values()) else 1
        tail = Tail.SCALAR if extent % width else Tail.NONE
        plan = replace(plan, phases=(PhasePlan(VectorLoop(width, tail)),))
    return ScanPlan(**fields_of(plan), folds=tuple(folds.items()))


def plan_scatter(scatter: Scatter, target: Target) -> ScatterPlan:
    loops: ScatterLoops | None = scatter.plan
    assert loops is not None
    plan = outer_plan(replace(loops, vector_outer=False), target)
    loop = None
    if loops.vector_outer:
        last = loops.order[-1]
        extent = extent_of(last)
        width = plan.lanes if extent >= plan.lanes else 1
        split = last in plan.nest.outer[:1]  # tasks may end inside of a vector
        loop = VectorLoop(width, Tail.SCALAR if split or width == 1 or extent % width else Tail.NONE)
    return ScatterPlan(**fields_of(plan), order=loops.order, loop=loop)


def fields_of(plan: NestPlan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in NestPlan.__dataclass_fields__}

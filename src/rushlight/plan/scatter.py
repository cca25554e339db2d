"""The plan of a scatter: which loop is split over tasks, and whether the last one runs in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.index import Index, Var
from ..core.symbols import at_least, divisible, hint, is_data
from ..loops.expr import Expr, cost, walk
from ..loops.extents import points_of
from ..loops.kernels import Scatter
from ..loops.nest import Nest, Store
from ..loops.plans import MOST_TASKS, TASK_WORK
from ..runtime.target import Target
from ..schedule.cost import SERIAL_WORK
from .cost import POINT_WORK, WHOLE_ROWS
from .nest import NestPlan, PhasePlan
from .vectors import Tail, VectorLoop, extent_of, machine_lanes


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


def plan_scatter(scatter: Scatter, target: Target) -> ScatterPlan:
    """Loops in row-major order; only a loop whose points never meet is split, or runs in vectors."""
    nest = scatter.nest
    (store,) = nest.phases[0].statements
    assert isinstance(store, Store)
    order = nest.outer
    apart = [var for var in order if var in _separate(store.access.index)]
    vectors = bool(order) and order[-1] in apart and _is_contiguous(store, order[-1])
    split, tasks, rows = _split(nest, apart, vectors=vectors)
    if split is not None:
        nest = Nest(nest.name, (split, *[var for var in order if var is not split]), nest.phases)
    lanes = machine_lanes(nest, target)
    loop = None
    if vectors:
        extent = extent_of(order[-1])
        width = lanes if at_least(extent, lanes) else 1
        cut = order[-1] in nest.outer[:1]  # tasks may end inside of a vector
        loop = VectorLoop(
            width, Tail.SCALAR if cut or width == 1 or not divisible(extent, width) else Tail.NONE
        )
    return ScatterPlan(nest, lanes, False, tasks, rows, (PhasePlan(),), order=order, loop=loop)


def _split(nest: Nest, apart: Sequence[Var], *, vectors: bool) -> tuple[Var | None, int, int]:
    """The loop that is split into tasks, how many, and how many of its points each has."""
    order = nest.outer
    work = sum(POINT_WORK + cost(value) for value in nest.phases[0].values()) * points_of(order)
    if is_data(work):  # tasks are planned before it is known: along a loop of another extent, or not at all
        work, apart = hint(work), [var for var in apart if not is_data(extent_of(var))]
    wanted = 1 if work < SERIAL_WORK else max(1, min(work // TASK_WORK, MOST_TASKS))
    split = next((var for var in apart if at_least(extent_of(var), wanted)), None)
    split = split or max(apart, key=extent_of, default=None)
    if split is None or wanted == 1:
        return None, 1, 1
    extent = extent_of(split)
    rows = -(-extent // min(wanted, extent))
    if vectors and split is order[-1]:
        rows = -(-rows // WHOLE_ROWS) * WHOLE_ROWS
    return split, -(-extent // rows), rows


def _is_contiguous(store: Store, var: Var) -> bool:
    """Whether neighbouring points of a loop go to neighbouring positions."""
    return store.access.index.stride(var) == 1 and not any(varies(e, var) for _, e in store.access.indirect)


def _separate(position: Index) -> set[Any]:
    """The atoms of a position that are digits of it, so that other values of them are other positions."""
    terms = sorted(((c, m) for m, c in position.terms.items() if m), key=lambda term: term[0])
    reach = 0
    for coefficient, monomial in terms:
        if len(monomial) != 1 or coefficient <= reach:
            return set()
        reach += coefficient * int(monomial[0].bounds()[1])
    return {monomial[0] for _, monomial in terms}


def varies(expr: Expr, var: Var) -> bool:
    """Whether a value changes along a loop."""
    return any(
        (node.op == "load" and node.data.index.depends_on(var))
        or (node.op == "index" and node.data.depends_on(var))
        for node in walk(expr)
    )

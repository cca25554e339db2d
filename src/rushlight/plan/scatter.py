"""The plan of a scatter: which loop is split over tasks, and whether the last one runs in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.atoms import Dim
from ..core.data_sizes import is_data
from ..core.index import Below, Index, Var, as_index
from ..core.proofs import always_nonnegative
from ..core.symbols import divisible, hint, hint_of, is_size
from ..loops.expr import Expr, cost, walk
from ..loops.extents import points_of
from ..loops.kernels import Scatter
from ..loops.nest import Nest, Store
from ..loops.plans import Split
from ..loops.tasks import MOST_TASKS, TASK_WORK
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
    along, split = _split(nest, apart)
    if along is not None:
        nest = Nest(nest.name, (along, *[var for var in order if var is not along]), nest.phases)
    lanes = machine_lanes(nest, target)
    loop = None
    if vectors:
        extent = extent_of(order[-1])
        width = lanes if hint(extent) >= lanes else 1
        cut = order[-1] in nest.outer[:1]  # tasks may end inside of a vector
        whole = not cut and width > 1 and divisible(extent, width)
        loop = VectorLoop(width, Tail.NONE if whole else Tail.SCALAR)
    shares = (1, 1) if split is None else split.tasks_and_rows()
    return ScatterPlan(nest, lanes, False, *shares, (PhasePlan(),), order=order, loop=loop, split=split)


def _split(nest: Nest, apart: Sequence[Var]) -> tuple[Var | None, Split | None]:
    """The loop that is split into tasks, and how; None if there is no such loop, or it is not worth it for any
    size."""
    order = nest.outer
    work = sum(POINT_WORK + cost(value) for value in nest.phases[0].values()) * points_of(order)
    if is_data(work):  # tasks are planned before it is known: along a loop of another extent, or not at all
        work, apart = hint(work), [var for var in apart if not is_data(extent_of(var))]
    wanted = max(1, min(hint(work) // TASK_WORK, MOST_TASKS))
    along = next((var for var in apart if hint_of(var.extent) >= wanted), None)
    along = along or max(apart, key=lambda var: hint_of(var.extent), default=None)
    if along is None or (not is_size(work) and work < SERIAL_WORK):
        return None, None
    return along, Split(extent_of(along), work, WHOLE_ROWS if along is order[-1] else 1)


def _is_contiguous(store: Store, var: Var) -> bool:
    """Whether neighbouring points of a loop go to neighbouring positions."""
    return store.access.index.stride(var) == 1 and not any(varies(e, var) for _, e in store.access.indirect)


def _separate(position: Index) -> set[Any]:
    """The atoms of a position that are digits of it, so that other values of them are other positions."""
    terms: list[tuple[Index, Any]] = []  # how far a digit moves the position, and the digit
    for monomial, coefficient in position.terms.items():
        digits = [atom for atom in monomial if not isinstance(atom, Dim)]
        if len(digits) > 1:
            return set()
        if digits:
            sizes = [atom for atom in monomial if isinstance(atom, Dim)]
            terms.append((Index({tuple(sizes): coefficient}), digits[0]))
    reach = as_index(0)
    for step, digit in sorted(terms, key=lambda term: hint_of(term[0])):
        if not always_nonnegative(step - reach - 1):
            return set()
        last = digit.extent - 1 if isinstance(digit, Below) else int(digit.bounds()[1])
        reach = reach + step * last
    return {digit for _, digit in terms}


def varies(expr: Expr, var: Var) -> bool:
    """Whether a value changes along a loop."""
    return any(
        (node.op == "load" and node.data.index.depends_on(var))
        or (node.op == "index" and node.data.depends_on(var))
        for node in walk(expr)
    )

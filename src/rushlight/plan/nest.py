"""The plan of a loop nest: which loop runs in vectors, how wide, what is prefetched, and how tasks share it.

`NestPlan.verify` checks that tasks cover the outermost loop once, that vectors fit the loops they run along,
and that each phase has its plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.errors import InternalError
from ..core.index import Index
from ..core.symbols import divisible, hint
from ..loops.expr import Access, Expr
from ..loops.nest import Nest, Phase, Store, print_nest
from ..loops.plans import Split
from .cost import SQUARE_REGISTERS
from .vectors import Tail, VectorLoop, extent_of, is_long


@dataclass(frozen=True)
class Prefetch:
    """Cache lines asked for at a point of a loop, to be read or written soon."""

    access: Access
    write: bool

    def __str__(self) -> str:
        return f"{'write' if self.write else 'read'} {self.access}"


@dataclass(frozen=True)
class RestStore:
    """A store of one value to the rest of a row that ended early, for `reach` elements at most: as far as the
    vectors and tiles of its readers look; None for all of it."""

    store: Store
    reach: int | None = None


@dataclass(frozen=True)
class PhasePlan:
    """How a phase of a nest runs at one point of the outer loops."""

    loop: VectorLoop | None = None  # the last inner loop; None if it does not run in vectors
    prefetch: tuple[Prefetch, ...] = ()
    rest: tuple[RestStore, ...] = ()  # beyond the end of a row that ends early


@dataclass(frozen=True)
class NestPlan:
    """A nest and how it runs."""

    nest: Nest
    lanes: int  # of one register
    vector_outer: bool  # the last outer loop runs in vectors, instead of the last inner loop of each phase
    tasks: int
    rows_per_task: int  # points of the outermost loop
    phases: tuple[PhasePlan, ...]
    outer: VectorLoop | None = None  # the last outer loop, where it runs in vectors
    block: int = 0  # points of the last outer loop that run before the one above it moves on; 0 for all
    squares: tuple[Expr, ...] = ()  # loads across the last loop, transposed in registers
    interleaved_rows: int = 1  # rows that take each step together
    limit: Index | None = None  # where the last loop of every phase may end already
    limit_unit: int | None = None  # lanes of which that end is a multiple; None if loops run to their end
    split: Split | None = None  # how tasks and their rows follow from the extents

    @property
    def name(self) -> str:
        return self.nest.name

    @property
    def square_group(self) -> int:
        """Points of both loops of a transpose that are visited together."""
        return SQUARE_REGISTERS * self.lanes

    @property
    def shares_extent(self) -> bool:
        """Whether the code does not depend on the extent of the only outer loop, which the caller gives."""
        return len(self.nest.outer) == 1

    def phase(self, phase: Phase) -> PhasePlan:
        return self.phases[self.nest.phases.index(phase)]

    def verify(self) -> None:
        """Raise InternalError if the plan breaks an invariant."""
        extent = hint(extent_of(self.nest.outer[0])) if self.nest.outer else 1
        tasks, rows = hint(self.tasks), hint(self.rows_per_task)
        loops = [(self.nest.outer[-1], self.outer)] if self.outer is not None else []
        loops += [
            (phase.inner[-1], plan.loop)
            for phase, plan in zip(self.nest.phases, self.phases, strict=True)
            if plan.loop is not None
        ]
        rules = {
            "tasks cover the outermost loop": tasks == 1 or tasks * rows >= extent,
            "no task is empty": tasks == 1 or (tasks - 1) * rows < extent,
            "the last outer loop has a width where it runs in vectors": (
                not self.vector_outer or self.outer is not None
            ),
            "rows are interleaved only where inner loops run in vectors": (
                self.interleaved_rows == 1 or not self.vector_outer
            ),
            "an overlapping vector fits into its loop": all(
                is_long(var, loop.width) for var, loop in loops if loop.tail in OVERLAPPING
            ),
            "a loop that ends early is a whole number of units, or ends masked": self.limit_unit is None
            or all(
                loop.tail is Tail.MASKED_WIDE or divisible(extent_of(var), self.limit_unit)
                for var, loop in loops
            ),
        }
        for rule, holds in rules.items():
            if not holds:
                raise InternalError(f"plan of {self.name}: it does not hold that {rule}\n{self}")

    def summary(self) -> str:
        """The plan in a line or two."""
        loops = dict.fromkeys(str(plan.loop) for plan in self.phases if plan.loop is not None)
        vectors = (
            f"outer loop of {self.outer}" if self.outer is not None else f"inner loops of {'; '.join(loops)}"
        )
        if self.outer is None and not loops:
            vectors = "no loop"
        parts = [_tasks(self.tasks, self.rows_per_task), f"vectors along {vectors}"]
        if self.split is not None and self.split.changes:
            parts[0] = f"tasks by sizes, here {parts[0]}"
        parts += [f"in blocks of {self.block}"] if self.block else []
        parts += [f"{len(self.squares)} loads transposed in registers"] if self.squares else []
        parts += [f"{self.interleaved_rows} rows interleaved"] if self.interleaved_rows > 1 else []
        if self.limit is not None:
            unit = "to their end" if self.limit_unit is None else f"in units of {self.limit_unit}"
            parts.append(f"rows up to {self.limit} {unit}")
        prefetch = [str(p) for plan in self.phases for p in plan.prefetch]
        parts += [f"prefetch {', '.join(prefetch)}"] if prefetch else []
        return "; ".join(parts)

    def __str__(self) -> str:
        return f"{print_nest(self.nest)}\n  -- {self.summary()}"


def fields_of(plan: NestPlan) -> dict[str, Any]:
    """The fields of a plan, for one of a kind that has more."""
    return {name: getattr(plan, name) for name in NestPlan.__dataclass_fields__}


OVERLAPPING = (Tail.OVERLAP, Tail.OVERLAP_MASKED, Tail.OVERLAP_COPIED)


def _tasks(tasks: int, rows: int) -> str:
    return "1 task" if type(tasks) is int and tasks == 1 else f"{tasks} tasks of {rows} rows"

"""What scheduling decides about the loops of a nest; plan/ decides the rest for a target."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.index import Index
from ..core.symbols import hint
from .nest import Buffer, Nest, Store
from .tasks import split_rows


@dataclass(frozen=True)
class Split:
    """How the outermost loop of a nest is shared by tasks: it depends on the work alone, so that results do not
    depend on the number of threads. Sizes that change make a split that changes."""

    extent: int
    work: int
    unit: int = 1  # points of which the share of a task is a multiple, if there are several tasks,
    always: int = 1  # and in any case

    @property
    def changes(self) -> bool:
        """Whether it is another one for other sizes."""
        return type(self.extent) is not int or type(self.work) is not int

    def tasks_and_rows(self) -> tuple[int, int]:
        """How many tasks there are, and how many points each has, in the call that was captured."""
        return split_rows(hint(self.extent), hint(self.work), self.unit, self.always)


@dataclass(frozen=True, eq=False)
class LoopPlan:
    """A nest and how it is to run."""

    nest: Nest
    vector_outer: bool  # the last outer loop runs in vectors, instead of the last inner loop of each phase
    tasks: int
    rows_per_task: int  # points of the outermost loop
    block: int = 0  # points of the last outer loop that run before the one above it moves on; 0 for all
    work: int = 0  # rough instructions
    part: bool = False  # of a buffer whose other parts, elsewhere, others write
    overwrites: bool = False  # a part that others have written before
    limit: Index | None = None  # where the last loop of every phase may end already (loops/causal_bounds.py)
    rest: tuple[tuple[Store, ...], ...] = ()  # what each phase stores from there on
    # of which buffers that is looked at only near the limit: as far as vectors and tiles reach over it
    near: frozenset[Buffer] = frozenset()
    split: Split | None = None  # how `tasks` and `rows_per_task` follow from the extents

    @property
    def name(self) -> str:
        return self.nest.name

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return self.nest.inputs

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return self.nest.outputs

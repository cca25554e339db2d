"""What scheduling decides about the loops of a nest; plan/ decides the rest for a target."""

from __future__ import annotations

from dataclasses import dataclass

from .index import Index
from .nest import Buffer, Nest, Store


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

    @property
    def name(self) -> str:
        return self.nest.name

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return self.nest.inputs

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        return self.nest.outputs

"""Temporaries that are written where others are read for the last time.

A step that alone reads a temporary, each element before it writes the one with the same number of its own
result, may write that result to the temporary's memory: it is in cache already, and no other is needed.
"""

from __future__ import annotations

from ..loops.expr import Access, Recorder, loads_in
from ..loops.kernels import Product
from ..loops.nest import Buffer, MemoryKind, Nest, Store
from ..loops.plans import LoopPlan
from ..loops.rewrite import rename_plan, rename_routine
from .memory import LARGE, buffers_of, bytes_of
from .stages import Step
from .update_in_place import Pair


def reuse_memory(recorder: Recorder, steps: list[Step]) -> list[Pair]:
    """Change `steps` so; gives the pairs of a result and what it takes the place of."""
    readers: dict[Buffer, list[Step]] = {}
    writers: dict[Buffer, list[Step]] = {}
    for step in steps:
        for buffer in step.inputs:
            readers.setdefault(buffer, []).append(step)
        for buffer in step.outputs:
            writers.setdefault(buffer, []).append(step)
    names: dict[Buffer, Buffer] = {}

    def free(new: Buffer, old: Buffer) -> bool:
        """Whether one step alone reads `old` and writes `new`, and all who read `new` can read another."""
        return len(readers[old]) == len(writers[new]) == 1 == len(writers.get(old, ())) and all(
            isinstance(s, LoopPlan | Product) for s in readers.get(new, ())
        )

    for at, step in enumerate(steps):
        if isinstance(step, LoopPlan) and not step.part:
            taken: set[Buffer] = set()
            for new in step.outputs:
                old = next(
                    (
                        old
                        for old in step.inputs
                        if old not in taken
                        and _alike(new, old)
                        and free(new, old)
                        and _reads_first(step.nest, new, old)
                    ),
                    None,
                )
                if old is not None:
                    taken.add(old)
                    names[new] = names.get(old, old)
        if not names.keys().isdisjoint(buffers_of(step)):
            renamed: Step
            if isinstance(step, LoopPlan):
                renamed = rename_plan(recorder, step, names)
            else:
                renamed = rename_routine(recorder, step, names)
            steps[at] = renamed
    return list(names.items())


def _alike(new: Buffer, old: Buffer) -> bool:
    return (
        new is not old
        and new.memory is old.memory is MemoryKind.TEMPORARY
        and new.dtype is old.dtype
        and new.size == old.size
        and bytes_of(new) >= LARGE
    )


def _reads_first(nest: Nest, new: Buffer, old: Buffer) -> bool:
    """Whether each element of `old` is read only before that of `new` is written, which happens once."""
    statements = [(phase, s) for phase in nest.phases for s in phase.statements]
    places = [at for at, (_, s) in enumerate(statements) if isinstance(s, Store) and s.access.buffer is new]
    if len(places) != 1 or any(access.buffer is new for access in nest.reads()):
        return False
    here, store = statements[places[0]]
    assert isinstance(store, Store)
    if store.mode is not None or store.condition is not None or store.access.indirect:
        return False
    for at, (phase, s) in enumerate(statements):
        for access in (a for value in s.values() for a in loads_in(value) if a.buffer is old):
            if at > places[0] or phase.inner != here.inner or access != Access(old, store.access.index):
                return False
    # No other turn of the loops may read what was written.
    return all(var.extent == 1 or store.access.index.depends_on(var) for var in (*nest.outer, *here.inner))

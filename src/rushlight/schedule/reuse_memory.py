"""Temporaries that are written where others are read for the last time.

A step that alone reads a temporary, each element before it writes the one with the same number of its own
result, may write that result to the temporary's memory: it is in cache already, and no other is needed.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.traits import Trait
from ..loops.expr import Access, Recorder, loads_in
from ..loops.kernels import Extern, Product
from ..loops.nest import Buffer, MemoryKind, Nest, Store
from ..loops.plans import LoopPlan
from ..loops.program import Program, Step
from ..loops.rewrite import rename_plan, rename_routine
from .cost import LARGE_BUFFER
from .memory import buffers_of, bytes_hint


def reuse_memory(program: Program) -> Program:
    """Let steps write their results where they read something for the last time."""
    names: dict[Buffer, Buffer] = {}
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, LoopPlan) and not step.part:
            taken: set[Buffer] = set()
            for new in step.outputs:
                old = next(
                    (old for old in step.inputs if old not in taken and _fits(program, step, new, old)), None
                )
                if old is not None:
                    taken.add(old)
                    names[new] = names.get(old, old)
        elif isinstance(step, Extern) and (old := _in_place(program, step)) is not None:
            names[step.outputs[0]] = names.get(old, old)
        steps.append(
            step if names.keys().isdisjoint(buffers_of(step)) else _renamed(program.recorder, step, names)
        )
    notes = (f"{new} is written in place of {old}" for new, old in names.items())
    return replace(program, steps=tuple(steps)).note(*notes)


def _in_place(program: Program, call: Extern) -> Buffer | None:
    """The operand of a collective in whose place the result is written: of a reduction that alone reads it, and
    of `wait_tensor`, whose result is what it waits for."""
    if not call.node.op.traits & Trait.COLLECTIVE:
        return None
    if call.node.op.schema.name not in ("all_reduce", "wait_tensor"):
        return None
    (old,), (new,) = call.inputs, call.outputs
    fits = bool(
        new.memory is old.memory is MemoryKind.TEMPORARY
        and new.size == old.size
        and program.writers(old)
        and all(reader is call for reader in program.readers(old))
    )
    return old if fits else None


def _fits(program: Program, step: LoopPlan, new: Buffer, old: Buffer) -> bool:
    """Whether a step may write `new` where `old` is: it alone reads the one and writes the other, and all who
    read `new` can read another."""
    return (
        _alike(new, old)
        and len(program.readers(old)) == 1
        and program.writer(new) is not None
        and program.writer(old) is not None
        and all(isinstance(s, LoopPlan | Product) for s in program.readers(new))
        and _reads_first(step.nest, new, old)
    )


def _renamed(recorder: Recorder, step: Step, names: dict[Buffer, Buffer]) -> Step:
    if isinstance(step, LoopPlan):
        return rename_plan(recorder, step, names)
    return rename_routine(recorder, step, names)


def _alike(new: Buffer, old: Buffer) -> bool:
    return (
        new is not old
        and new.memory is old.memory is MemoryKind.TEMPORARY
        and new.dtype is old.dtype
        and new.size == old.size
        and bytes_hint(new) >= LARGE_BUFFER
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

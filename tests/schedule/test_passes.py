"""The passes of scheduling: one form, programs that do not change, and a verifier that finds what is wrong."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

import rushlight as rl
from rushlight.core.errors import InternalError
from rushlight.loops.kernels import Product
from rushlight.loops.nest import MemoryKind
from rushlight.loops.program import Program
from rushlight.schedule.passes import SCHEDULE_PASSES, schedule, show, verify


def lowered() -> Program:
    def f(a: Any, b: Any) -> Any:
        c = (a @ b).relu()
        return rl.softmax(c, 1), rl.cat([c.sum(0), c.mean(0)]), rl.sort(c)[0], rl.cumsum(c, 0)

    compiled = rl.compile(f, fullgraph=True)
    compiled(rl.ones(40, 30), rl.ones(30, 50))
    ((made,),) = compiled.specializations.values()
    program: Program = made.artifact.program
    return program


def test_every_pass_gives_a_program_and_leaves_its_own_alone() -> None:
    program = lowered()
    for each in SCHEDULE_PASSES:
        before = show(program), program.notes
        result = each.run(program)
        assert type(result) is Program, each.name
        assert (show(program), program.notes) == before, each.name
        verify(result)
        program = result
    assert program.stages
    assert len({each.name for each in SCHEDULE_PASSES}) == len(SCHEDULE_PASSES)
    with pytest.raises(FrozenInstanceError):
        program.notes = ()  # type: ignore[misc]


def test_readers_and_writers_are_of_what_the_program_has_reached() -> None:
    program = lowered()
    product = next(d for d in program.definitions if isinstance(d, Product))
    assert program.writer(product.result) is product
    assert product not in program.readers(product.result)
    assert program.readers(product.result)
    assert product in program.readers(product.left)
    scheduled = schedule(program)
    step = next(s for s in scheduled.steps if isinstance(s, Product))
    assert scheduled.writer(step.outputs[0]) is step
    assert scheduled.writers(step.left) == ()


def test_notes_are_added_in_order() -> None:
    program = lowered()
    assert program.note() is program
    assert program.note("a").note("b", "c").notes == (*program.notes, "a", "b", "c")


def test_the_verifier_finds_what_nobody_writes_and_stages_that_differ() -> None:
    program = schedule(lowered())
    made = {b for step in program.steps for b in step.outputs if b.memory is MemoryKind.TEMPORARY}
    writer = next(s for s in program.steps if made.intersection(s.outputs) and program.readers(s.outputs[0]))
    rest = tuple(step for step in program.steps if step is not writer)
    with pytest.raises(InternalError, match="which nobody writes"):
        verify(replace(program, steps=rest, stages=()))
    with pytest.raises(InternalError, match="do not have the steps"):
        verify(replace(program, stages=program.stages[1:]))

"""Temporaries: none overlaps another that lives at the same time, and those on the stack are small."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.loops.nest import MemoryKind
from rushlight.plan.program import PlannedProgram
from rushlight.schedule.cost import ROW_BYTES
from rushlight.schedule.memory import bytes_of
from rushlight.testing.programs import draw_program


def lives(program: PlannedProgram) -> dict[Any, tuple[int, int]]:
    """The first and the last stage that uses each temporary."""
    found: dict[Any, tuple[int, int]] = {}
    for number, stage in enumerate(program.stages):
        for step in stage.steps:
            for buffer in program.buffers_of(step):
                if buffer.memory is MemoryKind.TEMPORARY:
                    found[buffer] = (found.get(buffer, (number, 0))[0], number)
    return found


def check(program: PlannedProgram) -> int:
    """Returns how many pairs share memory, one after the other."""
    times, workspace = lives(program), program.workspace
    shared = 0
    places = {b: (at, at + bytes_of(b)) for b, at in workspace.offsets.items()}
    assert set(times) <= set(places)
    assert all(end <= workspace.size for _, end in places.values())
    for a, (first, last) in times.items():
        for b, (other_first, other_last) in times.items():
            if a is not b and places[a][0] < places[b][1] and places[b][0] < places[a][1]:
                assert last < other_first or other_last < first, f"{a} and {b}"
                shared += 1
    for step in program.steps:
        assert sum(bytes_of(b) for b in step.outputs if b.memory is MemoryKind.ROW) <= ROW_BYTES
    return shared


def programs(compiled: Any) -> list[PlannedProgram]:
    entries = [entry for found in compiled.specializations.values() for entry in found]
    return [a.planned for entry in entries for a in (entry.artifact, entry.backward) if a is not None]


@pytest.mark.parametrize("gradients", [False, True])
def test_random_programs(gradients: bool) -> None:
    for seed in range(25):
        source = random.Random(seed)
        program = draw_program(lambda n, s=source: s.randrange(n) if n > 1 else 0, gradients=gradients)
        compiled = rl.compile(program.run, fullgraph=True)
        compiled(*program.arguments())
        for planned in programs(compiled):
            check(planned)


def test_memory_is_used_again() -> None:
    def chain(x: Any) -> Any:
        for _ in range(6):
            x = (x @ x).softmax(0).flip(0)
        return x

    compiled = rl.compile(chain, fullgraph=True)
    compiled(rl.randn(16, 16))
    assert sum(map(check, programs(compiled))) > 0


@pytest.mark.parametrize("width", [1000, 30_000, 100_000])
def test_long_rows_are_not_kept_on_the_stack(width: int) -> None:
    """Three rows of a million floats took more stack than a thread has."""

    def program(x: Any) -> Any:
        parts = [(x * 2).sin().exp(), (x * 3).cos().exp(), (x * 5).sin().exp()]
        a, b, c = (part - part.mean(-1, keepdim=True) for part in parts)
        return a * b * c.tanh()

    x = rl.randn(20, width)
    compiled = rl.compile(program, fullgraph=True)
    np.testing.assert_allclose(compiled(x).numpy(), program(x).numpy(), rtol=1e-4, atol=1e-5)
    for planned in programs(compiled):
        check(planned)

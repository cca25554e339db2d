"""What does not share a kernel, where temporaries lie, and when they are filled."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight import explain
from rushlight.core.dtypes import DTYPES
from rushlight.core.index import Var, as_index
from rushlight.loops.expr import Access, Recorder
from rushlight.loops.nest import Buffer, MemoryKind, Nest, Phase, Store
from rushlight.loops.plans import LoopPlan
from rushlight.plan.workspace import place_temporaries
from rushlight.schedule.memory import buffers_of, bytes_of
from rushlight.schedule.stages import form_stages

FLOAT = DTYPES["float32"]


def _data(*shape: int) -> rl.Tensor:
    return rl.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def _agrees(function: object, *args: rl.Tensor) -> list[str]:
    """The notes on fusion of a function, whose compiled results are those of eager execution."""
    found = rl.compile(function, fullgraph=True)(*args)
    for a, b in zip(found, function(*args), strict=True):  # type: ignore[operator]
        np.testing.assert_allclose(a.numpy_array(), b.numpy_array(), rtol=1e-4, atol=1e-3)
    return explain(function, *args).fusion


def test_maps_do_not_share_rows_of_two_elements() -> None:
    def run(x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        y = (x * 2 + 1).relu()
        return y, y[:, ::2] + y[:, 1::2]

    notes = _agrees(run, _data(512, 256))
    assert any("too few rows, or too short ones" in note for note in notes)


def test_column_sums_do_not_join_what_runs_along_rows() -> None:
    """Each alone reads memory in order; in one nest one of them would not."""

    def run(x: rl.Tensor, y: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        return (x * y).sum(0), x.tanh() * y

    notes = _agrees(run, _data(128, 128), _data(128, 128))
    assert not any("joined" in note for note in notes)


def test_numbers_that_many_read_do_not_join_their_readers() -> None:
    def run(scale: rl.Tensor, *values: rl.Tensor) -> list[rl.Tensor]:
        return [(value * scale).exp() for value in values]

    notes = _agrees(run, _data(1), *[_data(40 + n) for n in range(12)])
    assert not any("joined" in note for note in notes)


def _step(number: int, reads: list[Buffer], write: Buffer) -> LoopPlan:
    ops, var = Recorder(), Var("i", write.size)
    value = ops.number(0.0, FLOAT)
    for buffer in reads:
        value = ops.add(value, ops.load_at(buffer, as_index(var), FLOAT))
    nest = Nest(f"step{number}", (var,), (Phase((), (Store(Access(write, as_index(var)), value),)),))
    return LoopPlan(nest, vector_outer=True, tasks=1, rows_per_task=1)


def test_temporaries_that_live_together_do_not_overlap() -> None:
    generator = np.random.default_rng(0)
    buffers = [
        Buffer(f"b{i}", FLOAT, as_index(int(n)), MemoryKind.TEMPORARY)
        for i, n in enumerate(generator.integers(1, 5000, 60))
    ]
    steps = [
        _step(i, [buffers[j] for j in generator.integers(0, i, min(i, 2))], buffer)
        for i, buffer in enumerate(buffers)
    ]
    plan = place_temporaries([buffers_of(step) for step in steps])
    lives = {
        b: [
            n
            for n, step in enumerate(steps)
            if b in {a.buffer for a in (*step.nest.reads(), *step.nest.writes())}
        ]
        for b in buffers
    }
    for i, a in enumerate(buffers):
        assert plan.offsets[a] % 64 == 0
        assert plan.offsets[a] + bytes_of(a) <= plan.size
        for stage in range(lives[a][0], lives[a][-1] + 1):
            assert plan.tops[stage] >= plan.offsets[a] + bytes_of(a)
        for b in buffers[:i]:
            together = lives[a][0] <= lives[b][-1] and lives[b][0] <= lives[a][-1]
            apart = plan.offsets[a] + bytes_of(a) <= plan.offsets[b] or (
                plan.offsets[b] + bytes_of(b) <= plan.offsets[a]
            )
            assert apart or not together


def test_large_fills_run_right_before_they_are_needed() -> None:
    fill, first, second, last = (
        Buffer(name, FLOAT, as_index(1 << 15), MemoryKind.TEMPORARY)
        for name in ("fill", "first", "second", "last")
    )
    given = Buffer("given", FLOAT, as_index(1 << 15), MemoryKind.INPUT)
    steps = [
        _step(0, [], fill),
        _step(1, [given], first),
        _step(2, [first], second),
        _step(3, [second, fill], last),
    ]
    stages = form_stages(steps)
    assert [[s.name for s in stage.steps] for stage in stages] == [["step1"], ["step2", "step0"], ["step3"]]


SHAPES = [(4, 3), (3, 4), (2, 3, 4), (4, 6), (6, 4), (8, 3), (5, 7, 2), (7, 10), (14, 5), (3, 5, 4), (4, 15)]


@pytest.mark.parametrize("shape", SHAPES)
def test_reshapes_between_maps_of_other_factors(shape: tuple[int, ...]) -> None:
    """Maps over the same elements in loops of other extents run in one nest, forward and backward."""
    x = rl.randn(*shape)
    for other in SHAPES:
        if math.prod(other) == math.prod(shape):

            def program(x, other=other):
                first = x.tanh()
                return first, first.tanh().reshape(other).tanh().tanh()

            def gradients(run, x=x):
                given = x.detach().requires_grad_()
                first, last = run(given)
                (first.sum() + (last * last).sum()).backward()
                return first, last, given.grad

            rl.testing.assert_close(gradients(rl.compile(program, fullgraph=True)), gradients(program))

"""Numbers of stages: every task runs once, whatever the counts, also where these are known at calls alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.llvm.records import Position, word_of
from rushlight.codegen.llvm.sizes import SizeTable
from rushlight.core.symbols import Symbols
from rushlight.loops.tasks import stage_numbers
from rushlight.runtime.sized import derived_numbers


@pytest.mark.parametrize("counts", [(1,), (1, 1), (2, 1, 3), (5, 0, 1, 4), (1, 7)])
def test_every_task_of_a_stage_runs_once(counts: tuple[int, ...]) -> None:
    total, *numbers = stage_numbers(counts)
    parts = 2 * len(counts)
    starts, shifts = numbers[:parts], numbers[parts:]
    assert total == sum(counts)
    assert min(starts + shifts) >= 0  # a negative word would be a position
    tasks = [*range(len(counts)), *reversed(range(len(counts)))]
    found = []
    for number in range(total):
        part = max(p for p in range(parts) if starts[p] <= number)
        found.append((tasks[part], number - shifts[part]))
    assert sorted(found) == [(task, n) for task, count in enumerate(counts) for n in range(count)]


def test_words_of_numbers_that_change_are_negative() -> None:
    assert [word_of(n) for n in (0, 7, Position(0), Position(4))] == [0, 7, -1, -5]


def test_tables_of_sizes_hold_equal_entries_once() -> None:
    table = SizeTable(Symbols())
    first, again = table.quotient(12, 4), table.quotient(12, 4)
    other = table.stage([3, word_of(Position(first))])
    assert (first, again) == (0, 0)
    assert derived_numbers([], {}, table.derived) == [3, *stage_numbers([3, 3])]
    assert other == 1


def test_stages_of_changing_sizes() -> None:
    """Several kernels in one launch, some with one task and some with many."""

    def program(x: Any, y: Any) -> tuple[Any, ...]:
        return x.exp(), y.exp(), x.sum(1), (y @ y.T).relu()

    compiled = rl.compile(program, dynamic=True)
    for rows, columns in itertools.product((3, 1500), (4, 300)):
        x, y = rl.rand(rows, columns), rl.rand(17, columns)
        for one, other in zip(compiled(x, y), program(x, y), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-5, atol=2e-5)

"""Random programs are compiled once for all sizes, and give at each of them what they give eagerly: values,
dtypes, shapes, strides, writes and gradients.

A thousand in every run, at three sizes each; twenty thousand with
`python -m pytest -m slow tests/compile/test_sized_programs.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.passes import verifying
from rushlight.runtime import redzones
from rushlight.testing.program_results import assert_same, results, tolerances
from rushlight.testing.programs import Program
from rushlight.testing.sized_programs import SizedProgram, draw_sized

VERIFIED = 10  # one in so many is verified after every pass of the compiler, and runs between guard zones
MOST_AGAIN = 0.12  # the share of programs that may be compiled again, each for a reason that it shows


def program_of(number: int, gradients: bool) -> SizedProgram:
    generator = np.random.default_rng(number)
    return draw_sized(lambda n: int(generator.integers(n)), gradients=gradients)


def check(number: int, gradients: bool) -> tuple[SizedProgram, Any]:
    """Run a program at its sizes, and again at the first one; what was compiled."""
    drawn = program_of(number, gradients)
    compiled = rl.compile(drawn.sizes[0].run, fullgraph=True, dynamic=True)
    for program in (*drawn.sizes, drawn.sizes[0]):
        theirs, ours = program.arguments(), program.arguments()
        expected = program.run(*theirs)
        limits = tolerances(program, results(program, expected, theirs))
        actual = compiled(*ours)
        results(program, actual, ours)  # which runs the backward pass
        compare(program, expected, actual, limits[0])
        changed = [[t.grad for t in inputs] if gradients else inputs for inputs in (theirs, ours)]
        compare(program, *changed, limits[1])
    return drawn, compiled


def compare(program: Program, expected: Sequence[Any], actual: Sequence[Any], limits: list[float]) -> None:
    for a, b, limit in zip(expected, actual, limits, strict=True):
        assert (a is None) == (b is None), program
        if a is not None:
            assert a.requires_grad == b.requires_grad, program
            assert_same(a, b, limit, program)


def check_all(first: int, count: int, gradients: bool = False) -> None:
    """A program that fails is known by its number."""
    again: Counter[str] = Counter()
    for number in range(first, first + count):
        thorough = number % VERIFIED == 0
        try:
            with verifying(thorough), redzones.guarding() if thorough else nullcontext():
                drawn, compiled = check(number, gradients)
        except Exception as error:
            error.add_note(f"program {number}")
            raise
        assert not compiled.eager, (number, compiled.eager)
        if len(compiled.reasons) > 1:
            assert drawn.again, f"program {number} is compiled again: {compiled.reasons[1:]}\n{drawn}"
            again[drawn.again] += 1
    assert again.total() <= MOST_AGAIN * count, again


@pytest.mark.parametrize("shard", range(4))
def test_programs_at_three_sizes(shard: int) -> None:
    check_all(1000 * shard, 220)


@pytest.mark.parametrize("shard", range(2))
def test_gradients_of_programs_at_three_sizes(shard: int) -> None:
    check_all(100_000 + 1000 * shard, 60, gradients=True)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(16))
def test_many_programs_at_three_sizes(shard: int) -> None:
    check_all(200_000 + 1000 * shard, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(8))
def test_gradients_of_many_programs_at_three_sizes(shard: int) -> None:
    check_all(300_000 + 1000 * shard, 500, gradients=True)

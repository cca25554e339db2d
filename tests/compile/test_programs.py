"""Random programs give the same values, shapes, dtypes, classes, writes and gradients compiled as
they do eagerly.

Three thousand in every run, most of them short; fifty thousand with
`python -m pytest -m slow tests/compile/test_programs.py`.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight.core.passes import verifying
from rushlight.testing.program_results import assert_same, results, tolerances
from rushlight.testing.programs import Program, draw_program

EACH = 125  # programs of a shard; there are eight of these
VERIFIED = 8  # of the fifty thousand, one in so many is verified after every pass of the compiler

SETTINGS = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
    print_blob=False,
)


@st.composite
def programs(draw, gradients=False):
    return draw_program(lambda n: draw(st.integers(0, n - 1)) if n > 1 else 0, gradients=gradients)


def check(program: Program) -> None:
    """Compare outputs, and what was written to the inputs or their gradients, in two calls."""
    theirs = program.arguments()
    expected = program.run(*theirs)
    limits = tolerances(program, results(program, expected, theirs))
    compiled = rl.compile(program.run, fullgraph=program.whole)
    before = None
    for _ in range(2):  # the second call takes the short way
        ours = program.arguments()
        actual = compiled(*ours)
        after = results(program, actual, ours)
        compare(program, expected, actual, limits[0])
        changed = [[t.grad for t in inputs] if program.gradients else inputs for inputs in (theirs, ours)]
        compare(program, *changed, limits[1])
        for a, b in zip(*map(chain.from_iterable, (before or after, after)), strict=True):
            assert_repeated(a, b, program)
        before = after
    assert "Wrapped" not in program.classes or compiled.eager, program  # which says why


def assert_repeated(a: np.ndarray | None, b: np.ndarray | None, program: Program) -> None:
    """The second call gives what the first one gave."""
    assert (a is None) == (b is None), program
    if a is not None:
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), program


def compare(program: Program, expected: Sequence[Any], actual: Sequence[Any], limits: list[float]) -> None:
    for a, b, limit in zip(expected, actual, limits, strict=True):
        assert (a is None) == (b is None), program
        if a is not None:
            assert getattr(a, "requires_grad", False) == getattr(b, "requires_grad", False), program
            assert_same(a, b, limit, program)


@pytest.mark.parametrize("shard", range(6))
def test_programs(shard):
    check_drawn(shard, EACH)


@pytest.mark.parametrize("shard", range(2))
def test_gradients_of_programs(shard):
    check_drawn(100 + shard, EACH, gradients=True)


def check_one_of_many(program: Program) -> None:
    with nullcontext() if crc32(str(program).encode()) % VERIFIED == 0 else verifying(False):
        check(program)


def check_drawn(number: int, count: int, gradients: bool = False, check: Any = check) -> None:
    """Programs that hypothesis draws, and shrinks where they fail."""

    @seed(number)
    @settings(SETTINGS, max_examples=count)
    @given(programs(gradients=gradients))
    def run(program):
        check(program)

    run()


# The kinds of short programs: which steps they have, and whether they take gradients.
SHORT = {
    "tensors": {},
    "more tensors": {},
    "gradients": {"gradients": True},
    "more gradients": {"gradients": True},
    "arrays": {"kind": "arrays"},
    "classes": {"kind": "classes"},
    "gradients of classes": {"kind": "classes", "gradients": True},
    "wrappers": {"kind": "wrappers"},
}


def short_program(number: int, **rest: Any) -> Program:
    """A program of a few steps, which compiles quickly."""
    generator = np.random.default_rng(number)
    return draw_program(lambda n: int(generator.integers(n)), shortest=3, longest=9, **rest)


def check_short(first: int, count: int, kind: str, check: Any = check) -> None:
    """A program that fails is known by its number."""
    for number in range(first, first + count):
        try:
            check(short_program(number, **SHORT[kind]))
        except Exception as error:
            error.add_note(f"program {number}")
            raise


@pytest.mark.parametrize("kind", SHORT)
def test_short_programs(kind):
    check_short(1000 * list(SHORT).index(kind), 250, kind)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(4))
@pytest.mark.parametrize("kind", SHORT)
def test_many_short_programs(kind, shard):
    check_short(
        100_000 + 1000 * (len(SHORT) * shard + list(SHORT).index(kind)), 1000, kind, check_one_of_many
    )


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(35))
def test_many_programs(shard):
    check_drawn(1000 + shard, 400, check=check_one_of_many)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(20))
def test_gradients_of_many_programs(shard):
    check_drawn(2000 + shard, 200, gradients=True, check=check_one_of_many)

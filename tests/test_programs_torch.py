"""Random programs (see testing/programs.py) give the same values, dtypes, shapes, strides, classes, writes and
gradients as PyTorch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rushlight.testing.program_results import assert_same, differentiate, results, tolerances
from rushlight.testing.programs import draw_program

# of PyTorch's, when NumPy gives the result of an operator with an array to it
pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__ must accept context:DeprecationWarning")

KINDS: dict[str, dict[str, Any]] = {
    "tensors": {},
    "gradients": {"gradients": True},
    "arrays": {"kind": "arrays"},
    "classes": {"kind": "classes"},
    "gradients of classes": {"kind": "classes", "gradients": True},
    "wrappers": {"kind": "wrappers"},
}


def check_number(number: int, kind: str) -> None:
    generator = np.random.default_rng(number)
    program = draw_program(lambda n: int(generator.integers(n)), shortest=3, longest=14, **KINDS[kind])
    ours, theirs = program.arguments(), program.arguments(torch)
    actual, expected = program.run(*ours), program.run(*theirs)
    limits = tolerances(program, results(program, actual, ours))
    pairs = [*zip(expected, actual, limits[0], strict=True)]
    if not program.gradients:
        pairs += zip(theirs, ours, limits[1], strict=True)
    elif differentiates(expected):
        pairs += [(a.grad, b.grad, limit) for a, b, limit in zip(theirs, ours, limits[1], strict=True)]
    for a, b, limit in pairs:
        assert (a is None) == (b is None), (number, program)
        if a is not None:
            assert_same(a, b, limit, program)


def differentiates(outputs: Any) -> bool:
    """Run PyTorch's backward pass; False where it saved more than was needed, which was then written to."""
    try:
        differentiate(outputs)
    except RuntimeError as error:
        if "modified by an inplace operation" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_programs_agree_with_torch(kind: str) -> None:
    for number in range(100):
        check_number(number, kind)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_many_programs_agree_with_torch(kind: str, shard: int) -> None:
    for number in range(1000 * (1 + shard), 1000 * (2 + shard)):
        check_number(number, kind)

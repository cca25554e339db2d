"""Random programs give the same values, shapes, dtypes, writes and gradients compiled as they do eagerly.

Three thousand in every run, most of them short; tens of thousands with `-m slow`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight.testing.programs import SINGLE, Program, draw_program

EACH = 125  # programs of a shard; there are eight of these

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


TRIALS = 3
DOUBLE = 1e-9  # rounding of doubles, however it grows through up to 40 operators


def tolerances(program: Program, eager: list[list[Any]], gradients: bool = False) -> list[list[float]]:
    """How far results of an execution may be from the eager ones: of the outputs, and of the inputs after it
    or, with `gradients`, of their gradients.

    The program runs in double precision, exactly and with random errors of single precision; what these
    change, and how far the eager results are from the exact ones, tells what another order of rounding may
    change.
    """
    exact, *moved = (results_in_double(program, gradients, trial) for trial in range(TRIALS + 1))
    found = []
    for part, reference in enumerate(exact):
        limits = []
        for i, values in enumerate(reference):
            if values is None or not values.size or values.dtype.kind != "f":
                limits.append(0.0)  # integers and bools are exact
                continue
            scale = largest(values)
            with np.errstate(invalid="ignore"):  # of infinities; these, and NaN, must be the same
                change = max(largest(trial[part][i] - values) for trial in (*moved, eager))
            limits.append(10 * change + (64 * SINGLE if program.single else 0) * scale + DOUBLE * (1 + scale))
        found.append(limits)
    return found


def largest(values: np.ndarray) -> float:
    """The largest finite absolute value."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def results_in_double(program: Program, gradients: bool, trial: int) -> list[list[Any]]:
    """Outputs, and inputs or gradients; without errors for trial 0."""
    if trial and not program.single:
        return results_in_double(program, gradients, 0)
    inputs = program.doubled(gradients)
    outputs = program.in_double(inputs, np.random.default_rng(trial) if trial else None)
    return results(outputs, inputs, gradients)


def results(outputs: Sequence[Any], inputs: Sequence[Any], gradients: bool) -> list[list[Any]]:
    if gradients:
        differentiate(outputs)
    second = [t.grad for t in inputs] if gradients else inputs
    return [[None if t is None else t.detach().numpy() for t in tensors] for tensors in (outputs, second)]


def differentiate(outputs: Sequence[Any]) -> None:
    losses = [(out.double() * 0.5).sum() for out in outputs if out.requires_grad]
    if losses:
        rl.stack(losses).sum().backward()


def assert_same(eager, compiled, limit, program):
    assert eager.dtype is compiled.dtype, program
    assert eager.shape == compiled.shape, program
    if eager.numel() and not eager.requires_grad:
        assert significant_strides(eager) == significant_strides(compiled), program
    np.testing.assert_allclose(
        compiled.detach().numpy(), eager.detach().numpy(), rtol=0, atol=limit, err_msg=str(program)
    )


def significant_strides(tensor):
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def check(program: Program) -> None:
    theirs = program.tensors()
    expected = program.run(*theirs)
    compiled = rl.compile(program.run, fullgraph=True)
    found = results(expected, theirs, gradients=False)
    limits = [limit for part in tolerances(program, found) for limit in part]
    before = None
    for _ in range(2):  # the second call takes the short way
        ours = program.tensors()
        actual = compiled(*ours)
        after = (*actual, *ours)  # results, then what was written
        for a, b, limit in zip((*expected, *theirs), after, limits, strict=True):
            assert_same(a, b, limit, program)
        for a, b in zip(before or after, after, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy(), err_msg=str(program))
        before = after


def check_gradients(program: Program) -> None:
    ours, theirs = program.tensors(requires_grad=True), program.tensors(requires_grad=True)
    expected = program.run(*theirs)
    actual = rl.compile(program.run, fullgraph=True)(*ours)
    found = results(expected, theirs, gradients=True)
    values, gradients = tolerances(program, found, gradients=True)
    for a, b, limit in zip(expected, actual, values, strict=True):
        assert a.requires_grad == b.requires_grad, program
        assert_same(a, b, limit, program)
    differentiate(actual)
    for a, b, limit in zip(theirs, ours, gradients, strict=True):
        assert (a.grad is None) == (b.grad is None), program
        if a.grad is not None:
            assert_same(a.grad, b.grad, limit, program)


@pytest.mark.parametrize("shard", range(6))
def test_programs(shard):
    @seed(shard)
    @settings(SETTINGS, max_examples=EACH)
    @given(programs())
    def run(program):
        check(program)

    run()


@pytest.mark.parametrize("shard", range(2))
def test_gradients_of_programs(shard):
    @seed(100 + shard)
    @settings(SETTINGS, max_examples=EACH)
    @given(programs(gradients=True))
    def run(program):
        check_gradients(program)

    run()


def check_short(first: int, count: int) -> None:
    """Programs of a few steps, which compile quickly; a failing one is known by its number."""
    for number in range(first, first + count):
        generator = np.random.default_rng(number)
        check(draw_program(lambda n, g=generator: int(g.integers(n)), shortest=3, longest=9))


@pytest.mark.parametrize("shard", range(8))
def test_short_programs(shard):
    check_short(1000 * shard, 250)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(30))
def test_many_short_programs(shard):
    check_short(100_000 + 1000 * shard, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(40))
def test_many_programs(shard):
    @seed(1000 + shard)
    @settings(SETTINGS, max_examples=400)
    @given(programs())
    def run(program):
        check(program)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(20))
def test_gradients_of_many_programs(shard):
    @seed(2000 + shard)
    @settings(SETTINGS, max_examples=200)
    @given(programs(gradients=True))
    def run(program):
        check_gradients(program)

    run()

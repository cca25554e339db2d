"""Random programs give the same values, shapes, dtypes, writes and gradients compiled as they do eagerly."""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight.testing.programs import Program, draw_program

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


def tolerance(program: Program) -> float:
    """Rounding grows through up to 40 operators; float32 anywhere limits all that follows."""
    return 5e-4 if program.single else 1e-9


def assert_same(eager, compiled, tol, program):
    assert eager.dtype is compiled.dtype, program
    assert eager.shape == compiled.shape, program
    if eager.numel() and not eager.requires_grad:
        assert significant_strides(eager) == significant_strides(compiled), program
    np.testing.assert_allclose(
        compiled.detach().numpy(), eager.detach().numpy(), rtol=tol, atol=tol, err_msg=str(program)
    )


def significant_strides(tensor):
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def check(program: Program) -> None:
    ours, theirs = program.tensors(), program.tensors()
    expected = program.run(*theirs)
    actual = rl.compile(program.run, fullgraph=True)(*ours)
    for a, b in zip((*expected, *theirs), (*actual, *ours), strict=True):  # results, then what was written
        assert_same(a, b, tolerance(program), program)


def check_gradients(program: Program) -> None:
    ours, theirs = program.tensors(requires_grad=True), program.tensors(requires_grad=True)
    expected = program.run(*theirs)
    actual = rl.compile(program.run, fullgraph=True)(*ours)
    for a, b in zip(expected, actual, strict=True):
        assert a.requires_grad == b.requires_grad, program
        assert_same(a, b, tolerance(program), program)
    for outputs in (expected, actual):
        losses = [(out.double() * 0.5).sum() for out in outputs if out.requires_grad]
        if losses:
            rl.stack(losses).sum().backward()
    for a, b in zip(theirs, ours, strict=True):
        assert (a.grad is None) == (b.grad is None), program
        if a.grad is not None:
            scale = 1 + a.grad.abs().max().item() if a.numel() else 1
            assert_same(a.grad, b.grad, 10 * tolerance(program) * scale, program)


@pytest.mark.parametrize("shard", range(8))
def test_programs(shard):
    @seed(shard)
    @settings(SETTINGS, max_examples=100)
    @given(programs())
    def run(program):
        check(program)

    run()


@pytest.mark.parametrize("shard", range(4))
def test_gradients_of_programs(shard):
    @seed(100 + shard)
    @settings(SETTINGS, max_examples=50)
    @given(programs(gradients=True))
    def run(program):
        check_gradients(program)

    run()


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

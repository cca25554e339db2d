"""Results of compiled programs share memory, and have strides and gradients, as those of eager ones (A6)."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.testing.agreement import check_agreement


def written(x):
    y = x * 2
    y[1:] = 0
    return y.view(-1)[::3], y


def written_part_of_a_stack(x):
    y = rl.stack([x, x])
    y[0].mul_(2)
    return y, y[1]


def repeated(x):
    y = x.repeat(2, 1)
    return y, y.view(-1), y.t()


def tiled(x):
    y = x.tile(2)
    return y, y.detach(), y.squeeze()


def detached(x):
    y = x * 2
    z = y.detach()
    return z[1:], y[:2], y.view(-1)


def with_its(view):
    def function(x):
        y = x * 2
        return view(y), y

    return function


REAL = {
    "split": lambda x: (x * 2).split(2),
    "unbind": lambda x: (x * 2).unbind(0),
    "chunk": lambda x: ((x * 2).chunk(2, 1)[1], x),
    "expand": lambda x: ((x * 2)[:1].expand(3, 3, 4),),
    "expand and itself": with_its(lambda y: y[:1].expand(3, 3, 4)),
    "step": lambda x: ((x * 2)[::2],),
    "unfold": lambda x: (x.unfold(1, 3, 1), (x * 2).unfold(1, 3, 1)),
    "diagonal": lambda x: (rl.nn.functional.pad(x, (1, 1)).diagonal(),),
    "transposed": with_its(lambda y: y.t()),
    "detach": with_its(lambda y: y.detach()),
    "detached": detached,
    "integers": with_its(lambda y: y.detach().view(rl.int32)),
    "cast": lambda x: (x.to(rl.float64), x.to(rl.float32), x.t()),
    "repeated": repeated,
    "tiled": tiled,
    "written": written,
    "written part of a stack": written_part_of_a_stack,
}
COMPLEX = {
    "real": with_its(rl.real),
    "parts": lambda x: (rl.real(x * 2), rl.imag(x * 2)),
    "conj": lambda x: ((x * 2).conj(),),
    "conj and itself": with_its(rl.conj),
    "part of conj": lambda x: ((x * 2).conj().imag,),
    "view_as_real": with_its(rl.view_as_real),
}


def check(function, dtype: rl.dtype, requires_grad: bool) -> None:
    def program(compiled):
        run = compiled(function)
        for seed in (0, 1):
            rl.manual_seed(seed)
            x = rl.randn(3, 4, dtype=dtype, requires_grad=requires_grad)
            results = run(x)
            yield results, x
            yield [result.is_conj() for result in results]
            differentiable = [t for t in results if t.requires_grad]
            if differentiable:
                sum((t.abs() if t.is_complex() else t).sum() for t in differentiable).backward()
                yield x.grad

    check_agreement(program)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", REAL)
def test_a6_results_that_share_memory(name, requires_grad):
    check(REAL[name], rl.float32, requires_grad)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", COMPLEX)
def test_a6_complex_results_that_share_memory(name, requires_grad):
    check(COMPLEX[name], rl.complex64, requires_grad)


@pytest.mark.parametrize("shape", [(0, 2), (0, 2, 3), (2, 2, 0)])
@pytest.mark.parametrize("parameters", [True, False])
def test_statistics_of_no_elements_are_tensors_of_their_own(shape, parameters):
    def program(compiled):
        x = rl.zeros(shape).requires_grad_()
        weight = rl.ones(2).requires_grad_() if parameters else None

        @compiled
        def f(x, weight):
            return rl.native_group_norm(
                x, weight, weight, shape[0], 2, shape[-1] if x.ndim > 2 else 1, 1, 1e-5
            )

        results = f(x, weight)
        yield results
        yield rl.autograd.grad([r.sum() for r in results], [x])

    check_agreement(program)
    _, mean, rstd = rl.native_group_norm(rl.zeros(2, 2, 0), None, None, 2, 2, 0, 1, 1e-5)
    assert mean.untyped_storage().data_ptr() != rstd.untyped_storage().data_ptr()

"""Where the history of a compiled program ends, what it keeps for backward, results over one memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.testing.agreement import check_agreement
from rushlight.utils.checkpoint import checkpoint

C = Callable[..., Any]


def leaf(*shape: int) -> rl.Tensor:
    return rl.randn(*shape, requires_grad=True)


def an_argument_made_from_another(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x, h: x * h)
    for _ in range(2):
        x = leaf(3)
        y = f(x, x.exp())
        y.sum().backward()
        yield y, x.grad


def arguments_from_a_compiled_function(compiled: C) -> Iterator[Any]:
    f, g = compiled(lambda x: x.exp()), compiled(lambda x, h: (x * h, h.sin()))
    for _ in range(2):
        x = leaf(3)
        a, b = g(x, f(x))
        (a.sum() + b.sum()).backward()
        yield a, b, x.grad


def a_variable_with_history(compiled: C) -> Iterator[Any]:
    x = leaf(3)
    h = x.exp()
    f = compiled(lambda y: (x * h * y).sum())
    for _ in range(2):
        y = f(rl.randn(3))
        y.backward(retain_graph=True)
        yield y, x.grad


def a_hook_of_an_argument(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x: (x**2).sum())
    x = leaf(3)
    x.register_hook(lambda g: g * 3)
    for _ in range(2):
        f(x).backward()
        yield x.grad


def a_retained_gradient(compiled: C) -> Iterator[Any]:
    f = compiled(lambda h: (h**2).sum())
    for _ in range(2):
        x = leaf(3)
        h = x * 2
        h.retain_grad()
        f(h).backward()
        yield h.grad, x.grad


def errors_of_the_backward_pass(compiled: C) -> Iterator[Any]:
    def error(tensor: rl.Tensor) -> str:
        with pytest.raises(RuntimeError) as found:
            tensor.backward()
        return str(found.value)[:40]

    f = compiled(lambda x, w: (x * w).exp().sum())
    x, w = leaf(3), rl.randn(3)
    y = f(x, w)
    y.backward()
    yield x.grad, error(y)
    y = f(x, w)
    w.add_(1)  # the eager tape keeps it, too
    yield error(y)
    h = x * 2
    y = compiled(lambda h: h.exp().sum())(h)
    h.detach().add_(1)  # which is not kept
    y.backward()
    yield x.grad


def recorded_in_spite_of_no_grad(compiled: C) -> Iterator[Any]:
    @compiled
    def f(x: rl.Tensor) -> Any:
        with rl.enable_grad():
            return x * 2, x.detach() * 3

    x = leaf(3)
    for _ in range(2):
        with rl.no_grad():
            y, z = f(x)
        y.sum().backward()
        yield y, z, x.grad


def the_grad_mode_it_leaves(compiled: C) -> Iterator[Any]:
    @compiled
    def f(x: rl.Tensor) -> Any:
        y = x * 2
        rl.set_grad_enabled(False)
        return y, x * 3

    x = leaf(3)
    for _ in range(2):
        shown = f(x), rl.is_grad_enabled()
        rl.set_grad_enabled(True)
        yield shown


def results_over_one_memory(compiled: C) -> Iterator[Any]:
    @compiled
    def f(x: rl.Tensor) -> Any:
        y = x * 2
        return y, y.t(), y[0], y[:, ::2], y.view(-1), y.detach(), y, y.chunk(2, 1)

    x = rl.randn(2, 4)
    r = f(x)
    yield r
    r[0].add_(1)
    yield r
    x = leaf(2, 4)
    r = f(x)
    yield r
    (r[0].sum() + (r[1] ** 2).sum() + r[3].sum() * 3 + r[7][0].sum()).backward()
    yield x.grad


def checkpoints_inside(compiled: C) -> Iterator[Any]:
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4))
    for reentrant in (False, True):
        f = compiled(lambda x, r=reentrant: checkpoint(m, x, use_reentrant=r).sum())
        for _ in range(2):
            x = leaf(3, 4)
            f(x).backward()
            yield x.grad, m[0].weight.grad


def checkpoints_around(compiled: C) -> Iterator[Any]:
    m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())
    f = compiled(m)
    for reentrant in (False, True):
        x = leaf(3, 4)
        checkpoint(f, x, use_reentrant=reentrant).sum().backward()
        yield x.grad, m[0].weight.grad


def hooks_of_saved_tensors(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x, w: ((x @ w).tanh() ** 2).sum())
    x, w = leaf(3, 4), leaf(2, 4)
    with saved_tensors_hooks(lambda t: t.double(), lambda t: t.float()):
        y = f(x, w.t())
    y.backward()
    yield x.grad, w.grad


def a_function_without_derivative(compiled: C) -> Iterator[Any]:
    class Odd(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: rl.Tensor) -> rl.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: rl.Tensor) -> Any:
            return grad * float(grad.sum())

    f = compiled(Odd.apply)
    for _ in range(2):
        x = leaf(3)
        y = f(x)
        y.sum().backward()
        yield y, x.grad


def history_from_before(compiled: C) -> Iterator[Any]:
    @compiled
    def f(h: rl.Tensor) -> Any:
        (h * 2).sum().backward()

    g = compiled(lambda h, x: rl.autograd.grad((h * 2).sum(), x)[0])
    for _ in range(2):
        x = leaf(3)
        f(x.exp())
        yield x.grad, g(x.exp(), x)


def sparse_gradients(compiled: C) -> Iterator[Any]:
    e = nn.Embedding(10, 4, sparse=True)
    f = compiled(lambda i: e(i).sum(1))
    for _ in range(2):
        f(rl.randint(10, (3, 4))).square().sum().backward()
        yield e.weight.grad.to_dense()


@pytest.mark.parametrize(
    "program",
    [
        an_argument_made_from_another,
        arguments_from_a_compiled_function,
        a_variable_with_history,
        a_hook_of_an_argument,
        a_retained_gradient,
        errors_of_the_backward_pass,
        recorded_in_spite_of_no_grad,
        the_grad_mode_it_leaves,
        results_over_one_memory,
        checkpoints_inside,
        checkpoints_around,
        hooks_of_saved_tensors,
    ],
    ids=lambda p: p.__name__,
)
def test_one_graph(program: Any) -> None:
    for function in check_agreement(program):
        assert not getattr(function, "eager", None)


@pytest.mark.parametrize(
    "program",
    [a_function_without_derivative, history_from_before, sparse_gradients],
    ids=lambda p: p.__name__,
)
def test_breaks(program: Any) -> None:
    check_agreement(program, fullgraph=False)


def test_inputs_are_not_copied_for_the_backward_pass() -> None:
    f = rl.compile(lambda x, w: (x @ w).tanh())
    x, w = rl.randn(4, 4), leaf(4, 4)
    y = f(x, w)
    assert any(array is x._array for array in y.grad_fn.arrays)
    y.sum().backward()
    assert not isinstance(y.grad_fn.arrays, list)  # nor kept any longer

"""Compiled functions replace, accumulate and read gradients of leaves; views and writes keep history."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim

from .tensors import assert_same, tensor


def test_gradients_accumulate_in_place() -> None:
    w, v = tensor(3).requires_grad_(), tensor(3).requires_grad_()

    def f(x, w):
        (x * w).sum().backward()

    compiled = rl.compile(f, fullgraph=True)
    for seed in range(4):
        held = w.grad
        compiled(tensor(2, 3, seed=seed), w)
        f(tensor(2, 3, seed=seed), v)
        assert_same(w.grad, v.grad)
        assert held is None or w.grad is held
    assert len(compiled.reasons) == 2
    w.grad = None
    compiled(tensor(2, 3), w)
    assert_same(w.grad, tensor(2, 3).sum(0))


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none: bool) -> None:
    def train(function_of):
        rl.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad(set_to_none=set_to_none)
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        step = function_of(step)
        losses = [step(tensor(4, 3, seed=i)).item() for i in range(4)]
        optimizer.param_groups[0]["lr"] = 0.5
        losses.append(step(tensor(4, 3)).item())
        return losses, model.weight.grad, model.weight.detach(), step

    eager, compiled = train(lambda f: f), train(lambda f: rl.compile(f, fullgraph=True))
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-4)
    assert_same(compiled[1], eager[1])
    assert_same(compiled[2], eager[2])
    assert len(compiled[3].reasons) <= 2


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.1),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: optim.AdamW(p, lr=0.01),
        lambda p: optim.Adam(p, lr=0.01, amsgrad=True),
        lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5),
    ],
)
def test_a_training_step_is_compiled_once(make) -> None:
    """Gradients that are replaced without a look at them may be there or not."""

    def train(function_of):
        rl.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = make(model.parameters())

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        step = function_of(step)
        losses = [step(tensor(4, 3, seed=i)).item() for i in range(4)]
        optimizer.zero_grad()  # and there they are not again
        losses += [step(tensor(4, 3, seed=i)).item() for i in range(2)]
        return losses, model.weight.grad, step

    eager, compiled = train(lambda f: f), train(lambda f: rl.compile(f, fullgraph=True))
    np.testing.assert_allclose(compiled[0], eager[0], rtol=1e-4)
    assert_same(compiled[1], eager[1])
    assert compiled[2].reasons == ["first call"]


def test_replacing_a_gradient_and_looking_at_it() -> None:
    """What is guarded is a look before the first replacement, not one after it."""

    def program(x, w):
        w.grad = x * 2
        total = w.grad.sum()
        (w * x).sum().backward()
        return total

    def looks(x, w):
        total = x.sum() if w.grad is None else w.grad.sum()
        w.grad = x * 2
        return total

    for function, compilations in ((program, 1), (looks, 2)):
        ours, theirs = tensor(3).requires_grad_(), tensor(3).requires_grad_()
        compiled = rl.compile(function, fullgraph=True)
        for seed in range(4):
            if seed == 2:
                ours.grad = theirs.grad = None
            assert_same(compiled(tensor(3, seed=seed), ours), function(tensor(3, seed=seed), theirs))
            assert_same(ours.grad, theirs.grad)
        assert len(compiled.reasons) == compilations


def test_a_gradient_that_is_dropped() -> None:
    w = tensor(3).requires_grad_()

    def clear():
        w.grad = None

    compiled = rl.compile(clear, fullgraph=True)
    compiled()
    for _ in range(2):
        (w * 2).sum().backward()
        compiled()
        assert w.grad is None
    assert len(compiled.reasons) == 1


def test_views_of_differentiable_arguments() -> None:
    x = tensor(3, 4).requires_grad_()
    y = rl.compile(lambda x: x.t()[1:], fullgraph=True)(x)
    assert y.data_ptr() == x.t()[1:].data_ptr()
    (y * 3).sum().backward()
    assert x.grad[:, 1:].tolist() == [[3, 3, 3]] * 3
    assert x.grad[:, 0].tolist() == [0, 0, 0]


def test_a_write_that_changes_history_runs_eagerly() -> None:
    def f(y):
        y.mul_(3)
        return y.sum()

    def gradient(function):
        x = tensor(3).requires_grad_()
        y = x * 1
        function(y).backward()
        return x.grad

    assert_same(gradient(rl.compile(f)), gradient(f))

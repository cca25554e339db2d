"""Compiled functions that are differentiated again, and for batches of gradients, agree with eager ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn

MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp with dropout": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.3), nn.LayerNorm(4), nn.Linear(4, 2)),
        (5, 3),
    ),
    "convolution with buffers": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ELU(), nn.Flatten(), nn.Linear(16, 2)
        ),
        (5, 1, 4, 4),
    ),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True), (2, 5, 8)),
    "spectral norm, in place": (
        lambda: nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Linear(4, 2),
        ).eval(),
        (5, 3),
    ),
    "recurrent": (lambda: nn.Sequential(nn.GRU(3, 4), First()), (5, 2, 3)),
}


class First(nn.Module):
    def forward(self, pair: Any) -> Any:
        return pair[0].sin()


def penalty(function: Callable[..., Any], module: Any, x: Any) -> list[Any]:
    """What a gradient penalty leaves in the parameters and the argument."""
    module.zero_grad()
    rl.manual_seed(3)
    y = function(x).square().sum()
    (slope,) = rl.autograd.grad(y, x, create_graph=True)
    (slope.square().sum() + y).backward()
    found = [p.grad.clone() for p in module.parameters()] + [x.grad.clone()]
    x.grad = None
    return found


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_gradient_penalty(name: str, dynamic: bool | None) -> None:
    make, shape = MODULES[name]
    rl.manual_seed(0)
    module, x = make().double(), rl.randn(shape, dtype=rl.float64).requires_grad_()
    compiled = rl.compile(module, dynamic=dynamic)
    wanted = penalty(module, module, x)
    for _ in range(2):
        for grad, eager in zip(penalty(compiled, module, x), wanted, strict=True):
            rl.testing.assert_close(grad, eager)
    assert compiled.reasons == ["first call"]
    assert not compiled.eager


def test_a_batch_of_gradients() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = rl.randn(5, 3, requires_grad=True)
    found, wanted = (
        rl.autograd.grad(f(x)[0], x, rl.eye(2), is_grads_batched=True)[0]
        for f in (rl.compile(module), module)
    )
    rl.testing.assert_close(found, wanted)


def test_third_order() -> None:
    function = rl.compile(lambda x: (x**4).sum())
    x = rl.tensor([2.0, 3.0], requires_grad=True)
    y = function(x)
    for _ in range(3):
        (y,) = rl.autograd.grad(y.sum(), x, create_graph=True)
    assert y.tolist() == [48.0, 72.0]


def test_what_was_written_to_is_an_error() -> None:
    module = nn.Linear(3, 4)
    compiled = rl.compile(lambda x: module(x).sin())
    x = rl.randn(5, 3, requires_grad=True)
    y = compiled(x).sum()
    with rl.no_grad():
        module.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        rl.autograd.grad(y, x, create_graph=True)


def under_no_grad(x: Any) -> Any:
    with rl.no_grad():
        y = x * 2
    return x * y


@rl.no_grad()
def doubled(x: Any) -> Any:
    return x * 2


def switched_off(x: Any) -> Any:
    with rl.set_grad_enabled(False):
        y = (x * 2).sin()
    return x * y


def switched_on_again(x: Any) -> Any:
    with rl.no_grad():
        y = x * 2
        with rl.enable_grad():
            z = x.sin() * y
    return x * z


CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "detach": lambda x: x * x.detach() + x**3,
    "no_grad": lambda x: under_no_grad(x) + x**3,
    "a function that records nothing": lambda x: x * doubled(x) + x**3,
    "set_grad_enabled": lambda x: switched_off(x) + x**3,
    "enable_grad inside": switched_on_again,
    "a matrix product": lambda x: (x[None] @ doubled(x[:, None])).sum() * x + x**3,
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_what_is_computed_under_no_grad_is_a_constant(name: str) -> None:
    """A graph does not say where recording was off: gradients of gradients went through what was constant."""

    def derivatives(function: Callable[[Any], Any]) -> list[Any]:
        x = rl.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (first,) = rl.autograd.grad(function(x).sum(), x, create_graph=True)
        return [first.detach(), rl.autograd.grad(first.sum(), x)[0]]

    compiled = rl.compile(CONSTANTS[name], fullgraph=True)
    for _ in range(2):
        rl.testing.assert_close(derivatives(compiled), derivatives(CONSTANTS[name]))


@pytest.mark.xfail(
    strict=True,
    reason="a write under no_grad to a tensor that has a history keeps that history in eager code; in the graph, "
    "what was written is a constant",
)
def test_writes_under_no_grad_keep_the_history() -> None:
    def function(x: Any) -> Any:
        w = x.clone()
        with rl.no_grad():
            w.mul_(2)
        return w * x

    found = []
    for f in (function, rl.compile(function)):
        x = rl.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (first,) = rl.autograd.grad(f(x).sum(), x, create_graph=True)
        found.append(rl.autograd.grad(first.sum(), x)[0])
    rl.testing.assert_close(found[1], found[0])


def test_buffers_that_a_call_writes_to_are_kept_for_a_second_derivative() -> None:
    """The penalty of a discriminator with spectral norm: each call in training advances the vectors, of which the
    gradients of that call are computed."""

    def train(compiled: bool) -> list[Any]:
        rl.manual_seed(0)
        model = nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), nn.Tanh(), nn.Linear(4, 1)
        ).double()
        call = rl.compile(model) if compiled else model
        x = rl.linspace(-1, 1, 15, dtype=rl.float64).view(5, 3).requires_grad_()
        for _ in range(3):
            (slope,) = rl.autograd.grad(call(x).sum(), x, create_graph=True)
            (slope.square().sum() + call(x.detach()).mean()).backward()
        return [p.grad for p in model.parameters()] + list(model.buffers())

    rl.testing.assert_close(train(True), train(False))

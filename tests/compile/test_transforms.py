"""Transforms inside of compiled functions, and compiled functions inside of transforms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import func, nn
from rushlight.autograd import forward_ad
from rushlight.testing.agreement import check_agreement

C = Callable[..., Any]


def reverse_mode(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x: (func.grad(lambda y: (y.sin() ** 2).sum())(x), func.jacrev(lambda y: y**2)(x)))
    g = compiled(lambda x, v: func.vjp(lambda y: y.exp(), x)[1](v))
    for _ in range(2):
        yield f(rl.randn(3)), g(rl.randn(3), rl.randn(3))


def through_a_gradient(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x, w: func.grad(lambda y: (y * w).sin().sum())(x).sum())
    for _ in range(2):
        x, w = rl.randn(3, requires_grad=True), rl.randn(3, requires_grad=True)
        f(x, w).backward()
        yield x.grad, w.grad


def forward_mode(compiled: C) -> Iterator[Any]:
    f = compiled(
        lambda x, v: (
            func.jvp(lambda y: y.cos(), (x,), (v,)),
            func.jacfwd(lambda y: y.sin())(x),
            func.hessian(lambda y: (y**3).sum())(x),
        )
    )
    for _ in range(2):
        yield f(rl.randn(3), rl.randn(3))


def gradients_per_sample(compiled: C) -> Iterator[Any]:
    m = nn.Linear(3, 2)
    p = {k: v.detach() for k, v in m.named_parameters()}

    def loss(p: Any, x: rl.Tensor, t: rl.Tensor) -> rl.Tensor:
        return F.cross_entropy(func.functional_call(m, p, (x[None],)), t[None])

    f = compiled(lambda x, t: func.vmap(func.grad(loss), (None, 0, 0))(p, x, t))
    for _ in range(2):
        yield f(rl.randn(4, 3), rl.randint(2, (4,)))


def draws_of_a_batch(compiled: C) -> Iterator[Any]:
    for randomness in ("different", "same"):
        f = compiled(lambda x, r=randomness: func.vmap(lambda a: a + rl.rand(2), randomness=r)(x))
        yield f(rl.zeros(3, 2)), f(rl.zeros(3, 2)), rl.rand(1)


def compiled_inside(compiled: C) -> Iterator[Any]:
    f, x = compiled(lambda x: (x.sin() * x).sum()), rl.randn(3)
    yield f(x), func.grad(f)(x), func.hessian(f)(x), func.jacrev(f)(x), func.jvp(f, (x,), (x,)), f(x)
    w = rl.randn(4, 3)
    yield func.vmap(compiled(lambda x: x.cos() * 2), 1)(w)
    yield func.vmap(lambda a: compiled(lambda x: x * a)(x))(w)


def dual_numbers(compiled: C) -> Iterator[Any]:
    f, x = compiled(lambda x: x.sin() * 2), rl.randn(3)
    yield f(x)
    with forward_ad.dual_level():
        yield tuple(forward_ad.unpack_dual(f(forward_ad.make_dual(x, rl.ones(3)))))
        yield f(x)
    yield f(x)


def inference(compiled: C) -> Iterator[Any]:
    @compiled
    def inner(x: rl.Tensor) -> rl.Tensor:
        with rl.inference_mode():
            return x * 2

    m = nn.Linear(3, 3)
    f, x = compiled(m), rl.randn(2, 3)
    for _ in range(2):
        with rl.inference_mode():
            y = f(x)
        yield y.is_inference(), y.requires_grad, inner(x).is_inference(), f(x).is_inference(), f(x)


@pytest.mark.parametrize(
    "program",
    [
        reverse_mode,
        through_a_gradient,
        forward_mode,
        gradients_per_sample,
        draws_of_a_batch,
        compiled_inside,
        dual_numbers,
        inference,
    ],
    ids=lambda p: p.__name__,
)
def test_one_graph(program: Any) -> None:
    for function in check_agreement(program):
        assert not getattr(function, "eager", None)

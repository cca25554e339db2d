"""Triangular matrices are found among the definitions of a program, and only those."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight
import rushlight.nn.functional as F
from rushlight.loops.kernels import Product
from rushlight.loops.product import Side

INFINITY = float("inf")


def normal(*shape: int, seed: int = 0) -> Any:
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return rushlight.tensor(data).requires_grad_()


def sides(function: Callable[..., Any], *tensors: Any) -> list[Side | None]:
    """The triangles of the products of a compiled call, whose result is that of the eager one."""
    run = rushlight.compile(function, fullgraph=True)
    result = run(*tensors)
    grads = [t.grad for t in tensors]
    for t in tensors:
        t.grad = None
    expected = function(*tensors)
    np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    for t, grad in zip(tensors, grads, strict=True):
        if grad is not None:
            np.testing.assert_allclose(grad.numpy(), t.grad.numpy(), rtol=1e-3, atol=1e-4)
    ((entry,),) = run.specializations.values()
    products = [step.shape for step in entry.artifact.schedule.steps if isinstance(step, Product)]
    return [None if p.triangle is None else p.triangle.side for p in products]


def attention(**options: Any) -> Callable[..., Any]:
    def run(q: Any, k: Any, v: Any) -> Any:
        out = F.scaled_dot_product_attention(q, k, v, **options)
        (out * out).sum().backward()
        return out

    return run


@pytest.mark.parametrize("length", [16, 50, 300])
def test_causal_attention(length: int) -> None:
    tensors = [normal(2, 3, length, 8, seed=s) for s in range(3)]
    found = sides(attention(is_causal=True), *tensors)
    assert len(found) >= 6
    assert None not in found or length > 256  # of long sequences, blocks below the diagonal are whole
    assert {Side.RESULT, Side.LEFT_LOWER} <= set(found)


def test_attention_without_a_mask_has_no_triangles() -> None:
    assert set(sides(attention(), *[normal(2, 3, 16, 8, seed=s) for s in range(3)])) == {None}


def test_a_mask_by_hand() -> None:
    def run(q: Any, k: Any, v: Any) -> Any:
        mask = rushlight.ones(20, 20, dtype=rushlight.bool).tril()
        scores = (q @ k.transpose(-1, -2)).masked_fill(~mask, -INFINITY)
        out = scores.softmax(-1) @ v
        out.sum().backward()
        return out

    found = sides(run, *[normal(4, 20, 8, seed=s) for s in range(3)])
    assert None not in found
    assert found.count(Side.RESULT) == 2  # the scores, and the gradient of the weights
    assert Side.LEFT_LOWER in found


def weights(a: Any, diagonal: int = 0) -> Any:
    """Zero beyond a diagonal, as the weights of attention are."""
    lower = rushlight.ones(6, 6, dtype=rushlight.bool).tril(diagonal)
    return a.masked_fill(~lower, -INFINITY).softmax(-1)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b: weights(a) @ b, Side.LEFT_LOWER),
        (lambda a, b: weights(a, 2) @ b, Side.LEFT_LOWER),
        (lambda a, b: weights(a).transpose(1, 2) @ b, Side.LEFT_UPPER),
        (lambda a, b: a @ weights(b), Side.RIGHT_LOWER),
        (lambda a, b: a @ weights(b).transpose(1, 2), Side.RIGHT_UPPER),
        (lambda a, b: (a @ b) * weights(a), Side.RESULT),
        (lambda a, b: weights(a @ b), Side.RESULT),
        (lambda a, b: (weights(a) * b) @ b, None),  # b may be infinite
        (lambda a, b: (weights(a) * (b > 0)) @ b, Side.LEFT_LOWER),
        (lambda a, b: (weights(a) * a.sum(-1, keepdim=True)) @ b, Side.LEFT_LOWER),
        (lambda a, b: (weights(a) * math.inf) @ b, None),
        (lambda a, b: (weights(a) * math.nan) @ b, None),
        (lambda a, b: (weights(a) / 0) @ b, None),
        (lambda a, b: -(weights(a) / 3) @ b, Side.LEFT_LOWER),
        (lambda a, b: (weights(a) - weights(b)) @ b, Side.LEFT_LOWER),
        (lambda a, b: weights(a)[0] @ b[0], Side.LEFT_LOWER),
        (lambda a, b: (a @ b).tril(), Side.RESULT),
        (lambda a, b: (a @ b).exp().tril(), Side.RESULT),
        (lambda a, b: (a @ b).triu(), None),
        (lambda a, b: (a @ b).exp() * weights(a), None),  # exp of something may be infinite
        (lambda a, b: (weights(a) * 2).reshape(5, 1, 6, 6).reshape(5, 6, 6) @ b, Side.LEFT_LOWER),
        (lambda a, b: (weights(a) + 1) @ b, None),
        (lambda a, b: weights(a).flip(1) @ b, None),
        (lambda a, b: (a + weights(b)) @ b, None),
        (lambda a, b: weights(a).exp() @ b, None),
        (lambda a, b: weights(a).reshape(5, 12, 3).transpose(1, 2).reshape(5, 6, 6) @ b, None),
        (
            lambda a, b: (
                a.masked_fill(~rushlight.ones(6, 6, dtype=rushlight.bool).tril(), -INFINITY).softmax(1) @ b
            ),
            None,
        ),  # along columns
        (lambda a, b: a.tril() @ b, None),  # an infinity in b belongs to the result
        (lambda a, b: (a @ b) * a.tril(), None),
    ],
)
def test_what_stays_triangular(function: Callable[..., Any], expected: Side | None) -> None:
    with rushlight.no_grad():
        found = sides(function, normal(5, 6, 6), normal(5, 6, 6, seed=1))
    assert found == [expected]


def test_a_subtracted_mask_is_none() -> None:
    """Minus infinity with a negative factor is infinity."""

    def run(a: Any, b: Any) -> Any:
        lower = rushlight.ones(6, 6, dtype=rushlight.bool).tril()
        mask = rushlight.zeros(6, 6).masked_fill(~lower, -INFINITY)
        return rushlight.add(a, mask, alpha=-1).clamp(max=5).softmax(-1) @ b

    with rushlight.no_grad():
        assert sides(run, normal(5, 6, 6), normal(5, 6, 6, seed=1)) == [None]


def test_zeros_that_are_no_weights_multiply_infinities() -> None:
    """As in eager code: 0 times infinity is NaN."""
    a, b = rushlight.ones(2, 40, 40), rushlight.ones(2, 40, 40)
    b[:, 39] = INFINITY
    with rushlight.no_grad():
        sides(lambda a, b: a.tril() @ b, a, b)


@pytest.mark.parametrize("number", [INFINITY, -INFINITY, math.nan])
def test_weights_of_zero_times_no_number(number: float) -> None:
    """As in eager code: 0 times infinity is NaN, also where the zero is a weight."""
    with rushlight.no_grad():
        a, b = normal(5, 6, 6), normal(5, 6, 6, seed=1).abs()
        sides(lambda a, b: (weights(a) * number) @ b, a, b)
        sides(lambda a, b: (weights(a) / 0) @ b, a, b)
        b[:, 2, 4] = number
        sides(lambda a, b: (weights(a) * b) @ rushlight.ones_like(b), a, b)


@pytest.mark.parametrize(
    "masked",
    [
        lambda x: x.masked_fill(rushlight.arange(20) > rushlight.arange(20)[:, None], -INFINITY),
        lambda x: x + rushlight.full((20, 20), -INFINITY).triu(1),
    ],
)
def test_masks_by_indices(masked: Callable[[Any], Any]) -> None:
    def run(q: Any, k: Any, v: Any) -> Any:
        out = masked(q @ k.transpose(-1, -2)).softmax(-1) @ v
        out.sum().backward()
        return out

    found = sides(run, *[normal(4, 20, 8, seed=s) for s in range(3)])
    assert None not in found and found.count(Side.RESULT) == 2


def test_a_result_that_others_see() -> None:
    """What somebody else reads is computed whole, and what is made of it may be infinite."""

    def run(a: Any, b: Any) -> Any:
        scores = a @ b
        return rushlight.cat([weights(scores) @ b, scores])

    with rushlight.no_grad():
        assert sides(run, normal(5, 6, 6), normal(5, 6, 6, seed=1)) == [None, Side.LEFT_LOWER]

    def times(a: Any, b: Any) -> Any:
        other = a @ b
        return rushlight.cat([(weights(a) * other) @ b, other])

    with rushlight.no_grad():
        assert sides(times, normal(5, 6, 6), normal(5, 6, 6, seed=1)) == [None, None]


def test_masks_with_different_diagonals() -> None:
    def run(a: Any, b: Any) -> Any:
        scores = a @ b
        return weights(scores) + weights(scores, 2)

    with rushlight.no_grad():
        assert sides(run, normal(5, 6, 6), normal(5, 6, 6, seed=1)) == [None]


def test_no_elements() -> None:
    """Regression: a view of a triangle without elements was divided by its size."""
    for program in (lambda x: x.tril().neg().permute(1, 0).tanh(), lambda x: x.tril().t() @ x):
        empty = rushlight.ones(0, 4)
        found = rushlight.compile(program, fullgraph=True)(empty)
        assert found.tolist() == program(empty).tolist()
        assert found.shape == program(empty).shape

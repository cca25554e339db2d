"""Rows that end where nothing follows: found where they can be shown, with the results of whole rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight
import rushlight.nn.functional as F
from rushlight.loops.kernels import Product
from rushlight.loops.plans import LoopPlan
from rushlight.loops.product import Side
from rushlight.plan.causal_bounds import reaches
from rushlight.plan.passes import plan_program
from rushlight.runtime.redzones import guarding
from rushlight.runtime.target import Target

INFINITY = float("inf")


def normal(*shape: int, seed: int = 0) -> Any:
    return rushlight.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def limits(function: Callable[..., Any], *tensors: Any) -> list[str]:
    """Where rows end in the kernels of a compiled call, whose results are those of the eager one."""
    with guarding():
        check(rushlight.compile(function, fullgraph=True), function, tensors)
    run = rushlight.compile(function, fullgraph=True)
    check(run, function, tensors)
    ((entry,),) = run.specializations.values()
    plans = [step for step in entry.artifact.schedule.steps if isinstance(step, LoopPlan)]
    return [str(plan.limit) for plan in plans if plan.limit is not None]


def check(run: Callable[..., Any], function: Callable[..., Any], tensors: Any) -> None:
    results = []
    for each in (run, function):
        for t in tensors:
            t.grad = None
        out = each(*tensors)
        results.append([t.detach().numpy() for t in (*out, *(t.grad for t in tensors if t.requires_grad))])
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "columns"), [(48, 48), (128, 128), (64, 128), (128, 64), (2, 64), (192, 256)]
)
def test_sizes(rows: int, columns: int) -> None:
    def run(q: Any, k: Any, v: Any) -> Any:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.sum().backward()
        return (out,)

    lengths = (rows, columns, columns)
    tensors = [normal(2, 3, n, 8, seed=s).double().requires_grad_() for s, n in enumerate(lengths)]
    assert len(limits(run, *tensors)) == 2


@pytest.mark.parametrize("length", [48, 128, 192])
def test_causal_attention(length: int) -> None:
    def run(q: Any, k: Any, v: Any) -> Any:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = F.scaled_dot_product_attention(out, k, v, is_causal=True)
        (out * out).sum().backward()
        return (out,)

    found = limits(run, *[normal(2, 3, length, 8, seed=s).requires_grad_() for s in range(3)])
    assert len(found) == 4  # of both the weights and the gradients of the scores
    assert all(limit.startswith("1 + ") for limit in found)


def test_what_nobody_looks_at_is_not_stored() -> None:
    """Scores, weights and their gradients have nothing but zeros near the diagonal, whatever reads them."""

    def run(q: Any, k: Any, v: Any) -> Any:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        (out * out).sum().backward()
        return (out,)

    tensors = [normal(3, 128, 32, seed=s).requires_grad_() for s in range(3)]
    step = rushlight.compile(run, fullgraph=True)
    step(*tensors)
    ((entry,),) = step.specializations.values()
    steps = entry.artifact.schedule.steps
    plans = [s for s in steps if isinstance(s, LoopPlan) and s.limit is not None]
    assert len(plans) == 2 and all(plan.near for plan in plans)
    scores = [s for s in steps if isinstance(s, Product) and s.near_diagonal]
    assert [s.shape.triangle.side for s in scores] == [Side.RESULT] * 2
    assert all(s.epilogue is None for s in scores)  # masks are added where rows end
    planned = plan_program(entry.artifact.schedule, Target("", "", "", 32, 16, True, True))
    planned.verify()
    assert 0 < max(reaches(planned).values()) <= 16


def test_memory_that_is_written_again_is_read_whole() -> None:
    """Of the product only what is near the diagonal is read; what is written in its place is an operand of
    another product, which reads all of it."""

    def run(a: Any, b: Any, c: Any) -> Any:
        hidden = ~rushlight.ones(64, 64, dtype=rushlight.bool).tril()
        x = a @ b
        top = x.masked_fill(hidden, -INFINITY).amax(-1, keepdim=True)
        return ((x - top).masked_fill(hidden, 0.0) @ c,)

    assert limits(run, normal(3, 64, 8), normal(3, 8, 64, seed=1), normal(3, 64, 8, seed=2))


@pytest.mark.parametrize("diagonal", [0, 5, 40])
def test_weights_by_a_mask(diagonal: int) -> None:
    def run(x: Any) -> Any:
        mask = rushlight.ones(64, 64, dtype=rushlight.bool).tril(diagonal)
        return (x.masked_fill(~mask, -INFINITY).softmax(-1),)

    x = normal(3, 64, 64)
    x.numpy()[:, 3, 60] = np.nan  # hidden
    x.numpy()[:, 7, 50] = np.inf
    x.numpy()[1, 20, 2] = np.nan  # seen
    x.numpy()[2, 9, 2] = np.inf
    found = limits(run, x)
    assert [limit.split(" + ")[0] for limit in found] == [str(diagonal + 1)]
    weights = rushlight.compile(run)(x)[0].numpy()
    assert not weights[0][np.triu_indices(64, diagonal + 1)].any()


def test_weights_that_others_use() -> None:
    """What a row without numbers gives is seen in all that is made of it."""

    def run(x: Any, y: Any) -> Any:
        mask = rushlight.ones(64, 64, dtype=rushlight.bool).tril()
        weights = x.masked_fill(~mask, -INFINITY).softmax(-1)
        total = (weights * weights).sum(-1, keepdim=True)
        return weights @ y, weights * total, weights.cumsum(-1)

    x = normal(3, 64, 64)
    x.numpy()[1, 20, 2] = np.nan
    x.numpy()[2, 9, 2] = np.inf
    assert limits(run, x, normal(3, 64, 5))


def test_rows_that_show_nothing() -> None:
    """The mask leaves some rows empty: they are computed whole."""

    def run(x: Any) -> Any:
        mask = rushlight.ones(64, 64, dtype=rushlight.bool).tril(-1)
        return (x.masked_fill(~mask, -INFINITY).softmax(-1),)

    assert limits(run, normal(3, 64, 64)) == []


def test_what_a_sum_does_not_hide_counts() -> None:
    def run(x: Any) -> Any:
        hidden = rushlight.full((64, 64), -INFINITY).triu(1)
        return ((x + hidden).softmax(-1),)

    x = normal(3, 64, 64)
    x.numpy()[:, 3, 60] = np.nan  # plus minus infinity
    assert limits(run, x) == []


def test_zeros_that_are_no_weights() -> None:
    def run(x: Any) -> Any:
        return (x.tril() * x.sum(-1, keepdim=True),)

    x = normal(3, 64, 64)
    x.numpy()[:, 3, 1] = np.inf  # times zero
    assert limits(run, x) == []


def test_other_rows() -> None:
    """Without a diagonal, of a length that is no whole number of vectors, or short."""
    assert limits(lambda x: (x.softmax(-1),), normal(3, 64, 64)) == []

    def run(x: Any) -> Any:
        size = x.shape[-1]
        mask = rushlight.ones(size, size, dtype=rushlight.bool).tril()
        return (x.masked_fill(~mask, -INFINITY).softmax(-1), x.masked_fill(~mask, INFINITY).amin(-1))

    for size in (70, 16):
        limits(run, normal(3, size, size))


def test_reductions_with_other_neutral_elements() -> None:
    def run(x: Any) -> Any:
        mask = rushlight.ones(64, 64, dtype=rushlight.bool).tril()
        return (
            x.masked_fill(~mask, INFINITY).amin(-1),
            (mask & (x > 1)).any(-1),
            (x > -3).where(mask, True).all(-1),
        )

    assert limits(run, normal(3, 64, 64))

"""Chains: which steps follow each other share by share, and that neither order nor place changes results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight
import rushlight.nn.functional as F
from rushlight.loops.kernels import Product
from rushlight.runtime.threads import pool
from rushlight.schedule.stages import Chain


def ran(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[list[np.ndarray], Any]:
    """(the results, the schedule) of a compiled call, the results compared with the eager ones."""
    run = rushlight.compile(function, fullgraph=True)
    given = [rushlight.tensor(a) for a in arrays]
    results, wanted = run(*given), function(*given)
    ((entry,),) = run.specializations.values()
    for result, expected in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=2e-5, atol=2e-5)
    return [result.numpy() for result in results], entry.artifact.schedule


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def links(schedule: Any) -> list[list[str]]:
    """What the chains consist of: matmul or the kind of step."""
    return [
        ["product" if isinstance(step, Product) else "nest" for step in unit.steps]
        for stage in schedule.stages
        for unit in stage.units
        if isinstance(unit, Chain)
    ]


def attention(q: Any, k: Any, v: Any) -> Any:
    return (F.scaled_dot_product_attention(q, k, v, is_causal=True),)


def attention_gradients(q: Any, k: Any, v: Any, grad: Any) -> Any:
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    (mixed,) = attention(q, k, v)
    return rushlight.autograd.grad(mixed, (q, k, v), grad)


@pytest.mark.parametrize("length", [16, 33, 128])
def test_heads_of_attention_run_one_after_the_other(length: int) -> None:
    heads = [normal(4, 3, length, 24, seed=seed) for seed in range(4)]
    _, schedule = ran(attention, *heads[:3])
    assert ["product", "nest", "product"] in links(schedule)
    _, schedule = ran(attention_gradients, *heads)
    assert sum(map(len, links(schedule))) >= 6


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    heads = [normal(2, 8, 48, 16, seed=seed) for seed in range(4)]
    found = []
    before = pool().size
    for threads in (1, 2, 3):
        pool().resize(threads)
        found.append(ran(attention_gradients, *heads)[0])
    pool().resize(before)
    for others in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], others, strict=True))


def test_what_mixes_shares_is_no_link() -> None:
    def across(a: Any, b: Any, c: Any) -> Any:
        return ((a @ b).softmax(0) @ c,)  # along the batch

    _, schedule = ran(across, normal(8, 16, 16), normal(8, 16, 16, seed=1), normal(8, 16, 16, seed=2))
    assert not any("nest" in chain for chain in links(schedule))

    def turned(a: Any, b: Any, c: Any) -> Any:
        return ((a @ b).flip(0) @ c,)

    _, schedule = ran(turned, normal(8, 16, 16), normal(8, 16, 16, seed=1), normal(8, 16, 16, seed=2))
    assert not links(schedule)


def test_what_a_link_needs_from_outside_ends_the_chain() -> None:
    """The sum over all shares reads the first product, and the second product reads the sum."""

    def between(a: Any, b: Any, c: Any) -> Any:
        scores = a @ b
        total = scores.sum(0)
        weights = scores.softmax(-1)
        return weights @ c, weights @ (c + total), total

    _, schedule = ran(between, normal(8, 24, 24), normal(8, 24, 24, seed=1), normal(8, 24, 24, seed=2))
    order = [step.name for stage in schedule.stages for step in stage.steps]
    assert len(order) == len(set(order)) == len(schedule.steps)
    assert links(schedule)


def test_few_or_large_shares_form_no_chain() -> None:
    def product_softmax(a: Any, b: Any) -> Any:
        return ((a @ b).softmax(-1) @ b,)

    _, schedule = ran(product_softmax, normal(4, 32, 32), normal(4, 32, 32, seed=1))
    assert not links(schedule)
    _, schedule = ran(product_softmax, normal(8, 300, 300), normal(8, 300, 300, seed=1) / 30)
    assert not links(schedule)
    _, schedule = ran(product_softmax, normal(8, 32, 32), normal(8, 32, 32, seed=1))
    assert links(schedule) == [["product", "nest", "product"]]


def test_a_product_with_one_matrix_for_all_is_no_link() -> None:
    def shared(a: Any, b: Any, w: Any) -> Any:
        return ((a @ b).softmax(-1) @ w,)

    ran(shared, normal(8, 32, 32), normal(8, 32, 32, seed=1), normal(32, 32, seed=2))

"""Cheap maps of products that are computed again instead of being stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight
from rushlight.loops.kernels import Product


def epilogues(function: Callable[..., Any], *shapes: tuple[int, ...]) -> int:
    """How many products have an epilogue; results are compared with the eager ones."""
    given = [
        rushlight.tensor(np.random.default_rng(n).uniform(-0.2, 0.2, shape).astype(np.float32))
        for n, shape in enumerate(shapes)
    ]
    run = rushlight.compile(function, fullgraph=True)
    for result, wanted in zip(run(*given), function(*given), strict=True):
        np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=2e-5, atol=2e-5)
    ((entry,),) = run.specializations.values()
    products = [step for step in entry.artifact.schedule.steps if isinstance(step, Product)]
    return sum(product.epilogue is not None for product in products)


def test_a_scaled_product_is_not_stored_beside_the_product() -> None:
    def both(a: Any, b: Any, scale: Any) -> Any:
        product = a @ b
        scaled = product * scale
        return product.sum(0), scaled.softmax(-1), scaled.sum(-1)

    assert epilogues(both, (48, 32), (32, 64), (64,)) == 0


def test_what_is_costly_or_the_only_reader_stays_an_epilogue() -> None:
    def alone(a: Any, b: Any, scale: Any) -> Any:
        scaled = (a @ b) * scale
        return scaled.softmax(-1), scaled.sum(-1)

    def costly(a: Any, b: Any, scale: Any) -> Any:
        product = a @ b
        wave = (product * scale).exp()
        return product.sum(0), wave.cumsum(-1), wave.sum(-1)

    assert epilogues(alone, (48, 32), (32, 64), (64,)) == 1
    assert epilogues(costly, (48, 32), (32, 64), (64,)) == 1


def test_readers_at_other_places() -> None:
    """Gathered, turned, rolled, and as an operand of another product."""

    def elsewhere(a: Any, b: Any, scale: Any) -> Any:
        product = a @ b
        scaled = product * scale
        return (
            product.sum(0),
            scaled[rushlight.tensor([3, 1, 3])].sum(0),
            scaled.T.sum(0) * 2,
            scaled.roll(1, 1).sum(0),
        )

    def operand(a: Any, b: Any, scale: Any) -> Any:
        product = a @ b
        scaled = product * scale
        return product.sum(0), scaled @ b.T, scaled.sum(-1)

    epilogues(elsewhere, (48, 32), (32, 64), (64,))
    assert epilogues(operand, (48, 32), (32, 64), (64,)) == 1

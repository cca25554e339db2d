"""Derivatives of pools: where ties and NaN send the gradient, and second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional

CASES: list[tuple[str, tuple[int, ...], tuple[Any, ...]]] = [
    ("max_pool1d", (2, 3, 7), (3, 2, 1)),
    ("max_pool2d", (2, 3, 6, 5), (2, 1)),
    ("max_pool2d", (3, 6, 5), (3, 2, 1, 2, True)),
    ("max_pool3d", (1, 2, 4, 4, 5), (2,)),
    ("max_pool2d", (2, 3, 6, 4), (2,)),  # from here on windows side by side
    ("max_pool2d", (1, 2, 6, 9), ((2, 3),)),
    ("max_pool2d", (2, 6, 6), (2, 3)),
    ("max_pool3d", (1, 2, 4, 2, 6), (2,)),
    ("avg_pool1d", (2, 3, 7), (3, 2, 1)),
    ("avg_pool2d", (2, 3, 6, 5), (3, 2, 1, True, False)),
    ("avg_pool2d", (2, 3, 6, 4), (2,)),
    ("avg_pool3d", (1, 2, 4, 4, 5), (3, 1, 1, False, True, 5)),
    ("adaptive_avg_pool1d", (2, 3, 7), (3,)),
    ("adaptive_avg_pool2d", (2, 3, 6, 5), ((2, 3),)),
    ("adaptive_avg_pool3d", (1, 2, 4, 4, 5), ((8, 1, 2),)),
    ("adaptive_max_pool2d", (2, 3, 6, 5), ((2, 3),)),
    ("lp_pool2d", (1, 2, 4, 4), (3, 2)),
]


@pytest.mark.parametrize(("name", "shape", "args"), CASES)
def test_gradients_at_ties(name: str, shape: Any, args: Any) -> None:
    values = np.random.default_rng(0).integers(1, 4, shape).astype(np.float64)
    if name.startswith(("max", "avg")):
        values.reshape(-1)[::9] = np.nan
    found = []
    for lib, functions in ((rushlight, functional), (torch, torch.nn.functional)):
        x = lib.tensor(values).requires_grad_()
        result = getattr(functions, name)(x, *args)
        weights = lib.arange(result.numel(), dtype=lib.float64).reshape(result.shape)
        (result * weights).sum().backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-10)


@pytest.mark.parametrize(("name", "shape", "args"), CASES[1::3])
def test_second_order(name: str, shape: Any, args: Any) -> None:
    order = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape) / np.prod(shape) + 0.1
    x = rushlight.tensor(order).requires_grad_()
    assert gradcheck(lambda x: getattr(functional, name)(x, *args), (x,), check_forward_ad=True)
    assert gradgradcheck(lambda x: getattr(functional, name)(x, *args) ** 2, (x,))


def test_unpool_and_fractional() -> None:
    x = rushlight.tensor(np.random.default_rng(0).permutation(72).reshape(1, 2, 6, 6) / 10.0).requires_grad_()
    samples = rushlight.tensor(np.random.default_rng(0).random((1, 2, 2)))

    def there_and_back(x: Any) -> Any:
        values, indices = functional.max_pool2d(x, 2, return_indices=True)
        drawn = functional.fractional_max_pool2d(x, 2, 3, _random_samples=samples)
        return functional.max_unpool2d(values * drawn, indices, 2)

    assert gradcheck(there_and_back, (x,), check_forward_ad=True)
    assert gradgradcheck(there_and_back, (x,))

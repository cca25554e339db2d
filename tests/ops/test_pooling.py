"""Pools: every setting, NaN and ties with their indices, infinities, empty batches, dtypes, errors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.nn import functional

SPACE = (7, 6, 5)


def ties_and_nans(*shape: int) -> np.ndarray:
    drawn = np.random.default_rng(1).integers(-2, 3, shape).astype(np.float64)
    drawn.reshape(-1)[::7] = np.nan
    drawn.reshape(-1)[1::11] = -np.inf
    drawn.reshape(-1)[2::13] = np.inf
    return drawn


def same(name: str, x: np.ndarray, *args: Any, **kwargs: Any) -> None:
    ours = getattr(functional, name)(rushlight.tensor(x), *args, **kwargs)
    theirs = getattr(torch.nn.functional, name)(torch.tensor(x), *args, **kwargs)
    for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (ours, theirs)], strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("stride", [None, 1, 2])
@pytest.mark.parametrize("padding", [0, 1])
def test_regular(rank: int, kernel: int, stride: Any, padding: int) -> None:
    x = ties_and_nans(2, 3, *SPACE[:rank])
    for dilation, ceil_mode in itertools.product((1, 2), (False, True)):
        same(f"max_pool{rank}d", x, kernel, stride, padding, dilation, ceil_mode, return_indices=True)
    for ceil_mode, with_pad in itertools.product((False, True), repeat=2):
        same(f"avg_pool{rank}d", x, kernel, stride, padding, ceil_mode, with_pad)
    if rank > 1:
        same(f"avg_pool{rank}d", x, kernel, stride, padding, divisor_override=-3)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 14])
def test_adaptive(rank: int, size: int) -> None:
    x = ties_and_nans(2, 3, *SPACE[:rank])
    for given in (x, x[0]):
        same(f"adaptive_max_pool{rank}d", given, size, return_indices=True)
        same(f"adaptive_avg_pool{rank}d", given, size)


def test_all_minus_infinity() -> None:
    same("max_pool2d", np.full((1, 1, 4, 4), -np.inf), 2, padding=1, return_indices=True)
    same("max_pool1d", np.full((1, 1, 4), -np.inf), 3, 1, 1, return_indices=True)


def test_sizes_as_of_the_input() -> None:
    same("adaptive_avg_pool2d", ties_and_nans(2, 3, 5, 6), (None, 2))
    same("adaptive_max_pool2d", ties_and_nans(2, 3, 5, 6), (2, None))
    same("adaptive_avg_pool2d", np.ones((0, 3, 5, 6)), 2)
    same("adaptive_avg_pool2d", np.ones((1, 3, 5, 6)), 0)
    same("max_pool2d", np.ones((0, 3, 5, 6)), 2, return_indices=True)
    same("avg_pool3d", np.ones((0, 3, 5, 6, 4)), 2)


@pytest.mark.parametrize(("rank", "size"), list(itertools.product((2, 3), (1, 2, 3))))
def test_fractional(rank: int, size: int) -> None:
    x, samples = ties_and_nans(2, 3, *SPACE[:rank]), np.random.default_rng(0).random((2, 3, rank))
    results = [
        getattr(functions, f"fractional_max_pool{rank}d")(
            lib.tensor(x), 2, size, return_indices=True, _random_samples=lib.tensor(samples)
        )
        for lib, functions in ((rushlight, functional), (torch, torch.nn.functional))
    ]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_fractional_draws() -> None:
    x = rushlight.rand(2, 3, 8, 8)
    values, indices = functional.fractional_max_pool2d(x, 3, output_ratio=0.5, return_indices=True)
    assert tuple(values.shape) == (2, 3, 4, 4)
    assert rushlight.equal(x.flatten(2).gather(2, indices.flatten(2)), values.flatten(2))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpool(rank: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, *SPACE[:rank]))
    results = []
    for lib, functions in ((rushlight, functional), (torch, torch.nn.functional)):
        pool, unpool = (getattr(functions, f"max_{word}{rank}d") for word in ("pool", "unpool"))
        values, indices = pool(lib.tensor(x), 2, return_indices=True)
        sizes = [SPACE[:rank], (2, 3, *SPACE[:rank])] + ([None] if rank < 3 else [])
        results.append([unpool(values, indices, 2, output_size=size).numpy() for size in sizes])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_norms() -> None:
    x = abs(np.random.default_rng(0).standard_normal((2, 3, *SPACE)))
    for rank, norm in itertools.product((1, 2, 3), (1, 2, 3.5)):
        same(f"lp_pool{rank}d", x.reshape(2, 3, *SPACE[:rank], -1)[..., 0], norm, 2, 1)


def test_dtypes() -> None:
    whole = np.arange(-8, 8).reshape(1, 1, 4, 4)
    same("max_pool2d", whole, 3, 1, 1, return_indices=True)
    same("max_pool2d", whole.astype(np.uint8), 2)
    same("avg_pool2d", whole, 2, 1)
    x = rushlight.rand(1, 2, 6, 6).bfloat16()
    exact = functional.avg_pool2d(x.float(), 3)
    assert rushlight.equal(functional.avg_pool2d(x, 3), exact.bfloat16())
    for name in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
        with pytest.raises(NotImplementedError):
            getattr(functional, name)(rushlight.tensor(whole), 2)
    with pytest.raises(NotImplementedError):
        functional.max_pool1d(rushlight.tensor(whole[0]), 2)


@pytest.mark.parametrize(
    ("name", "shape", "args", "message"),
    [
        ("max_pool2d", (1, 1, 4, 4), (5,), "Output size is too small"),
        ("max_pool2d", (1, 1, 4, 4), (2, 2, 2), "at most half"),
        ("max_pool2d", (4, 4), (2,), "Expected 3D or 4D"),
        ("max_pool2d", (1, 1, 4, 4), ((2, 2, 2),), "tuple of 2 ints"),
        ("max_pool2d", (1, 1, 4, 4), (2, 0), "stride should not be zero"),
        ("max_pool2d", (1, 1, 4, 4), (2, 2, -1), "non-negative"),
        ("max_pool2d", (1, 1, 4, 4), (2, 2, 0, 0), "dilation"),
        ("max_pool2d", (1, 0, 4, 4), (2,), "optional 0 dim batch"),
        ("avg_pool2d", (1, 1, 4, 4), (2, 2, 0, False, True, 0), "divisor must be not zero"),
        ("avg_pool2d", (1, 1, 4, 4), (2, 2, 2), "at most half"),
        ("avg_pool1d", (4,), (2,), "2 to 3 dimensions"),
        ("max_pool1d", (1, 2, 4), ((2, 3),), "size 1"),
        ("adaptive_avg_pool2d", (1, 2, 0, 4), (2,), "non-zero size"),
        ("adaptive_max_pool2d", (1, 0, 4, 4), (2,), "non-zero size"),
        ("adaptive_max_pool2d", (1, 1, 4, 4), (-1,), "greater than or equal to 0"),
    ],
)
def test_errors(name: str, shape: Any, args: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        getattr(functional, name)(rushlight.ones(*shape), *args)
    with pytest.raises(RuntimeError):
        getattr(torch.nn.functional, name)(torch.ones(*shape), *args)


def test_errors_of_unpool() -> None:
    x = rushlight.ones(1, 1, 4, 4)
    for indices in (x, x.long()[..., :3], x.long() * 99):
        with pytest.raises(RuntimeError):
            functional.max_unpool2d(x, indices, 2)
    with pytest.raises(ValueError, match="must be between"):
        functional.max_unpool2d(x, x.long(), 2, output_size=(20, 8))

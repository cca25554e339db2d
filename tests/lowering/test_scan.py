"""Scans of compiled functions: values of eager code along every dimension, producers and consumers fused."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

from .programs import check, loops, same, tensor


@pytest.mark.parametrize("shape", [(5, 37, 20), (3, 130), (1,), (7, 1, 2), (9,)])
def test_every_dimension(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    for dim in range(len(shape)):
        check(
            lambda x, d=dim: (x.cumsum(d), (x / 3).cumprod(d), x.logcumsumexp(d), *x.cummax(d), *x.cummin(d)),
            x,
            rtol=1e-5,
        )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"])
def test_dtypes(dtype: str) -> None:
    x = tensor(4, 33, dtype=dtype)
    for dim in (0, 1):
        check(lambda x, d=dim: (x.cumsum(d), x.cumprod(d), *x.cummax(d), *x.cummin(d)), x)
    check(lambda x: x.cumsum(0, dtype=rl.float32), x)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3)])
def test_numbers_and_nothing(shape: tuple[int, ...]) -> None:
    x = rl.ones(shape)
    check(lambda x: (x.cumsum(0), *x.cummax(0), x.logcumsumexp(-1)), x)


def test_special_values() -> None:
    inf, nan = float("inf"), float("nan")
    x = rl.tensor([1.0, 2.0, 2.0, nan, 5.0, nan, inf, -inf, 1.0] * 3)
    check(lambda x: (*x.cummax(0), *x.cummin(0), x.cumsum(0)), x)
    check(lambda x: x.logcumsumexp(0), rl.tensor([-inf, -inf, 0.0, 1.0, inf, inf, 2.0, -inf] * 2))
    check(lambda x: x.cumprod(0), rl.tensor([1e200, 1e200, 0.0, 2.0] * 3, dtype=rl.float64))


def test_producers_and_consumers_are_in_the_loop() -> None:
    """One kernel: what is scanned is computed in it, and so is what follows at the same element."""
    x = tensor(6, 50)
    for dim in (0, 1):
        text = loops(lambda x, d=dim: (x * 2 + 1).cumsum(d).exp() * x, x)
        assert text.count("kernel ") == 1
        check(lambda x, d=dim: (x * 2 + 1).cumsum(d).sigmoid() * x, x)


def test_consumers_elsewhere_wait() -> None:
    x = tensor(6, 50)
    check(lambda x: x.cumsum(1).flip(1) + x, x)
    check(lambda x: x.cumsum(1).sum(1) + x.cumsum(0)[0, :6], x, rtol=1e-5)
    check(lambda x: x.cumsum(0).cumsum(1).t(), x, rtol=1e-5)


def test_memory_order_is_kept() -> None:
    x = tensor(6, 50).t()
    f = rl.compile(lambda x: x.cumsum(0), fullgraph=True)
    assert f(x).stride() == x.cumsum(0).stride()
    check(lambda x: (x.cumsum(0), x.cumsum(1)), x, rtol=1e-5)


def test_long_rows_keep_their_precision() -> None:
    x = rl.full((100_000,), 0.1)
    same(rl.compile(lambda x: x.cumsum(0))(x), x.cumsum(0), 1e-7)


def test_threads_do_not_matter() -> None:
    x = tensor(512, 4096)
    f = rl.compile(lambda x: (x.cumsum(1), x.cumsum(0)), fullgraph=True)
    before = rl.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 4):
            rl.set_num_threads(threads)
            results.append([r.numpy().tobytes() for r in f(x)])
    finally:
        rl.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_gradients() -> None:
    def loss(x: rl.Tensor) -> rl.Tensor:
        return x.cumsum(1).sin().sum() + x.cumprod(0).sum() + x.cummax(1)[0].sum() + x.logcumsumexp(0).sum()

    x = tensor(4, 9) / 3
    gradients = []
    for f in (loss, rl.compile(loss, fullgraph=True)):
        leaf = x.clone().requires_grad_()
        f(leaf).backward()
        gradients.append(leaf.grad)
    np.testing.assert_allclose(gradients[0].numpy(), gradients[1].numpy(), rtol=1e-4, atol=1e-5)

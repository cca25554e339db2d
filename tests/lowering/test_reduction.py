"""Reductions in native code: every way to choose dimensions, ties, NaN, and rows without elements."""

from __future__ import annotations

import pytest

import rushlight as rl

from .programs import check, tensor

ORDERS = (0, 1, 2, 3, -1, float("inf"), -float("inf"))
DIMS = [None, 0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_over_dimensions(dtype: str, keepdim: bool) -> None:
    x = tensor(4, 5, 19, dtype=dtype)
    for dim in DIMS:
        check(
            lambda x, d=dim: (
                x.sum(d, keepdim),
                x.amax(d or (), keepdim),
                x.amin(d or (), keepdim),
                x.any(d, keepdim) if d is not None else x.any(),
                x.count_nonzero(d),
            ),
            x,
            rtol=1e-5,
        )
        if dtype != "int64":
            check(
                lambda x, d=dim: (
                    x.mean(d, keepdim),
                    x.var(d, keepdim=keepdim),
                    x.std(d, keepdim=keepdim),
                    x.nansum(d, keepdim),
                    x.logsumexp(d if d is not None else (0, 1, 2), keepdim),
                    *rl.std_mean(x, d, keepdim=keepdim),
                ),
                x,
                rtol=1e-5,
            )
            check(
                lambda x, d=dim: tuple(rl.linalg.vector_norm(x, p, d, keepdim) for p in ORDERS), x, rtol=1e-5
            )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8", "bool"])
def test_positions(dtype: str) -> None:
    """Of equal elements the first."""
    x = tensor(4, 5, 19, dtype=dtype)
    for dim in (0, 1, 2):
        check(lambda x, d=dim: (*x.max(d), *x.min(d, keepdim=True), *rl.aminmax(x, dim=d)), x)
        if dtype != "bool":
            check(lambda x, d=dim: (x.argmax(d), x.argmin(d, keepdim=True)), x)
    check(lambda x: (x.max(), x.min(), *rl.aminmax(x)), x)


def test_nan_wins() -> None:
    nan = float("nan")
    x = rl.tensor([[1.0, nan, 3.0, nan], [2.0, 1.0, 2.0, 0.0]])
    check(
        lambda x: (
            *x.max(1),
            *x.min(1),
            x.argmax(1),
            x.argmin(1),
            x.argmax(),
            x.amax(0),
            x.amin(0),
            x.nansum(1),
        ),
        x,
    )


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3)])
def test_numbers_and_nothing(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    check(
        lambda x: (
            x.sum(),
            x.prod(),
            x.mean(),
            x.any(),
            x.all(),
            x.count_nonzero(),
            x.sum(0),
            x.mean(0),
            x.nansum(),
            x.logsumexp(0),
        ),
        x,
    )
    if 0 not in shape:
        check(lambda x: (*x.max(0), x.argmax(), x.argmin(0), x.amax(), x.median()), x)


def test_infinite_maxima() -> None:
    inf = float("inf")
    x = rl.tensor([[-inf, -inf], [inf, 0.0], [inf, -inf], [1.0, 2.0]])
    check(lambda x: (x.logsumexp(1), x.logsumexp(0)), x)


def test_trace_and_products() -> None:
    x = tensor(7, 5)
    check(lambda x: (x.trace(), x.prod(), x.prod(1), (x > 0).prod(0), x.to(rl.int64).trace()), x, rtol=1e-5)

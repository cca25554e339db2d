"""Sorting and searching in native code: the order of eager code, positions of equal elements included."""

from __future__ import annotations

import pytest

import rushlight as rl

from .programs import check, check_raises, tensor

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(9, 37), (2, 1500)], ids=["network", "digits"])
def test_sort(shape: tuple[int, ...], dtype: str) -> None:
    x = tensor(*shape, dtype=dtype)
    check(lambda x: (*x.sort(dim=1, stable=True), *x.sort(dim=1, descending=True, stable=True)), x)
    check(lambda x: (x.argsort(dim=0, stable=True), x.sort(0, True)[0], x.msort()), x)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_selection(dtype: str) -> None:
    x = tensor(5, 203, dtype=dtype)
    check(lambda x: (*x.topk(3), *x.topk(3, largest=False), *x.topk(100, 1), *x.topk(2, 0)), x)
    check(lambda x: (*x.kthvalue(4, 1), *x.kthvalue(150, 1), *x.kthvalue(2, 0, keepdim=True)), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("size", [8, 40, 1500])
def test_special_values(dtype: str, size: int) -> None:
    inf, nan = float("inf"), float("nan")
    values = [0.0, -0.0, nan, 1.0, inf, -inf, nan, 1.0, -0.0, 0.0]
    x = rl.tensor((values * (size // 8))[:size]).to(getattr(rl, dtype))
    check(lambda x: (*x.sort(stable=True), *x.sort(descending=True, stable=True), *x.topk(3), *x.topk(7)), x)
    check(lambda x: (*x.median(0), *x.nanmedian(0), x.median(), x.nanmedian()), x)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (0, 3), (1, 1), (2, 2), (4, 3, 5)])
def test_shapes(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    for dim in range(max(1, len(shape))):
        check(lambda x, d=dim: (*x.sort(d), *x.topk(min(1, x.size(d) if x.ndim else 1), d)), x)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_medians(dtype: str) -> None:
    x = tensor(3, 8, 5, dtype=dtype)
    for dim in (0, 1, 2):
        check(lambda x, d=dim: (*x.median(d), *x.nanmedian(d, keepdim=True)), x)
    check(lambda x: (x.median(), x[:1].median()), x)


def test_strided_operands_are_read_in_place() -> None:
    x = tensor(40, 30)
    assert check(lambda x: x.t()[::2, 3:].sort(1), x).count("kernel ") == 0
    check(lambda x: (x * 2 + 1).t().sort(0), x)


def test_large_rows() -> None:
    x = tensor(70_000)
    check(lambda x: x.sort(), x)
    check(lambda x: (x * 1e9).to(rl.int64).sort(descending=True), x)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
@pytest.mark.parametrize("count", [1, 2, 7, 64, 100])
def test_search(dtype: str, count: int) -> None:
    edges = tensor(count, dtype=dtype).sort()[0]
    x = tensor(6, 9, seed=1, dtype=dtype)
    check(
        lambda e, x: (
            rl.searchsorted(e, x),
            rl.searchsorted(e, x, right=True),
            rl.bucketize(x, e),
            rl.bucketize(x, e, out_int32=True, right=True),
            rl.searchsorted(e, 1),
        ),
        edges,
        x,
    )
    rows = tensor(6, count, dtype=dtype)
    check(lambda r, x: rl.searchsorted(r.sort(1)[0], x), rows, x)
    check(lambda r, x: rl.searchsorted(r, x, sorter=r.argsort(1)), rows, x)


def test_search_with_nan() -> None:
    nan = float("nan")
    edges, x = rl.tensor([-1.0, 0.0, 2.0, nan]), rl.tensor([nan, -2.0, 0.0, 5.0])
    check(lambda e, x: (rl.searchsorted(e, x), rl.searchsorted(e, x, right=True)), edges, x)


def test_a_sorter_that_is_wrong_raises() -> None:
    check_raises(lambda e, x, s: rl.searchsorted(e, x, sorter=s), tensor(3), tensor(4), rl.tensor([0, 7, 1]))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_membership(dtype: str, count: int) -> None:
    x, known = tensor(7, 9, dtype=dtype), tensor(count, seed=1, dtype=dtype)
    check(lambda x, k: (rl.isin(x, k), rl.isin(x, k, invert=True), rl.isin(x, 1), rl.isin(1, k)), x, known)


def test_unused_results_are_not_written() -> None:
    text = check(lambda x: x.argsort(dim=1, stable=True), tensor(9, 37))
    assert "sort" in text

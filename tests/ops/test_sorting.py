"""Sorting, searching and unique values against PyTorch where OpInfo does not look."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import rushlight

NAMES = {
    "x": "lib.arange(12.).reshape(3, 4)",
    "L": "lib.arange(12).reshape(3, 4)",
    "s0": "T(5.)",
    "v": "T([3., nan, 1., 3., -0., 0., nan])",
    "n": "nan",
    "c": "T([1 + 1j, 2])",
    "u": "T([[1, 1, 2], [1, 1, 2], [0, 5, 5]])",
    "b": "T([1., 3., 5.])",
    "b2": "T([[1., 3., 5.], [2., 4., 6.]])",
}

ORDER = """
lib.sort(v)
lib.sort(v, descending=True)
lib.sort(c)
lib.sort(s0)
lib.sort(x, dim=2)
lib.sort(lib.zeros(0, 3), dim=0)
lib.sort(x.t(), dim=0)[0].stride()
lib.sort(x[:, ::2], dim=1)[0].stride()
lib.sort(x.bool())[0]
lib.sort(x, stable=True)[1]
lib.sort(x, 0, True)
lib.sort(x, stable=None)
lib.sort(v, out=(lib.empty(0), lib.empty(0)))
lib.argsort(v, stable=True)
lib.argsort(v, 0, True)
lib.argsort(s0)
lib.msort(s0)
lib.msort(x)
lib.topk(v, 9)
lib.topk(v, -1)
lib.topk(s0, 1)
lib.topk(s0, 0)
lib.topk(s0, 2)
lib.topk(c, 1)
lib.topk(x, 2, dim=5)
lib.topk(x.bool(), 1)
lib.topk(x, 0)
lib.topk(lib.zeros(0, 3), 1, dim=0)
lib.topk(lib.zeros(0, 3), 1)
lib.topk(x, 2, sorted=False)
lib.kthvalue(v, 3)
lib.kthvalue(v, 0)
lib.kthvalue(v, 8)
lib.kthvalue(s0, 1)
lib.kthvalue(s0, 2)
lib.kthvalue(lib.zeros(0, 3), 1)
lib.kthvalue(lib.zeros(0, 3), 1, dim=0)
lib.kthvalue(c, 1)
lib.kthvalue(x.bool(), 1)
lib.kthvalue(x, 1, keepdim=True)[0].shape
"""

UNIQUE = """
lib.unique(v)
lib.unique(v, return_inverse=True, return_counts=True)
lib.unique(c)
lib.unique(u, dim=0, return_inverse=True, return_counts=True)
lib.unique(u, dim=1)
lib.unique(u, dim=5)
lib.unique(lib.zeros(0, 3), dim=0)
lib.unique(lib.zeros(0, 3), dim=1)
lib.unique(lib.zeros(0))
lib.unique(s0, return_inverse=True)
lib.unique(s0, dim=0)
lib.unique(x.bool())
lib._unique2(u)
lib._unique(u)
lib.unique(u, sorted=False)
lib.unique_consecutive(u, return_inverse=True, return_counts=True)
lib.unique_consecutive(u, dim=0, return_inverse=True, return_counts=True)
lib.unique_consecutive(v)
lib.unique_consecutive(lib.zeros(0))
lib.unique_consecutive(lib.zeros(0, 3), dim=0)
lib.unique_consecutive(s0, return_counts=True, return_inverse=True)
lib.unique(v.to(bfloat16))
lib.unique(T([[0., -0.], [n, 1.], [n, 1.]]), dim=0)
lib.unique_consecutive(T([[0., -0.], [n, 1.], [n, 1.]]), dim=0)
lib.unique(u.to(lib.uint16))
u.unique(dim=0, return_counts=True)
lib.unique(T([0., -0.]))
lib.unique_consecutive(c)
lib.unique(lib.zeros(2, 2, dtype=complex64), dim=0)
lib.unique_consecutive(lib.zeros(2, 2, dtype=complex64), dim=0)
lib.unique(x, dim=0)[0].stride()
lib.isin(x, b, assume_unique=True)
lib.isin(T([1, 2, 2]), T([2]), assume_unique=True)
"""

SEARCH = """
lib.searchsorted(b, x)
lib.searchsorted(b, x.double())
lib.searchsorted(b, 3)
lib.searchsorted(b, 3, right=True)
lib.searchsorted(b, T([n, 1., 3.]))
lib.searchsorted(b2, lib.ones(2, 4))
lib.searchsorted(b2, lib.ones(3, 4))
lib.searchsorted(b2, 1)
lib.searchsorted(b, 1, side="right")
lib.searchsorted(b, 1, side="foo")
lib.searchsorted(b, 1, side="left", right=True)
lib.searchsorted(b, x, sorter=T([0, 1, 2]))
lib.searchsorted(b, x, sorter=T([0, 1]))
lib.searchsorted(b, x, sorter=T([0, 1, 5]))
lib.searchsorted(b, x, sorter=T([0, 1, 2]).int())
lib.searchsorted(b, x, out_int32=True)
lib.searchsorted(b, x, out_int32=True, out=lib.empty(3, 4, dtype=lib.long))
lib.searchsorted(s0, x)
lib.searchsorted(b, s0)
lib.searchsorted(b.to(complex64), x.to(complex64))
lib.searchsorted(b.bool(), x.bool())
lib.searchsorted(b.long(), 2.5)
lib.searchsorted(b.long(), 3)
lib.searchsorted(lib.zeros(0), x)
lib.searchsorted(lib.zeros(2, 0), lib.zeros(2, 3))
lib.searchsorted(b2, lib.ones(4))
lib.searchsorted(b, lib.ones(0))
lib.bucketize(x, b)
lib.bucketize(3, b)
lib.bucketize(x, b2)
lib.bucketize(x.double(), b)
lib.bucketize(s0, b)
lib.bucketize(3., b.long())
"""

MEMBERS = """
lib.isin(x, b)
lib.isin(x, b.long())
lib.isin(x, 3)
lib.isin(3, x)
lib.isin(3, 3)
lib.isin(c, c)
lib.isin(x.bool(), x.bool())
lib.isin(v, v)
lib.isin(s0, x)
lib.isin(x, s0, invert=True)
lib.isin(x, lib.zeros(0))
lib.isin(x, lib.zeros(0), invert=True)
lib.isin(x.to(bfloat16), b.to(bfloat16))
lib.isin(L, 2.5)
lib.isin(x, b, assume_unique=True)
lib.isin(T([1, 2, 2]), T([2]), assume_unique=True)
lib.isin(x, b, out=lib.empty(3, 4))
lib.isin(L, True)
lib.isin(x.bool(), True)
"""


def table(*texts: str) -> list[str]:
    return [line for text in texts for line in text.strip().splitlines()]


@pytest.mark.parametrize("expression", table(ORDER, UNIQUE, SEARCH, MEMBERS))
def test_like_pytorch(like_pytorch: Callable[[str], None], expression: str) -> None:
    like_pytorch(f"(lambda {', '.join(NAMES)}: {expression})({', '.join(NAMES.values())})")


# Ties, NaN, signs and extremes in every dtype.

EXTREMES = {
    "float32": [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, 1.0, 0.0, np.nan],
    "float64": [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e308, 1.0, 0.0, np.nan],
    "float16": [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1.0, 65504.0, np.nan],
    "bfloat16": [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1.0, 3e38, np.nan],
    "int8": [0, -128, 127, 0, -1, 5, 5],
    "int16": [0, -(2**15), 2**15 - 1, 0, -1, 5, 5],
    "int32": [0, -(2**31), 2**31 - 1, 0, -1, 5, 5],
    "int64": [0, -(2**63), 2**63 - 1, 0, -1, 5, 5],
    "uint8": [0, 255, 7, 0, 128, 7],
    "bool": [True, False, True, False, False],
}


def both(values: list, dtype: str) -> tuple[rushlight.Tensor, torch.Tensor]:
    ours = rushlight.tensor(values, dtype=getattr(rushlight, dtype))
    return ours, torch.tensor(values, dtype=getattr(torch, dtype))


@pytest.mark.parametrize("dtype", EXTREMES)
@pytest.mark.parametrize("descending", [False, True])
def test_stable_order(dtype: str, descending: bool) -> None:
    ours, theirs = both(EXTREMES[dtype] * 30, dtype)
    values, indices = rushlight.sort(ours, stable=True, descending=descending)
    expected = torch.sort(theirs, stable=True, descending=descending)
    assert indices.tolist() == expected.indices.tolist()
    np.testing.assert_array_equal(
        np.signbit(np.array(values.tolist(), np.float64)),
        np.signbit(np.array(expected.values.tolist(), np.float64)),
    )
    np.testing.assert_array_equal(values.tolist(), expected.values.tolist())


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_order(dtype: str) -> None:
    top = 2 ** (int(dtype[4:])) - 1
    ours = rushlight.tensor([3, top, 0, top, 3, top // 2 + 1], dtype=getattr(rushlight, dtype))
    assert ours.sort(stable=True).indices.tolist() == [2, 0, 4, 5, 1, 3]
    assert ours.sort(stable=True, descending=True).indices.tolist() == [1, 3, 5, 0, 4, 2]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bfloat16"])
@pytest.mark.parametrize("k", [0, 1, 3, 39, 40])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_and_kthvalue_choose_what_a_sort_puts_first(dtype: str, k: int, largest: bool) -> None:
    rng = np.random.default_rng(0)
    x = rushlight.tensor(rng.integers(-5, 5, (3, 40, 2)).tolist(), dtype=getattr(rushlight, dtype))
    order = x.sort(dim=1, stable=True, descending=largest)
    chosen = x.topk(k, dim=1, largest=largest)
    assert chosen.indices.tolist() == order.indices[:, :k].tolist()
    assert chosen.values.tolist() == order.values[:, :k].tolist()
    if k and not largest:
        assert x.kthvalue(k, 1).values.tolist() == order.values[:, k - 1].tolist()
        assert x.kthvalue(k, 1).indices.tolist() == order.indices[:, k - 1].tolist()


def test_topk_of_nan() -> None:
    x, y = both([3.0, np.nan, 1.0, 3.0, np.nan], "float32")
    assert x.topk(3).indices.tolist() == [1, 4, 0]
    np.testing.assert_array_equal(x.topk(3).values.tolist(), y.topk(3).values.tolist())
    assert x.topk(2, largest=False).values.tolist() == [1.0, 3.0]


def test_unique_slices_of_many() -> None:
    data = np.random.default_rng(0).integers(0, 2, (40, 3, 2))
    ours, theirs = both(data.tolist(), "int64")
    for dim in range(3):
        for function in ("unique", "unique_consecutive"):
            actual = getattr(rushlight, function)(ours, return_inverse=True, return_counts=True, dim=dim)
            expected = getattr(torch, function)(theirs, return_inverse=True, return_counts=True, dim=dim)
            for a, e in zip(actual, expected, strict=True):
                assert a.tolist() == e.tolist()
                assert a.stride() == e.stride()


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_in_rows_with_ties_and_infinities(right: bool) -> None:
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, 6, (50, 7)).astype(np.float32), axis=-1)
    rows[0, -1], rows[1, 0] = np.inf, -np.inf
    values = rng.integers(-1, 8, (50, 9)).astype(np.float32)
    values[0, :3] = [np.inf, -np.inf, np.nan]
    for dtype in ("float32", "float64"):
        (a, b), (c, d) = both(rows.tolist(), dtype), both(values.tolist(), dtype)
        assert (
            rushlight.searchsorted(a, c, right=right).tolist()
            == torch.searchsorted(b, d, right=right).tolist()
        )


def test_isin_of_many() -> None:
    rng = np.random.default_rng(0)
    elements, known = rng.integers(0, 100, (20, 30)), rng.integers(0, 100, 40)
    for count in (0, 1, 8, 9, 40):
        (a, b), (c, d) = both(elements.tolist(), "int64"), both(known[:count].tolist(), "int64")
        assert rushlight.isin(a, c).tolist() == torch.isin(b, d).tolist()
        assert rushlight.isin(a, c, invert=True).tolist() == torch.isin(b, d, invert=True).tolist()


def test_results_are_named() -> None:
    x = rushlight.tensor([2.0, 1.0])
    for result in (x.sort(), x.topk(1), x.kthvalue(1)):
        assert result._fields == ("values", "indices")

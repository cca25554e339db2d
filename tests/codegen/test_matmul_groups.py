"""Products of groups of rows, of columns and of the depth, which end where data says: native against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

SIZES = [(7, 5, 3, 2), (64, 32, 48, 4), (300, 96, 130, 5), (33, 256, 64, 8), (1, 4, 4, 2), (16, 3, 1, 3)]
FORMS: dict[str, Callable[..., Any]] = {
    "rows": lambda x, w, y, offs: rl._grouped_mm(x, w, offs),
    "rows, a transposed factor": lambda x, w, y, offs: rl._grouped_mm(x, w.mT.contiguous().mT, offs),
    "rows, between maps": lambda x, w, y, offs: rl.nn.functional.silu(rl._grouped_mm(x * 2, w, offs)) + 1,
    "depth": lambda x, w, y, offs: rl._grouped_mm(x.mT, y, offs),
    "depth, read transposed": lambda x, w, y, offs: rl._grouped_mm(x.mT, y, offs).mT.contiguous(),
    "columns": lambda x, w, y, offs: rl._grouped_mm(w.mT, x.mT, offs),
}


def ends_of(rows: int, groups: int) -> list[np.ndarray]:
    draw = np.random.default_rng(rows)
    some = np.sort(draw.integers(0, rows + 1, groups))
    return [some, np.append(some[:-1], rows), np.zeros(groups, np.int64), np.full(groups, rows)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_groups(sizes: tuple[int, ...], dtype: Any, form: str) -> None:
    rows, depth, columns, groups = sizes
    draw = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return rl.tensor(draw.standard_normal(shape)).to(dtype)

    x, w, y = random(rows, depth), random(groups, depth, columns), random(rows, columns)
    fast = rl.compile(FORMS[form], fullgraph=True)
    for ends in ends_of(rows, groups):
        for kind in (rl.int32, rl.int64):
            offs = rl.tensor(ends).to(kind)
            rl.testing.assert_close(fast(x, w, y, offs), FORMS[form](x, w, y, offs), atol=1e-3, rtol=1e-4)


def test_it_is_native_and_takes_any_length() -> None:
    offs = rl.tensor([3, 3, 9])
    fast = rl.compile(lambda x, w: rl._grouped_mm(x, w, offs), dynamic=True, fullgraph=True)
    w = rl.randn(3, 16, 8)
    for rows in (9, 40, 12):
        x = rl.randn(rows, 16)
        rl.testing.assert_close(fast(x, w), rl._grouped_mm(x, w, offs), atol=1e-4, rtol=1e-4)
    assert "groups of rows" in str(rl.explain(lambda x, w: rl._grouped_mm(x, w, offs), x, w))


@pytest.mark.parametrize("ends", [[-5, 100, 3], [70, 2, 1], [2**62, -(2**62), 5]])
def test_ends_out_of_order_stay_inside(ends: list[int]) -> None:
    """What is computed then is nobody's concern, and where it goes is."""
    x, w = rl.randn(20, 8), rl.randn(3, 8, 8)
    found = rl.compile(lambda x, w, offs: rl._grouped_mm(x, w, offs))(x, w, rl.tensor(ends))
    assert found.shape == (20, 8)


def test_gradients() -> None:
    offs = rl.tensor([2, 2, 5])
    for left, right in (((6, 4), (3, 4, 5)), ((3, 5, 4), (4, 6)), ((4, 6), (6, 5))):
        a, b = (rl.randn(*shape, dtype=rl.float64, requires_grad=True) for shape in (left, right))
        assert rl.autograd.gradcheck(lambda a, b: rl._grouped_mm(a, b, offs), (a, b), check_forward_ad=True)


def test_under_vmap() -> None:
    offs = rl.tensor([[2, 2, 5], [1, 4, 6]])
    for left, right in (((6, 4), (3, 4, 5)), ((3, 5, 4), (4, 6)), ((4, 6), (6, 5))):
        a, b = rl.randn(2, *left), rl.randn(2, *right)
        found = rl.vmap(lambda a, b, offs: rl._grouped_mm(a, b, offs))(a, b, offs)
        expected = rl.stack([rl._grouped_mm(a[i], b[i], offs[i]) for i in range(2)])
        rl.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize(("bins", "low", "high"), [(4, 0, 3), (100, -1, 1), (3, 0.1, 0.7), (1, 0, 1)])
def test_histograms_of_a_known_range(bins: int, low: float, high: float, dtype: Any) -> None:
    x = (rl.randn(1000, dtype=dtype) * 2).round(decimals=1)
    x[:4] = rl.tensor([float("nan"), float("inf"), low, high], dtype=dtype)
    fast = rl.compile(lambda x: rl.histc(x, bins, low, high), fullgraph=True)
    assert fast(x).tolist() == rl.histc(x, bins, low, high).tolist()
    assert fast(x[:0]).tolist() == [0] * bins

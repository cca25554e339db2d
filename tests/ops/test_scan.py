"""Scans, differences, integrals and softmax against PyTorch where OpInfo does not look."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import rushlight

SCANS = """
T([1., 2.]).cumsum(0, dtype=int32)
T([1.5, 2.5]).cumsum(0, dtype=int64)
T([True, True]).cumsum(0)
T([100, 100], dtype=int8).cumsum(0)
T([100, 100], dtype=int8).cumsum(0, dtype=int8)
T([1, 2], dtype=int8).cumprod(0)
T([2**62, 2**62]).cumsum(0)
T(3).cumsum(0)
T(3.).cumsum(1)
T(3.).cumprod(-1)
lib.ones(0, 3).cumsum(0)
lib.ones(2, 3).cumsum(2)
T([1., nan, 2.]).cumsum(0)
T([1j, 2.]).cumprod(0)
T([1., inf, -inf]).cumsum(0)
T([1, 2], dtype=int8).cumsum_(0)
T([100, 100], dtype=int8).cumsum_(0)
T([1., 2.]).cumprod_(0)
T([1, 2], dtype=int8).cumsum_(0, dtype=float32)
lib.cumsum(lib.ones(2, 2), 0, out=lib.ones(2, 2, dtype=float64))
lib.ones(3, 4, 5).permute(2, 0, 1).cumsum(1)
T([1., 3., 3., 2., nan, 4., nan]).cummax(0)
T([1., 3., 1., 2., nan, 4., nan]).cummin(0)
T([2, 2, 1, 1, 3, 3]).cummax(0)
T([2, 2, 1, 1, 3, 3]).cummin(0)
T(3.).cummax(0)
T([True, False, True]).cummin(0)
T([1j]).cummax(0)
lib.ones(0, 3).cummax(0)
lib.ones(2, 3).cummax(2)
lib.cummax(lib.ones(2), 0, out=(lib.ones(2, dtype=float64), lib.ones(2, dtype=int64)))
T([1, 2]).logcumsumexp(0)
T(1.).logcumsumexp(0)
lib.ones(0).logcumsumexp(0)
T([-inf, -inf, 1, inf, -inf, nan]).logcumsumexp(0)
T([1000., 1000., -1000.]).logcumsumexp(0)
T([1j, 2]).logcumsumexp(0)
T([5j, 0]).logcumsumexp(0)
T([complex(-inf, 1), 0]).logcumsumexp(0)
T([complex(-inf, 1), complex(-inf, 2), complex(inf, 1), 1]).logcumsumexp(0)
T([complex(nan, 1), 1]).logcumsumexp(0)
T([complex(0, nan), 1]).logcumsumexp(0)
"""

DIFFERENCES = """
lib.diff(T(1))
lib.diff(T([1, 2]), n=-1)
lib.diff(T([1, 2]), n=0)
lib.diff(T([1, 2]), n=3)
lib.diff(T([1, 2]), n=0, prepend=T([5]))
lib.diff(T([True, False]))
lib.diff(T([1, 4, 9, 16]), n=2)
lib.diff(T([1, 2]), prepend=T(1))
lib.diff(T([1, 2]), prepend=T([[1]]))
lib.diff(T([[1, 2]]), prepend=T([[1], [2]]))
lib.diff(T([1, 2]), prepend=T([1.5]))
lib.diff(T([1, 2]), append=T([5, 6]))
lib.diff(lib.ones(3, 4, 5).permute(2, 0, 1), dim=1)
lib.gradient(T([1., 2., 4.]))
lib.gradient(T([1, 2, 4]))
lib.gradient(T([1., 2., 4.]), spacing=2)
lib.gradient(T([1., 2., 4.]), spacing=[2.])
lib.gradient(T([1., 2., 4.]), spacing=(T([0., 1., 3.]),))
lib.gradient(T([1., 2., 4., 9.]), spacing=(T([0., 1., 3., 4.]),), edge_order=2)
lib.gradient(T([1., 2., 4., 9.]), edge_order=2)
lib.gradient(T([1., 2., 4.]), spacing=T(2.))
lib.gradient(lib.arange(9.).reshape(3, 3), dim=(0, 1), spacing=[1., 2.])
lib.gradient(lib.ones(3, 3), dim=0, spacing=[1., 2.])
lib.gradient(lib.ones(3, 3), spacing=[1., 2.], edge_order=2)
lib.gradient(lib.ones(2), edge_order=2)
lib.gradient(lib.ones(1))
lib.gradient(lib.ones(3), edge_order=3)
lib.gradient(lib.ones(3, dtype=uint8))
lib.gradient(lib.ones(3, dtype=bool_))
lib.gradient(lib.ones(3, 3), dim=(0, 0))
lib.gradient(lib.ones(3, 3), dim=())
"""

INTEGRALS = """
lib.trapz(T([1., 2.]), dx=2)
lib.trapezoid(T([1, 2]))
lib.trapezoid(T([1, 2]), T([1, 3]))
lib.trapezoid(T([True, False]))
lib.trapezoid(T(1.))
lib.trapezoid(lib.ones(0))
lib.trapezoid(lib.ones(0, 3))
lib.trapezoid(lib.ones(0, 3), dim=0)
lib.trapezoid(lib.ones(3, 2), T([1., 2., 3.]))
lib.trapezoid(lib.ones(3, 2), T([1., 2., 3.]), dim=0)
lib.trapezoid(lib.ones(2, 3, 2), T([[1.], [2.], [4.]]), dim=1)
lib.trapezoid(lib.ones(2), T(3.))
lib.trapezoid(lib.ones(1))
lib.trapezoid(lib.ones(2), dx=1j)
lib.cumulative_trapezoid(lib.ones(0))
lib.cumulative_trapezoid(lib.ones(1))
lib.cumulative_trapezoid(T([1, 2, 4]))
lib.cumulative_trapezoid(T([[1., 2., 4.]]), T([0., 1., 3.]))
lib.cumulative_trapezoid(T([1., 2., 4.]), dx=.5)
"""

SOFTMAX = """
lib.softmax(T([1, 2]), 0)
lib.softmax(T([True]), 0)
lib.softmax(T([1j]), 0)
lib.softmax(T([1, 2]), 0, dtype=float64)
lib.softmax(T([1., 2.], dtype=float16), 0, dtype=float32)
lib.softmax(T([1, 2.]), 0, dtype=int64)
lib.softmax(T(1.), 0)
lib.log_softmax(T(1.), -1)
lib.softmax(T([1., 2.]), 1)
lib.softmax(lib.ones(0, 2), 0)
lib.softmax(lib.ones(2, 0), 1)
lib.log_softmax(lib.ones(0, 2), 0)
lib.softmax(T([-inf, -inf]), 0)
lib.log_softmax(T([-inf, -inf]), 0)
lib.softmax(T([inf, 1]), 0)
lib.log_softmax(T([inf, 1]), 0)
lib.softmax(T([-inf, 1]), 0)
lib.log_softmax(T([-inf, 1]), 0)
lib.softmax(T([nan, 1]), 0)
lib.softmax(T([1000., -1000.]), 0)
lib.log_softmax(T([1000., -1000.]), 0)
lib.softmax(lib.ones(3, 4, 5).permute(2, 0, 1), 1)
lib.softmax(lib.ones(2), 0, out=lib.ones(2, dtype=float64))
lib._softmax(T([1.], dtype=float16), 0, True)
lib._safe_softmax(T([[-inf, -inf], [-inf, 1.]]), 1)
lib._safe_softmax(T([1, 2]), 0)
lib.special.softmax(T([1., 2.]), 0)
lib.special.log_softmax(T([1., 2.]), 0, dtype=float64)
lib._softmax_backward_data(T([1., 2.]), T([.5, .5]), 0, float32)
lib._softmax_backward_data(T(2.), T(1.), 0, float32)
lib._softmax_backward_data(T([1., 2.]), T([.5]), 0, float32)
lib._log_softmax_backward_data(T([1., 2.]), T([-.5, -.9]), 0, float32)
"""

TABLES = {"scans": SCANS, "differences": DIFFERENCES, "integrals": INTEGRALS, "softmax": SOFTMAX}
ROWS = [
    pytest.param(row, id=f"{name}: {row}")
    for name, table in TABLES.items()
    for row in table.strip().splitlines()
]


@pytest.mark.parametrize("expression", ROWS)
def test_expression(expression: str, like_pytorch: Callable[[str], None]) -> None:
    like_pytorch(expression)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("dim", [0, 1])
def test_positions_of_running_extremes(name: str, dim: int) -> None:
    array = np.random.default_rng(0).integers(0, 5, (30, 30)).astype(np.float32)
    array[np.random.default_rng(1).random(array.shape) < 0.05] = np.nan
    expected = getattr(torch.from_numpy(array), name)(dim)
    actual = getattr(rushlight.from_numpy(array), name)(dim)
    np.testing.assert_array_equal(actual.values.numpy(), expected.values.numpy())
    np.testing.assert_array_equal(actual.indices.numpy(), expected.indices.numpy())


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_angles_of_a_complex_logcumsumexp_wind_as_one_by_one(dtype: type) -> None:
    generator = np.random.default_rng(0)
    array = (5 * (generator.normal(size=(200, 3)) + 1j * generator.normal(size=(200, 3)))).astype(dtype)
    expected = torch.from_numpy(array).logcumsumexp(0)
    actual = torch.from_numpy(rushlight.from_numpy(array).logcumsumexp(0).numpy())
    torch.testing.assert_close(actual, expected)


def test_a_long_running_sum_keeps_its_digits() -> None:
    array = np.random.default_rng(0).random(200_000, np.float32)
    exact = np.cumsum(array, dtype=np.float64)
    np.testing.assert_allclose(rushlight.from_numpy(array).cumsum(0).numpy(), exact, rtol=1e-7)


def test_a_long_row_of_softmax_sums_to_one() -> None:
    for shape, dim in (((100_000, 2), 0), ((2, 100_000), 1)):
        array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        expected = torch.from_numpy(array).softmax(dim)
        actual = torch.from_numpy(rushlight.from_numpy(array).softmax(dim).numpy())
        torch.testing.assert_close(actual, expected)
        np.testing.assert_allclose(actual.double().sum(dim).numpy(), 1.0, rtol=1e-6)

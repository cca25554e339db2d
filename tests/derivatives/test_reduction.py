"""Derivatives of reductions at the points where OpInfo does not look: ties, zeros, infinities, NaN, empty
and 0-d inputs, no degrees of freedom; and those that PyTorch has not.

A row of the table is an expression of x and the value of x; see `first_order` in conftest.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight

inf, nan = math.inf, math.nan


POINTS: list[tuple[str, Any]] = [
    ("x.sum()", 2.0),
    ("x.sum([])", [[1.0, 2.0], [3.0, 4.0]]),
    ("x.sum((0, -1), True)", [[1.0, 2.0], [3.0, 4.0]]),
    ("x.sum(0)", []),
    ("x.nansum()", [1.0, nan, inf]),
    ("x.nansum(0, keepdim=True)", [[1.0, nan], [nan, nan]]),
    ("x.nanmean()", [1.0, nan, 4.0]),
    ("x.mean()", []),
    ("x.mean(0)", 3.0),
    ("x.mean(1, True)", [[1.0, 2.0], [3.0, 4.0]]),
    ("lib.zeros(0, 3, dtype=x.dtype).mean(0) * x", [1.0, 2.0, 3.0]),
    ("x.prod()", [0.0, 2.0, 3.0]),
    ("x.prod()", [0.0, 0.0, 3.0]),
    ("x.prod()", [0.0, inf, 3.0]),
    ("x.prod()", 5.0),
    ("x.prod()", []),
    ("x.prod(0)", 5.0),
    ("x.prod(1)", [[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]]),
    ("x.prod(0, True)", [[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]]),
    ("x.prod(0)", [[7.0]]),
    ("x.prod(0)", [1j, 0j, 2 + 1j]),
    ("x.prod()", [1j, 3 - 1j, 2 + 1j]),
    ("x.trace()", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    ("x.trace()", [[1.0], [2.0]]),
    *[
        (f"x.{name}(0, correction={correction})", [1.0, 2.0, 4.0])
        for name in ("var", "std")
        for correction in range(5)
    ],
    ("x.var()", [3.0]),
    ("x.var()", 3.0),
    ("x.std(correction=0)", [3.0]),
    ("x.std()", [2.0, 2.0]),
    ("x.var()", [2.0, 2.0]),
    ("x.var()", [1j, 2.0, 3 - 1j]),
    ("x.std(0, keepdim=True)", [1j, 2.0, 3 - 1j]),
    ("lib.var_mean(x)", [1.0, 2.0, 4.0]),
    ("lib.var_mean(x)[1]", [1.0, 2.0, 4.0]),
    ("lib.var_mean(x, 1, keepdim=True)[0]", [[1.0, 2.0, 4.0], [2.0, 2.0, 2.0]]),
    ("lib.std_mean(x, 1)", [[1.0, 2.0, 4.0], [2.0, 2.0, 2.0]]),
    ("x.logsumexp(0)", [-inf, -inf]),
    ("x.logsumexp(0)", [-inf, 1.0]),
    ("x.logsumexp(0)", [inf, 1.0]),
    ("x.logsumexp(0)", [nan, 1.0]),
    ("x.logsumexp(0)", [1000.0, -1000.0]),
    ("x.logsumexp(0)", 1.0),
    ("x.logsumexp((0, 1), True)", [[1.0, 2.0], [3.0, 4.0]]),
    ("x.logsumexp(0)", [1j, 2 - 1j]),
    ("x.amax()", [1.0, 3.0, 3.0]),
    ("x.amax()", [1.0, nan, 3.0]),
    ("x.amax(0)", [[1.0, nan, 2.0], [nan, nan, 2.0]]),
    ("x.amin((0, 1), True)", [[1.0, 2.0], [1.0, 1.0]]),
    ("x.amin()", 1.0),
    ("x.max()", [3.0, 1.0, 3.0]),
    ("x.min()", 1.0),
    ("x.max(0)", [3.0, 1.0, 3.0]),
    ("x.min(0)", [1.0, nan, nan]),
    ("x.max(0)", 1.0),
    ("x.max(1, True)", [[3.0, 1.0, 3.0], [1.0, 1.0, 1.0]]),
    ("x.aminmax()", [1.0, 3.0, 3.0, 1.0]),
    ("x.aminmax()[1]", [1.0, nan, 3.0]),
    ("x.aminmax(dim=0)", [[2.0, 2.0], [2.0, 3.0]]),
    ("x.median()", [1.0, 3.0, 3.0, 3.0, 4.0]),
    ("x.nanmedian()", [1.0, nan, 3.0, 3.0, 4.0]),
    ("x.median(0)", [1.0, 3.0, 3.0, 3.0, 4.0]),
    ("x.nanmedian(0, True)", [nan, 3.0, 3.0, 3.0, 4.0]),
    ("x.mode(0)", [1.0, 3.0, 3.0, 3.0, 4.0]),
    ("x.mode(0)", 4.0),
    ("lib.quantile(x, 0.4)", [2.0, 2.0, 1.0, 3.0]),
    ("lib.nanquantile(x, 0.4)", [2.0, nan, 1.0, 3.0]),
    ("x.renorm(2, 0, 1.)", [[0.0, 0.0], [1.0, 0.0], [3.0, 4.0]]),
    ("lib.cov(x)", [[2.0, 2.0, 1.0], [1.0, 3.0, 2.0]]),
    ("lib.norm_except_dim(x, 2, 0)", [[0.0, 0.0], [3.0, 4.0]]),
    *[
        (f"lib.linalg.vector_norm(x, {p})", value)
        for p in ("0", "0.5", "1", "1.5", "2", "2.5", "3", "inf", "-inf", "-1", "-2.5")
        for value in ([0.0, 0.0], [0.0, 2.0], [-2.0, 2.0, 1.0], [nan, 2.0], [0j, 3 + 4j])
    ],
    ("lib.linalg.vector_norm(x, 3, 0, True)", [[0.0, 1.0], [0.0, 2.0]]),
    ("lib.linalg.vector_norm(x, 2)", -3.0),
    ("lib.linalg.vector_norm(x, inf, (0, 1))", [[2.0, -2.0], [1.0, 2.0]]),
    *[
        (f"lib.dist(x, lib.zeros(2, dtype=x.dtype), {p})", [0.0, 0.0])
        for p in ("0", "0.5", "1", "2", "3", "inf")
    ],
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_special_points(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


@pytest.mark.parametrize(
    ("expression", "value"),
    [("x.max()", [1.0, nan, nan]), ("x.median()", [1.0, nan, 3.0, nan, 4.0]), ("x.nanmedian()", [nan, nan])],
)
def test_nan_is_an_extreme(first_order: Callable[..., None], expression: str, value: Any) -> None:
    """The gradient is shared among the NaN, and the tangent is NaN."""
    first_order(expression, value)


def test_no_nan_leaks() -> None:
    """From elements left out, nor into the derivative by an element from that element."""
    x = float64([nan, nan])
    assert rushlight.autograd.grad(x.nanmean(), x)[0].tolist() == [0.0, 0.0]
    x = float64([2.0, nan, 3.0])
    assert rushlight.autograd.grad(x.prod(), x)[0][1].item() == 6.0
    x = float64([2.0, inf, 3.0])
    assert rushlight.autograd.grad(x.prod(), x)[0].tolist() == [inf, 6.0, inf]


def float64(value: Any) -> Any:
    return rushlight.tensor(value, dtype=rushlight.float64, requires_grad=True)


def hessian(function: Callable[[Any], Any], value: Any) -> Any:
    return torch.tensor(rushlight.func.hessian(function)(float64(value)).tolist(), dtype=torch.float64)


@pytest.mark.parametrize(
    "value", [[1.5, 2.0, 3.0, -1.0], [0.0, 2.0, 3.0, 4.0], [2.0, 0.0, 0.0, 3.0], [0.0, 0.0, 0.0, 5.0]]
)
def test_second_derivative_of_a_product_with_zeros(value: list[float]) -> None:
    size = len(value)
    expected = [
        [0.0 if i == j else math.prod(x for k, x in enumerate(value) if k not in (i, j)) for j in range(size)]
        for i in range(size)
    ]
    found = hessian(lambda x: x.prod(), value)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 2.5, 3, inf, -inf, -1])
def test_second_derivative_of_a_norm_at_zero_is_zero(order: float) -> None:
    found = hessian(lambda x: rushlight.linalg.vector_norm(x, order), [0.0, 0.0])
    assert torch.equal(found, torch.zeros(2, 2, dtype=torch.float64))


@pytest.mark.parametrize("name", ["std", "var"])
def test_second_derivative_of_a_spread_without_variation(name: str) -> None:
    def spread(x: Any) -> Any:
        return getattr(x, name)()

    expected = torch.autograd.functional.hessian(spread, torch.tensor([2.0, 2.0], dtype=torch.float64))
    torch.testing.assert_close(hessian(spread, [2.0, 2.0]), expected)


SMOOTH: list[Callable[[Any], Any]] = [
    lambda x: x.prod(0),
    lambda x: x.var(1),
    lambda x: rushlight.std_mean(x, 0),
    lambda x: x.logsumexp(1),
    lambda x: rushlight.linalg.vector_norm(x, 2, 1),
    lambda x: rushlight.linalg.vector_norm(x, 3.5, 0, True),
    lambda x: rushlight.corrcoef(x),
    lambda x: x.renorm(2, 0, 0.5),
    lambda x: rushlight.quantile(x, 0.3, 1),
    lambda x: rushlight._masked_softmax(x, x.detach() > 1, 1, 2),
]


@pytest.mark.parametrize("function", SMOOTH)
def test_gradcheck(function: Callable[[Any], Any]) -> None:
    x = float64([[0.3, -1.2, 0.8], [1.7, 0.2, -0.6]])
    assert rushlight.autograd.gradcheck(function, (x,), check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(function, (x,))


# Beyond PyTorch.


def weights() -> Any:
    return float64([1.0, 2.0, 0.5, 3.0])


def points(*shape: int) -> Any:
    return rushlight.arange(math.prod(shape)).reshape(shape).double()


HISTOGRAMS: list[Callable[[Any], Any]] = [
    lambda w: rushlight.histogram(points(4), 3, weight=w)[0],
    lambda w: rushlight.histogram(points(4), 2, range=(0.5, 2.5), weight=w, density=True)[0],
    lambda w: rushlight.histogram(points(2, 2), points(3), weight=w.reshape(2, 2), density=True)[0],
    lambda w: rushlight.histogramdd(points(4, 2), [2, 3], weight=w, density=True)[0],
    lambda w: rushlight.histogramdd(points(4, 2), [points(6), points(5)], weight=w)[0],
    lambda w: rushlight.bincount(rushlight.tensor([1, 0, 1, 4]), w),
]


@pytest.mark.parametrize("function", HISTOGRAMS)
def test_histograms_by_their_weights(function: Callable[[Any], Any]) -> None:
    assert rushlight.autograd.gradcheck(function, (weights(),), check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(function, (weights(),))


DATA = [[1.0, 2.0, 0.0, 3.0, -1.0, 0.5], [0.0, 2.0, 0.0, 1.5, 2.0, 4.0]]
LENGTHS = [[2, 3, 0, 1], [0, 4, 2, 0]]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 2])
def test_segments(reduce: str, initial: float | None) -> None:
    def function(data: Any) -> Any:
        lengths = rushlight.tensor(LENGTHS)
        return rushlight.segment_reduce(
            data,
            reduce,
            lengths=lengths,
            axis=1,
            unsafe=True,
            initial=1 if reduce == "mean" and initial is None else initial,
        )

    if reduce in ("max", "min"):  # finite differences need elements without ties
        data = float64([[1.0, 2.5, 0.0, 3.0, -1.0, 0.5], [0.3, 2.2, 0.1, 1.5, 1.8, 4.0]])
    else:
        data = float64(DATA)
    if initial is not None or reduce not in ("max", "min"):
        assert rushlight.autograd.gradcheck(function, (data,), check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(lambda x: function(x)[:, 1:2], (data,))


def test_segments_by_offsets_leave_out_the_rest() -> None:
    def function(data: Any) -> Any:
        return rushlight.segment_reduce(data, "prod", offsets=rushlight.tensor([1, 1, 4]), axis=0)

    data = float64([[5.0, 1.0], [0.0, 2.0], [3.0, 0.0], [2.0, 4.0], [7.0, 7.0]])
    assert rushlight.autograd.gradcheck(function, (data,), check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(function, (data,))

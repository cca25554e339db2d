"""Derivatives of running reductions and of softmax at special points, and of second order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.derivatives.scan import recurrence

inf, nan = math.inf, math.nan


def float64(value: Any) -> Any:
    return rushlight.tensor(value, dtype=rushlight.float64, requires_grad=True)


POINTS: list[tuple[str, Any]] = [
    ("x.cumsum(0)", 3.0),
    ("x.cumsum(-1)", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    ("x.cumsum(0)", []),
    ("x.cumprod(0)", 3.0),
    ("x.cumprod(0)", []),
    ("x.cumprod(0)", [3.0]),
    ("x.cumprod(0)", [2.0, 0.0, 3.0, 4.0]),
    ("x.cumprod(0)", [2.0, 0.0, 3.0, 0.0, 5.0]),
    ("x.cumprod(0)", [0.0, 0.0, 0.0]),
    ("x.cumprod(1)", [[2.0, 0.0, 3.0], [1.0, 2.0, 3.0]]),
    ("x.cumprod(-2)", [[2.0, 0.0, 3.0], [1.0, 2.0, 3.0]]),
    ("x.cumprod(0)", [1j, 2 - 1j, 0j, 3 + 1j]),
    ("x.cummax(0)", [1.0, 1.0, 0.0, 2.0, nan, 3.0]),
    ("x.cummin(0)", [1.0, 1.0, 0.0, 2.0, nan, 3.0]),
    ("x.cummax(0)", 1.0),
    ("x.cummin(1)", [[1.0, 1.0, 0.0], [2.0, 3.0, 2.0]]),
    ("x.logcumsumexp(0)", 2.0),
    ("x.logcumsumexp(0)", [1.0, -inf, 2.0]),
    ("x.logcumsumexp(1)", [[1.0, 3.0, 2.0], [-4.0, 5.0, 6.0]]),
    ("x.softmax(0)", 1.0),
    ("x.softmax(0)", [-inf, 1.0, 2.0]),
    ("x.softmax(0)", [-inf, -inf]),
    ("x.softmax(1)", [[1.0, 2.0], [1000.0, -1000.0]]),
    ("x.log_softmax(0)", 1.0),
    ("x.log_softmax(0)", [-inf, 1.0, 2.0]),
    ("x.log_softmax(1)", [[1.0, 2.0], [1000.0, -1000.0]]),
    ("lib._safe_softmax(x, 0)", [-inf, -inf]),
    ("lib._safe_softmax(x, 0)", [-inf, 1.0, 2.0]),
    ("x.diff(n=2)", [1.0, 4.0, 2.0, 8.0]),
    ("lib.gradient(x, spacing=0.5)", [1.0, 4.0, 2.0, 8.0]),
    ("lib.trapezoid(x, x)", [1.0, 4.0, 2.0, 8.0]),
    ("lib.cumulative_trapezoid(x, dx=3)", [1.0, 4.0, 2.0, 8.0]),
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_special_points(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


MASKED = [
    ("lib._masked_softmax(x, x > 2, 1, 2)", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    ("lib._masked_softmax(x, x > 2)", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
]


@pytest.mark.parametrize(("expression", "value"), MASKED)
def test_masked_softmax(expression: str, value: Any) -> None:
    """PyTorch has no forward mode here."""
    x, y = (lib.tensor(value, dtype=lib.float64, requires_grad=True) for lib in (torch, rushlight))
    expected, actual = eval(expression, {"lib": torch, "x": x}), eval(expression, {"lib": rushlight, "x": y})
    found = torch.tensor(actual.tolist(), dtype=torch.float64)
    torch.testing.assert_close(found, expected.detach(), equal_nan=True)
    expected.backward(torch.ones_like(expected))
    actual.backward(rushlight.ones_like(actual))
    assert x.grad is not None
    torch.testing.assert_close(torch.tensor(y.grad.tolist(), dtype=torch.float64), x.grad)


@pytest.mark.parametrize(
    ("shape", "mask_type"), [((3, 3), 0), ((2, 3), 1), ((3, 3), 1), ((2, 3), 2), ((2, 3), None), ((2, 3), 7)]
)
def test_shapes_of_masks(same: Callable[..., None], shape: tuple[int, ...], mask_type: int | None) -> None:
    def scenario(lib: Any) -> Any:
        x = lib.arange(36.0).reshape(2, 2, 3, 3).sin()
        mask = lib.arange(math.prod(shape)).reshape(shape) % 3 == 1
        return lib._masked_softmax(x, mask, 3, mask_type)

    same(scenario)


def test_logcumsumexp_after_absent_elements(first_order: Callable[..., None]) -> None:
    """Leading -inf elements have no share in any sum; PyTorch's gradient is NaN there, its tangent is not."""
    x = float64([-inf, -inf, 1.0, 2.0, -inf])
    (gradient,) = rushlight.autograd.grad(x.logcumsumexp(0), x, rushlight.ones(5).double())
    share = 1 / (1 + math.e)
    assert gradient.tolist() == pytest.approx([0.0, 0.0, 1 + 2 * share, 2 - 2 * share, 0.0])
    first_order("x.logcumsumexp(0)", [-inf, -inf, 1.0, 2.0, -inf], "forward")


def test_logcumsumexp_of_distant_elements() -> None:
    """Gradients of any sign and size, where exp of the elements over- or underflows."""
    x = float64([-2000.0, 1000.0, 998.0, -1000.0, 1001.0])
    weights = rushlight.tensor([1e-30, -3.0, 0.0, 1e200, -1e200], dtype=rushlight.float64)
    (gradient,) = rushlight.autograd.grad(x.logcumsumexp(0), x, weights)
    y = torch.tensor(x.tolist(), dtype=torch.float64)
    sums = y.logcumsumexp(0)
    jacobian = (y[None] - sums[:, None]).exp().tril()
    expected = torch.tensor(weights.tolist(), dtype=torch.float64) @ jacobian
    torch.testing.assert_close(torch.tensor(gradient.tolist(), dtype=torch.float64), expected)


def test_logcumsumexp_of_large_elements() -> None:
    """The derivatives depend on differences of elements only; the result has few digits behind the point."""
    x = rushlight.tensor([0.25, -0.5, 1.0, 0.0], requires_grad=True)
    weights = rushlight.tensor([1.0, -2.0, 0.5, 3.0])
    for offset in (0.0, 10_000.0):
        (gradient,) = rushlight.autograd.grad((x + offset).logcumsumexp(0), x, weights)
        tangent = rushlight.func.jvp(lambda t: (t + offset).logcumsumexp(0), (x.detach(),), (weights,))[1]
        powers = x.detach().double().exp()
        jacobian = (powers[None] / powers.cumsum(0)[:, None]).tril()
        assert gradient.tolist() == pytest.approx((weights.double() @ jacobian).tolist(), rel=1e-5)
        assert tangent.tolist() == pytest.approx((jacobian @ weights.double()).tolist(), rel=1e-5)


MASK = rushlight.tensor([[True, False, True, True], [False, True, True, True]])
SMOOTH: list[Callable[[Any], Any]] = [
    lambda x: x.cumsum(0),
    lambda x: x.cumprod(1),
    lambda x: x.cumprod(0),
    lambda x: x.logcumsumexp(1),
    lambda x: x.softmax(1),
    lambda x: x.log_softmax(0),
    lambda x: rushlight.masked.softmax(x, 1, mask=MASK),
    lambda x: rushlight.masked.var(x, 1, mask=MASK),
]


@pytest.mark.parametrize("function", SMOOTH)
@pytest.mark.parametrize(
    "value", [[[0.3, -1.2, 0.8, 0.1], [1.7, 0.2, -0.6, 0.4]], [[0.0, -1.2, 0.0, 0.1], [1.7, 0.2, 0.0, 0.4]]]
)
def test_gradcheck(function: Callable[[Any], Any], value: Any) -> None:
    x = float64(value)
    assert rushlight.autograd.gradcheck(function, (x,), check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(function, (x,))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence(size: int, reverse: bool) -> None:
    links = torch.arange(1.0, size) * 0.7 - 1
    values = torch.arange(float(size)).sin()
    expected = values.clone()
    for i in range(size - 2, -1, -1) if reverse else range(1, size):
        expected[i] += links[i] * expected[i + 1] if reverse else links[i - 1] * expected[i - 1]
    found = recurrence(rushlight.tensor(links.tolist()), rushlight.tensor(values.tolist()), 0, reverse)
    torch.testing.assert_close(torch.tensor(found.tolist()), expected)

"""Derivatives of sorting at ties, NaN, empty and 0-d inputs, and of unique values, which PyTorch has not.

A row of the table is an expression of x and the value of x; see `first_order` in conftest.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight

inf, nan = math.inf, math.nan

POINTS: list[tuple[str, Any]] = [
    ("x.sort(stable=True)", [2.0, 1.0, 2.0, 1.0]),
    ("x.sort(stable=True, descending=True)", [2.0, 1.0, 2.0, 1.0]),
    ("x.sort()[0]", [3.0, nan, -inf, inf, 1.0]),
    ("x.sort(0)", [[3.0, 1.0], [2.0, 2.5]]),
    ("x.sort(-2, descending=True)[0]", [[3.0, 1.0], [2.0, 2.5]]),
    ("x.sort()", 3.0),
    ("x.sort()", []),
    ("x.msort()", [[3.0, 1.0], [2.0, 2.5]]),
    ("x.topk(2)", [3.0, 1.0, 2.0, 5.0]),
    ("x.topk(2, largest=False)", [3.0, 1.0, nan, 5.0]),
    ("x.topk(1, dim=0, sorted=True)", [[3.0, 1.0], [2.0, 2.5]]),
    ("x.topk(0)[0]", [3.0, 1.0]),
    ("x.topk(1)", 3.0),
    ("x.kthvalue(2)", [3.0, 1.0, 2.0, 5.0]),
    ("x.kthvalue(3)", [3.0, nan, 2.0]),
    ("x.kthvalue(1, 0, True)", [[3.0, 1.0], [2.0, 2.5]]),
    ("x.kthvalue(1)", 3.0),
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_first_order(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


def test_second_order() -> None:
    x = rushlight.tensor([[3.0, 1.0, 2.0], [5.0, 7.0, 6.0]], dtype=rushlight.float64, requires_grad=True)
    for function in (
        lambda x: x.sort(1)[0] ** 3,
        lambda x: x.topk(2, 0)[0] ** 3,
        lambda x: x.kthvalue(2, 1)[0] ** 3,
    ):
        assert rushlight.autograd.gradgradcheck(function, x)


def test_positions_carry_no_gradient() -> None:
    x = rushlight.tensor([3.0, 1.0, 2.0], requires_grad=True)
    assert not x.sort()[1].requires_grad
    assert not x.argsort().requires_grad
    assert not rushlight.searchsorted(x, x).requires_grad
    assert not rushlight.bucketize(x, x).requires_grad
    assert not rushlight.isin(x, x).requires_grad


# Unique values.

UNIQUE = [
    lambda x: x.unique(),
    lambda x: x.unique(return_inverse=True, return_counts=True)[0],
    lambda x: x.unique(dim=0),
    lambda x: x.unique(dim=1),
    lambda x: x.unique(dim=-1, return_inverse=True)[0],
    lambda x: x.unique_consecutive(),
    lambda x: x.unique_consecutive(dim=1),
    lambda x: rushlight._unique(x)[0],
]


@pytest.mark.parametrize("function", UNIQUE)
def test_distinct_values(function: Callable[[Any], Any]) -> None:
    x = rushlight.tensor([[3.0, 1.0, 2.0], [5.0, 7.0, 6.0]], dtype=rushlight.float64, requires_grad=True)
    assert rushlight.autograd.gradcheck(function, x, check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(function, x)


def test_equal_values_share() -> None:
    x = rushlight.tensor([2.0, 1.0, 2.0, 2.0, 1.0], requires_grad=True)
    weights = rushlight.tensor([2.0, 3.0])
    (gradient,) = rushlight.autograd.grad(x.unique(), x, weights)
    assert gradient.tolist() == [1.0, 1.0, 1.0, 1.0, 1.0]
    (gradient,) = rushlight.autograd.grad(x.unique_consecutive(), x, rushlight.tensor([1.0, 2.0, 3.0, 4.0]))
    assert gradient.tolist() == [1.0, 2.0, 1.5, 1.5, 4.0]
    x = rushlight.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]], requires_grad=True)
    (gradient,) = rushlight.autograd.grad(x.unique(dim=0).sum(), x)
    assert gradient.tolist() == [[0.5, 0.5], [1.0, 1.0], [0.5, 0.5]]

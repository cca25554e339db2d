"""Derivatives of indexing where OpInfo does not look: ties, zeros, NaN, repeated places, empty and 0-d
tensors, sources larger than the index; and those that PyTorch has not or gets wrong.

A row of the table is an expression of x and the value of x; see `first_order` in conftest.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name

inf, nan = math.inf, math.nan
TWICE = "lib.tensor([0, 0, 1])"  # places of three elements: two of them meet
NONE = "lib.zeros(0, dtype=lib.int64)"


def halves(call: str, places: str = TWICE) -> str:
    """`call` with `a` and `b`, the first and last three elements of x, and `i`, their places."""
    return f"(lambda a, b, i: {call})(x[:3], x[3:], {places})"


# (a, b) of a reduction: b is combined into a.
REDUCED: list[list[float]] = [
    [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    [1.0, 2.0, 2.0, 1.0, 1.0, 2.0],  # ties
    [0.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    [0.0, 2.0, 3.0, 0.0, 5.0, 0.0],
    [1.0, 0.0, 3.0, 0.0, 0.0, 6.0],
    [0.0, 0.0, 3.0, 0.0, 0.0, 6.0],
    [1.0, nan, 3.0, nan, 5.0, 6.0],
    [inf, 2.0, 3.0, 4.0, -inf, 6.0],
]

POINTS: list[tuple[str, Any]] = [
    ("x.scatter_reduce(0, lib.tensor([0]), x, 'amax')", [2.0]),
    ("x.gather(0, lib.tensor([0, 0, 2]))", [1.0, 2.0, 3.0]),
    ("x.gather(0, lib.tensor(0))", 1.0),
    ("x.gather(0, " + NONE + ")", [1.0, 2.0]),
    ("x.gather(-1, lib.tensor([[2, 0]]))", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    ("x.gather(0, lib.tensor([1, 1], dtype=lib.int32))", [1j, 2.0]),
    (halves("a.scatter(0, i, b)", "lib.tensor([2, 0, 1])"), [1.0, nan, 3.0, 4.0, inf, 6.0]),
    (halves("a.scatter(0, i, b)"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ("x.scatter(0, lib.tensor([1]), 7)", [nan, nan]),
    ("x.scatter(0, lib.tensor(0), 7)", 1.0),
    (halves("a.scatter_add(0, i, b)"), [1.0, nan, 3.0, 4.0, inf, 6.0]),
    ("x.scatter_add(0, lib.tensor(0), x)", 1.0),
    ("x.index_select(0, lib.tensor([1, 1, 0]))", [1.0, 2.0]),
    ("x.index_select(0, lib.tensor([0]))", 1.0),
    ("x.index_select(1, " + NONE + ")", [[1.0, 2.0]]),
    (halves("a.index_add(0, i, b, alpha=3)"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ("x.index_add(0, lib.tensor([0]), x, alpha=-2)", 1.0),
    (halves("a.index_copy(0, i, b)", "lib.tensor([2, 0, 1])"), [1.0, nan, 3.0, 4.0, inf, 6.0]),
    ("x.index_copy(0, lib.tensor([0]), x.reshape(1))", 1.0),
    ("x.index_fill(0, lib.tensor([0, 0]), x[0])", [1.0, 2.0, 3.0]),
    ("x.index_fill(0, lib.tensor([0, -1]), 4)", [1.0, nan, 3.0]),
    ("x.index_fill(0, lib.tensor([0]), 4)", 1.0),
    ("x.take(lib.tensor([[0, -1], [0, 2]]))", [[1.0, 2.0], [3.0, 4.0]]),
    ("x.take(" + NONE + ")", [1.0]),
    (halves("a.put(i, b)", "lib.tensor([-1, 0, 1])"), [1.0, nan, 3.0, 4.0, 5.0, 6.0]),
    (halves("a.put(i, b, accumulate=True)"), [1.0, nan, 3.0, 4.0, 5.0, 6.0]),
    ("x[lib.tensor([0, 0, -1])]", [1.0, 2.0, 3.0]),
    ("x[:, lib.tensor([[1, 0]])]", [[1.0, 2.0], [3.0, 4.0]]),
    ("x[lib.tensor([True, False])]", [[1.0, 2.0], [3.0, 4.0]]),
    ("x[lib.tensor(True)]", 3.0),
    ("x[lib.tensor([False, False])]", [1.0, 2.0]),
    ("x[..., None, lib.tensor([1, 1])]", [[1.0, 2.0], [3.0, 4.0]]),
    ("x.index_put((lib.tensor([0, 0]),), x[1], accumulate=True)", [1.0, 2.0, 3.0]),
    ("x.index_put((lib.tensor([0, 2]),), x[1:])", [nan, 2.0, 3.0]),
    ("x.index_put((lib.tensor([True, False, True]),), x[1])", [1.0, 2.0, 3.0]),
    ("x[lib.tensor([1, 1])]", [1j, 2.0]),
    ("x.masked_select(x > 1)", [1.0, 2.0, 3.0]),
    ("x.masked_select(x > 9)", [1.0, 2.0, 3.0]),
    ("x.masked_select(lib.tensor([[True], [False]]))", [1.0, 2.0, 3.0]),
    ("x.masked_select(lib.tensor(True))", 1.0),
    ("x.masked_fill(lib.tensor([True, False]), 1)", [nan, inf]),
    ("x.masked_fill(lib.tensor([True, True, False]), x[2])", [nan, inf, 3.0]),
    (halves("a.masked_scatter(i, b)", "lib.tensor([True, False, True])"), [nan, 2.0, 3.0, 4.0, 5.0, 6.0]),
    (halves("a.masked_scatter(i, b)", "lib.tensor([False, False, False])"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    ("x.masked_scatter(lib.tensor([[True, False], [False, True]]), x.repeat(2))", [1.0, 2.0]),
    ("lib.take_along_dim(x, lib.tensor([[1], [0]]), 1)", [[1.0, 2.0], [3.0, 4.0]]),
    ("x.clone().scatter_(0, lib.tensor([0]), 5).index_add_(0, lib.tensor([1]), x[:1])", [1.0, 2.0]),
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_first_order(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


# Reductions. PyTorch has forward mode for some of them only, so tangents are compared with our own gradients.


def gradient(lib: Any, expression: str, value: Any) -> Any:
    x = lib.tensor(value, dtype=lib.float64, requires_grad=True)
    (found,) = lib.autograd.grad(eval(expression, {"lib": lib, "x": x}).sum(), x)
    return torch.tensor(found.tolist())


def tangent(expression: str, value: Any) -> torch.Tensor:
    """The derivative of the sum of the expression by each element of x, in forward mode."""
    x = rushlight.tensor(value, dtype=rushlight.float64)
    jacobian = rushlight.func.jacfwd(lambda x: eval(expression, {"lib": rushlight, "x": x}).sum())(x)
    return torch.tensor(jacobian.tolist())


CASES = [
    (halves(f"a.{name}(0, i, b, '{reduce}', include_self={include})"), value)
    for name in ("scatter_reduce", "index_reduce")
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include in (True, False)
    for value in REDUCED
    if (name, reduce) != ("index_reduce", "sum")
    and (include or reduce not in ("amax", "amin") or value[0] not in value[1:])
]


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize(("expression", "value"), CASES)
def test_reductions(expression: str, value: list[float]) -> None:
    ours = gradient(rushlight, expression, value)
    torch.testing.assert_close(ours, gradient(torch, expression, value), equal_nan=True)
    if math.isfinite(sum(value)):  # else 0 * inf, in a sum over all elements
        torch.testing.assert_close(tangent(expression, value), ours)


@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_product_of_complex_numbers(name: str) -> None:
    call = halves(f"a.{name}(0, i, b, 'prod')")
    for value in ([1j, 2.0, 2 + 1j, 3 - 1j, -2j, 1 + 1j], [1j, 0j, 2 + 1j, 3 - 1j, 0j, 1 + 1j]):
        x = rushlight.tensor(value, dtype=rushlight.complex128, requires_grad=True)
        assert rushlight.autograd.gradcheck(
            lambda x: eval(call, {"lib": rushlight, "x": x}), x, check_forward_ad=True
        )


@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
def test_an_excluded_element_takes_no_share(name: str) -> None:
    """PyTorch counts it among those that attain the extreme, which loses a part of the gradient."""
    call = halves(f"a.{name}(0, i, b, 'amax', include_self=False)")
    assert gradient(rushlight, call, [1.0, 0.0, 5.0, 1.0, 1.0, 2.0]).tolist() == [
        0.0,
        0.0,
        1.0,
        0.5,
        0.5,
        1.0,
    ]


@pytest.mark.parametrize("name", ["scatter_reduce", "index_reduce"])
@pytest.mark.parametrize("value", [v for v in REDUCED if math.isfinite(sum(v))])
def test_second_order_of_products(name: str, value: list[float]) -> None:
    """At zeros as well; with more than one at a place PyTorch refuses."""
    x = rushlight.tensor(value, dtype=rushlight.float64)
    call = halves(f"a.{name}(0, i, b, 'prod')")
    hessian = rushlight.func.hessian(lambda x: eval(call, {"lib": rushlight, "x": x}).sum())(x)
    explicit = rushlight.func.hessian(lambda x: x[0] * x[3] * x[4] + x[1] * x[5] + x[2])(x)
    torch.testing.assert_close(torch.tensor(hessian.tolist()), torch.tensor(explicit.tolist()))


# What PyTorch has not, or has wrong.

BEYOND = [
    halves("a.index_fill(0, i, b[0])", "lib.tensor([-1, 1, 2])"),  # one place, named twice
    halves("a.scatter_reduce(0, i, b, 'mean', include_self=False)", NONE),
    halves("lib.scatter(a, 0, i, b, reduce='add')"),
    halves("lib.scatter(a, 0, i, b, reduce='multiply')"),
    halves("lib.scatter(a, 0, i, 3., reduce='add')"),
    halves("lib.scatter(a, 0, i, 3., reduce='multiply')"),
    halves("a.scatter(0, i, b)", "lib.tensor([2, 0])"),  # a source larger than the index
    halves("a.scatter_add(0, i, b)", "lib.tensor([0, 0])"),
    halves("a.scatter_reduce(0, i, b, 'prod')", "lib.tensor([0, 0])"),
    halves("a.scatter_reduce(0, i, b, 'mean', include_self=False)", "lib.tensor([0, 0])"),
    "x.reshape(2, 3).scatter_add(1, lib.tensor([[0, 0]]), x.reshape(2, 3) * 2)",
]


@pytest.mark.parametrize("expression", BEYOND)
def test_beyond(expression: str) -> None:
    x = rushlight.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], dtype=rushlight.float64, requires_grad=True)

    def function(x: Any) -> Any:
        return eval(expression, {"lib": rushlight, "x": x})

    assert rushlight.autograd.gradcheck(function, x, check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(function, x)


def test_complex_alpha() -> None:
    """PyTorch forgets to conjugate it."""
    x = rushlight.tensor([1j, 2.0, 3 - 1j], dtype=rushlight.complex128, requires_grad=True)
    assert rushlight.autograd.gradcheck(
        lambda x: x.index_add(0, rushlight.tensor([0, 0, 1]), x, alpha=2 - 1j), x, check_forward_ad=True
    )


def test_unsafe_indices() -> None:
    x = rushlight.tensor([1.0, 2.0, 3.0], dtype=rushlight.float64, requires_grad=True)
    i, mask = rushlight.tensor([0, 0, 2]), rushlight.tensor([True, True, False])
    for function in (
        lambda x: run_name("_unsafe_index.Tensor", x, (i,)),
        lambda x: run_name("_unsafe_index_put", x, (i,), x * 2, True),
        lambda x: run_name("_index_put_impl", x, (i,), x * 2, True, False),
        lambda x: run_name("_unsafe_masked_index", x, mask, (i,), 7),
        lambda x: run_name("_unsafe_masked_index_put_accumulate", x, mask, (i,), x * 2),
    ):
        assert rushlight.autograd.gradcheck(function, x, check_forward_ad=True)
        assert rushlight.autograd.gradgradcheck(function, x)

"""Derivatives of products and distances: singular points, second order, what OpInfo does not cover."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.core.dispatch import run_name

inf, nan = math.inf, math.nan
# Two equal rows, equal columns, a tie for p = inf.
ROWS = [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [-1.0, 2.0, 0.0], [4.0, 2.0, 3.0]]
COMPLEX = [[1 + 2j, 3 - 1j], [2j, -1 + 0j]]
ORDERS = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, inf]

POINTS: list[tuple[str, Any]] = [
    ("x @ x", COMPLEX),
    ("lib.addmm(x, x, x, beta=2 - 1j, alpha=1j)", COMPLEX),
    ("lib.addmm(x[0], x, x, beta=0, alpha=0.5)", [[1.0, 2.0], [3.0, 4.0]]),
    ("lib.addmm(x, x, x, beta=0)", [[nan, 2.0], [3.0, 4.0]]),
    ("lib.addmv(x[0], x, x[1], alpha=2, beta=3)", COMPLEX),
    ("lib.addr(x, x[0], x[1], alpha=2j)", COMPLEX),
    ("lib.addbmm(x, x.expand(3, 2, 2), x.expand(3, 2, 2), alpha=2)", COMPLEX),
    ("lib.baddbmm(x, x.expand(3, 2, 2), x.expand(3, 2, 2), beta=3)", COMPLEX),
    ("lib.vdot(x[0], x[1])", COMPLEX),
    ("lib.dot(x[0], x[1])", COMPLEX),
    ("lib.linalg.vecdot(x, x.t())", COMPLEX),
    ("lib.mm(x, x.t())", [[], []]),
    ("lib.mm(x.t(), x)", [[], []]),
    ("lib.dot(x, x)", []),
    ("lib.linalg.cross(x[:2], x[2:])", ROWS),
    ("lib.linalg.cross(x[:1], x)", ROWS),
    ("lib.linalg.matrix_power(x, 0)", [[1.0, 2.0], [3.0, 4.0]]),
    ("lib.linalg.matrix_power(x, 5)", COMPLEX),
    ("lib.einsum('ij,kj,l->ik', x, x, x[0])", COMPLEX),
    ("lib.kron(x, x[0])", COMPLEX),
    ("lib.nn.functional.linear(x, x, x[0])", COMPLEX),
    ("lib.cosine_similarity(x, x * 0)", [[1.0, 2.0], [3.0, 4.0]]),
]


@pytest.mark.parametrize(("expression", "value"), POINTS)
def test_special_points(first_order: Callable[..., None], expression: str, value: Any) -> None:
    first_order(expression, value)


@pytest.mark.parametrize("p", ORDERS)
def test_distances_at_equal_rows(p: float) -> None:
    """PyTorch has no forward mode here; tangents are checked against finite differences below."""
    for expression in (f"lib.cdist(x, x[1:], {p}, 'donot_use_mm_for_euclid_dist')", f"lib.pdist(x, {p})"):
        gradients = [_gradient(lib, expression) for lib in (rushlight, torch)]
        torch.testing.assert_close(*[torch.tensor(gradient) for gradient in gradients])


def _gradient(lib: Any, expression: str) -> Any:
    x = lib.tensor(ROWS, dtype=lib.float64, requires_grad=True)
    result = eval(expression, {"lib": lib, "x": x, "inf": inf})
    weights = lib.arange(1, result.numel() + 1).to(lib.float64).reshape(result.shape)
    return lib.autograd.grad(result, x, weights)[0].tolist()


def test_euclidean_distance_by_products_at_equal_rows() -> None:
    expression = "lib.cdist(x, x[2:], 2., 'use_mm_for_euclid_dist')"
    gradients = [_gradient(lib, expression) for lib in (rushlight, torch)]
    torch.testing.assert_close(*[torch.tensor(gradient) for gradient in gradients])


@pytest.mark.parametrize("p", ORDERS)
def test_distances_have_derivatives_of_second_order(p: float) -> None:
    rushlight.manual_seed(0)
    a = rushlight.randn(3, 2, dtype=rushlight.float64).requires_grad_()
    b = rushlight.randn(2, 4, 2, dtype=rushlight.float64).requires_grad_()
    for function, inputs in (
        (lambda a, b: run_name("_cdist_forward", a, b, p, None), (a, b)),
        (lambda a: run_name("_pdist_forward", a, p), (a,)),
    ):
        assert gradcheck(function, inputs, check_forward_ad=True)
        assert gradgradcheck(function, inputs, check_fwd_over_rev=True, fast_mode=True)


def test_euclidean_distance_by_products_has_derivatives_of_second_order() -> None:
    a, b = (rushlight.randn(rows, 2, dtype=rushlight.float64).requires_grad_() for rows in (3, 4))
    assert gradcheck(lambda a, b: run_name("_euclidean_dist", a, b), (a, b), check_forward_ad=True)
    assert gradgradcheck(lambda a, b: run_name("_euclidean_dist", a, b), (a, b))


def test_second_derivatives_of_distances_between_equal_rows_are_finite() -> None:
    x = rushlight.tensor(ROWS, dtype=rushlight.float64, requires_grad=True)
    for p in ORDERS:
        for distances in (run_name("_pdist_forward", x, p), run_name("_cdist_forward", x, x, p, None)):
            (gradient,) = rushlight.autograd.grad((distances**2).sum(), x, create_graph=True)
            (second,) = rushlight.autograd.grad((gradient**2).sum(), x)
            assert second.isfinite().all()


@pytest.mark.parametrize(
    ("shapes", "expands", "summed"),
    [
        (((2, 3), (2, 3, 1), (2, 1)), ((1, 3), (0,), (1, 2)), (2, 3)),  # bilinear
        (((1, 2), (2, 3), (2, 3)), ((0, 3), (0, 1), (1, 2)), (0, 2)),
        (((1, 3), (2, 1), (2, 3)), ((), (), ()), (1,)),  # broadcast dimensions
        (((2, 2), (3,), (3,)), ((2,), (0, 1), (0, 1)), (0, 1)),  # summed over what only one factor has
    ],
)
def test_trilinear(shapes: Any, expands: Any, summed: tuple[int, ...]) -> None:
    inputs = tuple(rushlight.randn(shape, dtype=rushlight.complex128).requires_grad_() for shape in shapes)

    def product(*factors: Any) -> Any:
        return run_name("_trilinear", *factors, *expands, summed, 1)

    assert gradcheck(product, inputs, check_forward_ad=True)
    assert gradgradcheck(product, inputs, fast_mode=True)


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "baddbmm"])
def test_products_that_return_a_wider_dtype(name: str) -> None:
    shape = (2, 2, 2) if "bmm" in name else (2, 2)
    count = 3 if "add" in name else 2
    tensors = [rushlight.randn(shape).to(rushlight.bfloat16).requires_grad_() for _ in range(count)]
    scalars = (3, 2) if "add" in name else ()
    result = run_name(f"{name}.dtype", *tensors, rushlight.float32, *scalars)
    weights = rushlight.randn(shape)
    found = rushlight.autograd.grad(result, tensors, weights)
    wide = [tensor.detach().to(rushlight.float32).requires_grad_() for tensor in tensors]
    expected = rushlight.autograd.grad(run_name(name, *wide, *scalars), wide, weights)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype is rushlight.bfloat16
        assert ours.tolist() == theirs.to(rushlight.bfloat16).tolist()


def test_addr_of_several_dtypes() -> None:
    """PyTorch refuses the backward pass of it."""
    x = rushlight.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=rushlight.float64, requires_grad=True)
    narrow = rushlight.tensor([5.0, 6.0], requires_grad=True)
    gradients = rushlight.autograd.grad(rushlight.addr(x, narrow, x[1]).sum(), (x, narrow))
    assert [gradient.tolist() for gradient in gradients] == [[[1.0, 1.0], [12.0, 12.0]], [7.0, 7.0]]
    assert gradients[1].dtype is rushlight.float32


@pytest.mark.parametrize(
    "function",
    [
        lambda x: rushlight.addmm(x, x, x, beta=2, alpha=3),
        lambda x: rushlight.addmv(x[0], x, x[1], alpha=2),
        lambda x: rushlight.addr(x, x[0], x[1], beta=2),
        lambda x: rushlight.vdot(x[0], x[1] ** 2),
        lambda x: rushlight.linalg.multi_dot([x, x, x]),
        lambda x: rushlight.linalg.matrix_power(x, 3),
    ],
)
def test_derivatives_of_second_order(function: Callable[[Any], Any]) -> None:
    x = rushlight.tensor(COMPLEX, dtype=rushlight.complex128, requires_grad=True)
    assert gradgradcheck(function, x, check_fwd_over_rev=True)

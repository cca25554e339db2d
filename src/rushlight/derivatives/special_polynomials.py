"""Derivatives of orthogonal polynomials in x; the degree n is an integer and has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..ops.special_derivatives import RECURRENCES
from .declare import AUTO_ELEMENTWISE, NOT_DIFFERENTIABLE, derivative


def slope(name: str, x: Tensor, n: Any, order: int) -> Tensor:
    degree = n if isinstance(n, Tensor) else x.new_full((), n)
    return run_name("_polynomial_slope", x, degree, name, order)


def slope_of(name: str) -> Callable[..., Tensor]:
    return lambda grad, x, n: grad * slope(name, x, n, 1)


def shifted_slope_of(name: str) -> Callable[..., Tensor]:
    """Of the polynomial moved from (-1, 1) to (0, 1)."""
    return lambda grad, x, n: grad * (2 * slope(name, 2 * x - 1, n, 1))


def polynomial(name: str, formula: Callable[..., Tensor]) -> None:
    derivative(f"special_{name}", x=formula, n=NOT_DIFFERENTIABLE, result=AUTO_ELEMENTWISE)
    derivative(f"special_{name}.x_scalar", NOT_DIFFERENTIABLE)
    derivative(f"special_{name}.n_scalar", x=formula, result=AUTO_ELEMENTWISE)


for _name in RECURRENCES:
    polynomial(_name, slope_of(_name))
    if _name.startswith("chebyshev"):
        polynomial(f"shifted_{_name}", shifted_slope_of(_name))

derivative("_polynomial_slope",
           x=lambda grad, x, n, polynomial, order: grad * slope(polynomial, x, n, order + 1),
           n=NOT_DIFFERENTIABLE,
           result=AUTO_ELEMENTWISE)

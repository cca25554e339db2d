"""Derivatives of elementwise operators: what the parts of the family share.

What a formula saves (an argument or the result) is what PyTorch saves, since that decides which of them may
be written in place between forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.dispatch import run_name
from ..core.tensor import Tensor


def zero(grad: Tensor) -> Tensor:
    """The gradient of a function that is constant almost everywhere."""
    return run_name("zeros_like", grad, None, None, None, None, None)


def keep(condition: Tensor, grad: Tensor) -> Tensor:
    """`grad` where the condition holds and 0 elsewhere, whatever `grad` is there."""
    return run_name("where.ScalarOther", condition, grad, 0)


def drop(condition: Tensor, grad: Tensor) -> Tensor:
    """0 where the condition holds and `grad` elsewhere."""
    return run_name("where.ScalarSelf", condition, 0, grad)


def replaced(condition: Tensor, x: Tensor, number: float) -> Tensor:
    """`x` with a harmless `number` where the condition holds, so that what is not used there is finite."""
    return run_name("where.ScalarSelf", condition, number, x)


def real_part(value: Tensor) -> Tensor:
    return value.real if value.dtype.is_complex else value


def power_series(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The sum of coefficients[k] * x**(2 k)."""
    square = x * x
    total = square * coefficients[-1] + coefficients[-2]
    for coefficient in reversed(coefficients[:-2]):
        total = total * square + coefficient
    return total


def around_zero(x: Tensor, radius: float, near: Callable[[Tensor], Tensor],
                far: Callable[[Tensor], Tensor]) -> Tensor:
    """near(x) for |x| < radius and far(x) elsewhere; neither sees the arguments of the other."""
    small = x.abs() < radius
    return run_name("where.self", small, near(keep(small, x)), far(replaced(small, x, 1)))

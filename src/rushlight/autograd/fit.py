"""Bringing a gradient to the shape and dtype of what it is the gradient of.

Formulas may return a gradient of the broadcast shape and of the computation's dtype; it is summed and cast
here.
"""

from __future__ import annotations

from ..core.data_sizes import alike
from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..derivatives.helpers import sum_to
from .tape import Meta


def fit(grad: Tensor, meta: Meta) -> Tensor:
    """`grad` summed to the shape and cast to the dtype of `meta`; a complex gradient of a real input is its
    real part."""
    shape, dtype, _ = meta
    array = grad._array
    if array.shape != shape if array is not None else not alike(grad.shape, shape):
        grad = sum_to(grad, shape)
    if grad.dtype is not dtype:
        if grad.dtype.is_complex and not dtype.is_complex:
            grad = run_name("real", grad)
        if grad.dtype is not dtype:
            grad = grad.to(dtype)
    return grad


def can_fit(grad: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether `shape` broadcasts to the shape of `grad`."""
    array = grad._array
    given = array.shape if array is not None and grad._spec is None else tuple(grad.shape)
    lead = len(given) - len(shape)
    if lead < 0:
        return False
    for size, wanted in zip(given[lead:], shape, strict=True):
        if wanted is not size and wanted not in (1, size):
            return False
    return True

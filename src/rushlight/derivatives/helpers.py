"""What several formulas share. Everything here is differentiable itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.shapes import wrap_dims
from ..core.tensor import Tensor


def restore_dims(grad: Tensor, dim: Sequence[int] | int | None, keepdim: bool,
                 ndim: int | None = None) -> Tensor:
    """`grad` of a reduction over `dim` with the reduced dimensions put back as ones.

    `ndim` is that of the input; it matters for 0-d inputs, and where `dim` may mean all dimensions.
    """
    if keepdim or ndim == 0:
        return grad
    if ndim is None:
        if dim is None or (not isinstance(dim, int) and len(dim) == 0):
            return grad
        ndim = grad.ndim + (1 if isinstance(dim, int) else len(dim))
    for d in sorted(wrap_dims(dim, ndim)):
        grad = run_name("unsqueeze", grad, d)
    return grad


def sum_to(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """`tensor` summed over the dimensions along which `shape` was broadcast."""
    sizes: Sequence[int] = tensor.shape
    lead = len(sizes) - len(shape)
    if lead > 0:
        tensor, sizes = run_name("sum.dim_IntList", tensor, tuple(range(lead)), False, None), sizes[lead:]
    dims = tuple([i for i, (size, wanted) in enumerate(zip(sizes, shape, strict=True)) if size != wanted])
    return run_name("sum.dim_IntList", tensor, dims, True, None) if dims else tensor


def conj(value: Any) -> Any:
    """The complex conjugate of a tensor or number; real ones are returned as they are."""
    if isinstance(value, Tensor):
        return value.conj() if value.dtype.is_complex else value
    return value.conjugate() if isinstance(value, complex) else value


def nothing(grad: Tensor) -> Tensor:
    """The gradient of an argument whose values do not matter: zeros, even where `grad` is infinite or NaN."""
    return grad.new_zeros(grad.shape)

"""Shape rules that many operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtypes import DTYPES, Category, DType
from ..core.shapes import Spec, reduced_shape, wrap_dims


def like(tensor: Any, dtype: DType | None = None) -> Spec:
    """A contiguous output of the shape (and dtype) of `tensor`."""
    return Spec(tuple(tensor.shape), dtype or tensor.dtype)


def same_as(name: str) -> Callable[..., Spec]:
    """The rule "as the argument `name`", for operators whose first argument it is."""
    if name != "self":
        raise ValueError("same_as takes 'self'; write a rule that names the other argument")
    return lambda self: Spec(tuple(self.shape), self.dtype)


def reduced(
    tensor: Any, dim: Sequence[int] | int | None, keepdim: bool, dtype: DType | None = None, *, name: str = ""
) -> Spec:
    """The output of a reduction of `tensor` over `dim`."""
    dims = wrap_dims(dim, tensor.ndim, name=name)
    return Spec(reduced_shape(tensor.shape, dims, keepdim), dtype or tensor.dtype)


def sum_dtype(tensor: Any, dtype: DType | None) -> DType:
    """The dtype of a sum: as asked, else int64 for integers and bool, else the input's."""
    if dtype is not None:
        return dtype
    return DTYPES["int64"] if tensor.dtype.category <= Category.INTEGRAL else tensor.dtype

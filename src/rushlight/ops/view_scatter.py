"""Twins of views that return a copy of `self` in which the elements the view shows are replaced by `src`."""

from __future__ import annotations

from typing import Any

from ..core.errors import check
from ..core.registry import FUNCTION, METHOD, OUT, REGISTRY, define
from ..core.shapes import Spec, preserved_strides
from ..core.tensor import Tensor


def scattered(view: str, self: Tensor, src: Tensor, *arguments: Any) -> Spec:
    """The output of the twin of `view`, which keeps the memory layout of `self`."""
    name = view.partition(".")[0]
    shown = REGISTRY[view].rule((self, *arguments))  # type: ignore[misc]
    check(
        src.shape == shown.shape,
        f"{name}_scatter: expected src to have a size equal to the slice of "
        f"self. src size = {list(src.shape)}, slice size = {list(shown.shape)}",
    )
    strides = self.strides()
    if any(stride == 0 and size > 1 for size, stride in zip(self.shape, strides, strict=True)):
        strides = preserved_strides(self.shape, strides)
    return Spec(tuple(self.shape), self.dtype, strides, self.storage_offset())


_API = FUNCTION | METHOD | OUT

define(
    "select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor",
    api=_API,
    moves=True,
    shape=lambda self, src, dim, index: scattered("select.int", self, src, dim, index),
)
define(
    "slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt "
    "step=1) -> Tensor",
    api=_API,
    moves=True,
    shape=lambda self, src, dim, start, end, step: scattered(
        "slice.Tensor", self, src, dim, start, end, step
    ),
)
define(
    "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    api=_API,
    moves=True,
    shape=lambda self, src, offset, dim1, dim2: scattered("diagonal", self, src, offset, dim1, dim2),
)
define(
    "as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? "
    "storage_offset=None) -> Tensor",
    api=_API,
    moves=True,
    shape=lambda self, src, size, stride, storage_offset: scattered(
        "as_strided", self, src, size, stride, storage_offset
    ),
)

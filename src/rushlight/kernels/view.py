"""Twins of views on NumPy arrays. (A view itself has no kernel: it aliases the storage.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.registry import REGISTRY, kernel
from ..core.shapes import Spec, extent
from ..core.tensor import alias, wrap


def scatter(view: str, self: np.ndarray, src: np.ndarray, out: Spec, *arguments: Any) -> np.ndarray:
    """A copy of `self` in the layout of `out`, with `src` in the place that `view` shows."""
    rule: Callable[..., Spec] = REGISTRY[view].rule  # type: ignore[assignment]
    shape, strides = self.shape, out.known_strides()
    length = out.offset + extent(shape, strides)
    if view == "as_strided":  # its place may lie outside of `self`, anywhere in the storage
        size, stride, offset = arguments
        length = max(length, (out.offset if offset is None else offset) + extent(size, stride))
    buffer = wrap(np.zeros(length, self.dtype))
    result = alias(buffer, Spec(shape, buffer.dtype, strides, out.offset))
    np.copyto(result.numpy_array(), self)
    place = rule((result, *arguments))
    target = alias(buffer, place)
    np.copyto(target.numpy_array(), src, casting="unsafe")
    return result.numpy_array()


kernel("select_scatter", lambda self, src, dim, index, out: scatter("select.int", self, src, out, dim, index))
kernel(
    "slice_scatter",
    lambda self, src, dim, start, end, step, out: scatter(
        "slice.Tensor", self, src, out, dim, start, end, step
    ),
)
kernel(
    "diagonal_scatter",
    lambda self, src, offset, dim1, dim2, out: scatter("diagonal", self, src, out, offset, dim1, dim2),
)
kernel(
    "as_strided_scatter",
    lambda self, src, size, stride, storage_offset, out: scatter(
        "as_strided", self, src, out, size, stride, storage_offset
    ),
)

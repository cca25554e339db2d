"""Extremes and order statistics on NumPy arrays. NaN is greater than everything for max, smaller for min."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.lazy import LazyModule
from ..core.registry import kernel
from .reduction import reduction_axes

sparse = LazyModule("scipy.sparse")

Pair = tuple[np.ndarray, np.ndarray]


kernel("amax", lambda self, dim, keepdim: np.max(self, axis=reduction_axes(dim, self.ndim), keepdims=keepdim))
kernel("amin", lambda self, dim, keepdim: np.min(self, axis=reduction_axes(dim, self.ndim), keepdims=keepdim))
kernel("max", lambda self: np.max(self))
kernel("min", lambda self: np.min(self))


@kernel("aminmax")
def aminmax(self: np.ndarray, dim: int | None, keepdim: bool) -> Pair:
    axes = reduction_axes(dim, self.ndim)
    return np.min(self, axis=axes, keepdims=keepdim), np.max(self, axis=axes, keepdims=keepdim)


def selected(x: np.ndarray, dim: int, keepdim: bool, choose: Callable[[np.ndarray, int], np.ndarray]) -> Pair:
    """(elements of `x` along `dim`, their positions) as chosen by `choose(x, axis)`, which keeps the axis."""
    rows = x if x.ndim else x.reshape(1)
    index = choose(rows, dim)
    values = np.take_along_axis(rows, index, dim)
    if x.ndim == 0:
        return values.reshape(()), index.reshape(())
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


# NumPy's argmax and argmin give the first of equal elements, and the first NaN if there is one: as PyTorch.

kernel(
    "max.dim",
    lambda self, dim, keepdim: selected(
        self, dim, keepdim, lambda rows, axis: np.argmax(rows, axis=axis, keepdims=True)
    ),
)
kernel(
    "min.dim",
    lambda self, dim, keepdim: selected(
        self, dim, keepdim, lambda rows, axis: np.argmin(rows, axis=axis, keepdims=True)
    ),
)
kernel(
    "argmax", lambda self, dim, keepdim: np.argmax(self, axis=dim if self.ndim else None, keepdims=keepdim)
)
kernel(
    "argmin", lambda self, dim, keepdim: np.argmin(self, axis=dim if self.ndim else None, keepdims=keepdim)
)


# Medians: the lower of two middle elements.


@kernel("median")
def median(self: np.ndarray) -> np.ndarray:
    return _middle(self, ignore_nan=False)


@kernel("nanmedian")
def nanmedian(self: np.ndarray) -> np.ndarray:
    return _middle(self, ignore_nan=True)


def _middle(x: np.ndarray, ignore_nan: bool) -> np.ndarray:
    if x.size == 0:
        return np.array(np.nan).astype(x.dtype)
    return selected(x.reshape(-1), 0, False, _choose_median(ignore_nan))[0]


def _choose_median(ignore_nan: bool) -> Callable[[np.ndarray, int], np.ndarray]:
    """Positions of the medians: of equal elements the one that a stable sort would put in the middle."""

    def choose(rows: np.ndarray, axis: int) -> np.ndarray:
        middle: Any = (rows.shape[axis] - 1) // 2
        missing = np.isnan(rows) if rows.dtype.kind == "f" else np.zeros(rows.shape, np.bool_)
        if ignore_nan and missing.any():
            middle = np.maximum(np.sum(~missing, axis=axis, keepdims=True) - 1, 0) // 2
            value = np.take_along_axis(np.sort(rows, axis=axis), middle, axis)
        else:
            value = np.take(np.partition(rows, middle, axis=axis), [middle], axis=axis)
        smaller = np.sum(rows < value, axis=axis, keepdims=True)
        nth = np.cumsum(rows == value, axis=axis) == middle - smaller + 1
        empty = missing.all(axis=axis, keepdims=True) if ignore_nan else missing.any(axis=axis, keepdims=True)
        return np.argmax(np.where(empty, missing, nth), axis=axis, keepdims=True)

    return choose


kernel("median.dim", lambda self, dim, keepdim: selected(self, dim, keepdim, _choose_median(False)))
kernel("nanmedian.dim", lambda self, dim, keepdim: selected(self, dim, keepdim, _choose_median(True)))


def _choose_mode(rows: np.ndarray, axis: int) -> np.ndarray:
    """Positions of the most frequent elements (the smallest such), each the last of its equals as sorted."""
    lines = np.moveaxis(rows, axis, -1)
    order = _unstable_argsort(lines)
    ordered = np.take_along_axis(lines, order, -1)
    place = np.arange(ordered.shape[-1])
    starts = np.ones(ordered.shape, np.bool_)
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=starts[..., 1:])
    run = place - np.maximum.accumulate(np.where(starts, place, 0), axis=-1)
    best = np.argmax(run, axis=-1, keepdims=True)
    return np.moveaxis(np.take_along_axis(order, best, -1), -1, axis)


def _unstable_argsort(lines: np.ndarray) -> np.ndarray:
    """The order of the elements of each line after the C++ library's sort, which PyTorch uses here.

    It is stable for up to 16 elements; for more, equal elements are shuffled in a way only that sort knows.
    SciPy sorts the column numbers of a sparse row with it, and carries the values along.
    """
    size = lines.shape[-1]
    if size <= 16 or lines.size == 0:
        return np.argsort(lines, axis=-1, kind="stable")
    _, rank = np.unique(lines, return_inverse=True, equal_nan=False)
    number = lines.size // size
    table = sparse.csr_array(
        (np.tile(np.arange(size), number), rank.reshape(-1), np.arange(number + 1) * size),
        shape=(number, lines.size),
    )
    table.has_sorted_indices = False
    table.sort_indices()
    return table.data.reshape(lines.shape)


@kernel("mode")
def mode(self: np.ndarray, dim: int, keepdim: bool) -> Any:
    return selected(self, dim, keepdim, _choose_mode)

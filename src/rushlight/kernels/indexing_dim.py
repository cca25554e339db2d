"""Gather, scatter and index_* along one dimension, and take and put: eager kernels on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.registry import kernel
from ..core.shapes import Spec, wrap_dim
from .accumulate import Combine, add_at, combine_at, combine_rows
from .creation import cast, filled
from .indexing import check_bounds


def at_least_1d(array: np.ndarray) -> np.ndarray:
    return array if array.ndim else array.reshape(1)


# Gather and scatter.


def grid(index: np.ndarray, dim: int) -> tuple[np.ndarray, ...]:
    """The NumPy key of all elements that `index` names: its own coordinates, except along `dim`."""
    rank = index.ndim
    return tuple(
        index if at == dim else np.arange(size).reshape([-1 if d == at else 1 for d in range(rank)])
        for at, size in enumerate(index.shape)
    )


@kernel("gather")
def gather(self: np.ndarray, dim: int, index: np.ndarray, out: Spec) -> np.ndarray:
    if index.size == 0:
        return np.empty(out.known_shape(), self.dtype)
    dim = wrap_dim(dim, self.ndim)
    self, index = at_least_1d(self), at_least_1d(index)
    check_bounds(index, self.shape[dim], dim, "gather", negative=False, error=RuntimeError)
    return np.ascontiguousarray(self[grid(index, dim)]).reshape(out.known_shape())


def _scatter_key(self: np.ndarray, dim: int, index: np.ndarray, name: str) -> tuple[np.ndarray, ...] | None:
    """Where a scatter writes in `self` as at least 1-D, None for nowhere; RuntimeError if out of range."""
    if index.size == 0:
        return None
    dim, index = wrap_dim(dim, self.ndim), at_least_1d(index)
    check_bounds(index, at_least_1d(self).shape[dim], dim, name, negative=False, error=RuntimeError)
    return grid(index, dim)


def _part(src: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The corner of `src` that `index` covers."""
    return at_least_1d(src)[tuple(slice(size) for size in at_least_1d(index).shape)]


def _scattered(self: np.ndarray, dim: int, index: np.ndarray, values: Any, out: Spec) -> np.ndarray:
    key = _scatter_key(self, dim, index, "scatter")
    result = filled(out, self)
    if key is not None:
        at_least_1d(result)[key] = values
    return result


@kernel("scatter.src")
def scatter_src(self: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, out: Spec) -> np.ndarray:
    return _scattered(self, dim, index, _part(src, index) if index.size else None, out)


@kernel("scatter.value")
def scatter_value(self: np.ndarray, dim: int, index: np.ndarray, value: Any, out: Spec) -> np.ndarray:
    return _scattered(self, dim, index, cast(np.asarray(value), self.dtype), out)


def _combined(
    self: np.ndarray,
    dim: int,
    index: np.ndarray,
    values: np.ndarray,
    combine: Combine,
    include_self: bool = True,
) -> np.ndarray:
    """`self` with `values` (of the shape of index) combined into the places that a scatter would write."""
    key = _scatter_key(self, dim, index, "scatter")
    if key is None:
        return self.copy()
    flat = self.reshape(-1)
    places = np.ravel_multi_index(np.broadcast_arrays(*key), at_least_1d(self).shape).reshape(-1)
    return combine_at(combine, flat, places, values.reshape(-1), include_self).reshape(self.shape)


_LEGACY = {"add": Combine.SUM, "multiply": Combine.PROD}


@kernel("scatter.reduce")
def scatter_src_reduce(
    self: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, reduce: str
) -> np.ndarray:
    return _combined(self, dim, index, _part(src, index) if index.size else src, _LEGACY[reduce])


@kernel("scatter.value_reduce")
def scatter_value_reduce(
    self: np.ndarray, dim: int, index: np.ndarray, value: Any, reduce: str
) -> np.ndarray:
    values = np.full(at_least_1d(index).shape, cast(np.asarray(value), self.dtype))
    return _combined(self, dim, index, values, _LEGACY[reduce])


@kernel("scatter_add")
def scatter_add(self: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray) -> np.ndarray:
    return _combined(self, dim, index, _part(src, index) if index.size else src, Combine.SUM)


@kernel("scatter_reduce.two")
def scatter_reduce(
    self: np.ndarray, dim: int, index: np.ndarray, src: np.ndarray, reduce: str, include_self: bool
) -> np.ndarray:
    return _combined(
        self, dim, index, _part(src, index) if index.size else src, Combine(reduce), include_self
    )


# Whole slices at the indices of one dimension.


@kernel("index_select")
def index_select(self: np.ndarray, dim: int, index: np.ndarray, out: Spec) -> np.ndarray:
    dim = wrap_dim(dim, self.ndim)
    check_bounds(index, at_least_1d(self).shape[dim], dim, "index_select", negative=False)
    return np.take(at_least_1d(self), at_least_1d(index), axis=dim).reshape(out.known_shape())


def _slices(
    self: np.ndarray,
    dim: int,
    index: np.ndarray,
    source: np.ndarray,
    combine: Combine,
    include_self: bool = True,
) -> np.ndarray:
    """`self` with the slices of `source` combined into those at `index` along `dim`."""
    dim = wrap_dim(dim, self.ndim)
    table = np.moveaxis(at_least_1d(self), dim, 0)
    values = np.moveaxis(at_least_1d(source), dim, 0)
    width = table[0].size if len(table) else 0
    combined = combine_rows(
        combine,
        table.reshape(len(table), width),
        index.reshape(-1),
        values.reshape(index.size, width),
        include_self,
    )
    return np.ascontiguousarray(np.moveaxis(combined.reshape(table.shape), 0, dim)).reshape(self.shape)


@kernel("index_add")
def index_add(self: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, alpha: Any) -> np.ndarray:
    at = wrap_dim(dim, self.ndim)
    check_bounds(
        index,
        at_least_1d(self).shape[at],
        at,
        "index_add",
        negative=False,
        error=RuntimeError if self.ndim > 1 else IndexError,
    )
    if alpha != 1:
        source = source * cast(np.asarray(alpha), self.dtype)
    return _slices(self, dim, index, source, Combine.SUM)


@kernel("index_reduce")
def index_reduce(
    self: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, reduce: str, include_self: bool
) -> np.ndarray:
    at = wrap_dim(dim, self.ndim)
    check_bounds(index, at_least_1d(self).shape[at], at, "index_reduce", negative=False)
    return _slices(self, dim, index, source, Combine(reduce), include_self)


def _overwritten(self: np.ndarray, dim: int, index: np.ndarray, values: np.ndarray, out: Spec) -> np.ndarray:
    result = filled(out, self)
    key: Any = (*(slice(None),) * wrap_dim(dim, self.ndim), at_least_1d(index))
    at_least_1d(result)[key] = values
    return result


@kernel("index_copy")
def index_copy(self: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, out: Spec) -> np.ndarray:
    at = wrap_dim(dim, self.ndim)
    check_bounds(index, at_least_1d(self).shape[at], at, "index_copy", negative=False)
    return _overwritten(self, dim, index, at_least_1d(source), out)


@kernel("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(self: np.ndarray, dim: int, index: np.ndarray, value: Any, out: Spec) -> np.ndarray:
    at = wrap_dim(dim, self.ndim)
    check_bounds(index, at_least_1d(self).shape[at], at, "index_fill")
    return _overwritten(self, dim, index, cast(np.asarray(value), self.dtype), out)


# Elements of the flattened tensor.


def _check_flat(index: np.ndarray, size: int) -> None:
    if index.size and (index.min() < -size or index.max() >= size):
        wrong = index[(index < -size) | (index >= size)].flat[0]
        raise IndexError(f"out of range: tried to access index {wrong} on a tensor of {size} elements.")


@kernel("take")
def take(self: np.ndarray, index: np.ndarray, out: Spec) -> np.ndarray:
    if index.size == 0:
        return np.empty(out.known_shape(), self.dtype)
    _check_flat(index, self.size)
    return self.reshape(-1)[index]


@kernel("put")
def put(self: np.ndarray, index: np.ndarray, source: np.ndarray, accumulate: bool, out: Spec) -> np.ndarray:
    _check_flat(index, self.size)
    flat, places, values = self.flatten(), index.reshape(-1), source.reshape(-1)
    if accumulate:
        flat = add_at(flat, np.where(places < 0, places + self.size, places), values)
    elif index.size:
        flat[places] = values
    return filled(out, flat.reshape(self.shape))

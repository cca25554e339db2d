"""Index, mask and nonzero operators: eager kernels on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.errors import check
from ..core.registry import kernel
from ..core.shapes import Shape, Spec
from ..ops.indexing import check_values, index_shape
from .accumulate import add_rows
from .creation import filled

Indices = Sequence[np.ndarray | None]
Placement = tuple[Shape, Shape, int]  # see ops.indexing.index_shape


# Advanced indices.


def expanded(indices: Indices) -> list[np.ndarray | None]:
    """`indices` with every mask replaced by the positions of its nonzero elements."""
    result: list[np.ndarray | None] = []
    for index in indices:
        if index is None or index.dtype.kind == "i":
            result.append(index)
        elif index.ndim == 0:
            result.extend(np.nonzero(index.reshape(1)))
        else:
            result.extend(np.nonzero(index))
    return result


def numpy_key(shape: Sequence[int], indices: Indices, name: str) -> tuple[tuple[Any, ...], Placement]:
    """The NumPy index that selects what `indices` selects, and where; IndexError if one is out of range."""
    found = expanded(indices)
    place = index_shape(shape, found, name)
    for dim, index in enumerate(found):
        if index is not None and (0 not in place[0] or (shape[dim] == 0 and 0 not in place[1])):
            check_bounds(index, shape[dim], dim, name)
    return tuple(slice(None) if index is None else index for index in found), place


def check_bounds(
    index: np.ndarray,
    size: int,
    dim: int,
    name: str,
    *,
    negative: bool = True,
    error: type[Exception] = IndexError,
) -> None:
    """Raise `error` unless every index is in range; the first one that is not is named."""
    if index.size == 0:
        return
    low = -size if negative else 0
    if index.min() < low or index.max() >= size:
        wrong = index[(index < low) | (index >= size)].flat[0]
        which = (
            f"index {wrong} is out of bounds for dimension {dim}"
            if size
            else f"index is out of bounds (dimension {dim}) for dimension"
        )
        raise error(f"{name}: {which} with size {size}")


@kernel("index.Tensor", "_unsafe_index.Tensor")
def index(self: np.ndarray, indices: Indices, out: Spec) -> np.ndarray:
    mask = indices[-1]
    alone = all(index is None for index in indices[:-1]) and out.strides is None
    if alone and mask is not None and mask.dtype.kind == "b" and mask.ndim:
        if mask.ndim == 1:  # many times as quick as an index
            return np.compress(mask, self, axis=len(indices) - 1)
        key: tuple[Any, ...] = (*[slice(None)] * (len(indices) - 1), mask)
        return np.ascontiguousarray(self[key])
    key, (shape, _, _) = numpy_key(self.shape, indices, "index")
    if 0 in shape:
        return np.empty(shape, self.dtype)
    selected = np.asarray(self[key])
    if out.strides is None and shape:
        return np.ascontiguousarray(selected)
    return filled(replace(out, shape=shape), selected)


@kernel("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    self: np.ndarray, indices: Indices, values: np.ndarray, accumulate: bool, out: Spec
) -> np.ndarray:
    key, place = numpy_key(self.shape, indices, "index_put")
    shape = place[0]
    check_values(values.shape, shape)
    values = np.broadcast_to(values, shape)
    result = filled(out, self)
    if accumulate:
        return _accumulated(result, key, place, values, out)
    if values.size:
        result[key] = values
    return result


def _accumulated(
    result: np.ndarray, key: tuple[Any, ...], place: Placement, values: np.ndarray, out: Spec
) -> np.ndarray:
    """`result` with `values` added at `key`, an index counted as often as it occurs."""
    _, block, at = place
    used = [dim for dim, index in enumerate(key) if isinstance(index, np.ndarray)]
    order = used + [dim for dim in range(result.ndim) if dim not in used]
    table = result.transpose(order)
    sizes = table.shape
    table = table.reshape(math.prod(sizes[: len(used)]), math.prod(sizes[len(used) :]))
    rows = np.zeros(block, np.intp)
    for dim in used:
        rows = rows * result.shape[dim] + np.where(key[dim] < 0, key[dim] + result.shape[dim], key[dim])
    values = np.moveaxis(values, range(at, at + len(block)), range(len(block)))
    table = add_rows(table, rows.reshape(-1), values.reshape(rows.size, table.shape[1]))
    return filled(out, table.reshape(sizes).transpose(np.argsort(order)))


# Nonzero.


def positions(self: np.ndarray) -> np.ndarray:
    """One row per nonzero element, in order; stored column by column, as PyTorch does."""
    if self.ndim == 0:
        return np.empty((int(bool(self)), 0), np.int64)
    return np.array(np.nonzero(self), np.int64, order="C").T


kernel("nonzero", lambda self: positions(self))


@kernel("nonzero_static")
def nonzero_static(self: np.ndarray, size: int, fill_value: int, out: Spec) -> np.ndarray:
    found = positions(self)[:size]
    result = filled(out, fill_value)
    result[: len(found)] = found
    return result


# Masks.

kernel(
    "masked_select",
    lambda self, mask: np.broadcast_arrays(self, mask)[0][
        np.broadcast_to(mask, np.broadcast_shapes(self.shape, mask.shape))
    ],
)


@kernel("masked_scatter")
def masked_scatter(self: np.ndarray, mask: np.ndarray, source: np.ndarray, out: Spec) -> np.ndarray:
    result = filled(out, self)
    mask = np.broadcast_to(mask, result.shape)
    count = np.count_nonzero(mask)
    check(
        source.size >= count,
        f"masked_scatter: Number of elements of source ({source.size}) < number of ones in mask ({count})",
    )
    result[mask] = source.reshape(-1)[:count]
    return result

"""Sorting, searching and unique values: eager kernels on NumPy arrays.

NaN counts as the greatest value, and equal values keep their order (-0.0 and 0.0 are equal). Types of up to
32 bits are sorted as 64-bit integers that hold the value above the position, which is stable and several
times as fast as a sort of positions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import BY_NUMPY
from ..core.promotion import common
from ..core.registry import kernel
from ..core.shapes import Spec, wrap_dim
from .creation import cast, filled

Pair = tuple[np.ndarray, np.ndarray]
Triple = tuple[np.ndarray, np.ndarray, np.ndarray]
_POSITION = np.int64(0xFFFFFFFF)


# Order along the last dimension.


def _rank_bits(x: np.ndarray) -> np.ndarray | None:
    """Values of up to 32 bits as int64 in the range of int32, in the same order; None for wider types."""
    if x.dtype.itemsize > 4:
        return None
    if x.dtype.kind != "f":
        return x.astype(np.int64) - (2**31 if x.dtype == np.uint32 else 0)
    clean = x.astype(np.float32) + np.float32(0)  # makes -0.0 equal to 0.0
    clean[np.isnan(clean)] = np.nan  # one NaN, with a positive sign
    bits = clean.view(np.int32)
    return (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)


def _packed(x: np.ndarray, descending: bool) -> np.ndarray | None:
    """One distinct int64 per element whose order is that of (value, position), positions always ascending."""
    ranks = _rank_bits(x)
    if ranks is None or x.shape[-1] >= 2**32:
        return None
    if descending:
        np.invert(ranks, out=ranks)
    ranks <<= 32
    ranks |= np.arange(x.shape[-1], dtype=np.int64)
    return ranks


def order(x: np.ndarray, descending: bool = False) -> np.ndarray:
    """The positions that sort `x` along its last dimension, equal values in their order."""
    packed = _packed(x, descending)
    if packed is not None:
        packed.sort(axis=-1)
        packed &= _POSITION
        return packed
    positions = np.argsort(x, axis=-1)
    if descending:
        positions = positions[..., ::-1]
    ordered = np.take_along_axis(x, positions, -1)
    same = ordered[..., 1:] == ordered[..., :-1]
    if x.dtype.kind == "f":
        same |= np.isnan(ordered[..., 1:]) & np.isnan(ordered[..., :-1])
    if not same.any():
        return np.ascontiguousarray(positions)
    runs = np.zeros(x.shape, np.int64)
    np.cumsum(~same, axis=-1, out=runs[..., 1:])
    runs <<= 32
    runs |= positions
    runs.sort(axis=-1)
    runs &= _POSITION
    return runs


def first(x: np.ndarray, k: int, descending: bool = False) -> np.ndarray:
    """`order(x, descending)[..., :k]` without sorting the rest."""
    packed = _packed(x, descending) if 0 < k < x.shape[-1] else None
    if packed is None:
        return order(x, descending)[..., :k]
    packed.partition(k - 1, axis=-1)
    chosen = packed[..., :k]
    chosen.sort(axis=-1)
    return chosen & _POSITION


def _last(x: np.ndarray, dim: int) -> np.ndarray:
    """`x`, as at least 1-D, with `dim` moved to the end."""
    return np.moveaxis(x, dim, -1) if x.ndim else x.reshape(1)


def _selected(x: np.ndarray, positions: np.ndarray, dim: int) -> Pair:
    """The values at `positions` of the last dimension, and the positions, moved back to `dim`."""
    values = np.take_along_axis(x, positions, -1)
    return np.moveaxis(values, -1, dim), np.moveaxis(positions, -1, dim)


@kernel("sort.stable")
def sort(self: np.ndarray, dim: int, descending: bool, out: tuple[Spec, Spec]) -> Pair:
    dim = wrap_dim(dim, self.ndim)
    x = _last(self, dim)
    values, positions = _selected(x, order(x, descending), dim)
    return _laid_out(values, out[0]), _laid_out(positions, out[1])


def _laid_out(array: np.ndarray, out: Spec) -> np.ndarray:
    array = array.reshape(out.known_shape())
    if out.strides is None:
        return np.ascontiguousarray(array).reshape(array.shape)
    return filled(out, array)


@kernel("topk")
def topk(self: np.ndarray, k: int, dim: int, largest: bool, out: tuple[Spec, Spec]) -> Pair:
    dim = wrap_dim(dim, self.ndim)
    x = _last(self, dim)
    values, positions = _selected(x, first(x, k if self.ndim else 1, largest), dim)
    return _laid_out(values, out[0]), _laid_out(positions, out[1])


@kernel("kthvalue")
def kthvalue(self: np.ndarray, k: int, dim: int, out: tuple[Spec, Spec]) -> Pair:
    dim = wrap_dim(dim, self.ndim)
    x = _last(self, dim)
    values, positions = _selected(x, first(x, k)[..., k - 1 :], dim)
    return _laid_out(values, out[0]), _laid_out(positions, out[1])


# Unique values.

_NOT_ASKED = np.empty(0, np.int64)


def _runs(fresh: np.ndarray, return_inverse: bool, return_counts: bool) -> Triple:
    """Where runs of equal items begin, the run of each item, and how long runs are.

    `fresh` tells which items differ from the one before.
    """
    starts = np.flatnonzero(fresh)
    inverse = np.cumsum(fresh) - 1 if return_inverse else _NOT_ASKED
    counts = np.diff(starts, append=len(fresh)) if return_counts else _NOT_ASKED
    return starts, inverse, counts


def _fresh(flat: np.ndarray) -> np.ndarray:
    """Which elements (rows, if 2-D) differ from the one before; NaN differs from NaN."""
    fresh = np.ones(len(flat), np.bool_)
    different = flat[1:] != flat[:-1]
    fresh[1:] = different if flat.ndim == 1 else different.any(axis=1)
    return fresh


def _scattered_back(inverse: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """`inverse`, given for the sorted items, for the items where they were."""
    result = np.empty_like(inverse)
    result[positions] = inverse
    return result


@kernel("_unique2")
def unique(self: np.ndarray, return_inverse: bool, return_counts: bool) -> Triple:
    flat = self.reshape(-1)
    positions = order(flat)
    ordered = flat[positions]
    starts, inverse, counts = _runs(_fresh(ordered), return_inverse, return_counts)
    if return_inverse:
        inverse = _scattered_back(inverse, positions).reshape(self.shape)
    return ordered[starts], inverse, counts


kernel("_unique", lambda self, return_inverse: unique(self, return_inverse, False)[:2])


@kernel("unique_dim")
def unique_dim(self: np.ndarray, dim: int, return_inverse: bool, return_counts: bool) -> Triple:
    dim = wrap_dim(dim, self.ndim)
    rows = _rows(self, dim)
    positions = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    starts, inverse, counts = _runs(_fresh(rows[positions]), return_inverse, return_counts)
    if return_inverse:
        inverse = _scattered_back(inverse, positions)
    return _slices(self, dim, positions[starts]), inverse, counts


def _rows(self: np.ndarray, dim: int) -> np.ndarray:
    """One row per slice along `dim`."""
    moved = np.moveaxis(self, dim, 0)
    return moved.reshape(len(moved), self.size // max(len(moved), 1))


def _slices(self: np.ndarray, dim: int, positions: np.ndarray) -> np.ndarray:
    """The slices at `positions`, one after the other in memory, as PyTorch leaves them."""
    return np.moveaxis(np.take(np.moveaxis(self, dim, 0), positions, axis=0), 0, dim)


@kernel("unique_dim_consecutive")
def unique_dim_consecutive(self: np.ndarray, dim: int, return_inverse: bool, return_counts: bool) -> Triple:
    dim = wrap_dim(dim, self.ndim)
    starts, inverse, counts = _runs(_fresh(_rows(self, dim)), return_inverse, return_counts)
    return _slices(self, dim, starts), inverse, counts


@kernel("unique_consecutive")
def unique_consecutive(
    self: np.ndarray, return_inverse: bool, return_counts: bool, dim: int | None
) -> Triple:
    if dim is not None:
        return unique_dim_consecutive(self, dim, return_inverse, return_counts)
    flat = self.reshape(-1)
    starts, inverse, counts = _runs(_fresh(flat), return_inverse, return_counts)
    return flat[starts], inverse.reshape(self.shape) if return_inverse else inverse, counts


# Searching.


@kernel("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    sorted_sequence: np.ndarray, self: Any, right: bool, side: str | None, sorter: np.ndarray | None
) -> np.ndarray:
    if sorter is not None:
        if sorter.size and (sorter.min() < 0 or sorter.max() >= sorted_sequence.shape[-1]):
            raise RuntimeError("searchsorted(): sorter index out of range")
        sorted_sequence = np.take_along_axis(sorted_sequence, sorter, -1)
    return insertion_points(sorted_sequence, self, right or side == "right")


kernel(
    "bucketize.Tensor",
    "bucketize.Scalar",
    lambda self, boundaries, right: insertion_points(boundaries, self, right),
)


def insertion_points(sequence: np.ndarray, values: Any, right: bool) -> np.ndarray:
    """How many elements of its sorted row of `sequence` are below each value; with `right`, or equal."""
    dtype = _comparable(sequence, values)
    sequence, values = sequence.astype(dtype, copy=False), cast(np.asarray(values), dtype)
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, "right" if right else "left")
    # Merge each row with its values: a stable sort tells how many elements of the row come before each value.
    size, count = sequence.shape[-1], values.shape[-1]
    joined = np.concatenate((sequence, values) if right else (values, sequence), axis=-1)
    positions = order(joined)
    own = positions >= size if right else positions < count
    before = np.cumsum(~own, axis=-1)
    result = np.empty(joined.shape, np.int64)
    np.put_along_axis(result, positions, before, -1)
    return result[..., size:] if right else result[..., :count]


def _comparable(sequence: np.ndarray, values: Any) -> np.dtype:
    return common([(BY_NUMPY[sequence.dtype], False), _described(values)]).opmath.numpy


def _described(value: Any) -> Any:
    """How promotion sees `value`."""
    return (BY_NUMPY[value.dtype], value.ndim == 0) if isinstance(value, np.ndarray) else value


def _is_in(elements: Any, test_elements: Any, invert: bool) -> np.ndarray:
    dtype = common([_described(elements), _described(test_elements)]).opmath.numpy
    known = np.asarray(test_elements).astype(dtype, copy=False).reshape(-1)
    elements = np.asarray(elements).astype(dtype, copy=False)
    if known.size <= 8:
        found = np.zeros(elements.shape, np.bool_)
        for value in known:
            found |= elements == value
    else:
        found = np.isin(elements, known)
    return ~found if invert else found


kernel("isin.Tensor_Tensor", lambda elements, test_elements, invert: _is_in(elements, test_elements, invert))
kernel("isin.Tensor_Scalar", lambda elements, test_element, invert: _is_in(elements, test_element, invert))
kernel("isin.Scalar_Tensor", lambda element, test_elements, invert: _is_in(element, test_elements, invert))

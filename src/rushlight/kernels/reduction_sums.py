"""Sums that stay accurate over long axes, whatever the layout.

NumPy adds pairwise along the innermost axis in memory only, and one by one along the others. `total` adds few
terms one by one, then the sums of these blocks in the same way, so that the error grows with the logarithm
of the number of terms, as it does in PyTorch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_BLOCK = 16  # terms along an outer axis that are added one by one,
_DOUBLE_BLOCK = 128  # in double precision
_ROW = 128  # terms of a contiguous row that einsum adds in one vector loop, 4 or fewer one by one
_SPAN = 1024  # elements of an inner loop that are worth its set-up
_SMALL = 8192  # elements below which double accumulators cost less than the calls that blocks take
_WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}


def total(x: np.ndarray, axes: tuple[int, ...], dtype: np.dtype, keepdims: bool = False) -> np.ndarray:
    """The sum of `x` over `axes`, accumulated in `dtype` or wider."""
    if dtype.kind in "fc" and x.size:
        terms = math.prod([x.shape[axis] for axis in axes])
        if terms > _block(dtype):
            if x.size > _SMALL:
                return _sum_axes(x.astype(dtype, copy=False), axes, keepdims)
            dtype = _WIDER.get(dtype, dtype)
    return np.asarray(np.sum(x, axis=axes, dtype=dtype, keepdims=keepdims))


def _sum_axes(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    shape = x.shape
    first, count = min(axes), len(axes)
    if x.flags.c_contiguous and max(axes) == first + count - 1:
        before, after = shape[:first], shape[first + count :]
        inner = math.prod(after)
        terms = math.prod(shape[first : first + count])
        if inner == 1:
            result = _sum_last(x.reshape(-1, terms))
        else:
            result = _sum_middle(x.reshape(-1, terms, inner))
        return result.reshape(before + (1,) * count + after if keepdims else before + after)
    return _sum_by_strides(x, axes, keepdims)


def _sum_by_strides(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """Axes are taken in the order of memory, neighbours that are all summed or all kept as one axis."""
    shape, strides = x.shape, x.strides
    order = sorted(range(x.ndim), key=lambda axis: -abs(strides[axis]))
    merged: list[int] = []
    summed: list[bool] = []
    step = 0
    for axis in order:
        if merged and summed[-1] == (axis in axes) and step == shape[axis] * strides[axis]:
            merged[-1] *= shape[axis]
        else:
            merged.append(shape[axis])
            summed.append(axis in axes)
        step = strides[axis]
    rows: Any = x.transpose(order).reshape(merged)
    for place in reversed(range(len(merged))):
        if summed[place]:
            last = math.prod(rows.shape[place + 1 :]) == 1
            rows = _sum_last(rows.reshape(rows.shape[: place + 1])) if last else _sum_along(rows, place)
    kept = [axis for axis in order if axis not in axes]
    result = np.asarray(rows).reshape([shape[axis] for axis in kept]).transpose(np.argsort(kept))
    if keepdims:
        return result.reshape([1 if axis in axes else size for axis, size in enumerate(shape)])
    return result


def _sum_last(x: np.ndarray) -> np.ndarray:
    """The sum along the last axis, which is the innermost in memory."""
    if _BLOCK < x.shape[-1] <= _ROW and x.dtype.kind == "f" and x.strides[-1] == x.itemsize:
        return np.asarray(np.einsum("...i->...", x))
    return np.asarray(np.add.reduce(x, -1))


def _sum_middle(x: np.ndarray) -> np.ndarray:
    """The sum along the middle axis of three, in memory one after another."""
    rows, terms, inner = x.shape
    if terms <= _block(x.dtype):
        return np.add.reduce(x, 1)
    if x.size <= _SMALL:
        return np.add.reduce(x, 1, dtype=_WIDER.get(x.dtype, x.dtype)).astype(x.dtype, copy=False)
    groups, length, together = _blocks(terms, inner, _block(x.dtype))
    used = groups * length * together
    parts = x[:, :used].reshape(rows, groups, length, together * inner)
    sums = np.add.reduce(parts, 2).reshape(rows, groups * together, inner)
    if used < terms:
        sums[:, : terms - used] += x[:, used:]
    return _sum_middle(sums)


def _sum_along(x: np.ndarray, axis: int) -> np.ndarray:
    """The sum along an outer axis where the axes after it are not one piece of memory."""
    head, terms, tail = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    if terms <= _block(x.dtype):
        return np.add.reduce(x, axis)
    groups, length, together = _blocks(terms, math.prod(tail), _block(x.dtype))
    used = groups * length * together
    before = (slice(None),) * axis
    parts = x[(*before, slice(used))].reshape(*head, groups, length, together, *tail)
    sums = np.add.reduce(parts, axis + 1).reshape(*head, groups * together, *tail)
    if used < terms:
        sums[(*before, slice(terms - used))] += x[(*before, slice(used, None))]
    return _sum_along(sums, axis)


def _block(dtype: np.dtype) -> int:
    return _BLOCK if dtype in _WIDER else _DOUBLE_BLOCK


def _blocks(terms: int, inner: int, block: int) -> tuple[int, int, int]:
    """How to cut `terms`: (groups, terms of a block, blocks of a group that share an inner loop).

    Fewer than groups * blocks terms are left over.
    """
    blocks = -(-terms // block)
    together = min(blocks, _SPAN // inner) or 1
    groups = -(-blocks // together)
    return groups, terms // (groups * together), together

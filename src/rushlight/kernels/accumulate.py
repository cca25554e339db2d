"""Combining many values into few places, deterministically and without a Python loop.

Values are combined in the order they come in, whatever the machine does. Half floats are added in float32.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np


class Combine(enum.Enum):
    """How values that meet in one place become one; named as in scatter_reduce."""

    SUM = "sum"
    PROD = "prod"
    MEAN = "mean"
    AMAX = "amax"
    AMIN = "amin"


_UFUNCS = {
    Combine.SUM: np.add,
    Combine.MEAN: np.add,
    Combine.PROD: np.multiply,
    Combine.AMAX: np.maximum,
    Combine.AMIN: np.minimum,
}


def identity(combine: Combine, dtype: np.dtype) -> Any:
    """The value that changes nothing."""
    if combine in (Combine.SUM, Combine.MEAN):
        return dtype.type(0)
    if combine is Combine.PROD:
        return dtype.type(1)
    lowest = combine is Combine.AMAX
    if dtype.kind == "b":
        return not lowest
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max
    return dtype.type(-np.inf if lowest else np.inf)


def combine_at(
    combine: Combine, target: np.ndarray, places: np.ndarray, values: np.ndarray, include_self: bool = True
) -> np.ndarray:
    """The 1-D `target` with `values` combined into it at `places` (in range, not negative).

    Without `include_self` a place that is written at all forgets what it held.
    """
    result = target.copy()
    if values.size == 0:
        return result
    if not include_self:
        result[places] = identity(combine, result.dtype)
    if combine is Combine.SUM and result.dtype.kind == "f":
        result = _float_sums(result, places, values)
    else:
        _UFUNCS[combine].at(result, places, values)
    if combine is Combine.MEAN:
        counts = np.bincount(places, minlength=result.size)
        result = _divided(result, counts + include_self)
    return result


def _float_sums(target: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """bincount adds in double, which is both faster and closer than adding in float32."""
    sums = np.bincount(places, values, target.size)
    sums += target
    return sums.astype(target.dtype)


def _divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Means from sums; places without values keep what they have. Integers round towards minus infinity."""
    counts = np.maximum(counts, 1)
    return sums // counts if sums.dtype.kind in "iu" else (sums / counts).astype(sums.dtype)


def combine_rows(
    combine: Combine, table: np.ndarray, rows: np.ndarray, values: np.ndarray, include_self: bool = True
) -> np.ndarray:
    """`combine_at` for whole rows of the 2-D `table`: row i of `values` goes to row `rows[i]`."""
    if table.shape[1] == 1:
        return combine_at(combine, table[:, 0], rows, values[:, 0], include_self).reshape(table.shape)
    result = table.copy()
    if values.size == 0:
        return result
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    written = ordered[starts]
    ufunc = _UFUNCS[combine]
    reduced = ufunc.reduceat(values[order], starts, axis=0, dtype=values.dtype)
    result[written] = ufunc(result[written], reduced) if include_self else reduced
    if combine is Combine.MEAN:
        counts = np.diff(starts, append=len(rows)) + include_self
        result[written] = _divided(result[written], counts[:, None])
    return result


# Sums of any dtype.


def _wide(dtype: np.dtype) -> np.dtype:
    """The dtype to add in: float32 for the half floats (bfloat16 is of kind V), else itself."""
    return np.dtype(np.float32) if dtype.itemsize <= 2 and dtype.kind not in "biu" else dtype


def add_at(target: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`combine_at` with SUM, half floats in float32."""
    compute = _wide(target.dtype)
    return combine_at(
        Combine.SUM, target.astype(compute, copy=False), places, values.astype(compute, copy=False)
    ).astype(target.dtype, copy=False)


def add_rows(table: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`combine_rows` with SUM, half floats in float32."""
    compute = _wide(table.dtype)
    return combine_rows(
        Combine.SUM, table.astype(compute, copy=False), rows, values.astype(compute, copy=False)
    ).astype(table.dtype, copy=False)

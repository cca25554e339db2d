"""Running reductions along a dimension on NumPy arrays. A 0-d array is a row of one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import DType
from ..core.registry import kernel
from ..core.shapes import Spec
from .reduction import addends

_WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}


def accumulated(ufunc: np.ufunc, x: np.ndarray, dim: int, dtype: DType | None, out: Spec) -> np.ndarray:
    """The running `ufunc`; floats accumulate in double, so that long rows keep their precision."""
    x = addends(x, dtype, out)
    compute = _WIDE.get(x.dtype.kind if x.dtype.kind in _WIDE else out.dtype.numpy.kind, out.dtype.numpy)
    return ufunc.accumulate(np.atleast_1d(x), axis=dim, dtype=compute).reshape(x.shape)


kernel("cumsum", lambda self, dim, dtype, out: accumulated(np.add, self, dim, dtype, out))
kernel("cumprod", lambda self, dim, dtype, out: accumulated(np.multiply, self, dim, dtype, out))


def running_extreme(ufunc: np.ufunc, x: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """(values, positions): the last of equal elements, the latest NaN once there is one."""
    rows = np.atleast_1d(x)
    values = ufunc.accumulate(rows, axis=dim)
    renewed = rows == values
    if rows.dtype.kind == "f":
        renewed |= np.isnan(rows)
    shape = [1] * rows.ndim
    shape[dim] = -1
    place = np.arange(rows.shape[dim]).reshape(shape)
    return values.reshape(x.shape), np.maximum.accumulate(np.where(renewed, place, 0), axis=dim).reshape(
        x.shape
    )


kernel("cummax", lambda self, dim: running_extreme(np.maximum, self, dim))
kernel("cummin", lambda self, dim: running_extreme(np.minimum, self, dim))


@kernel("logcumsumexp")
def logcumsumexp(self: np.ndarray, dim: int) -> np.ndarray:
    rows = np.atleast_1d(self)
    if rows.dtype.kind == "c":
        rows = _settled(rows.astype(np.complex128))
        return _followed(rows, doubling_scan(_complex_logaddexp, rows, dim), dim).reshape(self.shape)
    return np.logaddexp.accumulate(rows, axis=dim, dtype=np.float64).reshape(self.shape)


def doubling_scan(
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, dim: int
) -> np.ndarray:
    """The running `combine`, an associative function, in log2(n) whole-array steps (Hillis and Steele)."""
    rows = np.moveaxis(x.copy(), dim, 0)
    step = 1
    while step < len(rows):
        rows[step:] = combine(rows[:-step].copy(), rows[step:])
        step *= 2
    return np.moveaxis(rows, 0, dim)


def _settled(x: np.ndarray) -> np.ndarray:
    """`x` with the angle of exp(-inf + iy) = 0 forgotten and NaN in both parts where either is NaN."""
    x = np.where(np.isneginf(x.real) & ~np.isnan(x.imag), x.dtype.type(-np.inf), x)
    return np.where(np.isnan(x), x.dtype.type(complex(np.nan, np.nan)), x)


def _complex_logaddexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log(exp(a) + exp(b)); the larger term is taken out, and an infinite one decides alone."""
    b_larger = a.real < b.real
    large, small = np.where(b_larger, b, a), np.where(b_larger, a, b)
    result = large + _complex_log1p(np.exp(small - large))
    alone = np.isinf(large.real) | np.isneginf(small.real)
    both_infinite = np.isposinf(large.real) & np.isposinf(small.real)
    result = np.where(alone & ~both_infinite, large, result)
    if both_infinite.any():
        result = np.where(both_infinite, np.log(np.exp(1j * a.imag) + np.exp(1j * b.imag)) + np.inf, result)
    return _settled(np.where(np.isnan(a) | np.isnan(b), complex(np.nan, np.nan), result).astype(a.dtype))


def _followed(x: np.ndarray, result: np.ndarray, dim: int) -> np.ndarray:
    """`result` with the angles of a one-by-one scan: each step stays within a half turn of its larger term.

    The larger term is the new element or the sum so far; in the first case the count of turns starts anew.
    """
    x, result = np.moveaxis(x, dim, 0), np.moveaxis(result, dim, 0).copy()
    angle = np.where(np.isfinite(result.imag), result.imag, 0.0)
    anew = np.ones(x.shape, np.bool_)
    anew[1:] = x.real[1:] >= result.real[:-1]
    before = np.where(np.isfinite(x.imag), x.imag, 0.0)
    before[1:] = np.where(anew[1:], before[1:], angle[:-1])
    turns = np.rint((before - angle) / (2 * np.pi))
    counted = np.cumsum(turns, axis=0)
    start = np.maximum.accumulate(
        np.where(anew, np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1)), 0), axis=0
    )
    base = np.take_along_axis(counted - turns, start, axis=0)
    result.imag += 2 * np.pi * (counted - base)
    return np.moveaxis(result, 0, dim)


def _complex_log1p(z: np.ndarray) -> np.ndarray:
    """log(1 + z), accurate for small z, where 1 + z would drop digits."""
    x, y = z.real, z.imag
    size: Any = np.where(
        np.hypot(1 + x, y) < 0.5, np.log(np.hypot(1 + x, y)), 0.5 * np.log1p(x * (2 + x) + y * y)
    )
    return size + 1j * np.arctan2(y, 1 + x)

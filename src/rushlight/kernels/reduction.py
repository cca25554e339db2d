"""Sums, means, products, variances, norms and truth values on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dtypes import DType
from ..core.registry import kernel
from ..core.shapes import Spec, wrap_dims
from .reduction_sums import total

Axes = tuple[int, ...]


def compute_dtype(out: Spec) -> np.dtype:
    """What to accumulate an output in."""
    return out.dtype.opmath.numpy


def reduction_axes(dim: Sequence[int] | int | None, rank: int, empty_is_all: bool = True) -> Axes:
    """The axes of a reduction; none for a 0-d array, whose dims 0 and -1 do not exist in NumPy."""
    return wrap_dims(dim, rank, empty_is_all=empty_is_all) if rank else ()


def cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`x` in `dtype`; a complex value gives its real part where a real one is asked for."""
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    return x.astype(dtype, copy=False)


def addends(x: np.ndarray, dtype: DType | None, out: Spec) -> np.ndarray:
    """`x` ready to be accumulated: in the dtype the caller asked for, held in its compute dtype."""
    compute = compute_dtype(out)
    if dtype is not None and dtype.opmath is not dtype:
        return cast(x, dtype.numpy).astype(compute)
    return x if np.can_cast(x.dtype, compute, "safe") else cast(x, compute)


def count(x: np.ndarray, axes: Axes) -> int:
    """How many elements each result is made of."""
    return math.prod(x.shape[axis] for axis in axes)


# Sums and products.


@kernel("sum.dim_IntList")
def sum_dims(self: np.ndarray, dim: Any, keepdim: bool, dtype: DType | None, out: Spec) -> np.ndarray:
    return total(addends(self, dtype, out), reduction_axes(dim, self.ndim), compute_dtype(out), keepdim)


kernel("sum", lambda self, dtype, out: sum_dims(self, None, False, dtype, out))


@kernel("nansum")
def nansum(self: np.ndarray, dim: Any, keepdim: bool, dtype: DType | None, out: Spec) -> np.ndarray:
    if self.dtype.kind == "f":
        self = np.where(np.isnan(self), self.dtype.type(0), self)
    return sum_dims(self, dim, keepdim, dtype, out)


@kernel("mean.dim")
def mean_dims(self: np.ndarray, dim: Any, keepdim: bool, dtype: DType | None, out: Spec) -> np.ndarray:
    axes = reduction_axes(dim, self.ndim)
    return np.divide(
        total(addends(self, dtype, out), axes, compute_dtype(out), keepdim), float(count(self, axes))
    )


kernel("mean", lambda self, dtype, out: mean_dims(self, None, False, dtype, out))


@kernel("prod.dim_int")
def prod_dims(self: np.ndarray, dim: Any, keepdim: bool, dtype: DType | None, out: Spec) -> np.ndarray:
    x = addends(self, dtype, out)
    return np.prod(x, axis=reduction_axes(dim, self.ndim), dtype=compute_dtype(out), keepdims=keepdim)


kernel("prod", lambda self, dtype, out: prod_dims(self, None, False, dtype, out))


kernel("trace", lambda self, out: np.trace(self, dtype=compute_dtype(out)))


# Variances, in two passes with double accumulators.


def variance(x: np.ndarray, dim: Any, correction: Any, keepdims: bool) -> tuple[np.ndarray, np.ndarray]:
    """(variance, mean)."""
    axes = reduction_axes(dim, x.ndim)
    samples = count(x, axes)
    wide = np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64)
    mean = np.divide(np.sum(x, axis=axes, dtype=wide, keepdims=True), float(samples))
    deviation = np.subtract(x, mean)
    if wide.kind == "c":
        square = np.square(deviation.real) + np.square(deviation.imag)
    else:
        square = np.square(deviation, out=deviation if deviation.ndim else None)
    lost = 1 if correction is None else float(correction)
    freedom = max(0.0, samples - lost) if samples else 0.0  # of nothing there is none, whatever is added
    result = np.divide(np.sum(square, axis=axes, keepdims=keepdims), freedom)
    return result, mean if keepdims else mean.reshape(result.shape)


kernel("var.correction", lambda self, dim, correction, keepdim: variance(self, dim, correction, keepdim)[0])
kernel(
    "std.correction",
    lambda self, dim, correction, keepdim: np.sqrt(variance(self, dim, correction, keepdim)[0]),
)
kernel("var_mean.correction", lambda self, dim, correction, keepdim: variance(self, dim, correction, keepdim))


@kernel("std_mean.correction")
def std_mean(self: np.ndarray, dim: Any, correction: Any, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    var, mean = variance(self, dim, correction, keepdim)
    return np.sqrt(var), mean


# Truth values and counts.

kernel("any", lambda self: np.any(self))
kernel(
    "any.dim",
    "any.dims",
    lambda self, dim, keepdim: np.any(self, reduction_axes(dim, self.ndim, False), keepdims=keepdim),
)
kernel("all", lambda self: np.all(self))
kernel(
    "all.dim",
    "all.dims",
    lambda self, dim, keepdim: np.all(self, reduction_axes(dim, self.ndim, False), keepdims=keepdim),
)
kernel(
    "count_nonzero",
    "count_nonzero.dim_IntList",
    lambda self, dim: np.count_nonzero(self, axis=reduction_axes(dim, self.ndim)),
)


@kernel("hash_tensor")
def hash_tensor(self: np.ndarray, dim: Any, keepdim: bool) -> np.ndarray:
    bits = cast(self, np.dtype(np.float64 if self.dtype.kind == "f" else np.int64)).view(np.uint64)
    axes: Any = reduction_axes(dim, self.ndim)
    reduce: Any = np.bitwise_xor.reduce
    return reduce(bits, axis=axes, keepdims=keepdim)


# Exponentials and norms.


@kernel("logsumexp")
def logsumexp(self: np.ndarray, dim: Any, keepdim: bool, out: Spec) -> np.ndarray:
    axes, dtype = reduction_axes(dim, self.ndim), compute_dtype(out)
    x = cast(self, dtype)
    if x.size == 0:
        return np.log(total(x, axes, dtype, keepdim))
    top = np.max(x.real, axis=axes, keepdims=True)
    top = np.where(np.isinf(top), top.dtype.type(0), top)
    result = np.log(total(np.exp(x - top), axes, dtype, keepdim))
    return result + (top if keepdim else top.reshape(result.shape))


@kernel("linalg_vector_norm")
def vector_norm(
    self: np.ndarray, ord: Any, dim: Any, keepdim: bool, dtype: DType | None, out: Spec
) -> np.ndarray:
    axes, compute = reduction_axes(dim, self.ndim), compute_dtype(out)
    x = self if dtype is None else cast(self, dtype.opmath.numpy)
    order = float(ord)
    if order == 2.0:
        squares = np.square(x.real) + np.square(x.imag) if x.dtype.kind == "c" else np.square(x)
        return np.sqrt(total(squares, axes, compute, keepdim))
    if order == 0.0:
        return np.sum(x != 0, axis=axes, dtype=compute, keepdims=keepdim)
    size = np.abs(x)
    if order == math.inf:
        return np.max(size, axis=axes, keepdims=keepdim)
    if order == -math.inf:
        return np.min(size, axis=axes, keepdims=keepdim)
    if order == 1.0:
        return total(size, axes, compute, keepdim)
    powers = total(np.power(size, compute.type(order)), axes, compute, keepdim)
    return np.power(powers, 1.0 / order, dtype=np.float64)  # 1 / order in float32 would cost digits

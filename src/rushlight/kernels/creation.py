"""Tensors from nothing, tensors like others, clones and casts: eager kernels on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.determinism import DETERMINISM, undefined
from ..core.dtypes import DTYPES
from ..core.registry import kernel
from ..core.shapes import Spec

_SATURATES = DTYPES["float8_e4m3fn"].numpy  # it has no infinity: what is too large becomes the largest
_POWERS = DTYPES["float8_e8m0fnu"].numpy  # it has neither zero nor negative numbers
_COMPLEX_HALF = DTYPES["complex32"].numpy
_REAL = (DTYPES["float32"].numpy, DTYPES["float64"].numpy)

# Allocation.


def allocate(out: Spec) -> np.ndarray:
    """An uninitialised array with the shape, dtype and strides of `out`."""
    shape, dtype = out.known_shape(), out.dtype.numpy
    if out.strides is None or 0 in shape:
        return np.empty(shape, dtype)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, out.strides, strict=True))
    memory = np.empty(extent, dtype)
    return np.ndarray(shape, dtype, memory, 0, tuple(stride * dtype.itemsize for stride in out.strides))


def blank(out: Spec) -> np.ndarray:
    """An array whose contents nobody may read; deterministic mode says what they are."""
    return filled(out, undefined(out.dtype)) if DETERMINISM.fills else allocate(out)


def filled(out: Spec, value: Any) -> np.ndarray:
    """An array laid out as `out` with `value`, a number or an array that broadcasts, in every element."""
    result = allocate(out)
    if type(value) is float and result.dtype in _REAL:
        result.fill(value)
        return result
    np.copyto(result, _castable(np.asarray(value), result.dtype), casting="unsafe")
    return result


def cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`array` in `dtype`, itself where it has it; complex to real keeps the real part."""
    return array if array.dtype == dtype else _castable(array, dtype).astype(dtype)


def _castable(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`array` such that NumPy's conversion to `dtype` is PyTorch's."""
    if array.dtype.kind in "biuf" and dtype.isbuiltin == 1:
        return array  # neither is a type of our own, nor complex
    if array.dtype == _COMPLEX_HALF and dtype != _COMPLEX_HALF:
        array = array.astype(np.complex64)
    if array.dtype.kind == "c" and dtype.kind not in "cb" and dtype != _COMPLEX_HALF:
        array = array.real
    if dtype == _POWERS and array.dtype != dtype:
        array = np.maximum(np.abs(array.astype(np.float32)), np.float32(2.0**-127))
    if dtype == _SATURATES and array.dtype != dtype:
        array = np.clip(array.astype(np.float32), -448, 448)
    return array


def zeros(out: Spec) -> np.ndarray:
    """As `filled(out, 0)`, with memory that the system hands out already zeroed."""
    if out.strides is None:
        return np.zeros(out.known_shape(), out.dtype.numpy)
    return filled(out, 0)


kernel(
    "empty.memory_format",
    "empty_strided",
    "empty_permuted",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    lambda out: blank(out),
)
kernel("zeros", "zeros_like", "new_zeros", "zero", lambda out: zeros(out))
kernel("ones", "ones_like", "new_ones", lambda out: filled(out, 1))
kernel("full", "full_like", "new_full", lambda fill_value, out: filled(out, fill_value))
kernel("scalar_tensor", lambda s, out: filled(out, s))
kernel("eye", lambda n, out: np.eye(n, dtype=out.dtype.numpy))
kernel("eye.m", lambda n, m, out: np.eye(n, m, dtype=out.dtype.numpy))


# Sequences of numbers.


def arithmetic_sequence(start: Any, step: Any, out: Spec) -> np.ndarray:
    """start + step * i; floating types compute in double and round once."""
    if out.dtype.is_floating_point:
        values = np.arange(out.known_shape()[0], dtype=np.float64)
        values *= float(step)
        values += float(start)
        return values
    return np.arange(out.known_shape()[0], dtype=np.int64) * int(step) + int(start)


kernel("arange", lambda out: arithmetic_sequence(0, 1, out))
kernel("arange.start", "range", lambda start, out: arithmetic_sequence(start, 1, out))
kernel("arange.start_step", "range.step", lambda start, step, out: arithmetic_sequence(start, step, out))


def evenly_spaced(start: Any, end: Any, steps: int, out: Spec) -> np.ndarray:
    """From both ends inwards, so that the last value is `end` and the sequence is symmetric."""
    compute = out.dtype.opmath.numpy
    if compute.kind in "iu":
        start, end, compute = int(start), int(end), np.dtype(np.float64)
    first, last = cast(np.asarray(start), compute), cast(np.asarray(end), compute)
    if steps < 2:
        return np.full(steps, first, compute)
    step = (last - first) / compute.type(steps - 1)
    count = np.arange(steps).astype(compute)
    return np.where(np.arange(steps) < steps // 2, first + step * count, last - step * count[::-1])


@kernel("linspace", "linspace.Tensor_Tensor", "linspace.Tensor_Scalar", "linspace.Scalar_Tensor")
def linspace(start: Any, end: Any, steps: int, out: Spec) -> np.ndarray:
    return cast(evenly_spaced(start, end, steps, out), out.dtype.numpy)


@kernel("logspace", "logspace.Tensor_Tensor", "logspace.Tensor_Scalar", "logspace.Scalar_Tensor")
def logspace(start: Any, end: Any, steps: int, base: float, out: Spec) -> np.ndarray:
    exponents = evenly_spaced(start, end, steps, out)
    return cast(np.power(exponents.dtype.type(base), exponents), out.dtype.numpy)


# Copies.

kernel("clone", "_to_copy", lambda self, out: filled(out, self))
kernel("copy", lambda src, out: filled(out, src))
kernel("fill.Scalar", "fill.Tensor", lambda value, out: filled(out, value))

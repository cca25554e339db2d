"""Quantized tensors: the grid, making them and looking inside of them.

    quantize    q = round(x * (1 / scale) + zero_point), in float32, clamped to the range of the integers
    dequantize  (q - zero_point) * scale: a difference of int32; with channels in double precision

NaN becomes the greatest integer of 8 bits, and the least of 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.declare_layouts import quantized_kernel
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType, iinfo
from ..core.errors import check
from ..core.quantized import (
    INTEGERS,
    QUANTIZED_BY_INTEGERS,
    Grid,
    PerChannel,
    PerTensor,
    integers_of,
    make_quantized,
)
from ..core.tensor import Tensor, wrap
from ..core.tokens import channels_last, channels_last_3d, contiguous_format
from ..core.tokens import memory_format as MemoryFormat

FLOAT = DTYPES["float32"]


# The grid.


def to_integers(x: np.ndarray, grid: Grid, dtype: DType) -> np.ndarray:
    """The float32 array x on `grid`."""
    if isinstance(grid, PerTensor):
        scale: Any = np.float32(grid.scale)
        zero_point: Any = np.float32(grid.zero_point)
    else:
        scale, zero_point = (
            along(values.numpy_array().astype(np.float32), x.ndim, grid.axis)
            for values in (grid.scales, grid.zero_points)
        )
    steps = np.rint(x * (np.float32(1) / scale) + zero_point).astype(np.float64)
    limits = iinfo(dtype)
    blank = limits.min if dtype.itemsize == 4 else limits.max
    return np.where(np.isnan(steps), blank, steps).clip(limits.min, limits.max).astype(dtype.numpy)


def to_floats(tensor: Tensor) -> np.ndarray:
    """What the integers of a quantized tensor stand for, float32."""
    q, grid = tensor._array, tensor._quantizer
    assert q is not None
    if isinstance(grid, PerTensor):
        return (q.astype(np.int32) - np.int32(grid.zero_point)).astype(np.float32) * np.float32(grid.scale)
    scale, zero_point = (
        along(values.numpy_array(), q.ndim, grid.axis) for values in (grid.scales, grid.zero_points)
    )
    if zero_point.dtype == np.float32:
        return (q.astype(np.float32) - zero_point) * scale
    return ((q - zero_point) * scale).astype(np.float32)


def along(values: np.ndarray, rank: int, axis: int) -> np.ndarray:
    return values.reshape([-1 if d == axis else 1 for d in range(rank)])


def quantized(x: Tensor, grid: Grid, dtype: DType) -> Tensor:
    return make_quantized(wrap(laid_out(to_integers(x.numpy_array(), grid, dtype), x)), grid)


def dequantized(tensor: Tensor) -> Tensor:
    return wrap(laid_out(to_floats(tensor), tensor))


def laid_out(array: np.ndarray, like: Tensor) -> np.ndarray:
    """`array` in the memory format that `like` suggests: channels last, if that is its order."""
    order = suggested(like)
    if order is contiguous_format:
        return np.asarray(array, order="C")
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)


def suggested(tensor: Tensor) -> MemoryFormat:
    if not tensor.is_contiguous():
        for order in (channels_last, channels_last_3d):
            if tensor.is_contiguous(order):
                return order
    return contiguous_format


# Checks.


def check_input(x: Tensor, name: str) -> None:
    check(x._quantizer is None, f"{name} is not implemented for quantized tensors", NotImplementedError)
    check(x.dtype is FLOAT, f"{name}: the input must be float32, but it is {x.dtype.name}")


def check_zero_point(least: int, most: int, dtype: DType, name: str) -> None:
    limits = iinfo(dtype)
    check(
        limits.min <= least and most <= limits.max,
        f"{name}: zero_point must be in {limits.min} .. "
        f"{limits.max} for {dtype.name}, but it is {least if least < limits.min else most}",
    )


def quantized_dtype(dtype: DType | None, name: str) -> DType:
    check(
        dtype in INTEGERS,
        f"{name}: dtype must be a quantized one, {', '.join(d.name for d in INTEGERS)}, "
        f"but it is {'not given' if dtype is None else dtype.name}",
    )
    assert dtype is not None
    return dtype


def per_channel(
    shape: Sequence[int], scales: Tensor, zero_points: Tensor, axis: int, name: str
) -> PerChannel:
    """The record of scales and zero points of one channel each, copied."""
    check(
        scales.ndim == 1 and zero_points.ndim == 1,
        f"{name}: scales and zero_points must have one "
        f"dimension, but they have {scales.ndim} and {zero_points.ndim}",
    )
    check(
        scales.numel() == zero_points.numel(),
        f"{name}: scales and zero_points must have the same number "
        f"of elements, but they have {scales.numel()} and {zero_points.numel()}",
    )
    check(scales.dtype.is_floating_point, f"{name}: scales must be floating point, not {scales.dtype.name}")
    check(0 <= axis < len(shape), f"{name}: axis must be in 0 .. {len(shape) - 1}, but it is {axis}")
    check(
        scales.numel() == shape[axis],
        f"{name}: there must be a scale for each of the {shape[axis]} "
        f"channels of dimension {axis}, but there are {scales.numel()}",
    )
    floating = zero_points.dtype.is_floating_point
    step, point = ("float32", "float32") if floating else ("float64", "int64")
    return PerChannel(
        wrap(scales.numpy_array().astype(step)), wrap(zero_points.numpy_array().astype(point)), axis
    )


def one_scale(tensor: Tensor, name: str) -> PerTensor:
    """The record of a tensor that must have one scale."""
    check(
        isinstance(tensor._quantizer, PerTensor),
        f"{name}: only tensors that are quantized per tensor are supported, not per channel",
    )
    grid: PerTensor = tensor._quantizer
    return grid


# Making.


@quantized_kernel("quantize_per_tensor")
def quantize_per_tensor(self: Tensor, scale: float, zero_point: int, dtype: DType) -> Tensor:
    name = "quantize_per_tensor"
    check_input(self, name)
    check_zero_point(zero_point, zero_point, quantized_dtype(dtype, name), name)
    return quantized(self, PerTensor(float(scale), int(zero_point)), dtype)


@quantized_kernel("quantize_per_tensor.tensor_qparams")
def quantize_by_tensors(self: Tensor, scale: Tensor, zero_point: Tensor, dtype: DType) -> Tensor:
    return quantize_per_tensor(self, float(scale.item()), int(zero_point.item()), dtype)


@quantized_kernel("quantize_per_tensor.tensors")
def quantize_each(
    tensors: Sequence[Tensor], scales: Tensor, zero_points: Tensor, dtype: DType
) -> tuple[Tensor, ...]:
    return tuple([quantize_by_tensors(x, scales[i], zero_points[i], dtype) for i, x in enumerate(tensors)])


@quantized_kernel("quantize_per_channel")
def quantize_per_channel(
    self: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: DType
) -> Tensor:
    name = "quantize_per_channel"
    check_input(self, name)
    quantized_dtype(dtype, name)
    grid = per_channel(self.shape, scales, zero_points, axis, name)
    points = grid.zero_points.numpy_array()
    if points.dtype == np.int64 and points.size:
        check_zero_point(int(points.min()), int(points.max()), dtype, name)
    return quantized(self, grid, dtype)


@quantized_kernel("_make_per_tensor_quantized_tensor")
def from_integers(self: Tensor, scale: float, zero_point: int) -> Tensor:
    return _from_integers(self, PerTensor(float(scale), int(zero_point)), "_make_per_tensor_quantized_tensor")


@quantized_kernel("_make_per_channel_quantized_tensor")
def from_integers_by_channel(self: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> Tensor:
    name = "_make_per_channel_quantized_tensor"
    return _from_integers(self, per_channel(self.shape, scale, zero_point, axis, name), name)


def _from_integers(self: Tensor, grid: Grid, name: str) -> Tensor:
    known = ", ".join(d.name for d in QUANTIZED_BY_INTEGERS)
    check(
        self.dtype in QUANTIZED_BY_INTEGERS,
        f"{name}: the integers must be {known}, but they are {self.dtype.name}",
    )
    return make_quantized(wrap(laid_out(self.numpy_array(), self).copy("K")), grid)


@quantized_kernel("_empty_affine_quantized")
def empty(
    size: Sequence[int],
    dtype: DType | None,
    scale: float,
    zero_point: int,
    memory_format: MemoryFormat | None,
) -> Tensor:
    grid = PerTensor(float(scale), int(zero_point))
    return _empty(size, quantized_dtype(dtype, "_empty_affine_quantized"), grid, memory_format)


@quantized_kernel("_empty_per_channel_affine_quantized")
def empty_by_channel(
    size: Sequence[int],
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    dtype: DType | None,
    memory_format: MemoryFormat | None,
) -> Tensor:
    name = "_empty_per_channel_affine_quantized"
    return _empty(
        size, quantized_dtype(dtype, name), per_channel(size, scales, zero_points, axis, name), memory_format
    )


@quantized_kernel("empty_quantized")
def empty_as(
    size: Sequence[int], qtensor: Tensor, dtype: DType | None, memory_format: MemoryFormat | None
) -> Tensor:
    grid = inside(qtensor, "empty_quantized")
    return _empty(size, quantized_dtype(dtype or qtensor.dtype, "empty_quantized"), grid, memory_format)


def _empty(size: Sequence[int], dtype: DType, grid: Grid, memory_format: MemoryFormat | None) -> Tensor:
    return make_quantized(
        run_name("empty.memory_format", tuple(size), INTEGERS[dtype], None, None, None, memory_format), grid
    )


# A range with little loss.


@quantized_kernel("choose_qparams_optimized")
def choose_range(
    input: Tensor, numel: int, n_bins: int, ratio: float, bit_width: int
) -> tuple[Tensor, Tensor]:
    """The greatest and the least value of a range that quantizes the elements with little loss.

    From the whole range on, the end is moved inwards by one of `n_bins` steps whose move costs less, until
    (1 - ratio) of the range is left; the last local minimum that is better than all before it wins. Float32
    throughout, as the scale of an embedding's rows has half precision.
    """
    name = "choose_qparams_optimized"
    check(
        0 < numel <= input.numel(),
        f"{name}: numel must be in 1 .. {input.numel()}, the size of the input, but it is {numel}",
    )
    check_input(input, name)
    x = input.numpy_array().reshape(-1)[:numel]
    low, high = x.min(), x.max()
    step = np.float32((high - low) / np.float32(n_bins))
    reach = np.float32(int(n_bins * (1.0 - float(np.float32(ratio))))) * step
    best = here = _loss(x, low, high, bit_width)
    left, right = low, high
    while left + reach < right:
        from_left, from_right = (
            _loss(x, left + step, right, bit_width),
            _loss(x, left, right - step, bit_width),
        )
        if here < min(from_left, from_right, best):
            best, low, high = here, left, right
        if from_left < from_right:
            left, here = left + step, from_left
        else:
            right, here = right - step, from_right
    return wrap(np.array([high], np.float32)), wrap(np.array([low], np.float32))


def _loss(x: np.ndarray, low: Any, high: Any, bits: int) -> Any:
    """How far x is from the grid of 2 ** bits points between low and high."""
    origin, most = np.float32(np.float16(low)), np.float32(2**bits - 1)
    width = np.float32(high) - origin
    scale = np.float32(1) if width == 0 else np.float32(np.float16(width / most))
    steps = np.rint((x - origin) * (np.float32(1) / scale if scale else np.float32(1))).clip(0, most)
    return np.sqrt(np.square(x - (steps * scale + origin)).sum())


# Looking inside.


def inside(tensor: Tensor, name: str) -> Grid:
    check(
        tensor._quantizer is not None,
        f"{name} is not implemented for tensors that are not quantized",
        NotImplementedError,
    )
    grid: Grid = tensor._quantizer
    return grid


def channels(tensor: Tensor, name: str) -> PerChannel:
    grid = inside(tensor, name)
    check(isinstance(grid, PerChannel), f"{name}: the tensor must be quantized per channel, not per tensor")
    assert isinstance(grid, PerChannel)
    return grid


@quantized_kernel("int_repr")
def int_repr(self: Tensor) -> Tensor:
    inside(self, "int_repr")
    plain = integers_of(self)
    return wrap(laid_out(plain.numpy_array(), plain).copy("K"))


@quantized_kernel("q_scale")
def q_scale(self: Tensor) -> float:
    inside(self, "q_scale")
    return one_scale(self, "q_scale").scale


@quantized_kernel("q_zero_point")
def q_zero_point(self: Tensor) -> int:
    inside(self, "q_zero_point")
    return one_scale(self, "q_zero_point").zero_point


quantized_kernel("qscheme")(lambda self: inside(self, "qscheme").scheme)
quantized_kernel("q_per_channel_axis")(lambda self: channels(self, "q_per_channel_axis").axis)
quantized_kernel("q_per_channel_scales")(lambda self: channels(self, "q_per_channel_scales").scales.clone())
quantized_kernel("q_per_channel_zero_points")(
    lambda self: channels(self, "q_per_channel_zero_points").zero_points.clone()
)

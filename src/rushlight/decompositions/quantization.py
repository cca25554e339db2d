"""Fake quantization in terms of simpler operators: values rounded to the grid that integers would give.

    q = round(x / scale) + zero_point, clamped to quant_min .. quant_max;  result = (q - zero_point) * scale

NaN becomes quant_min. A mask tells where q was in range: there the gradient passes straight through
(derivatives/quantization.py). The learnable forms round and clamp their zero point and have gradients for
scale and zero point, too. The fused observer keeps running extremes of what it sees, derives scale and zero
point from them and writes all four in place.

Everything is made of pointwise operators and reductions, so that compiled code is one loop around each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.dispatch import AMBIENT, readable, run_name
from ..core.dtypes import DTYPES, Category, DType
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor
from .normalization import wide

Parts = tuple[Any, ...]

FLOAT, DOUBLE, INT, BOOL = DTYPES["float32"], DTYPES["float64"], DTYPES["int32"], DTYPES["bool"]
_RANGE = "int quant_min, int quant_max"
_LEARNED = f"Tensor self, Tensor scale, Tensor zero_point, {_RANGE}, float grad_factor=1.0"
_LEARNED_AXIS = f"Tensor self, Tensor scale, Tensor zero_point, int axis, {_RANGE}, float grad_factor=1.0"


# The grid.


def on_grid(x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """x in units of the grid, not clamped. A float zero point is added before rounding, an int one after."""
    steps = wide(x) * as_wide(scale.reciprocal(), x)
    if zero_point.dtype.is_floating_point:
        return (steps + as_wide(zero_point, x)).round()
    return steps.round() + as_wide(zero_point, x)


def as_wide(x: Tensor, like: Tensor) -> Tensor:
    return x.to(like.dtype.opmath)


def quantized(
    x: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int, width: DType = FLOAT
) -> Parts:
    """The values on the grid that are nearest to x, and where x was in range.

    The grid itself is computed in `width`, whatever x is.
    """
    q = on_grid(x, scale, zero_point, quant_min, quant_max)
    mask = (q >= quant_min) & (q <= quant_max)
    clamped = run_name("where.ScalarOther", q > quant_min, q.clamp(max=quant_max), quant_min)
    value = (clamped.to(width) - zero_point.to(width)) * scale.to(width)
    return value.to(x.dtype), mask


def check_input(self: Tensor, quant_min: int, quant_max: int, name: str) -> None:
    check(
        quant_min <= quant_max,
        f"{name}: `quant_min` should be less than or equal to `quant_max`, but "
        f"they are {quant_min} and {quant_max}",
    )
    check(
        self.dtype.category is Category.FLOATING,
        f"{name}: not implemented for {self.dtype.name}; the input must be floating point",
        NotImplementedError,
    )


def number(value: Any, dtype: DType) -> Tensor:
    return run_name("scalar_tensor", value, dtype, None, None, None)


def single(value: Tensor, name: str, what: str) -> Tensor:
    """A tensor with one element, without dimensions."""
    check(value.numel() == 1, f"{name}: {what} must have one element, but it has {value.numel()}")
    return value.reshape(())


# One scale.


@composite(
    f"fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, {_RANGE}) -> Tensor",
    api=FUNCTION,
)
def fake_quantize(self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Tensor:
    return run_name(
        "fake_quantize_per_tensor_affine_cachemask", self, scale, zero_point, quant_min, quant_max
    )[0]


@composite(
    "fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
    f"{_RANGE}) -> Tensor",
    api=FUNCTION,
)
def fake_quantize_with_tensors(
    self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int
) -> Tensor:
    return run_name(
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
        self,
        scale,
        zero_point,
        number(1, INT),
        quant_min,
        quant_max,
    )[0]


@composite(
    "fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, "
    f"{_RANGE}) -> (Tensor output, Tensor mask)",
    api=INTERNAL,
)
def cachemask(self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Parts:
    name = "fake_quantize_per_tensor_affine"
    check_input(self, quant_min, quant_max, name)
    check(
        quant_min <= zero_point <= quant_max,
        f"{name}: `zero_point` must be between `quant_min` and "
        f"`quant_max`, but it is {zero_point}, not in {quant_min} .. {quant_max}",
    )
    return quantized(self, number(scale, FLOAT), number(zero_point, INT), quant_min, quant_max)


@composite(
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor "
    f"zero_point, Tensor fake_quant_enabled, {_RANGE}) -> (Tensor output, Tensor mask)",
    api=FUNCTION,
)
def cachemask_with_tensors(
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    fake_quant_enabled: Tensor,
    quant_min: int,
    quant_max: int,
) -> Parts:
    name = "fake_quantize_per_tensor_affine"
    check_input(self, quant_min, quant_max, name)
    step = single(scale, name, "scale").to(FLOAT)
    value, mask = quantized(self, step, single(zero_point, name, "zero_point").to(INT), quant_min, quant_max)
    off = single(fake_quant_enabled, name, "fake_quant_enabled") == 0
    return run_name("where.self", off, self, value), mask | off


# A scale for each channel.


def check_channels(
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    scales: tuple[DType, ...] = (FLOAT, DTYPES["bfloat16"]),
) -> None:
    name = "fake_quantize_per_channel_affine"
    check(
        scale.dtype in scales,
        f"{name}: scale must be {' or '.join(d.name for d in scales)}, but it is {scale.dtype.name}",
    )
    check(
        zero_point.dtype in (INT, FLOAT, DTYPES["float16"]),
        f"{name}: zero_point must be int32, float32 or float16, but it is {zero_point.dtype.name}",
    )
    check(
        scale.ndim == 1 and zero_point.ndim == 1,
        f"{name}: scale and zero_point must have one dimension, "
        f"but they have {scale.ndim} and {zero_point.ndim}",
    )
    check(
        scale.numel() == zero_point.numel(),
        f"{name}: scale and zero_point must have the same size, but "
        f"they have {scale.numel()} and {zero_point.numel()} elements",
    )
    wrap_dim(axis, self.ndim, name=name)
    check(
        axis >= 0,
        f"{name}: axis must be between 0 and the number of dimensions of the input, but it is {axis}",
    )
    check(
        scale.numel() == self.shape[axis],
        f"{name}: scale must have an element for each of the "
        f"{self.shape[axis]} channels, but it has {scale.numel()}",
    )
    check_input(self, quant_min, quant_max, name)
    if zero_point.dtype is INT and readable(zero_point) and zero_point.numel():
        values = zero_point.numpy_array()
        check(
            quant_min <= values.min() and values.max() <= quant_max,
            f"{name}: `zero_point` must be "
            f"between `quant_min` and `quant_max`: it ranges from {values.min()} to {values.max()}, not in "
            f"{quant_min} .. {quant_max}",
        )
    elif zero_point.dtype is INT and AMBIENT.trace is not None:
        run_name(
            "_assert_async.msg",
            (zero_point >= quant_min) & (zero_point <= quant_max),
            f"{name}: `zero_point` must be between `quant_min` and `quant_max`",
        )


def along(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """A vector with one element for each channel, in the shape in which it broadcasts with x."""
    return values.reshape([x.shape[axis] if d == axis else 1 for d in range(x.ndim)])


@composite(
    "fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, "
    f"{_RANGE}) -> Tensor",
    api=FUNCTION,
)
def fake_quantize_channels(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    return run_name(
        "fake_quantize_per_channel_affine_cachemask", self, scale, zero_point, axis, quant_min, quant_max
    )[0]


@composite(
    "fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int "
    f"axis, {_RANGE}) -> (Tensor output, Tensor mask)",
    api=INTERNAL,
)
def channels_cachemask(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Parts:
    check_channels(self, scale, zero_point, axis, quant_min, quant_max)
    # double precision where it makes a difference: PyTorch's grids of channels are rounded once
    width = DOUBLE if self.dtype is DOUBLE or zero_point.dtype.is_floating_point else FLOAT
    return quantized(
        self, along(scale.to(FLOAT), self, axis), along(zero_point, self, axis), quant_min, quant_max, width
    )


@composite(
    "fake_quantize_per_tensor_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor",
    "fake_quantize_per_channel_affine_cachemask_backward(Tensor grad, Tensor mask) -> Tensor",
    api=INTERNAL,
)
def cachemask_backward(grad: Tensor, mask: Tensor) -> Tensor:
    check(
        mask.dtype is BOOL and mask.shape == grad.shape,
        "fake_quantize: the mask must be a bool tensor of "
        f"the shape of grad, but it is {mask.dtype.name} of shape {tuple(mask.shape)} for "
        f"{tuple(grad.shape)}",
    )
    return grad * mask


# Scales and zero points that are learned.


def learned(zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """The zero point that a learned one stands for."""
    return zero_point.round().clamp(quant_min, quant_max)


@composite(f"_fake_quantize_learnable_per_tensor_affine({_LEARNED}) -> Tensor", api=FUNCTION)
def learnable(self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    name = "_fake_quantize_learnable_per_tensor_affine"
    check_input(self, quant_min, quant_max, name)
    origin = learned(single(zero_point, name, "zero_point"), quant_min, quant_max).to(INT)
    step = wide(single(scale, name, "scale"))
    return quantized(self, step, origin, quant_min, quant_max, step.dtype)[0]


@composite(f"_fake_quantize_learnable_per_channel_affine({_LEARNED_AXIS}) -> Tensor", api=FUNCTION)
def learnable_channels(
    self: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    origin = learned(zero_point, quant_min, quant_max).to(INT)
    check_channels(self, scale, origin, axis, quant_min, quant_max, (FLOAT, DTYPES["bfloat16"], DOUBLE))
    step = wide(scale)
    width = DOUBLE if self.dtype is DOUBLE else step.dtype
    return quantized(self, along(step, self, axis), along(origin, self, axis), quant_min, quant_max, width)[0]


def learned_gradients(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float,
    dims: Sequence[int],
) -> Parts:
    """Gradients of x, scale and zero point, the latter summed over `dims`.

    In range the result follows x, and differs from it by the rounding, which is in units of the scale; out of
    range it is a multiple of the scale, a constant for x.
    """
    q = on_grid(x, scale, zero_point, quant_min, quant_max)
    inside = (q >= quant_min) & (q <= quant_max)
    clamped = q.clamp(quant_min, quant_max) - as_wide(zero_point, x)
    factor, upstream = as_wide(scale, x), wide(grad)
    rounding = (clamped * factor - wide(x)) * as_wide(scale.reciprocal(), x)
    to_scale = upstream * run_name("where.self", inside, rounding, clamped) * grad_factor
    to_zero = run_name("where.ScalarSelf", inside, 0.0, upstream * -factor * grad_factor)
    return grad * inside, total(to_scale, dims), total(to_zero, dims)


def total(x: Tensor, dims: Sequence[int]) -> Tensor:
    return run_name("sum.dim_IntList", x, tuple(dims), False, None) if dims else x


@composite(
    "_fake_quantize_learnable_per_tensor_affine_backward(Tensor grad, "
    f"{_LEARNED}) -> (Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def learnable_backward(
    grad: Tensor,
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float,
) -> Parts:
    origin = learned(zero_point, quant_min, quant_max).to(INT).reshape(())
    to_self, to_scale, to_zero = learned_gradients(
        grad, self, wide(scale).reshape(()), origin, quant_min, quant_max, grad_factor, range(self.ndim)
    )
    return (
        to_self,
        to_scale.to(scale.dtype).reshape(scale.shape),
        to_zero.to(zero_point.dtype).reshape(zero_point.shape),
    )


@composite(
    "_fake_quantize_learnable_per_channel_affine_backward(Tensor grad, "
    f"{_LEARNED_AXIS}) -> (Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def learnable_channels_backward(
    grad: Tensor,
    self: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float,
) -> Parts:
    origin = learned(zero_point, quant_min, quant_max).to(INT)
    dims = tuple(d for d in range(self.ndim) if d != axis)
    to_self, to_scale, to_zero = learned_gradients(
        grad,
        self,
        along(wide(scale), self, axis),
        along(origin, self, axis),
        quant_min,
        quant_max,
        grad_factor,
        dims,
    )
    return to_self, to_scale.to(scale.dtype), to_zero.to(zero_point.dtype)


# The fused observer.

_OBSERVER = "Tensor self, Tensor observer_on, Tensor fake_quant_on"
_STATE = "Tensor{0} running_min, Tensor{1} running_max, Tensor{2} scale, Tensor{3} zero_point"
_WRITTEN, _READ = _STATE.format("(a!)", "(b!)", "(c!)", "(d!)"), _STATE.format("", "", "", "")
_OBSERVED = (
    f"float averaging_const, {_RANGE}, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False"
)
_SMALLEST = float(np.float32(6.1e-5))  # scales below it are raised to it

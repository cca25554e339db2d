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


def moved(running: Tensor, measured: Tensor, weight: float, on: Tensor) -> Tensor:
    """The running extreme after one more measurement; infinity means that there was none before."""
    new = running + weight * (measured.to(running.dtype) - running)
    return choose(on, choose(running.isinf(), measured.to(running.dtype), new), running)


def choose(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return run_name("where.self", condition, a, b)


def grid_for(
    low: Tensor, high: Tensor, quant_min: int, quant_max: int, symmetric: bool, width: DType = FLOAT
) -> Parts:
    """Scale and zero point of a grid that covers low .. high and holds 0; on both sides alike if `symmetric`.

    Extremes are float32, the scale is rounded to `width`, all else is double precision.
    """
    steps = quant_max - quant_min
    mixed = (low < 0) & (high > 0)
    if symmetric:
        most = steps // 2
        least = -(most + 1)
        widest = (low.to(DOUBLE) / least).abs().maximum((high.to(DOUBLE) / most).abs())
        low = choose(mixed, (widest * least).to(FLOAT), low)
        high = choose(mixed, (widest * most).to(FLOAT), high)
    low, high = low.clamp(max=0.0), high.clamp(min=0.0)
    scale = (high.to(DOUBLE) - low.to(DOUBLE)) / steps
    rounded = scale.to(FLOAT)
    scale = scale.masked_fill((rounded == 0) | rounded.reciprocal().isinf(), 0.1)
    small = scale < _SMALLEST
    amplified = _SMALLEST / scale.to(FLOAT)
    reach = number(_SMALLEST * steps, FLOAT)
    low, high = (
        choose(small, choose(high == 0, -reach, choose(low == 0, low, low * amplified)), low),
        choose(small, choose(low == 0, reach, choose(high == 0, high, high * amplified)), high),
    )
    scale = scale.clamp(min=_SMALLEST).to(width).to(DOUBLE)
    below, above = low.to(DOUBLE) / scale, high.to(DOUBLE) / scale
    nearer = abs(quant_min) + below.abs() < abs(quant_max) + above.abs()
    origin = choose(nearer, quant_min - below, quant_max - above)
    if symmetric:
        origin = origin.masked_fill(mixed, (quant_min + quant_max) / 2)
    return scale, origin.clamp(quant_min, quant_max).round()


@composite(
    f"_fused_moving_avg_obs_fq_helper({_OBSERVER}, {_WRITTEN}, {_OBSERVED}) -> (Tensor output, Tensor mask)",
    api=FUNCTION,
)
def observe(
    self: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool,
    symmetric_quant: bool,
) -> Parts:
    name = "fused_moving_avg_obs_fake_quant"
    check_input(self, quant_min, quant_max, name)
    check(
        ch_axis < self.ndim,
        f"{name}: ch_axis must be below {self.ndim}, the number of dimensions of the "
        f"input, but it is {ch_axis}",
    )
    check(
        running_min.dtype is FLOAT and running_max.dtype is FLOAT,
        f"{name}: running_min and running_max "
        f"must be float32, but they are {running_min.dtype.name} and {running_max.dtype.name}",
    )
    check(
        not per_row_fake_quant or ch_axis == 0,
        f"{name}: per_row_fake_quant needs ch_axis=0, but it is {ch_axis}",
    )
    if per_row_fake_quant and running_min.numel() == 0:
        for state in (running_min, running_max, scale, zero_point):
            state.resize_((self.shape[ch_axis],))
        running_min.fill_(float("inf"))
        running_max.fill_(float("-inf"))
    observing = single(observer_on, name, "observer_on") != 0
    quantizing = single(fake_quant_on, name, "fake_quant_on") != 0
    x = self.detach()
    dims = tuple(d for d in range(self.ndim) if not per_row_fake_quant or d != ch_axis)
    shape = running_min.shape
    for running, extreme in ((running_min, "amin"), (running_max, "amax")):
        measured = run_name(extreme, x, dims, False) if dims else x
        running.copy_(moved(running, measured.reshape(shape), averaging_const, observing))
    step, origin = grid_for(running_min, running_max, quant_min, quant_max, symmetric_quant)
    scale.copy_(choose(quantizing, step.to(scale.dtype), scale))
    zero_point.copy_(choose(quantizing, origin.to(zero_point.dtype), zero_point))
    # what was written may change again before a backward pass; the grid of this call does not
    step, origin = scale.clone(), zero_point.clone()
    if not per_row_fake_quant:
        return run_name(
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
            self,
            step,
            origin,
            quantizing,
            quant_min,
            quant_max,
        )
    value, mask = run_name(
        "fake_quantize_per_channel_affine_cachemask",
        self,
        step,
        origin if origin.dtype.is_floating_point else origin.to(INT),
        ch_axis,
        quant_min,
        quant_max,
    )
    return choose(quantizing, value, self), mask | ~quantizing


@composite(f"fused_moving_avg_obs_fake_quant({_OBSERVER}, {_WRITTEN}, {_OBSERVED}) -> Tensor", api=FUNCTION)
def observed(
    self: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool,
    symmetric_quant: bool,
) -> Tensor:
    if self.numel() == 0:
        return self.clone()
    return observe(
        self,
        observer_on,
        fake_quant_on,
        running_min,
        running_max,
        scale,
        zero_point,
        averaging_const,
        quant_min,
        quant_max,
        ch_axis,
        per_row_fake_quant,
        symmetric_quant,
    )[0]


@composite(
    f"_fused_moving_avg_obs_fq_helper_functional({_OBSERVER}, {_READ}, {_OBSERVED}) -> (Tensor "
    "output, Tensor mask, Tensor running_min_out, Tensor running_max_out, Tensor scale_out, Tensor "
    "zero_point_out)",
    api=INTERNAL,
)
def observe_functional(
    self: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool,
    symmetric_quant: bool,
) -> Parts:
    """As _fused_moving_avg_obs_fq_helper, returning the new state instead of writing it."""
    state = [each.clone() for each in (running_min, running_max, scale, zero_point)]
    return (
        *observe(
            self,
            observer_on,
            fake_quant_on,
            *state,
            averaging_const,
            quant_min,
            quant_max,
            ch_axis,
            per_row_fake_quant,
            symmetric_quant,
        ),
        *state,
    )

"""Fake quantization with an observer of the range, in one operator."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.tensor import Tensor
from .quantization import (
    _OBSERVED,
    _OBSERVER,
    _READ,
    _SMALLEST,
    _WRITTEN,
    DOUBLE,
    FLOAT,
    INT,
    Parts,
    check_input,
    number,
    single,
)

_NAME = "fused_moving_avg_obs_fake_quant"  # in errors


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
    check_input(self, quant_min, quant_max, _NAME)
    _check_observer(self, (running_min, running_max), ch_axis, per_row_fake_quant)
    if per_row_fake_quant and running_min.numel() == 0:
        for state in (running_min, running_max, scale, zero_point):
            state.resize_((self.shape[ch_axis],))
        running_min.fill_(float("inf"))
        running_max.fill_(float("-inf"))
    observing = single(observer_on, _NAME, "observer_on") != 0
    quantizing = single(fake_quant_on, _NAME, "fake_quant_on") != 0
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
    grid = scale.clone(), zero_point.clone()
    return _on_grid(self, grid, quantizing, (quant_min, quant_max), ch_axis if per_row_fake_quant else None)


def _check_observer(self: Tensor, extremes: Parts, ch_axis: int, per_row: bool) -> None:
    check(
        ch_axis < self.ndim,
        f"{_NAME}: ch_axis must be below {self.ndim}, the number of dimensions of the "
        f"input, but it is {ch_axis}",
    )
    low, high = extremes
    check(
        low.dtype is FLOAT and high.dtype is FLOAT,
        f"{_NAME}: running_min and running_max must be float32, but they are {low.dtype.name} and "
        f"{high.dtype.name}",
    )
    check(not per_row or ch_axis == 0, f"{_NAME}: per_row_fake_quant needs ch_axis=0, but it is {ch_axis}")


def _on_grid(x: Tensor, grid: Parts, quantizing: Tensor, limits: tuple[int, int], axis: int | None) -> Parts:
    """Rounded to a grid, or to one for each index along `axis`, where `quantizing`; and what was inside of it."""
    step, origin = grid
    if axis is None:
        return run_name(
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", x, step, origin, quantizing, *limits
        )
    origin = origin if origin.dtype.is_floating_point else origin.to(INT)
    value, mask = run_name("fake_quantize_per_channel_affine_cachemask", x, step, origin, axis, *limits)
    return choose(quantizing, value, x), mask | ~quantizing


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

"""Derivatives of the normalizations.

Reverse mode of an output is its backward operator; the mean and rstd, which are outputs too, pass on
gradients of their own. These only come in when a gradient is differentiated again: then the statistics that a
backward operator reads are functions of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ..decompositions.normalization import normalized_dims, standardized_backward, wide
from ..decompositions.normalization_batch import layout
from .declare import derivative


def with_statistics(to_input: Any, to_mean: Any, to_rstd: Any, x: Tensor, mean: Tensor, rstd: Tensor,
                    count: int) -> Any:
    """`to_input` plus what comes through the mean and rstd of `count` elements of x."""
    if to_mean is not None:
        to_input = plus(to_input, (wide(to_mean) / count).expand(x.shape))
    if to_rstd is not None:
        scale = wide(rstd)
        factor = wide(to_rstd) * scale * scale * scale / -count
        to_input = plus(to_input, (wide(x) - wide(mean)) * factor)
    return to_input


def plus(a: Any, b: Tensor) -> Tensor:
    return b if a is None else a + b


def unit_tangent(x_t: Tensor, unit: Tensor, rstd: Tensor, dims: Sequence[int]) -> tuple[Tensor, ...]:
    """Tangents of x standardized, of its mean and of rstd; the first is the reverse formula: its Jacobian
    is symmetric."""
    along = (unit * x_t).mean(tuple(dims), True)
    return (standardized_backward(x_t, unit, rstd, dims), x_t.mean(tuple(dims), True),
            -(rstd * rstd * along))


def scaled_tangent(unit: Tensor, unit_t: Tensor, weight: Any, weight_t: Any, bias_t: Any,
                   shape: Sequence[int]) -> Tensor:
    result = unit_t if weight is None else unit_t * weight.reshape(shape)
    if weight is not None:
        result = result + unit * weight_t.reshape(shape)
    return result if bias_t is None else result + bias_t.reshape(shape)


# Layer norm.

def layer_norm_backward(grads: Any, input: Tensor, normalized_shape: Any, mean: Tensor, rstd: Tensor,
                        weight: Any, bias: Any, needs: Any) -> tuple[Any, ...]:
    to_input = to_weight = to_bias = None
    if grads[0] is not None:
        to_input, to_weight, to_bias = run_name("native_layer_norm_backward", grads[0], input,
                                                normalized_shape, mean, rstd, weight, bias, tuple(needs))
    if needs[0]:
        count = input.numel() // max(mean.numel(), 1)
        to_input = with_statistics(to_input, grads[1], grads[2], input, mean, rstd, count)
    return to_input, to_weight, to_bias


def layer_norm_tangents(input: Tensor, input_t: Tensor, normalized_shape: Any, weight: Any, weight_t: Any,
                        bias_t: Any, mean: Tensor, rstd: Tensor) -> tuple[Tensor, ...]:
    dims = normalized_dims(input, normalized_shape, None, None, "layer_norm")
    unit = (input - mean) * rstd
    unit_t, mean_t, rstd_t = unit_tangent(input_t, unit, rstd, dims)
    return scaled_tangent(unit, unit_t, weight, weight_t, bias_t, normalized_shape), mean_t, rstd_t


derivative("native_layer_norm", ("input", "weight", "bias"),
           lambda grads, input, normalized_shape, result1, result2, weight, bias, needs:
               layer_norm_backward(grads, input, normalized_shape, result1, result2, weight, bias, needs),
           result=lambda input_p, input_t, normalized_shape, weight_p, weight_t, bias_t, result1, result2:
               layer_norm_tangents(input_p, input_t, normalized_shape, weight_p, weight_t, bias_t, result1,
                                   result2))


# RMS norm.

def rms_norm_backward(grads: Any, input: Tensor, normalized_shape: Any, rstd: Tensor, weight: Any,
                      needs: Any) -> tuple[Any, ...]:
    to_input = to_weight = None
    if grads[0] is not None:
        to_input, to_weight = run_name("_fused_rms_norm_backward", grads[0], input, normalized_shape, rstd,
                                       weight, tuple(needs))
    if needs[0] and grads[1] is not None:
        count = input.numel() // max(rstd.numel(), 1)
        to_input = plus(to_input, wide(input) * (grads[1] * rstd * rstd * rstd / -count))
    return to_input, to_weight


def rms_norm_tangents(input: Tensor, input_t: Tensor, normalized_shape: Any, weight: Any, weight_t: Any,
                      rstd: Tensor) -> tuple[Tensor, Tensor]:
    dims = normalized_dims(input, normalized_shape, None, None, "rms_norm")
    unit = input * rstd
    along = (unit * input_t).mean(dims, True)
    unit_t = (input_t - unit * along) * rstd
    return scaled_tangent(unit, unit_t, weight, weight_t, None, normalized_shape), -(rstd * rstd * along)


derivative("_fused_rms_norm", ("input", "weight"),
           lambda grads, input, normalized_shape, result1, weight, needs:
               rms_norm_backward(grads, input, normalized_shape, result1, weight, needs),
           result=lambda input_p, input_t, normalized_shape, weight_p, weight_t, result1:
               rms_norm_tangents(input_p, input_t, normalized_shape, weight_p, weight_t, result1))


# Group norm.

def group_norm_backward(grads: Any, input: Tensor, mean: Tensor, rstd: Tensor, weight: Any, sizes: Any,
                        needs: Any) -> tuple[Any, ...]:
    batch, channels, inner, groups = sizes
    to_input = to_weight = to_bias = None
    if grads[0] is not None:
        to_input, to_weight, to_bias = run_name("native_group_norm_backward", grads[0], input, mean, rstd,
                                                weight, batch, channels, inner, groups, tuple(needs))
    if needs[0] and (grads[1] is not None or grads[2] is not None):
        rows = (batch, groups, channels // groups * inner)
        to_mean, to_rstd = (None if g is None else g.unsqueeze(2) for g in grads[1:])
        flat = None if to_input is None else to_input.reshape(rows)
        to_input = with_statistics(flat, to_mean, to_rstd, input.reshape(rows), mean.unsqueeze(2),
                                   rstd.unsqueeze(2), rows[2]).reshape(input.shape)
    return to_input, to_weight, to_bias


def group_norm_tangents(input: Tensor, input_t: Tensor, weight: Any, weight_t: Any, bias_t: Any, mean: Tensor,
                        rstd: Tensor, sizes: Any) -> tuple[Tensor, ...]:
    batch, channels, inner, groups = sizes
    shape, one_each = (batch, groups, channels // groups, inner), (batch, groups, 1, 1)
    scale = rstd.reshape(one_each)
    unit = (input.reshape(shape) - mean.reshape(one_each)) * scale
    unit_t, mean_t, rstd_t = unit_tangent(input_t.reshape(shape), unit, scale, (2, 3))
    output_t = scaled_tangent(unit, unit_t, weight, weight_t, bias_t, (1, groups, channels // groups, 1))
    return output_t.reshape(input.shape), mean_t.reshape(mean.shape), rstd_t.reshape(rstd.shape)


derivative("native_group_norm", ("input", "weight", "bias"),
           lambda grads, input, result1, result2, weight, N, C, HxW, group, needs:
               group_norm_backward(grads, input, result1, result2, weight, (N, C, HxW, group), needs),
           result=lambda input_p, input_t, weight_p, weight_t, bias_t, result1, result2, N, C, HxW, group:
               group_norm_tangents(input_p, input_t, weight_p, weight_t, bias_t, result1, result2,
                                   (N, C, HxW, group)))


# Batch norm with the statistics of the batch. With running statistics it is differentiated through its body.

def batch_norm_backward(grads: Any, input: Tensor, mean: Tensor, invstd: Tensor, weight: Any,
                        needs: Any) -> tuple[Any, ...]:
    to_input = to_weight = to_bias = None
    if grads[0] is not None:
        to_input, to_weight, to_bias = run_name("native_batch_norm_backward", grads[0], input, weight, None,
                                                None, mean, invstd, True, 0.0, tuple(needs))
    if needs[0]:
        shape = layout(input)[1]
        to_mean, to_invstd = (None if g is None else g.reshape(shape) for g in grads[1:3])
        to_input = with_statistics(to_input, to_mean, to_invstd, input, mean.reshape(shape),
                                   invstd.reshape(shape), input.numel() // max(input.shape[1], 1))
    return to_input, to_weight, to_bias


def batch_norm_tangents(input: Tensor, input_t: Tensor, weight: Any, weight_t: Any, bias_t: Any, mean: Tensor,
                        invstd: Tensor) -> tuple[Any, ...]:
    dims, shape = layout(input)
    scale = invstd.reshape(shape)
    unit = (input - mean.reshape(shape)) * scale
    unit_t, mean_t, invstd_t = unit_tangent(input_t, unit, scale, dims)
    return (scaled_tangent(unit, unit_t, weight, weight_t, bias_t, shape), mean_t.reshape(mean.shape),
            invstd_t.reshape(mean.shape), None)


derivative("_batch_norm_measured", ("input", "weight", "bias"),
           lambda grads, input, result1, result2, weight, needs:
               batch_norm_backward(grads, input, result1, result2, weight, needs),
           differentiable_outputs=(0, 1, 2),
           result=lambda input_p, input_t, weight_p, weight_t, bias_t, result1, result2:
               batch_norm_tangents(input_p, input_t, weight_p, weight_t, bias_t, result1, result2))


# Weight norm.

def weight_norm_backward(grads: Any, v: Tensor, g: Tensor, norms: Tensor, dim: int) -> tuple[Any, ...]:
    to_v = to_g = None
    if grads[0] is not None:
        to_v, to_g = run_name("_weight_norm_interface_backward", grads[0], v, g, norms, dim)
    if grads[1] is not None:
        to_v = plus(to_v, wide(v) * (grads[1] / norms))
    return to_v, to_g


derivative("_weight_norm_interface", ("v", "g"),
           lambda grads, v, g, result1, dim: weight_norm_backward(grads, v, g, result1, dim))

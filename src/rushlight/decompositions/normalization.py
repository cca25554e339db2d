"""Normalization in terms of simpler operators.

All of them standardize: x minus its mean, times rstd = 1 / sqrt(variance + eps), over some dimensions; then
they scale and shift. `standardized` and `standardized_backward` are that once for all; the operators differ
in the dimensions, in the shape of their parameters and in what they check. Half precision computes in float32
and rounds once. The mean and rstd that an operator returns are differentiable like any other output, so the
backward operators need no formulas of their own to be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DType, finfo
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import numel, suggests_channels_last
from ..core.tensor import Tensor
from ..core.tokens import channels_last, channels_last_3d

Parts = tuple[Any, ...]


def standardized(x: Tensor, dims: Sequence[int], eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x standardized over `dims`, and its mean, rstd and variance with those dimensions of size 1."""
    if x.numel() == 0:
        shape = [1 if d in dims else size for d, size in enumerate(x.shape)]
        mean, rstd, variance = (x.new_zeros(shape) for _ in range(3))
        return x.clone(), mean, rstd, variance
    variance, mean = run_name("var_mean.correction", x, tuple(dims), 0, True)
    rstd = (variance + eps).rsqrt()
    return (x - mean) * rstd, mean, rstd, variance


def standardized_backward(grad: Tensor, unit: Tensor, rstd: Tensor, dims: Sequence[int]) -> Tensor:
    """The gradient of x for the gradient of `unit`, which is x standardized."""
    return (grad - mean_over(grad, dims) - unit * mean_over(grad * unit, dims)) * rstd


def mean_over(x: Tensor, dims: Sequence[int]) -> Tensor:
    """The mean over `dims`, which stay with size 1."""
    return run_name("mean.dim", x, tuple(dims), True, None)


def scaled(unit: Tensor, weight: Tensor | None, bias: Tensor | None, shape: Sequence[int]) -> Tensor:
    """unit * weight + bias, the parameters seen in `shape`."""
    if weight is not None:
        unit = unit * shaped(wide(weight), shape)
    return unit if bias is None else unit + shaped(wide(bias), shape)


def shaped(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x if tuple(x.shape) == tuple(shape) else x.reshape(shape)


def wide(x: Tensor) -> Tensor:
    """`x` in the dtype that it computes in."""
    return x if x.dtype.opmath is x.dtype else x.to(x.dtype.opmath)


def to_all(results: Sequence[Tensor | None], dtypes: Sequence[DType]) -> Parts:
    return tuple(
        r if r is None or r.dtype is dtype else r.to(dtype) for r, dtype in zip(results, dtypes, strict=True)
    )


def check_floating(input: Tensor, name: str) -> None:
    check(
        input.dtype.is_floating_point,
        f"\"{name}\" not implemented for '{input.dtype.torch_name}'",
        NotImplementedError,
    )


def stats_dtype(input: Tensor, weight: Tensor | None) -> DType:
    """The dtype of mean and rstd: that of the parameters, which may be wider than the input's."""
    return input.dtype if weight is None else weight.dtype


def check_parameters(input: Tensor, name: str, **parameters: Tensor | None) -> None:
    """The parameters have the dtype of the input, or, if that is a half type, float32 all of them."""
    given = {key: tensor for key, tensor in parameters.items() if tensor is not None}
    kinds = {tensor.dtype for tensor in given.values()}
    check(
        not kinds or kinds in ({input.dtype}, {input.dtype.opmath}),
        f"{name}: mixed dtype (CPU): expect "
        f"parameters to have the dtype of the input, {input.dtype.name}, or all of them "
        f"{input.dtype.opmath.name}, but got "
        + ", ".join(f"{key} of {tensor.dtype.name}" for key, tensor in given.items()),
    )


# Layer norm: over the last dimensions.


def normalized_dims(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, name: str
) -> tuple[int, ...]:
    """The dimensions that `normalized_shape` names, after checking that all shapes fit."""
    shape, count = tuple(normalized_shape), len(normalized_shape)
    check(
        count >= 1,
        f"{name}: Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
        f"least one element, but got normalized_shape = {list(shape)}",
    )
    for key, tensor in (("weight", weight), ("bias", bias)):
        check(
            tensor is None or tuple(tensor.shape) == shape,
            f"{name}: Expected {key} to be of same shape "
            f"as normalized_shape, but got {key} of shape "
            f"{None if tensor is None else list(tensor.shape)} and normalized_shape = {list(shape)}",
        )
    if name == "rms_norm" and input.ndim < count:
        raise ValueError(f"Input tensor must have at least {count} dimensions, but got {input.ndim}")
    check(
        input.ndim >= count and tuple(input.shape[input.ndim - count :]) == shape,
        f"{name}: Given normalized_shape={list(shape)}, expected input with shape [*, "
        f"{', '.join(map(str, shape))}], but got input of size {list(input.shape)}",
    )
    return tuple(range(input.ndim - count, input.ndim))


@composite(
    "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float "
    "eps) -> (Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Parts:
    dims = normalized_dims(input, normalized_shape, weight, bias, "layer_norm")
    check_floating(input, "LayerNormKernelImpl")
    check_parameters(input, "layer_norm", weight=weight, bias=bias)
    unit, mean, rstd, _ = standardized(wide(input).contiguous(), dims, eps)
    kind = stats_dtype(input, weight)
    return to_all((scaled(unit, weight, bias, normalized_shape), mean, rstd), (input.dtype, kind, kind))


@composite(
    "native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor "
    "mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, "
    "Tensor)",
    api=INTERNAL,
)
def native_layer_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    output_mask: Sequence[bool],
) -> Parts:
    dims = normalized_dims(input, normalized_shape, weight, None, "layer_norm")
    grad, scale = wide(grad_out), wide(rstd)
    unit = (wide(input) - wide(mean)) * scale
    to_unit = grad if weight is None else grad * wide(weight)
    outer = tuple(range(dims[0]))
    kind = stats_dtype(input, weight)
    return to_all(
        (
            standardized_backward(to_unit, unit, scale, dims) if output_mask[0] else None,
            summed(grad * unit, outer) if output_mask[1] else None,
            summed(grad, outer) if output_mask[2] else None,
        ),
        (input.dtype, kind, kind),
    )


def summed(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    return run_name("sum.dim_IntList", x, dims, False, None) if dims else x


@composite(
    "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-05, bool cudnn_enable=True) -> Tensor",
    api=FUNCTION,
)
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    return run_name("native_layer_norm", input, normalized_shape, weight, bias, eps)[0]


# RMS norm: over the last dimensions, by the root of the mean square, without centering.


@composite(
    "_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)",
    api=FUNCTION,
)
def fused_rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> Parts:
    dims = normalized_dims(input, normalized_shape, weight, None, "rms_norm")
    x = wide(input)
    rstd = (mean_over(x * x, dims) + least(input, eps)).rsqrt()
    result = x * rstd
    if weight is not None:
        result = result * wide(weight)
    return result.to(input.dtype), rstd


def least(input: Tensor, eps: float | None) -> float:
    return finfo(input.dtype.opmath.to_real()).eps if eps is None else eps


@composite(
    "_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, "
    "Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)",
    api=INTERNAL,
)
def fused_rms_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Sequence[int],
    rstd: Tensor,
    weight: Tensor | None,
    output_mask: Sequence[bool],
) -> Parts:
    dims = normalized_dims(input, normalized_shape, weight, None, "rms_norm")
    grad, scale = wide(grad_out), wide(rstd)
    unit = wide(input) * scale
    to_unit = grad if weight is None else grad * wide(weight)
    to_input = (to_unit - unit * mean_over(to_unit * unit, dims)) * scale if output_mask[0] else None
    to_weight = summed(grad * unit, tuple(range(dims[0]))) if output_mask[1] else None
    return to_all((to_input, to_weight), (input.dtype, stats_dtype(input, weight)))


@composite(
    "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    api=FUNCTION,
)
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, eps: float | None
) -> Tensor:
    if input.dtype.is_complex:  # the square, not the squared modulus, as PyTorch has it
        dims = normalized_dims(input, normalized_shape, weight, None, "rms_norm")
        result = input * ((input * input).mean(dims, True) + least(input, eps)).rsqrt()
        return result if weight is None else result * weight
    check_floating(input, "rms_norm")
    return run_name("_fused_rms_norm", input, normalized_shape, weight, eps)[0]


# Group norm: over groups of channels and all that follows them.


@composite(
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, "
    "int group, float eps) -> (Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> Parts:
    check_group(input, weight, bias, C, group, "group_norm")
    check_parameters(input, "group_norm", weight=weight, bias=bias)
    x = wide(input).contiguous().reshape((N, group, C // group, HxW))
    unit, mean, rstd, _ = standardized(x, (2, 3), eps)
    result = scaled(unit, weight, bias, (1, group, C // group, 1)).reshape(input.shape)
    if suggests_channels_last(tuple(input.shape), input.strides()):
        result = result.contiguous(memory_format=channels_last if input.ndim == 4 else channels_last_3d)
    kind = stats_dtype(input, weight)
    return to_all((result, mean.reshape((N, group)), rstd.reshape((N, group))), (input.dtype, kind, kind))


def check_group(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, channels: int, groups: int, name: str
) -> None:
    check(groups > 0, f"{name}: Expected num groups to be greater than 0, got {groups}")
    check(
        channels % groups == 0,
        f"{name}: Expected number of channels in input to be divisible by "
        f"num_groups, but got input of shape {list(input.shape)} and num_groups={groups}",
    )
    check_channels(channels, name, input, weight=weight, bias=bias)


def check_channels(channels: int, name: str, input: Tensor, **tensors: Tensor | None) -> None:
    for key, tensor in tensors.items():
        check(
            tensor is None or (tensor.ndim == 1 and tensor.numel() == channels),
            f"{name}: Expected {key} to be a vector of size equal to the number of channels in input, "
            f"{channels}, but got {key} of shape {None if tensor is None else list(tensor.shape)} and "
            f"input of shape {list(input.shape)}",
        )


@composite(
    "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? "
    "weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, "
    "Tensor)",
    api=INTERNAL,
)
def native_group_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> Parts:
    inner, shape = (1, group, C // group, 1), (N, group, C // group, HxW)
    grad, scale = wide(grad_out).reshape(shape), wide(rstd).reshape((N, group, 1, 1))
    unit = (wide(input).reshape(shape) - wide(mean).reshape((N, group, 1, 1))) * scale
    to_unit = grad if weight is None else grad * wide(weight).reshape(inner)
    to_input = (
        standardized_backward(to_unit, unit, scale, (2, 3)).reshape(input.shape) if output_mask[0] else None
    )
    to_weight = summed(grad * unit, (0, 3)).reshape((C,)) if output_mask[1] else None
    to_bias = summed(grad, (0, 3)).reshape((C,)) if output_mask[2] else None
    kind = stats_dtype(input, weight)
    return to_all((to_input, to_weight, to_bias), (input.dtype, kind, kind))


@composite(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps="
    "1e-05, bool cudnn_enabled=True) -> Tensor",
    api=FUNCTION,
)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    check(
        input.ndim >= 2,
        f"group_norm: Expected at least 2 dimensions for input tensor but received {input.ndim}",
    )
    check_floating(input, "GroupNormKernelImpl")
    batch, channels = input.shape[0], input.shape[1]
    check_group(input, weight, bias, channels, num_groups, "group_norm")
    return run_name(
        "native_group_norm", input, weight, bias, batch, channels, numel(input.shape[2:]), num_groups, eps
    )[0]


# Weight norm: a weight as direction v and length g, one length for each index of `dim`.


def except_dim(x: Tensor, dim: int) -> Tensor:
    """The norms of x over all dimensions but `dim` (over all for -1), shaped to broadcast against x."""
    return run_name("norm_except_dim", x, 2, dim)


@composite("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", api=FUNCTION)
def weight_norm_interface(v: Tensor, g: Tensor, dim: int) -> Parts:
    norms = except_dim(wide(v), dim)
    return (wide(v) * (wide(g) / norms)).to(v.dtype), norms


@composite(
    "_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor "
    "saved_norms, int dim) -> (Tensor, Tensor)",
    "_weight_norm_differentiable_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor "
    "saved_norms, int dim) -> (Tensor, Tensor)",
    api=INTERNAL,
)
def weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> Parts:
    grad, v, g, norms = (wide(x) for x in (grad_w, saved_v, saved_g, saved_norms))
    dims = tuple(d for d in range(v.ndim) if dim == -1 or d != dim % v.ndim)
    along = (run_name("sum.dim_IntList", grad * v, dims, True, None)).reshape(norms.shape) / norms
    return to_all(((grad - v * (along / norms)) * (g / norms), along), (saved_v.dtype, saved_g.dtype))


@composite("_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", api=FUNCTION)
def weight_norm(v: Tensor, g: Tensor, dim: int) -> Tensor:
    return run_name("_weight_norm_interface", v, g, dim)[0]

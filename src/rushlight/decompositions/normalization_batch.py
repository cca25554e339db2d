"""Batch and instance norm in terms of simpler operators: over all dimensions but that of the channels.

In training the running statistics are written in place with what was measured; autograd records nothing of
that. Otherwise they are what x is standardized with, and the operator is a map.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import numel
from ..core.tensor import Tensor
from .normalization import (
    Parts,
    check_channels,
    check_floating,
    check_parameters,
    scaled,
    standardized,
    stats_dtype,
    to_all,
    wide,
)

_INPUTS = "Tensor input, Tensor? weight, Tensor? bias"
_RUNNING = "Tensor? running_mean, Tensor? running_var"
_WRITTEN = "Tensor(a!) running_mean, Tensor(b!) running_var"
_NUMBERS = "float momentum, float eps"


def layout(input: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dimensions to average over, and the shape in which a number per channel broadcasts."""
    dims = tuple(d for d in range(input.ndim) if d != 1)
    return dims, tuple(input.shape[d] if d == 1 else 1 for d in range(input.ndim))


def channels_of(input: Tensor) -> int:
    """The size of dimension 1; an empty vector has no channels."""
    return input.shape[1] if input.ndim > 1 else 0


def checked(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
) -> None:
    check(
        (running_mean is None) == (running_var is None),
        "batch_norm: running_mean and running_var must either both be None or neither be None",
        ValueError,
    )
    check(
        input.ndim >= 2 or input.numel() == 0, f"batch_norm: expected at least 2 dimensions, got {input.ndim}"
    )
    check_floating(input, "batch_norm")
    check_channels(
        channels_of(input),
        "batch_norm",
        input,
        weight=weight,
        bias=bias,
        running_mean=running_mean,
        running_var=running_var,
    )
    check_parameters(
        input, "batch_norm", weight=weight, bias=bias, running_mean=running_mean, running_var=running_var
    )


@composite(
    f"_batch_norm_measured({_INPUTS}, float eps) -> (Tensor output, Tensor mean, Tensor invstd, Tensor var)",
    api=INTERNAL,
)
def batch_norm_measured(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Parts:
    """Batch norm with the statistics of the batch, and these: mean, 1 / sqrt(var + eps) and var."""
    checked(input, weight, bias)
    dims, shape = layout(input)
    channels = (input.shape[1],)
    unit, mean, invstd, variance = standardized(wide(input), dims, eps)
    kind = stats_dtype(input, weight)
    return to_all(
        (
            scaled(unit, weight, bias, shape),
            mean.reshape(channels),
            invstd.reshape(channels),
            variance.reshape(channels),
        ),
        (input.dtype, kind, kind, variance.dtype),
    )


def trained(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Parts:
    """The output, mean, invstd and variance of a batch; without elements there is nothing to measure."""
    if input.ndim < 2:
        return input.clone(), nothing(input), nothing(input), nothing(input)
    if input.numel() == 0:
        none = input.new_zeros((channels_of(input),))
        empty = scaled(wide(input), weight, bias, layout(input)[1]).to(input.dtype)
        return empty, none, none, none
    return run_name("_batch_norm_measured", input, weight, bias, eps)


def updated(running: Tensor, measured: Tensor, momentum: float) -> Tensor:
    return (wide(running) * (1 - momentum) + wide(measured).detach() * momentum).to(running.dtype)


def unbiased(variance: Tensor, input: Tensor) -> Tensor:
    count = numel(input.shape) // max(input.shape[1], 1)
    return variance * (count / (count - 1)) if count > 1 else variance * float("nan")


def remember(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
) -> None:
    """Move the running statistics towards the measured ones, in place."""
    if input.numel() == 0:
        return
    if running_mean is not None:
        running_mean.copy_(updated(running_mean, mean, momentum))
    if running_var is not None:
        running_var.copy_(updated(running_var, unbiased(variance, input), momentum))


def applied(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
) -> Tensor:
    """Batch norm with given statistics."""
    checked(input, weight, bias, running_mean, running_var)
    if input.ndim < 2:
        return input.clone()
    shape = layout(input)[1]
    scale = (wide(running_var) + eps).rsqrt().reshape(shape)
    unit = (wide(input) - wide(running_mean).reshape(shape)) * scale
    return scaled(unit, weight, bias, shape).to(input.dtype)


def nothing(input: Tensor) -> Tensor:
    return input.new_empty((0,))


@composite(
    f"native_batch_norm({_INPUTS}, {_RUNNING}, bool training, {_NUMBERS}) -> (Tensor, Tensor, Tensor)",
    f"_native_batch_norm_legit({_INPUTS}, {_WRITTEN}, bool training, {_NUMBERS}) -> (Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Parts:
    if training:
        checked(input, weight, bias, running_mean, running_var)
        output, mean, invstd, variance = trained(input, weight, bias, eps)
        remember(input, running_mean, running_var, mean, variance, momentum)
        return output, mean.detach(), invstd.detach()
    check(
        (running_mean is None) == (running_var is None),
        "batch_norm: running_mean and running_var must either both be None or neither be None",
        ValueError,
    )
    check(
        running_mean is not None, "batch_norm: running_mean and running_var must be given when training=False"
    )
    assert running_mean is not None
    assert running_var is not None
    output = applied(input, weight, bias, running_mean, running_var, eps)
    return output, nothing(input), nothing(input)


@composite(
    f"_native_batch_norm_legit.no_stats({_INPUTS}, bool training, {_NUMBERS}) -> (Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def native_batch_norm_no_stats(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> Parts:
    return native_batch_norm(input, weight, bias, None, None, training, momentum, eps)


@composite(
    f"_native_batch_norm_legit_no_training({_INPUTS}, Tensor running_mean, Tensor running_var, "
    f"{_NUMBERS}) -> (Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def native_batch_norm_no_training(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Parts:
    return native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps)


@composite(
    f"_native_batch_norm_legit_functional({_INPUTS}, Tensor running_mean, Tensor running_var, bool "
    f"training, {_NUMBERS}) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor "
    "running_var_out)",
    api=INTERNAL,
)
def native_batch_norm_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> Parts:
    """As _native_batch_norm_legit, returning the new running statistics instead of writing them."""
    if not training or input.numel() == 0:
        new = running_mean.clone(), running_var.clone()
        return (*native_batch_norm(input, weight, bias, *new, training, momentum, eps), *new)
    checked(input, weight, bias, running_mean, running_var)
    output, mean, invstd, variance = trained(input, weight, bias, eps)
    return (
        output,
        mean.detach(),
        invstd.detach(),
        updated(running_mean, mean, momentum),
        updated(running_var, unbiased(variance, input), momentum),
    )


def reserve(input: Tensor) -> Tensor:
    """What a GPU library would keep for itself."""
    return input.new_empty((0,), dtype=DTYPES["uint8"])


@composite(
    f"_batch_norm_with_update({_INPUTS}, {_WRITTEN}, {_NUMBERS}) -> (Tensor, Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Parts:
    return (
        *native_batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps),
        reserve(input),
    )


@composite(
    f"_batch_norm_with_update_functional({_INPUTS}, Tensor running_mean, Tensor running_var, "
    f"{_NUMBERS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor "
    "running_var_out)",
    api=INTERNAL,
)
def batch_norm_with_update_functional(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> Parts:
    results = native_batch_norm_functional(
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*results[:3], reserve(input), *results[3:])


@composite(
    f"_batch_norm_no_update({_INPUTS}, {_RUNNING}, {_NUMBERS}) -> (Tensor, Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def batch_norm_no_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> Parts:
    return (
        *native_batch_norm(input, weight, bias, running_mean, running_var, False, momentum, eps),
        reserve(input),
    )


@composite(
    f"batch_norm({_INPUTS}, {_RUNNING}, bool training, {_NUMBERS}, bool cudnn_enabled) -> Tensor",
    api=FUNCTION,
)
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    for name, running in (("running_mean", running_mean), ("running_var", running_var)):
        check(training or running is not None, f"batch_norm: {name} must be defined in evaluation mode")
    return native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@composite(
    "batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum) "
    "-> (Tensor, Tensor)",
    api=FUNCTION,
)
def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """The mean and variance of the batch; the running statistics are moved towards them."""
    checked(input, None, None, running_mean, running_var)
    check(
        input.numel() > 0,
        "batch_norm_update_stats: input tensor must have at least one element, but got "
        f"input_sizes = {list(input.shape)}",
    )
    _, mean, _, variance = trained(input, None, None, 1.0)
    remember(input, running_mean, running_var, mean, variance, momentum)
    return mean, variance.to(mean.dtype)


# Backward.


def batch_norm_gradients(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    train: bool,
    output_mask: Sequence[bool],
) -> Parts:
    dims, shape = layout(input)
    grad, scale = wide(grad_out), wide(invstd).reshape(shape)
    unit = (wide(input) - wide(mean).reshape(shape)) * scale
    slope = scale if weight is None else scale * wide(weight).reshape(shape)
    measured = train and output_mask[0]  # the statistics depend on the input, by sums that the others need
    wanted = (output_mask[1] or measured, output_mask[2] or measured)
    along = run_name("sum.dim_IntList", grad * unit, dims, True, None) if wanted[0] else None
    total = run_name("sum.dim_IntList", grad, dims, True, None) if wanted[1] else None
    to_input = grad
    if along is not None and total is not None and measured:
        count = max(1, numel(input.shape) // max(input.shape[1], 1))
        to_input = grad - total / count - unit * (along / count)
    channels = (input.shape[1],)
    results = (
        to_input * slope if output_mask[0] else None,
        *(
            x.reshape(channels) if x is not None and want else None
            for x, want in zip((along, total), output_mask[1:], strict=True)
        ),
    )
    kind = stats_dtype(input, weight)
    return to_all(results, (input.dtype, kind, kind))


@composite(
    f"native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, {_RUNNING}, Tensor? "
    "save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor, Tensor, "
    "Tensor)",
    api=INTERNAL,
)
def native_batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Parts:
    mean, invstd = (save_mean, save_invstd) if train else (running_mean, running_var)
    check(
        mean is not None and invstd is not None,
        "native_batch_norm_backward: needs "
        + ("save_mean and save_invstd" if train else "running_mean and running_var"),
    )
    assert mean is not None
    assert invstd is not None
    if not train:
        invstd = (wide(invstd) + eps).rsqrt()
    return batch_norm_gradients(grad_out, input, weight, mean, invstd, train, output_mask)


@composite(
    f"batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, {_RUNNING}, Tensor? "
    "save_mean, Tensor? save_var, bool update, float eps, bool[3] output_mask, Tensor reserve) -> "
    "(Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_var: Tensor | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> Parts:
    return native_batch_norm_backward(
        grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )


# Instance norm: each sample by itself, as batch norm of one sample that has the channels of all.


@composite(
    f"instance_norm({_INPUTS}, {_RUNNING}, bool use_input_stats, {_NUMBERS}, bool cudnn_enabled) -> Tensor",
    api=FUNCTION,
)
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    check(
        use_input_stats or (running_mean is not None and running_var is not None),
        "Expected running_mean and running_var to be defined when use_input_stats is false",
    )
    batch, channels = input.shape[0], input.shape[1]

    def repeated(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.repeat(batch)

    means, variances = repeated(running_mean), repeated(running_var)
    merged = input.contiguous().view((1, batch * channels, *input.shape[2:]))
    output = batch_norm(
        merged, repeated(weight), repeated(bias), means, variances, use_input_stats, momentum, eps
    )
    if use_input_stats:
        for running, each in ((running_mean, means), (running_var, variances)):
            if running is not None and each is not None:
                running.copy_(wide(each).view((batch, channels)).mean(0).to(running.dtype))
    return output.view(input.shape)

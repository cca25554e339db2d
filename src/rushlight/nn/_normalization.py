"""torch.nn.functional: normalizations, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.autocast import autocast_key, in_single
from ..core.dispatch import run_name
from ..core.dtypes import Category
from ..core.errors import check
from ..core.out_calls import call_out
from ..core.registry import REGISTRY
from ..core.shapes import numel
from ..core.tensor import Tensor

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
]


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Elements over the last dimensions made to have mean 0 and variance 1.

    >>> F.layer_norm(rl.tensor([[1.0, 3.0]]), [2]).round(decimals=3)
    tensor([[-1.,  1.]])
    """
    return run_name("layer_norm", input, tuple(normalized_shape), weight, bias, eps, True)


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Elements over the last dimensions divided by the root of their mean square.

    >>> F.rms_norm(rl.tensor([[3.0, 3.0]]), [2]).round(decimals=3)
    tensor([[1., 1.]])
    """
    return run_name("rms_norm", input, tuple(normalized_shape), weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Channels, a group at a time, made to have mean 0 and variance 1.

    >>> F.group_norm(rl.tensor([[[1.0], [3.0]]]), 1).flatten().round(decimals=3)
    tensor([-1.,  1.])
    """
    check(input.ndim >= 2, f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    shape = input.shape
    _check_several((shape[0] * shape[1] // max(num_groups, 1), num_groups, *shape[2:]))
    return run_name("group_norm", input, num_groups, weight, bias, eps, True)


def _check_several(shape: Sequence[int]) -> None:
    """One value has no variance."""
    count = shape[0] * numel(shape[2:])
    check(
        count != 1,
        f"Expected more than 1 value per channel when training, got input size {list(shape)}",
        ValueError,
    )


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel made to have mean 0 and variance 1 over the batch, or by running statistics.

    >>> F.batch_norm(rl.tensor([[1.0], [3.0]]), None, None, training=True).round(decimals=3)
    tensor([[-1.],
            [ 1.]])
    """
    if training:
        _check_several(input.shape)
    check(
        not training or eps > 0, f"batch_norm eps must be positive during training, but got {eps}", ValueError
    )
    check(eps >= 0, f"batch_norm eps must be non-negative, but got {eps}", ValueError)
    return run_name(
        "batch_norm", input, weight, bias, running_mean, running_var, training, momentum, eps, True
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample made to have mean 0 and variance 1.

    >>> F.instance_norm(rl.tensor([[[1.0, 3.0]]])).round(decimals=3)
    tensor([[[-1.,  1.]]])
    """
    if use_input_stats:
        check(
            numel(input.shape[2:]) != 1,
            f"Expected more than 1 spatial element when training, got input size {list(input.shape)}",
            ValueError,
        )
    return run_name(
        "instance_norm", input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Each channel divided by a power of the mean square over its `size` neighbours.

    >>> F.local_response_norm(rl.ones(1, 4, 3), 2).shape
    rushlight.Size([1, 4, 3])
    """
    check(
        input.ndim >= 3,
        f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)",
        ValueError,
    )
    if input.numel() == 0:
        return input
    spatial = [0] * (2 * (input.ndim - 2))
    squares = input * input
    if input.ndim > 3 and autocast_key() is not None:
        squares = in_single(squares)  # as averages of boxes are computed, which PyTorch makes of it
    padded = run_name("constant_pad_nd", squares, (*spatial, size // 2, (size - 1) // 2), 0)
    total = padded.narrow(1, 0, input.shape[1])
    for shift in range(1, size):
        total = total + padded.narrow(1, shift, input.shape[1])
    whole = input.dtype.category <= Category.INTEGRAL
    mean = run_name("div.Scalar_mode", total, size, "trunc") if whole else total / size
    return input / (mean * alpha + k).pow(beta)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Vectors along `dim` divided by their p-norm, or by `eps` where that is larger.

    >>> F.normalize(rl.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    length: Any = input.norm(p, dim, keepdim=True).clamp_min(eps)
    if out is None:
        return input / length.expand_as(input)
    return call_out(REGISTRY["div.Tensor"], (input, length.expand_as(input)), out)

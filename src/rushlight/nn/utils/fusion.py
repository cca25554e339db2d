"""A convolution or linear layer and the batch normalization after it, as one layer. For evaluation."""

from __future__ import annotations

import copy
from typing import Any

from ..._api.link import API
from ...core.errors import check
from ...core.tensor import Tensor
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

functions: Any = API.functions[""]


def _fused_copy(layer: Any, bn: Any) -> Any:
    check(not (layer.training or bn.training), "Fusion only for eval!", AssertionError)
    check(
        bn.running_mean is not None and bn.running_var is not None,
        "bn.running_mean and bn.running_var must not be None",
        AssertionError,
    )
    return copy.deepcopy(layer)


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of `conv` that does what `conv` and then `bn` do.

    >>> nn.utils.fuse_conv_bn_eval(nn.Conv2d(2, 3, 2).eval(), nn.BatchNorm2d(3).eval())
    Conv2d(2, 3, kernel_size=(2, 2), stride=(1, 1))
    """
    fused = _fused_copy(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of the convolution that does both.

    >>> mean, variance = rl.zeros(1), rl.ones(1)
    >>> weight, bias = nn.utils.fuse_conv_bn_weights(
    ... rl.ones(1, 1, 1, 1), None, mean, variance, 0.0, rl.tensor([2.0]), rl.zeros(1))
    >>> weight.flatten()
    tensor([2.])
    """
    zeros = functions["zeros_like"](bn_rm)
    bias = zeros if conv_b is None else conv_b
    dtype = conv_w.dtype if conv_b is None else conv_b.dtype
    scale = functions["rsqrt"](bn_rv + bn_eps)
    scale = scale if bn_w is None else bn_w * scale
    shape = [1, -1] if transpose else [-1, 1]
    weight = (conv_w * scale.reshape(shape + [1] * (conv_w.ndim - 2))).to(conv_w.dtype)
    shifted = ((bias - bn_rm) * scale + (zeros if bn_b is None else bn_b)).to(dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(shifted, bias.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of `linear` that does what `linear` and then `bn` do.

    >>> nn.utils.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval())
    Linear(in_features=2, out_features=3, bias=True)
    """
    fused = _fused_copy(linear, bn)
    check(
        bn.num_features in (linear.out_features, 1),
        "To fuse, linear.out_features == bn.num_features or "
        f"bn.num_features == 1, got linear.out_features={linear.out_features} and "
        f"bn.num_features={bn.num_features}",
        AssertionError,
    )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of the linear layer that does both.

    >>> mean, variance = rl.zeros(1), rl.ones(1)
    >>> weight, bias = nn.utils.fuse_linear_bn_weights(
    ... rl.ones(1, 1), None, mean, variance, 0.0, rl.tensor([2.0]), rl.zeros(1))
    >>> weight
    Parameter containing:
    tensor([[2.]])
    """
    bias = functions["zeros_like"](bn_rm) if linear_b is None else linear_b
    dtype = linear_w.dtype if linear_b is None else linear_b.dtype
    scale = bn_w * functions["rsqrt"](bn_rv + bn_eps)
    weight = linear_w * scale.unsqueeze(-1).to(linear_w.dtype)
    return (
        Parameter(weight, linear_w.requires_grad),
        Parameter(((bias - bn_rm) * scale + bn_b).to(dtype), bias.requires_grad),
    )

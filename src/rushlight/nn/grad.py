"""Gradients of convolutions as functions, for whoever computes them without autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from ._pooling import _numbers

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(
    rank: int, grad_output: Tensor, input: Tensor, weight: Tensor, options: tuple[Any, ...], which: int
) -> Tensor:
    stride, padding, dilation, groups = options
    mask = tuple(i == which for i in range(3))
    result = run_name(
        "convolution_backward",
        grad_output,
        input,
        weight,
        None,
        _numbers(stride, rank),
        _numbers(padding, rank),
        _numbers(dilation, rank),
        False,
        (0,) * rank,
        groups,
        mask,
    )
    found: Tensor = result[which]
    return found


def _input(
    rank: int, input_size: Sequence[int], weight: Tensor, grad_output: Tensor, *options: Any
) -> Tensor:
    shape_only = grad_output.new_empty(1).expand(tuple(input_size))
    return _gradient(rank, grad_output, shape_only, weight, options, 0)


def _weight(
    rank: int, input: Tensor, weight_size: Sequence[int], grad_output: Tensor, *options: Any
) -> Tensor:
    shape_only = grad_output.new_empty(1).expand(tuple(weight_size))
    return _gradient(rank, grad_output, input, shape_only, options, 1)


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv1d by its input, of which only the size is needed."""
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of conv1d by its weight, of which only the size is needed."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)

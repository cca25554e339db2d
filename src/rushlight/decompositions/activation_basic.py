"""Softmax and its relatives in terms of exp, amax and sum."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.registry import decomposition
from ..core.tensor import Tensor
from .reduction_basic import wide


def softmax_dtype(self: Tensor, half_to_float: bool) -> DType:
    return DTYPES["float32"] if half_to_float else self.dtype


def below_largest(self: Tensor, dim: int) -> Tensor:
    x = wide(self)
    return x if self.numel() == 0 else x - run_name("amax", x, (dim,), True)


@decomposition("_softmax")
def softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    powers = below_largest(self, dim).exp()
    return (powers / powers.sum((dim,), True)).to(softmax_dtype(self, half_to_float))


@decomposition("_log_softmax")
def log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    x = below_largest(self, dim)
    return (x - x.exp().sum((dim,), True).log()).to(softmax_dtype(self, half_to_float))


@decomposition("_softmax_backward_data")
def softmax_backward(grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType) -> Tensor:
    product = wide(grad_output) * wide(output)
    return (product - wide(output) * product.sum((dim,), True)).to(input_dtype)


@decomposition("_log_softmax_backward_data")
def log_softmax_backward(grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType) -> Tensor:
    grad = wide(grad_output)
    return (grad - wide(output).exp() * grad.sum((dim,), True)).to(input_dtype)

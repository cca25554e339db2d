"""Products, samplers and layouts that PyTorch names after a library, by the generic operators.

A layout of another library is no layout here: tensors stay dense, and what would convert them copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.registry import FUNCTION, INTERNAL, METHOD, Api, composite
from ..core.tensor import Tensor
from .matmul import linear_backward

# Linear layers.


@composite("mkldnn_linear(Tensor self, Tensor weight, Tensor? bias=None) -> Tensor", api=INTERNAL)
def mkldnn_linear(self: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return run_name("linear", self, weight, bias)


@composite(
    "mkldnn_linear_backward(Tensor self, Tensor grad_output, Tensor weight, bool[3] output_mask) -> (Tensor, "
    "Tensor, Tensor)",
    api=INTERNAL,
)
def mkldnn_linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    return linear_backward(self, grad_output, weight, output_mask)


@composite(
    "mkldnn_linear_backward_input(int[] input_size, Tensor grad_output, Tensor weight) -> Tensor",
    api=INTERNAL,
)
def mkldnn_linear_backward_input(input_size: Sequence[int], grad_output: Tensor, weight: Tensor) -> Tensor:
    return (grad_output @ weight).reshape(input_size)


@composite(
    "mkldnn_linear_backward_weights(Tensor grad_output, Tensor input, Tensor weight, bool bias_defined) -> "
    "(Tensor, Tensor)",
    api=FUNCTION,
)
def mkldnn_linear_backward_weights(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_defined: bool
) -> tuple[Tensor | None, ...]:
    return linear_backward(input, grad_output, weight, (False, True, bias_defined))[1:]


# Layouts and memory.


@composite("_mkldnn_reshape(Tensor self, int[] shape) -> Tensor", api=FUNCTION)
def mkldnn_reshape(self: Tensor, shape: Sequence[int]) -> Tensor:
    return run_name("_reshape_copy", self, shape)


@composite(
    "_mkldnn_transpose(Tensor self, int dim0, int dim1) -> Tensor", api=FUNCTION | Api.INPLACE_FUNCTION
)
def mkldnn_transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    return self.transpose(dim0, dim1).clone()


@composite("to_mkldnn(Tensor self, ScalarType? dtype=None) -> Tensor", api=METHOD)
def to_mkldnn(self: Tensor, dtype: Any) -> Tensor:
    return run_name("_to_copy", self, dtype, None, None, None, False, None)


@composite("to_mkldnn_backward(Tensor grad, Tensor input) -> Tensor", api=INTERNAL)
def to_mkldnn_backward(grad: Tensor, input: Tensor) -> Tensor:
    return grad.to(input.dtype)


@composite("_pin_memory(Tensor self, Device? device=None) -> Tensor", api=INTERNAL)
def _pin_memory(self: Tensor) -> Tensor:
    """All memory is the processor's own, where pages need not be pinned."""
    return self.clone()


# Samplers.


@composite("cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output", api=FUNCTION)
def cudnn_grid_sampler(self: Tensor, grid: Tensor) -> Tensor:
    return run_name("grid_sampler_2d", self, grid, 0, 0, True)


@composite(
    "cudnn_grid_sampler_backward(Tensor self, Tensor grid, Tensor grad_output) -> (Tensor grad_self, Tensor "
    "grad_grid)",
    api=INTERNAL,
)
def cudnn_grid_sampler_backward(self: Tensor, grid: Tensor, grad_output: Tensor) -> tuple[Tensor, Tensor]:
    return run_name("grid_sampler_2d_backward", grad_output, self, grid, 0, 0, True, (True, True))


@composite(
    "cudnn_affine_grid_generator(Tensor theta, int N, int C, int H, int W) -> Tensor grid", api=FUNCTION
)
def cudnn_affine_grid_generator(theta: Tensor, N: int, C: int, H: int, W: int) -> Tensor:
    return run_name("affine_grid_generator", theta, (N, C, H, W), True)


@composite(
    "cudnn_affine_grid_generator_backward(Tensor grad, int N, int C, int H, int W) -> Tensor grad_theta",
    api=INTERNAL,
)
def cudnn_affine_grid_generator_backward(grad: Tensor, N: int, C: int, H: int, W: int) -> Tensor:
    return run_name("affine_grid_generator_backward", grad, (N, C, H, W), True)

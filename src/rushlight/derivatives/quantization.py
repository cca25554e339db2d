"""Derivatives of fake quantization: the gradient passes straight through where the value was in range.

Rounding has the derivative zero almost everywhere; what is declared here is the estimate that training with
fake quantization needs, on purpose, and the same as PyTorch's.
"""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import NOT_DIFFERENTIABLE, derivative


def through(grad: Tensor, mask: Tensor) -> Tensor:
    return run_name("fake_quantize_per_tensor_affine_cachemask_backward", grad, mask)


derivative("fake_quantize_per_tensor_affine_cachemask",
           self=lambda grad, result1: through(grad, result1),
           differentiable_outputs=(0,), result=lambda self_t, result1: through(self_t, result1))
derivative("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
           self=lambda grad, result1: through(grad, result1),
           scale=NOT_DIFFERENTIABLE, zero_point=NOT_DIFFERENTIABLE, fake_quant_enabled=NOT_DIFFERENTIABLE,
           differentiable_outputs=(0,), result=lambda self_t, result1: through(self_t, result1))
derivative("fake_quantize_per_channel_affine_cachemask",
           self=lambda grad, result1: through(grad, result1),
           scale=NOT_DIFFERENTIABLE, zero_point=NOT_DIFFERENTIABLE,
           differentiable_outputs=(0,), result=lambda self_t, result1: through(self_t, result1))
derivative("_fake_quantize_learnable_per_tensor_affine", ("self", "scale", "zero_point"),
           lambda grad, self, scale, zero_point, quant_min, quant_max, grad_factor:
               run_name("_fake_quantize_learnable_per_tensor_affine_backward", grad, self, scale, zero_point,
                        quant_min, quant_max, grad_factor))
derivative("_fake_quantize_learnable_per_channel_affine", ("self", "scale", "zero_point"),
           lambda grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor:
               run_name("_fake_quantize_learnable_per_channel_affine_backward", grad, self, scale, zero_point,
                        axis, quant_min, quant_max, grad_factor))

# Quantized tensors have no gradients.
derivative("quantize_per_tensor", self=NOT_DIFFERENTIABLE)
derivative("quantize_per_tensor.tensor_qparams", self=NOT_DIFFERENTIABLE, scale=NOT_DIFFERENTIABLE,
           zero_point=NOT_DIFFERENTIABLE)
derivative("quantize_per_tensor.tensors", tensors=NOT_DIFFERENTIABLE, scales=NOT_DIFFERENTIABLE,
           zero_points=NOT_DIFFERENTIABLE)
derivative("quantize_per_channel", self=NOT_DIFFERENTIABLE, scales=NOT_DIFFERENTIABLE,
           zero_points=NOT_DIFFERENTIABLE)
derivative("_make_per_tensor_quantized_tensor", self=NOT_DIFFERENTIABLE)
derivative("_make_per_channel_quantized_tensor", self=NOT_DIFFERENTIABLE, scale=NOT_DIFFERENTIABLE,
           zero_point=NOT_DIFFERENTIABLE)
derivative("_empty_per_channel_affine_quantized", scales=NOT_DIFFERENTIABLE, zero_points=NOT_DIFFERENTIABLE)
derivative("empty_quantized", qtensor=NOT_DIFFERENTIABLE)
derivative("choose_qparams_optimized", input=NOT_DIFFERENTIABLE)
for _name in ("int_repr", "q_scale", "q_zero_point", "q_per_channel_scales", "q_per_channel_zero_points",
              "q_per_channel_axis", "qscheme"):
    derivative(_name, self=NOT_DIFFERENTIABLE)

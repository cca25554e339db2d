"""Derivatives of convolutions.

A convolution is linear in its input and in its weight, and both gradients are linear in all that they take;
so every derivative of any order is again a convolution or its backward operator. `convolution_backward` does
not conjugate; the formulas do.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import AUTO_LINEAR, derivative
from .helpers import conj

Settings = tuple[Any, ...]
Mask = tuple[bool, bool, bool]


def backward(grad: Tensor, input: Tensor, weight: Tensor, settings: Settings, mask: Mask) -> tuple[Any, ...]:
    sizes = (grad.shape[1],) if mask[2] else None
    found = run_name("convolution_backward", grad, input, weight, sizes, *settings, mask)
    return tuple(f if asked else None for f, asked in zip(found, mask, strict=True))


def tangent(input: Tensor, weight: Tensor, input_t: Tensor, weight_t: Tensor, bias_t: Any,
            settings: Settings) -> Tensor:
    return (run_name("convolution", input_t, weight, bias_t, *settings)
            + run_name("convolution", input, weight_t, None, *settings))


def backward_gradients(grads: Any, grad_output: Tensor, input: Tensor, weight: Tensor, settings: Settings,
                       mask: Mask, needs: Mask) -> tuple[Any, ...]:
    """Gradients of grad_output, input and weight."""
    given = [g if asked else None for g, asked in zip(grads, mask, strict=True)]
    to_grad, to_weight, to_input = run_name(
        "_convolution_double_backward", *given, conj(grad_output), conj(weight), conj(input), *settings,
        (needs[0], needs[2], needs[1]))
    return to_grad, to_input, to_weight


def backward_tangents(grad: Tensor, input: Tensor, weight: Tensor, grad_t: Tensor, input_t: Tensor,
                      weight_t: Tensor, settings: Settings, mask: Mask) -> tuple[Any, ...]:
    by_grad = backward(grad_t, input, weight, settings, mask)
    by_rest = backward(grad, input_t, weight_t, settings, (mask[0], mask[1], False))
    return tuple(a if b is None else a + b for a, b in zip(by_grad, by_rest, strict=True))


derivative("convolution", ("input", "weight", "bias"),
           lambda grad, input, weight, stride, padding, dilation, transposed, output_padding, groups, needs:
               backward(grad, conj(input), conj(weight),
                        (stride, padding, dilation, transposed, output_padding, groups), tuple(needs)),
           result=lambda input_p, weight_p, input_t, weight_t, bias_t, stride, padding, dilation, transposed,
           output_padding, groups:
               tangent(input_p, weight_p, input_t, weight_t, bias_t,
                       (stride, padding, dilation, transposed, output_padding, groups)))

derivative("convolution_backward", ("grad_output", "input", "weight"),
           lambda grads, grad_output, input, weight, stride, padding, dilation, transposed, output_padding,
           groups, output_mask, needs:
               backward_gradients(grads, grad_output, input, weight,
                                  (stride, padding, dilation, transposed, output_padding, groups),
                                  output_mask, needs),
           result=lambda grad_output_p, input_p, weight_p, grad_output_t, input_t, weight_t, stride, padding,
           dilation, transposed, output_padding, groups, output_mask:
               backward_tangents(grad_output_p, input_p, weight_p, grad_output_t, input_t, weight_t,
                                 (stride, padding, dilation, transposed, output_padding, groups),
                                 output_mask))

derivative("im2col",
           self=lambda grad, self_shape, kernel_size, dilation, padding, stride:
               run_name("col2im", grad, tuple(self_shape[-2:]), kernel_size, dilation, padding, stride),
           result=AUTO_LINEAR)
derivative("col2im",
           self=lambda grad, kernel_size, dilation, padding, stride:
               run_name("im2col", grad, kernel_size, dilation, padding, stride),
           result=AUTO_LINEAR)

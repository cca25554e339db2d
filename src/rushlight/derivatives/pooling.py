"""Derivatives of pooling: means are linear; maxima are selections by the indices that were found."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..decompositions.pooling import at_places, to_places
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative


def _declare(rank: int) -> None:
    derivative(f"max_pool{rank}d_with_indices",
               self=lambda grad0, self, result1, kernel_size, stride, padding, dilation, ceil_mode:
                   run_name(f"_max_pool{rank}d_gradient", grad0, result1, self, kernel_size, stride, padding,
                            dilation, ceil_mode),
               result0=lambda self_t, result1: at_places(self_t, result1, rank))
    derivative(f"adaptive_max_pool{rank}d",
               self=lambda grad0, self, result1:
                   run_name(f"adaptive_max_pool{rank}d_backward", grad0, self, result1),
               result0=lambda self_t, result1: at_places(self_t, result1, rank))
    derivative(f"fractional_max_pool{rank}d",
               self=lambda grad0, self, result1: to_places(grad0, result1, self, rank),
               random_samples=NOT_DIFFERENTIABLE,
               result0=lambda self_t, result1: at_places(self_t, result1, rank))
    derivative([f"max_pool{rank}d_with_indices_backward", f"adaptive_max_pool{rank}d_backward",
                f"fractional_max_pool{rank}d_backward"],
               grad_output=lambda grad, indices: at_places(grad, indices, rank),
               self=lambda grad: None,  # only its shape matters
               indices=NOT_DIFFERENTIABLE,
               result=lambda grad_output_t, self_p, indices: to_places(grad_output_t, indices, self_p, rank))
    derivative(f"avg_pool{rank}d",
               self=lambda grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
               divisor_override:
                   run_name(f"avg_pool{rank}d_backward", grad, self, kernel_size, stride, padding, ceil_mode,
                            count_include_pad, divisor_override),
               result=AUTO_LINEAR)
    derivative(f"_adaptive_avg_pool{rank}d",
               self=lambda grad, self: run_name(f"_adaptive_avg_pool{rank}d_backward", grad, self),
               result=AUTO_LINEAR)
    derivative(f"avg_pool{rank}d_backward",
               grad_output=lambda grad, kernel_size, stride, padding, ceil_mode, count_include_pad,
               divisor_override:
                   run_name(f"avg_pool{rank}d", grad, kernel_size, stride, padding, ceil_mode,
                            count_include_pad, divisor_override),
               self=lambda grad: None,
               result=lambda grad_output_t, self_p, kernel_size, stride, padding, ceil_mode,
               count_include_pad, divisor_override:
                   run_name(f"avg_pool{rank}d_backward", grad_output_t, self_p, kernel_size, stride, padding,
                            ceil_mode, count_include_pad, divisor_override))
    derivative(f"_adaptive_avg_pool{rank}d_backward",
               grad_output=lambda grad, grad_output_shape:
                   run_name(f"_adaptive_avg_pool{rank}d", grad, tuple(grad_output_shape[-rank:])),
               self=lambda grad: None,
               result=lambda grad_output_t, self_p:
                   run_name(f"_adaptive_avg_pool{rank}d_backward", grad_output_t, self_p))


for _rank in (2, 3):
    _declare(_rank)

"""Derivatives of packed sequences. The networks themselves differentiate through their bodies."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import NOT_DIFFERENTIABLE, derivative


def packed(padded: Tensor, lengths: Tensor, batch_first: bool) -> Tensor:
    return run_name("_pack_padded_sequence", padded, lengths, batch_first)[0]


def packed_again(grad: Tensor, batch_sizes: Tensor, batch_first: bool) -> Tensor:
    """The elements of `grad` at the places that packed elements have come to."""
    batch = grad.shape[0 if batch_first else 1]
    places = run_name("arange", batch, batch_sizes.dtype, None, batch_sizes.device, None)
    return packed(grad, (batch_sizes.unsqueeze(1) > places).sum(0), batch_first)


derivative("_pack_padded_sequence", lengths=NOT_DIFFERENTIABLE,
           input=lambda grad, input_shape, result1, batch_first:
               run_name("_pack_padded_sequence_backward", grad, input_shape, result1, batch_first),
           result0=lambda input_t, lengths, batch_first: packed(input_t, lengths, batch_first))
derivative("_pack_padded_sequence_backward", batch_sizes=NOT_DIFFERENTIABLE, grad=packed_again,
           result=lambda grad_t, input_size, batch_sizes, batch_first:
               run_name("_pack_padded_sequence_backward", grad_t, input_size, batch_sizes, batch_first))
derivative("_pad_packed_sequence", batch_sizes=NOT_DIFFERENTIABLE,
           data=packed_again,
           result0=lambda data_t, batch_sizes, batch_first, total_length:
               run_name("_pad_packed_sequence", data_t, batch_sizes, batch_first, 0, total_length)[0])

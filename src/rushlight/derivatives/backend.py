"""The derivative of a layer of recurrent cells. Others named after libraries differentiate through bodies."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.modes import MODES
from ..core.tensor import Tensor
from .declare import derivative


def layer_backward(grads: Any, tensors: tuple[Tensor, ...], workspace: Tensor, mode: int,
                   settings: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of the input, the parameters and the first states. A gradient that is recorded itself is
    computed from those: the workspace does not tell what it was made of. Results are not asked for, and so may be
    written to."""
    reverse, batch_sizes, hidden_size, num_layers, has_biases, bidirectional, batch_first, train = settings
    kept = tensors[0].new_empty((0,)) if MODES.grad else workspace
    return run_name("mkldnn_rnn_layer_backward", *tensors, kept, kept, kept, *grads[:3], reverse, mode,
                    hidden_size, num_layers, has_biases, train, bidirectional, batch_sizes, batch_first, kept)


derivative("mkldnn_rnn_layer", ("input", "weight0", "weight1", "weight2", "weight3", "hx_", "cx_"),
           lambda grads, input, weight0, weight1, weight2, weight3, hx_, cx_, reverse, batch_sizes, mode,
           hidden_size, num_layers, has_biases, bidirectional, batch_first, train, result3:
               layer_backward(grads, (input, weight0, weight1, weight2, weight3, hx_, cx_), result3, mode,
                              (reverse, batch_sizes, hidden_size, num_layers, has_biases, bidirectional,
                               batch_first, train)),
           differentiable_outputs=(0, 1, 2))

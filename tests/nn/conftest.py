"""From torch's values to ours, for the tests of modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import rushlight as rl
from rushlight.testing.translate import Translator

_translate = Translator(rl)


def ours(value: Any) -> Any:
    """The counterpart of tensors, dtypes, functions, modules, and containers of them."""
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return rl.nn.utils.rnn.PackedSequence(*[ours(item) for item in value])
    if isinstance(value, torch.Tensor):
        data = value.detach().resolve_conj().clone()
        if data.dtype is torch.bfloat16:
            made = rl.from_numpy(data.float().numpy()).bfloat16()
        else:
            made = rl.from_numpy(np.array(data.numpy()))
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, tuple | list):
        return type(value)(ours(item) for item in value)
    if isinstance(value, dict):
        return {key: ours(item) for key, item in value.items()}
    if isinstance(value, torch.nn.TransformerEncoderLayer | torch.nn.TransformerDecoderLayer):
        return getattr(rl.nn, type(value).__name__)(
            value.linear1.in_features,
            value.self_attn.num_heads,
            value.linear1.out_features,
            value.dropout.p,
            _translate(value.activation),
            value.norm1.eps,
            value.self_attn.batch_first,
            value.norm_first,
            value.linear1.bias is not None,
        )
    if isinstance(value, torch.nn.LayerNorm):
        return rl.nn.LayerNorm(value.normalized_shape, value.eps)
    return _translate(value)


def theirs(value: Any) -> Any:
    """Tensors, and containers of them, as torch's."""
    if isinstance(value, rl.nn.utils.rnn.PackedSequence):
        return torch.nn.utils.rnn.PackedSequence(*[theirs(item) for item in value])
    if isinstance(value, rl.Tensor):
        return torch.from_numpy(np.array(value.detach().resolve_conj().numpy()))
    if isinstance(value, tuple | list):
        return tuple(theirs(item) for item in value)
    return value

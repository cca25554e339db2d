"""Masks of causal attention for sequences of different lengths: which corner the diagonal starts from."""

from __future__ import annotations

import enum
from typing import Any

from ..._api.link import API
from ...core.tensor import Tensor, refuse_overrides

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]

_functions = API.functions[""]


class CausalVariant(enum.IntEnum):
    """A query sees keys up to its own number, counted from the first of both or from the last of both.

    >>> rl.nn.attention.bias.CausalVariant.UPPER_LEFT.name
    'UPPER_LEFT'
    """

    UPPER_LEFT = enum.auto()
    LOWER_RIGHT = enum.auto()


class CausalBias(Tensor):
    """A mask of (seq_len_q, seq_len_kv), True where a query sees a key; for `attn_mask`.

    >>> type(rl.nn.attention.bias.causal_upper_left(2, 3)).__name__
    'CausalBias'
    """

    __torch_function__ = staticmethod(refuse_overrides)
    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, but it is {variant!r}")
        shift = 0 if variant is CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        rows, columns = _functions["arange"](seq_len_q), _functions["arange"](seq_len_kv)
        mask: Any = columns <= rows.unsqueeze(1) + shift
        mask.__class__ = cls
        mask.variant, mask.seq_len_q, mask.seq_len_kv = variant, seq_len_q, seq_len_kv
        return mask


def _size(size: tuple[int, ...]) -> tuple[int, ...]:
    if len(size) != 2:
        raise AssertionError("a causal mask has 2 dimensions")
    return size


def causal_upper_left(*size: int) -> CausalBias:
    """The mask of size (queries, keys) in which the first query sees the first key alone.

    >>> q, k = rl.ones(1, 1, 2, 4), rl.ones(1, 1, 3, 4)
    >>> mask = rl.nn.attention.bias.causal_upper_left(2, 3)
    >>> F.scaled_dot_product_attention(q, k, k, attn_mask=mask).shape
    rushlight.Size([1, 1, 2, 4])
    """
    rows, columns = _size(size)
    return CausalBias(CausalVariant.UPPER_LEFT, rows, columns)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask of size (queries, keys) in which the last query sees all keys.

    >>> q, k = rl.ones(1, 1, 2, 4), rl.ones(1, 1, 3, 4)
    >>> mask = rl.nn.attention.bias.causal_lower_right(2, 3)
    >>> F.scaled_dot_product_attention(q, k, k, attn_mask=mask).shape
    rushlight.Size([1, 1, 2, 4])
    """
    rows, columns = _size(size)
    return CausalBias(CausalVariant.LOWER_RIGHT, rows, columns)

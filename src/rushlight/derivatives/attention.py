"""Derivatives of attention in blocks; the form with all weights at once differentiates through its body."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..decompositions.attention import attention_gradients
from .declare import NOT_DIFFERENTIABLE, derivative


def flash_attention(
    grads: tuple[Tensor | None, Tensor | None],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    result0: Tensor,
    result1: Tensor,
    is_causal: bool,
    attn_mask: Tensor | None,
    scale: float | None,
    needs: tuple[bool, ...],
) -> tuple[Any, ...]:
    grad = grads[0] if grads[0] is not None else result0.new_zeros(result0.shape)
    found = attention_gradients(
        grad, grads[1], query, key, value, result0, result1, is_causal, attn_mask, scale
    )
    return tuple(g if needed else None for g, needed in zip(found, needs, strict=True))


derivative(
    "_scaled_dot_product_flash_attention_for_cpu",
    ("query", "key", "value"),
    flash_attention,
    attn_mask=NOT_DIFFERENTIABLE,
)

"""Attention that PyTorch names after a library, forwards and backwards, by the generic form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import INTERNAL, composite
from ..core.tensor import Tensor
from .attention import attention_gradients, block_scores, scale_of, weights_of
from .backend_names_rest import attention_with_normalizer, no_seed

_NINE = (
    "(Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, "
    "Tensor "
    "philox_seed, Tensor philox_offset, Tensor debug_attn_mask)"
)
_SEQUENCES = "Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k"
_FOUND = "Tensor grad_out, Tensor query, Tensor key, Tensor value"


@composite(
    "_scaled_dot_product_attention_math_for_mps(Tensor query, Tensor key, Tensor value, Tensor? "
    "attn_mask=None, "
    "float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool "
    "enable_gqa=False) -> (Tensor, Tensor)",
    api=INTERNAL,
)
def attention_math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    dropout_mask: Tensor | None,
    scale: float | None,
    enable_gqa: bool,
) -> tuple[Tensor, Tensor]:
    return run_name(
        "_scaled_dot_product_attention_math",
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        dropout_mask,
        scale,
        enable_gqa,
    )


@composite(
    "_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
    "compute_log_sumexp, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? "
    f"scale=None) -> {_NINE}",
    "_scaled_dot_product_fused_attention_overrideable(Tensor query, Tensor key, Tensor value, Tensor? "
    "attn_bias=None, float dropout_p=0., bool is_causal=False, bool return_debug_mask=False, *, float? "
    f"scale=None) -> {_NINE}",
    api=INTERNAL,
)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Any, ...]:
    output, normalizer = attention_with_normalizer(query, key, value, attn_bias, dropout_p, is_causal, scale)
    none = query.new_empty((0,))
    return (
        output,
        normalizer,
        none,
        none,
        query.shape[-2],
        key.shape[-2],
        no_seed(query),
        no_seed(query),
        none,
    )


# Backwards.


def gradients(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, ...]:
    check(
        dropout_p == 0.0,
        "the backward of attention does not know which weights dropout kept; differentiate the "
        "forward pass instead",
    )
    return attention_gradients(grad_out, None, query, key, value, out, logsumexp, is_causal, bias, scale)


def bias_gradient(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    """A bias is added to the scores, so it has their gradient, summed where it is repeated."""
    scores, _ = block_scores(query, key, bias, scale_of(query, scale), 0, query.shape[-2], False)
    weights = weights_of(scores, logsumexp)
    if is_causal:
        weights = weights.tril()
    change = weights * (grad_out.matmul(value.mT) - (grad_out * out).sum(-1, True))
    return change.sum_to_size(bias.shape)


@composite(
    f"_scaled_dot_product_flash_attention_backward({_FOUND}, Tensor out, Tensor logsumexp, {_SEQUENCES}, "
    f"float "
    "dropout_p, bool is_causal, Tensor philox_seed, Tensor philox_offset, *, float? scale=None) -> (Tensor "
    "grad_query, Tensor grad_key, Tensor grad_value)",
    api=INTERNAL,
)
def flash_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, ...]:
    return gradients(grad_out, query, key, value, None, out, logsumexp, dropout_p, is_causal, scale)


@composite(
    f"_scaled_dot_product_cudnn_attention_backward({_FOUND}, Tensor out, Tensor logsumexp, Tensor "
    f"philox_seed, "
    f"Tensor philox_offset, Tensor attn_bias, {_SEQUENCES}, float dropout_p, bool is_causal, *, float? "
    "scale=None) -> (Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def cudnn_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    attn_bias: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, ...]:
    return gradients(
        grad_out, query, key, value, given(attn_bias), out, logsumexp, dropout_p, is_causal, scale
    )


def given(bias: Tensor | None) -> Tensor | None:
    """No bias is None, or a tensor without elements."""
    return None if bias is None or bias.numel() == 0 else bias


def some_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    wanted: Sequence[bool],
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor | None, ...]:
    """The gradients that are `wanted`, that of the bias among them."""
    bias = given(attn_bias)
    found = gradients(grad, query, key, value, bias, out, logsumexp, dropout_p, is_causal, scale)
    of_bias = None
    if bias is not None and wanted[3]:
        of_bias = bias_gradient(grad, query, key, value, bias, out, logsumexp, is_causal, scale)
    return (*[t if asked else None for t, asked in zip(found, wanted, strict=False)], of_bias)


@composite(
    "_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, Tensor query, Tensor key, Tensor "
    "value, "
    "Tensor attn_bias, Tensor out, Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, float "
    "dropout_p, bool[4] grad_input_mask, bool is_causal=False, *, float? scale=None) -> (Tensor, Tensor, "
    "Tensor, Tensor)",
    api=INTERNAL,
)
def efficient_attention_backward(
    grad_out_: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    grad_input_mask: Sequence[bool],
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor | None, ...]:
    return some_gradients(
        grad_out_, query, key, value, attn_bias, out, logsumexp, dropout_p, grad_input_mask, is_causal, scale
    )


@composite(
    f"_scaled_dot_product_fused_attention_overrideable_backward({_FOUND}, Tensor attn_bias, bool[4] "
    f"grad_input_mask, Tensor out, Tensor logsumexp, {_SEQUENCES}, float dropout_p, bool is_causal, Tensor "
    "philox_seed, Tensor philox_offset, *, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor "
    "grad_value, Tensor grad_attn_bias)",
    api=INTERNAL,
)
def fused_attention_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    grad_input_mask: Sequence[bool],
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor | None, ...]:
    return some_gradients(
        grad_out, query, key, value, attn_bias, out, logsumexp, dropout_p, grad_input_mask, is_causal, scale
    )

"""Attention that PyTorch names after a library, forwards and backwards, by the generic form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import INTERNAL, composite
from ..core.tensor import Tensor
from .attention import attention_gradients, block_scores, causal_mask, scale_of, weights_of

_NINE = (
    "(Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, "
    "Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)"
)
_SEQUENCES = "Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k"
_FOUND = "Tensor grad_out, Tensor query, Tensor key, Tensor value"


# Forwards. A seed and an offset belong to dropout on a device and are zeros here.


def attention_with_normalizer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of each row's normalizer, which no gradient flows through."""
    if dropout_p == 0.0 and bias is None:
        output, normalizer = run_name(
            "_scaled_dot_product_flash_attention_for_cpu", query, key, value, 0.0, is_causal, None, scale
        )
        return output, normalizer.detach()
    mask = causal_mask(query, query.shape[-2], key.shape[-2]) if is_causal else None
    scores = (query * scale_of(query, scale)) @ key.mT
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else scores.masked_fill(mask.logical_not(), float("-inf"))
    weights = run_name("_safe_softmax", scores, -1, None)
    weights = weights if dropout_p == 0.0 else run_name("dropout", weights, dropout_p, True)
    return weights @ value, run_name("logsumexp", scores.detach(), (-1,), False)


def no_seed(like: Tensor) -> Tensor:
    return like.new_zeros((), dtype=DTYPES["int64"])


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


@composite(
    "_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool "
    "is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor "
    "logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor "
    "unused, Tensor debug_attn_mask)",
    api=INTERNAL,
)
def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float, is_causal: bool, scale: float | None
) -> tuple[Any, ...]:
    return attention(query, key, value, None, dropout_p, is_causal, scale)


@composite(
    "_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
    "compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, "
    "Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)",
    api=INTERNAL,
)
def efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, ...]:
    output, normalizer = attention_with_normalizer(query, key, value, attn_bias, dropout_p, is_causal, scale)
    kept = normalizer if compute_log_sumexp else normalizer.new_empty((*normalizer.shape[:-1], 0))
    return output, kept, no_seed(query), no_seed(query)


@composite(
    "_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, "
    "SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? "
    "scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, "
    "Tensor? alibi_slopes=None, Tensor? block_table=None, int? num_splits=None) -> (Tensor output, Tensor "
    "softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
    api=INTERNAL,
)
def flash_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    window_size_left: int | None,
    window_size_right: int | None,
    seqused_k: Tensor | None,
    alibi_slopes: Tensor | None,
    block_table: Tensor | None,
) -> tuple[Tensor, ...]:
    """Heads come after the rows; with `cum_seq_q`, sequences follow each other along the rows."""
    named = {
        "window_size_left": window_size_left,
        "window_size_right": window_size_right,
        "seqused_k": seqused_k,
        "alibi_slopes": alibi_slopes,
        "block_table": block_table,
    }
    given = [name for name, setting in named.items() if setting is not None]
    check(not given, f"_flash_attention_forward: {', '.join(given)} is not supported; leave it out")

    def attend(*parts: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (t.transpose(-3, -2) for t in parts)
        output, normalizer = attention_with_normalizer(q, k, v, None, dropout_p, is_causal, scale)
        return output.transpose(-3, -2), normalizer

    if cum_seq_q is None or cum_seq_k is None:
        output, normalizer = attend(query, key, value)
    else:
        ends = [[int(n) for n in t.tolist()] for t in (cum_seq_q, cum_seq_k, cum_seq_k)]
        parts = [
            tuple(t[e[i] : e[i + 1]].unsqueeze(0) for t, e in zip((query, key, value), ends, strict=True))
            for i in range(len(ends[0]) - 1)
        ]
        outputs, normalizers = zip(*[attend(*part) for part in parts], strict=True)
        output = run_name("cat", tuple(t.squeeze(0) for t in outputs), 0)
        normalizer = run_name("cat", tuple(t.squeeze(0) for t in normalizers), -1)
    return output, normalizer, no_seed(query), no_seed(query), query.new_empty((0,))


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

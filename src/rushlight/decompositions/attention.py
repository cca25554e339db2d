"""Attention in terms of products and softmax.

Two forms: the whole matrix of weights at once, which takes masks that require grad and dropout, and blocks of
query rows one after the other, which needs memory proportional to the length of the sequences. The latter
keeps the logarithm of each row's normalizer and computes weights again in its backward.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.modes import MODES
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.symbols import is_size, number_of_size
from ..core.tensor import Tensor

BOOL = DTYPES["bool"]

BLOCK = 256  # query rows at a time; up to this many the matrix of weights is small anyway


def check_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool
) -> None:
    name = "scaled_dot_product_attention"
    check(
        query.dtype is key.dtype and query.dtype is value.dtype,
        f"{name}: Expected query, key, and value to have the same dtype, but got query.dtype: "
        f"{query.dtype.name} "
        f"key.dtype: {key.dtype.name} and value.dtype: {value.dtype.name} instead.",
    )
    check(
        min(query.ndim, key.ndim, value.ndim) >= 2,
        f"{name}: Expected query, key, and value to all be at least 2 dimensional, but got query.dim: "
        f"{query.ndim}, "
        f"key.dim: {key.ndim} and value.dim: {value.ndim} instead.",
    )
    if attn_mask is not None:
        check(
            attn_mask.dtype.name == "bool"
            or attn_mask.dtype is query.dtype
            or attn_mask.dtype.name == "float32",
            f"{name}: Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            "attn_mask.dtype: "
            f"{attn_mask.dtype.name} and query.dtype: {query.dtype.name} instead.",
        )
        check(not is_causal, f"{name}: Explicit attn_mask should not be set when is_causal=True")


def scale_of(query: Tensor, scale: float | None) -> float:
    if scale is not None:
        return scale
    size = query.shape[-1]
    return 1.0 / (number_of_size(math.sqrt, "math.sqrt({})", size) if is_size(size) else math.sqrt(size))


def added_mask(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask as numbers to add: 0 where a boolean one is true, minus infinity elsewhere."""
    if mask is None or mask.dtype.name != "bool":
        return mask
    zero = run_name("zeros_like", mask, like.dtype, None, None, None, None)
    return zero.masked_fill(mask.logical_not(), -math.inf)


def causal_mask(query: Tensor, rows: int, columns: int, first: int = 0) -> Tensor:
    """Whether row `first` + i may look at column j: j <= first + i."""
    ones = run_name("ones", (rows, columns), query.dtype, None, query.device, None).to(bool)
    return ones.tril(first)


def repeated_heads(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> tuple[Tensor, Tensor]:
    """Keys and values for every head of the queries, where groups of heads share them."""
    if not enable_gqa:
        return key, value
    heads, key_heads, value_heads = query.shape[-3], key.shape[-3], value.shape[-3]
    check(
        heads % key_heads == 0 and heads % value_heads == 0,
        "scaled_dot_product_attention: with enable_gqa the number of heads of query must be a multiple of "
        "those of "
        f"key and value: they are {heads}, {key_heads} and {value_heads}",
    )
    return (key.repeat_interleave(heads // key_heads, -3), value.repeat_interleave(heads // value_heads, -3))


@composite(
    *[
        f"{name}(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., "
        "bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) "
        "-> (Tensor, Tensor)"
        for name in ("_scaled_dot_product_attention_math", "_scaled_dot_product_attention_math_for_mps")
    ],
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
    key, value = repeated_heads(query, key, value, enable_gqa)
    result, half = query.dtype, query.dtype.opmath is not query.dtype
    if half:  # one rounding at the end, as for any other operator
        query, key, value = (t.to(t.dtype.opmath) for t in (query, key, value))
    factor = scale_of(query, scale)
    if is_causal:
        attn_mask = causal_mask(query, query.shape[-2], key.shape[-2])
    scores = (query * factor).matmul(key.transpose(-2, -1))
    bias = added_mask(attn_mask, query)
    weights = run_name("_safe_softmax", scores if bias is None else scores + bias, -1, None)
    if dropout_p > 0.0:
        if dropout_mask is not None:
            dropped = weights.masked_fill(dropout_mask.logical_not(), 0.0)
            return dropped.matmul(value * (1.0 / (1.0 - dropout_p))).to(result), weights.to(result)
        weights = run_name("dropout", weights, dropout_p, True)
    return weights.matmul(value).to(result), weights.to(result)


# Block by block.


def blocks(length: int) -> Iterator[tuple[int, int]]:
    """(first row, number of rows) of each; of a length that changes, the last has what is left."""
    first = 0
    while length - first > BLOCK:
        yield first, BLOCK
        first += BLOCK
    if length > first:
        yield first, length - first


def block_scores(
    query: Tensor, key: Tensor, mask: Tensor | None, factor: float, first: int, rows: int, is_causal: bool
) -> tuple[Tensor, int]:
    """The scores of some rows, and how many keys they look at."""
    columns = min(key.shape[-2], first + rows) if is_causal else key.shape[-2]
    part = query.narrow(-2, first, rows) * factor
    scores = part.matmul(key.narrow(-2, 0, columns).transpose(-2, -1))
    if is_causal and columns > first:
        scores = scores.masked_fill(causal_mask(query, rows, columns, first).logical_not(), -math.inf)
    if mask is not None:
        scores = scores + (mask if mask.shape[-2] == 1 else mask.narrow(-2, first, rows))
    return scores, columns


def weights_of(scores: Tensor, normalizer: Tensor) -> Tensor:
    """exp(scores - normalizer); a row that may look at nothing has no weights."""
    finite = normalizer.masked_fill(normalizer == -math.inf, 0.0)
    return (scores - finite.unsqueeze(-1)).exp()


@composite(
    "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., "
    "bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor "
    "logsumexp)",
    api=INTERNAL,
)
def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    check(
        dropout_p == 0.0,
        "_scaled_dot_product_flash_attention_for_cpu: dropout is not supported; pass dropout_p=0.0",
    )
    check(
        query.ndim == 4 and key.ndim == 4 and value.ndim == 4,
        "_scaled_dot_product_flash_attention_for_cpu: expects tensors of 4 dimensions (batch, heads, length, "
        "size)",
    )
    wide = query.dtype.opmath
    q, k, v = (t.to(wide) for t in (query, key, value))
    mask = added_mask(attn_mask, q)
    outputs, normalizers = [], []
    for first, rows in blocks(query.shape[-2]):
        scores, columns = block_scores(q, k, mask, scale_of(query, scale), first, rows, is_causal)
        normalizer = run_name("logsumexp", scores, (-1,), False)
        outputs.append(weights_of(scores, normalizer).matmul(v.narrow(-2, 0, columns)))
        normalizers.append(normalizer)
    if not outputs:
        return query.new_empty((*query.shape[:-1], value.shape[-1])), q.new_empty(query.shape[:-1])
    output = outputs[0] if len(outputs) == 1 else run_name("cat", tuple(outputs), -2)
    normalizer = normalizers[0] if len(outputs) == 1 else run_name("cat", tuple(normalizers), -1)
    return output.to(query.dtype), normalizer


@composite(
    "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, "
    "Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, "
    "float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
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
    attn_mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    return attention_gradients(grad_out, None, query, key, value, out, logsumexp, is_causal, attn_mask, scale)


def attention_gradients(
    grad_out: Tensor,
    grad_logsumexp: Tensor | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    is_causal: bool,
    attn_mask: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of both results of attention in blocks. Weights are computed again, block by block."""
    wide = query.dtype.opmath
    grad, q, k, v, o = (t.to(wide) for t in (grad_out, query, key, value, out))
    mask, factor = added_mask(attn_mask, q), scale_of(query, scale)
    inner = (grad * o).sum(-1, True)
    if grad_logsumexp is not None:  # a normalizer moves with the scores in proportion to the weights
        inner = inner - grad_logsumexp.unsqueeze(-1)
    grad_query, grad_key, grad_value = [], k.new_zeros(k.shape), v.new_zeros(v.shape)
    for first, rows in blocks(query.shape[-2]):
        scores, columns = block_scores(q, k, mask, factor, first, rows, is_causal)
        weights = weights_of(scores, logsumexp.narrow(-1, first, rows))
        part = grad.narrow(-2, first, rows)
        toward = part.matmul(v.narrow(-2, 0, columns).transpose(-2, -1))
        change = weights * (toward - inner.narrow(-2, first, rows)) * factor
        grad_query.append(change.matmul(k.narrow(-2, 0, columns)))
        grad_key = _plus_rows(grad_key, change.transpose(-2, -1).matmul(q.narrow(-2, first, rows)))
        grad_value = _plus_rows(grad_value, weights.transpose(-2, -1).matmul(part))
    queries = (
        run_name("cat", tuple(grad_query), -2)
        if len(grad_query) > 1
        else (grad_query[0] if grad_query else q.new_zeros(q.shape))
    )
    return queries.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype)


def _plus_rows(total: Tensor, part: Tensor) -> Tensor:
    """`part` added to the first rows of `total`."""
    missing = total.shape[-2] - part.shape[-2]
    return total + (part if not missing else run_name("constant_pad_nd", part, (0, 0, 0, missing), 0))


@composite(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    api=FUNCTION,
    namespace="nn.functional",
)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    check_attention(query, key, value, attn_mask, is_causal)
    if not _in_blocks(query, key, value, attn_mask, dropout_p):
        return run_name(
            "_scaled_dot_product_attention_math",
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            None,
            scale,
            enable_gqa,
        )[0]
    key, value = repeated_heads(query, key, value, enable_gqa)
    mask = attn_mask
    if mask is not None and mask.ndim < 2:
        mask = mask.reshape((1,) * (2 - mask.ndim) + tuple(mask.shape))
    return run_name(
        "_scaled_dot_product_flash_attention_for_cpu", query, key, value, dropout_p, is_causal, mask, scale
    )[0]


def _in_blocks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float) -> bool:
    if dropout_p > 0.0 or not query.ndim == key.ndim == value.ndim == 4 or query.shape[-2] <= BLOCK:
        return False
    if query.shape[0] != key.shape[0] or query.shape[0] != value.shape[0]:
        return False
    # The gradient and the tangent of a mask need all scores at once.
    return mask is None or not ((mask.requires_grad and MODES.grad) or MODES.dual_levels)


@composite(
    "_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, "
    "Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool "
    "need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
    api=FUNCTION,
)
def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: int | None,
) -> tuple[Tensor, Tensor | None]:
    """Multi-head attention of (batch, length, size) tensors; a mask is true where nobody looks: of (queries,
    keys) for type 0, of (batch, keys) for type 1, of (batch, heads, queries, keys) for type 2."""
    name = "_native_multi_head_attention"
    check(query.ndim == 3, f"{name}: expected 3-D `query`, got {query.ndim}-D tensor")
    check(
        query.shape[2] == embed_dim,
        f"{name}: passed-in embed_dim {embed_dim} didn't match the last dim of query, {query.shape[2]}",
    )
    check(embed_dim % num_head == 0, f"{name}: embed_dim {embed_dim} is no multiple of num_head {num_head}")
    check(
        tuple(qkv_weight.shape) == (3 * embed_dim, embed_dim),
        f"{name}: expected `qkv_weight` of shape {[3 * embed_dim, embed_dim]}, got {list(qkv_weight.shape)}",
    )
    check(mask is None or mask_type in (0, 1, 2), f"{name}: Mask Type should be defined, 0, 1 or 2")
    given = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3), strict=True)
    q, k, v = (
        run_name("linear", x, w, b).unflatten(-1, (num_head, embed_dim // num_head)).transpose(1, 2)
        for x, w, b in given
    )
    scores = (q * (1.0 / math.sqrt(max(q.shape[-1], 1)))).matmul(k.transpose(-2, -1))
    if mask is not None:
        hidden = mask.to(BOOL)
        hidden = hidden.reshape((*hidden.shape[:1], 1, 1, *hidden.shape[1:])) if mask_type == 1 else hidden
        scores = scores.masked_fill(hidden, -math.inf)
    weights = scores.softmax(-1)
    joined = weights.matmul(v).transpose(1, 2).flatten(2)
    output: Tensor = run_name("linear", joined, proj_weight, proj_bias)
    if not need_weights:
        return output, None
    return output, weights.mean(1) if average_attn_weights else weights

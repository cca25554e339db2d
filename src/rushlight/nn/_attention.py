"""`multi_head_attention_forward`.

Projections, attention of several heads, and the projection of the result.
"""

from __future__ import annotations

import math

from .._api.link import API
from ..core.errors import check
from ..core.tensor import Tensor

__all__ = ["multi_head_attention_forward"]

_functions = API.functions[""]
_nn = API.functions["nn.functional"]


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention of `num_heads` heads over (length, batch, size) tensors, or (length, size) without a batch.

    Returns the output and, if `need_weights`, the weights, averaged over heads unless told otherwise.

    >>> x, project = rl.eye(2), rl.eye(2).repeat(3, 1)
    >>> output, weights = F.multi_head_attention_forward(
    ...     x, x, x, 2, 1, project, None, None, None, False, 0.0, rl.eye(2), None
    ... )
    >>> weights
    tensor([[0.6698, 0.3302],
            [0.3302, 0.6698]])
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, size = query.shape
    _check_sizes(size, embed_dim_to_check, num_heads)
    masks, is_causal = _masks(attn_mask, key_padding_mask, query, is_causal, need_weights)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, weights)
    if bias_k is not None and bias_v is not None:
        static = static_k is not None or static_v is not None
        check(not static, "bias cannot be added to static key and value", AssertionError)
        k, v = (_functions["cat"]([t, b.repeat(1, batch, 1)]) for t, b in ((k, bias_k), (v, bias_v)))
        masks = _one_more(masks)
    shape = (batch * num_heads, size // num_heads)
    q, k, v = _heads(q, None, *shape), _heads(k, static_k, *shape), _heads(v, static_v, *shape)
    if add_zero_attn:
        k, v = (_functions["cat"]([t, t.new_zeros((t.shape[0], 1, shape[1]))], 1) for t in (k, v))
        masks = _one_more(masks)
    mask = _merged(masks, batch, num_heads, k.shape[1])
    dropout = dropout_p if training else 0.0
    if not need_weights:
        attended, scores = _without_weights(q, k, v, mask, dropout, is_causal, (batch, num_heads)), None
    else:
        attended, weights_of_all = _with_weights(q, k, v, mask, dropout)
        scores = _shown(weights_of_all.unflatten(0, (batch, num_heads)), average_attn_weights, batched)
    joined = attended.transpose(0, 1).reshape(length * batch, size)
    output = _nn["linear"](joined, out_proj_weight, out_proj_bias).unflatten(0, (length, batch))
    return (output if batched else output.squeeze(1)), scores


_Masks = tuple[Tensor | None, Tensor | None]  # of the scores, and of the keys


def _masks(
    attn_mask: Tensor | None, padding: Tensor | None, query: Tensor, is_causal: bool, need_weights: bool
) -> tuple[_Masks, bool]:
    """The masks as numbers to add, and whether the hint that they are causal says it all."""
    check(
        not is_causal or attn_mask is not None,
        "Need attn_mask if specifying the is_causal hint; the mask itself is what counts",
    )
    padding, attn_mask = _as_numbers(padding, query), _as_numbers(attn_mask, query)
    if is_causal and padding is None and not need_weights:
        return (None, None), True
    if attn_mask is not None and attn_mask.ndim == 2:
        attn_mask = attn_mask.unsqueeze(0)
    return (attn_mask, padding), False


def _check_sizes(size: int, expected: int, num_heads: int) -> None:
    check(
        size == expected, f"was expecting embedding dimension of {expected}, but got {size}", AssertionError
    )
    check(size % num_heads == 0, f"embed_dim {size} not divisible by num_heads {num_heads}", AssertionError)


def _shown(scores: Tensor, average: bool, batched: bool) -> Tensor:
    """The weights as the caller sees them: averaged over heads if wanted, without a batch if there is none."""
    scores = scores.mean(1) if average else scores
    return scores if batched else scores.squeeze(0)


def nested_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    num_heads: int,
    projection: tuple[Tensor | None, Tensor | None, tuple[Tensor | None, ...] | None],
    output: tuple[Tensor, Tensor | None],
    dropout_p: float,
    is_causal: bool,
) -> Tensor:
    """Attention of `num_heads` heads within each row of nested (batch, ragged length, size) tensors.

    `projection` is the weight and bias of queries, keys and values together, or three weights; `output` that
    of the result.
    """
    weight, bias, separate = projection
    heads = (
        x.unflatten(-1, (num_heads, -1)).transpose(1, 2)
        for x in _projected(query, key, value, weight, bias, separate)
    )
    attended = _nn["scaled_dot_product_attention"](*heads, None, dropout_p, is_causal)
    found: Tensor = _nn["linear"](attended.transpose(1, 2).flatten(-2), *output)
    return found


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None, heads: int
) -> bool:
    check(
        query.ndim in (2, 3),
        f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor",
        AssertionError,
    )
    check(
        key.ndim == query.ndim and value.ndim == query.ndim,
        f"For a {query.ndim}-D query, expected `key` and `value` to be {query.ndim}-D but found {key.ndim}-D "
        f"and {value.ndim}-D tensors respectively",
        AssertionError,
    )
    if padding is not None:
        check(
            padding.ndim == query.ndim - 1,
            f"For a {query.ndim}-D query, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D but "
            f"found {padding.ndim}-D tensor instead",
            AssertionError,
        )
    if mask is not None:
        check(
            mask.ndim in (2, 3),
            f"For a {query.ndim}-D query, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{mask.ndim}-D tensor instead",
            AssertionError,
        )
        wanted = (heads, query.shape[0], key.shape[0])
        check(
            query.ndim == 3 or mask.ndim == 2 or tuple(mask.shape) == wanted,
            f"Expected `attn_mask` shape to be {wanted} but got {tuple(mask.shape)}",
            AssertionError,
        )
    return query.ndim == 3


def _as_numbers(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask to add: minus infinity where a boolean one is true (true means: do not look)."""
    if mask is None or mask.is_floating_point():
        return mask
    check(
        mask.dtype.name == "bool",
        f"masks must be boolean or floating point, got {mask.dtype.name}",
        AssertionError,
    )
    return _functions["zeros_like"](mask, dtype=like.dtype).masked_fill(mask, -math.inf)


def _projected(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    separate: tuple[Tensor | None, ...] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    linear = _nn["linear"]
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if separate is not None:
        check(
            all(w is not None for w in separate),
            "use_separate_proj_weight needs all three weights",
            AssertionError,
        )
        weights = separate
        for name, x, w in zip(("query", "key", "value"), (query, key, value), separate, strict=True):
            assert w is not None
            wanted = (query.shape[-1], x.shape[-1])
            check(
                tuple(w.shape) == wanted,
                f"expecting {name} weights shape of {wanted}, but got {tuple(w.shape)}",
                AssertionError,
            )
    else:
        check(
            weight is not None, "use_separate_proj_weight is False but in_proj_weight is None", AssertionError
        )
        assert weight is not None
        if query is key and key is value:
            return tuple(linear(query, weight, bias).chunk(3, -1))
        weights = weight.chunk(3)
    given = zip((query, key, value), weights, biases, strict=True)
    q, k, v = (linear(x, w, b) for x, w, b in given)
    return q, k, v


def _one_more(masks: _Masks) -> _Masks:
    """Masks for one more key, which everybody may look at."""
    scores, keys = (None if mask is None else _nn["pad"](mask, (0, 1)) for mask in masks)
    return scores, keys


def _heads(x: Tensor, static: Tensor | None, count: int, head: int) -> Tensor:
    if static is not None:
        check(
            static.shape[0] == count and static.shape[2] == head,
            f"expecting a static tensor of ({count}, length, {head}), got {tuple(static.shape)}",
            AssertionError,
        )
        return static
    return x.reshape(x.shape[0], count, head).transpose(0, 1)


def _merged(masks: _Masks, batch: int, heads: int, keys: int) -> Tensor | None:
    mask, padding = masks
    if padding is None:
        return mask
    check(
        tuple(padding.shape) == (batch, keys),
        f"expecting key_padding_mask shape of {(batch, keys)}, but got {tuple(padding.shape)}",
        AssertionError,
    )
    spread = padding.reshape(batch, 1, 1, keys).expand(-1, heads, -1, -1).reshape(batch * heads, 1, keys)
    return spread if mask is None else mask + spread


def _with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    scaled, keys = q * (1.0 / math.sqrt(q.shape[-1])), k.transpose(-2, -1)
    weights = (scaled.bmm(keys) if mask is None else mask.baddbmm(scaled, keys)).softmax(-1)
    if dropout > 0.0:
        weights = _functions["dropout"](weights, dropout, True)
    return weights.bmm(v), weights


def _without_weights(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout: float,
    is_causal: bool,
    split: tuple[int, int],
) -> Tensor:
    batch, heads = split
    if mask is not None:
        single = mask.shape[0] == 1
        mask = mask.unsqueeze(0) if single else mask.reshape(batch, heads, mask.shape[1], k.shape[1])
    q4, k4, v4 = (t.reshape(batch, heads, t.shape[1], t.shape[2]) for t in (q, k, v))
    attended: Tensor = _nn["scaled_dot_product_attention"](q4, k4, v4, mask, dropout, is_causal)
    return attended.reshape(batch * heads, q.shape[1], v.shape[2])

"""MultiheadAttention."""

from __future__ import annotations

from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from .. import init
from .._attention import nested_attention_forward
from ._simple import F, new_parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Scaled dot product attention of several heads, between linear projections.

    >>> attention = nn.MultiheadAttention(4, 2, batch_first=True)
    >>> x = rl.ones(1, 3, 4)
    >>> attention(x, x, x)[0].shape
    rushlight.Size([1, 3, 4])
    """

    in_proj_weight: Any
    in_proj_bias: Any
    q_proj_weight: Any
    k_proj_weight: Any
    v_proj_weight: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check(
            embed_dim > 0 and num_heads > 0,
            "embed_dim and num_heads must be greater than 0, got embed_dim="
            f"{embed_dim} and num_heads={num_heads} instead",
            ValueError,
        )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        check(
            self.head_dim * num_heads == embed_dim, "embed_dim must be divisible by num_heads", AssertionError
        )
        same = self._qkv_same_embed_dim
        shapes = {
            "q_proj_weight": (embed_dim, embed_dim),
            "k_proj_weight": (embed_dim, self.kdim),
            "v_proj_weight": (embed_dim, self.vdim),
        }
        if same:
            self.in_proj_weight = new_parameter((3 * embed_dim, embed_dim), device, dtype)
        for name, shape in shapes.items():
            self.register_parameter(name, None if same else new_parameter(shape, device, dtype))
        if not same:
            self.register_parameter("in_proj_weight", None)
        self.register_parameter(
            "in_proj_bias", new_parameter((3 * embed_dim,), device, dtype) if bias else None
        )
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        if add_bias_kv:
            self.bias_k: Any = new_parameter((1, 1, embed_dim), device, dtype)
            self.bias_v: Any = new_parameter((1, 1, embed_dim), device, dtype)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The attended values and, if `need_weights`, the attention weights."""
        if query.is_nested:
            plain = self.batch_first and not (need_weights or self.add_zero_attn)
            check(
                plain and key_padding_mask is None and attn_mask is None and self.bias_k is None,
                "MultiheadAttention does not support NestedTensor outside of its fast path: it needs "
                "batch_first=True and need_weights=False, and "
                "takes no masks (is_causal=True masks what comes later), no bias of keys and values and no "
                "zero attention",
                AssertionError,
            )
            return self._nested(query, key, value, is_causal), None
        swap = self.batch_first and query.ndim == 3
        if swap:
            query, key, value = (tensor.transpose(1, 0) for tensor in (query, key, value))
        separate = (
            {}
            if self._qkv_same_embed_dim
            else {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        )
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
            **separate,
        )
        return output.transpose(1, 0) if swap else output, weights

    def _nested(self, query: Tensor, key: Tensor, value: Tensor, is_causal: bool) -> Tensor:
        weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        projection = self.in_proj_weight, self.in_proj_bias, None if self._qkv_same_embed_dim else weights
        return nested_attention_forward(
            query,
            key,
            value,
            self.num_heads,
            projection,
            (self.out_proj.weight, self.out_proj.bias),
            self.dropout if self.training else 0.0,
            is_causal,
        )

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """One mask for attention, and its kind: 1 if it is the padding mask alone, 2 otherwise."""
        if attn_mask is None:
            return (None, None) if key_padding_mask is None else (key_padding_mask, 1)
        batch, length, _ = query.shape
        if attn_mask.ndim == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            merged = merged + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1)
        return merged, 2

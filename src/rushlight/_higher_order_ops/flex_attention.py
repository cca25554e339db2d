"""`flex_attention` as the operator that takes functions: what `nn.attention.flex_attention` is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.tensor import Tensor
from ..nn.attention.flex_attention import AuxRequest, BlockMask, FlexKernelOptions
from ..nn.attention.flex_attention import flex_attention as attention

LOG2_E = 1 / math.log(2)
ORDERS = ("dq_write_order", "dq_write_order_full", "dq_kv_order", "dq_kv_order_spt")


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: FlexKernelOptions,
    score_mod_other_buffers: Sequence[Tensor] = (),
    mask_mod_other_buffers: Sequence[Tensor] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention, the logarithm of the sums of its weights, and the largest scores, both to base 2 as in PyTorch.

    `block_mask` is what `BlockMask.as_tuple()` gives; the buffers are further arguments of `score_mod` and of the
    function of the mask.

    >>> import rushlight as rl
    >>> from rushlight.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 4, 4, BLOCK_SIZE=2)
    >>> x = rl.ones(1, 1, 4, 2)
    >>> out, lse, top = flex_attention(x, x, x, lambda score, b, h, q, kv: score, mask.as_tuple(), 0.5, {})
    >>> out.shape, top.unique().tolist()
    (rushlight.Size([1, 1, 4, 2]), [1.4426950216293335])
    """
    rows, columns, *parts, height, width, mask_mod = block_mask
    given: list[Any] = [(rows, columns), *parts[:8], (height, width), _with(mask_mod, mask_mod_other_buffers)]
    orders = dict(zip(ORDERS, parts[8:], strict=True))
    mask = BlockMask(*given, **orders)
    out, aux = attention(
        query,
        key,
        value,
        _with(score_mod, score_mod_other_buffers),
        mask,
        scale,
        enable_gqa=True,
        kernel_options=kernel_options,
        return_aux=AuxRequest(lse=True, max_scores=True),
    )
    return out, aux.lse * LOG2_E, aux.max_scores * LOG2_E


def _with(function: Callable[..., Tensor], buffers: Sequence[Tensor]) -> Callable[..., Tensor]:
    """`function` with further arguments behind its own."""
    return (lambda *own: function(*own, *buffers)) if buffers else function

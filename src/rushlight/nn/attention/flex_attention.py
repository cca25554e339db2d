"""Attention whose scores and mask are functions of the places of query and key.

`score_mod(score, batch, head, q, kv)` and `mask_mod(batch, head, q, kv)` are written for one score; `vmap`
makes them functions of all. Eager code computes all scores; compiled code fuses what it can.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict

from ..._api.link import API
from ...core.dtypes import DTYPES
from ...core.errors import check
from ...core.tensor import Tensor
from ...func import vmap

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

functions = API.functions[""]
MaskMod = Callable[..., Tensor]

_BLOCK = 128
INT32, FLOAT32 = DTYPES["int32"], DTYPES["float32"]


class FlexKernelOptions(TypedDict, total=False):
    """Options of GPU kernels; accepted, and without effect.

    >>> attention = rl.nn.attention.flex_attention
    >>> q = rl.ones(1, 1, 2, 4)
    >>> attention.flex_attention(q, q, q, kernel_options=attention.FlexKernelOptions(BLOCK_M=64)).sum()
    tensor(8.)
    """

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool


class AuxRequest(NamedTuple):
    """What `flex_attention` gives besides its output.

    >>> rl.nn.attention.flex_attention.AuxRequest(lse=True).lse
    True
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What `flex_attention` gives beside its output.

    >>> rl.nn.attention.flex_attention.AuxOutput(lse=rl.zeros(1)).lse
    tensor([0.])
    """

    lse: Tensor | None = None  # the logarithm of the sum of exponentials of the scores of each query
    max_scores: Tensor | None = None


# Masks.


_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Every query sees every key.

    >>> from rushlight.nn.attention.flex_attention import create_mask, noop_mask
    >>> create_mask(noop_mask, 1, 1, 2, 2, device="cpu").all()
    tensor(True)
    """
    return batch.new_ones((), dtype=DTYPES["bool"])


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """A key is seen if one of the masks lets it be seen.

    >>> from rushlight.nn.attention.flex_attention import create_mask, or_masks
    >>> causal = or_masks(lambda b, h, q, k: q > k, lambda b, h, q, k: q == k)
    >>> create_mask(causal, 1, 1, 2, 2, device="cpu")[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    return _joined(mask_mods, lambda a, b: a | b, False)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """A key is seen if all masks let it be seen.

    >>> from rushlight.nn.attention.flex_attention import and_masks, create_mask
    >>> near = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 2)
    >>> create_mask(near, 1, 1, 3, 3, device="cpu")[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False],
            [False,  True,  True]])
    """
    return _joined(mask_mods, lambda a, b: a & b, True)


def _joined(mods: Sequence[MaskMod], join: Callable[[Tensor, Tensor], Tensor], start: bool) -> MaskMod:
    check(all(callable(mod) for mod in mods), f"All inputs should be callable mask_mods: {mods}")

    def joined(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        result = b.new_full((), start, dtype=DTYPES["bool"])
        return functools.reduce(join, [mod(b, h, q, kv) for mod in mods], result)

    return joined


def _over_places(function: Callable[..., Tensor], scores: bool) -> Callable[..., Tensor]:
    """`function` of one place, for all batches, heads, queries and keys."""
    first = (0,) if scores else ()
    for which in (3, 2, 1, 0):  # the innermost dimension first
        function = vmap(function, in_dims=first + tuple(0 if i == which else None for i in range(4)))
    return function


def _places(b: int, h: int, q: int, kv: int, device: Any = None) -> list[Tensor]:
    return [functions["arange"](size, device=device) for size in (b, h, q, kv)]


def create_mask(
    mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The mask (or, for a function of scores, the scores that it makes of zeros) as a tensor of shape (B, H,
    Q_LEN, KV_LEN).

    >>> from rushlight.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 2, device="cpu")[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    count = mod_fn.__code__.co_argcount if hasattr(mod_fn, "__code__") else 4
    places = _places(*sizes, device=device)
    if count == 5:
        return _over_places(mod_fn, True)(functions["zeros"](sizes, device=device), *places)
    return _over_places(mod_fn, False)(*places)


class BlockMask:
    """A mask, and which blocks of queries and keys it leaves: in part (`kv_*`) or whole (`full_kv_*`).

    For each block of queries `kv_num_blocks` counts the blocks of keys that it sees, whose numbers come first
    in `kv_indices`; `q_*` are the same seen from the keys.

    >>> from rushlight.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 256, 256, device="cpu").shape
    (1, 1, 256, 256)
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_BLOCK, _BLOCK),
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        check(kv_indices.ndim >= 2, "BlockMask must have at least 2 dimensions")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _BLOCK,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | bool | None = None,
    ) -> BlockMask:
        """The mask of given blocks of keys for each block of queries."""
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        check(kv_indices.ndim >= 2, "BlockMask must have at least 2 dimensions")
        check(
            (full_kv_num_blocks is None) == (full_kv_indices is None),
            "full_kv_num_blocks and full_kv_indices must be both provided or omitted",
        )
        rows, columns = kv_indices.shape[-2], kv_indices.shape[-1]
        part: Any = (None, None)
        full: Any = (None, None)
        if compute_q_blocks:
            part = _ordered(_dense(kv_num_blocks, kv_indices, columns).transpose(-2, -1))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full = _ordered(_dense(full_kv_num_blocks, full_kv_indices, columns).transpose(-2, -1))
        lengths = (rows * size[0], columns * size[1]) if seq_lengths is None else seq_lengths
        return cls(
            lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            part[0],
            part[1],
            full[0],
            full[1],
            BLOCK_SIZE=size,
            mask_mod=mask_mod or noop_mask,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=None if isinstance(dq_kv_order, bool) else dq_kv_order,
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def to_dense(self) -> Tensor:
        """For each pair of blocks whether anything of it is left."""
        columns = self.kv_indices.shape[-1]
        left = _dense(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            left = left | _dense(self.full_kv_num_blocks, self.full_kv_indices, columns)
        return left

    def sparsity(self) -> float:
        """How much of the work is left out, in percent."""
        left = int(self.kv_num_blocks.sum().item())
        if self.full_kv_num_blocks is not None:
            left += int(self.full_kv_num_blocks.sum().item())
        return 100 * (1 - left * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to(self, device: Any) -> BlockMask:
        return self

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """All it consists of, in the order of its constructor."""
        size, lengths = self.BLOCK_SIZE, self.seq_lengths
        return (
            *(lengths if flatten else (lengths,)),
            self.kv_num_blocks,
            self.kv_indices,
            self.full_kv_num_blocks,
            self.full_kv_indices,
            self.q_num_blocks,
            self.q_indices,
            self.full_q_num_blocks,
            self.full_q_indices,
            self.dq_write_order,
            self.dq_write_order_full,
            self.dq_kv_order,
            self.dq_kv_order_spt,
            *(size if flatten else (size,)),
            self.mask_mod,
        )

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of at most `limit` masks, of no more than `grid_size` rows and columns, dark where
        anything is left."""
        most = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        dense = self.to_dense()
        dense = dense.reshape((-1, *dense.shape[-2:])).numpy_array() != 0
        heads = self.kv_indices.shape[1] if self.kv_indices.ndim > 3 else 1
        lines = []
        for number, picture in enumerate(dense[:limit]):
            lines.append(str(divmod(number, heads)))
            steps = [max(1, -(-have // want)) for have, want in zip(picture.shape, most, strict=True)]
            for row in range(0, picture.shape[0], steps[0]):
                cells = [
                    picture[row : row + steps[0], column : column + steps[1]].any()
                    for column in range(0, picture.shape[1], steps[1])
                ]
                lines.append("".join("\u2588\u2588" if cell else "  " for cell in cells))
        return "\n".join(lines) + "\n"

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, mask_mod={self.mask_mod})"


def _dense(counts: Tensor, indices: Tensor, columns: int) -> Tensor:
    """The first `counts` of `indices` as a table of flags."""
    places = functions["arange"](indices.shape[-1])
    listed = places < counts.unsqueeze(-1)
    flags = functions["zeros"]((*indices.shape[:-1], columns), dtype=INT32)
    return flags.scatter_add(-1, indices.long(), listed.to(INT32)).to(INT32)


def _ordered(flags: Tensor) -> tuple[Tensor, Tensor]:
    """How many flags of each row are set, and the order of its columns with those first."""
    counts = flags.sum(-1).to(INT32)
    order = functions["argsort"](flags, dim=-1, descending=True, stable=True).to(INT32)
    return counts.contiguous(), order.contiguous()


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _BLOCK,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The blocks that `mask_mod` leaves.

    >>> from rushlight.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 256, 256, device="cpu").sparsity()
    25.0
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    padded = functions["constant_pad_nd"](mask, (0, columns * size[1] - KV_LEN, 0, rows * size[0] - Q_LEN), 0)
    blocks = padded.reshape((*mask.shape[:2], rows, size[0], columns, size[1])).to(INT32).sum((3, 5))
    whole = (blocks == size[0] * size[1]) if separate_full_blocks else functions["zeros_like"](blocks) != 0
    full = _ordered(whole.to(INT32)) if separate_full_blocks else (None, None)
    part = _ordered(((blocks > 0) & ~whole).to(INT32))
    return BlockMask.from_kv_blocks(
        part[0], part[1], full[0], full[1], BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


# Attention.


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention of (batch, heads, length, features) with scores changed by `score_mod` and masked by the
    function of `block_mask`; a query that sees no key gives zeros.

    >>> from rushlight.nn.attention.flex_attention import flex_attention
    >>> q = rl.ones(1, 1, 2, 4)
    >>> flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score - (i - j).abs()).shape
    rushlight.Size([1, 1, 2, 4])
    """
    check(
        query.ndim == key.ndim == value.ndim == 4,
        "Expected query, key, and value to be 4D tensors, but "
        f"got {query.ndim}D, {key.ndim}D and {value.ndim}D",
        NotImplementedError,
    )
    heads, own = query.shape[1], key.shape[1]
    check(
        heads == own or enable_gqa,
        f"Expect query and key/value to have the same number of heads but got "
        f"Hq={heads} and Hkv={own}. Try setting enable_gqa=True for GQA.",
        ValueError,
    )
    check(
        heads % own == 0,
        f"the number of query heads ({heads}) must be a multiple of that of key heads ({own})",
        ValueError,
    )
    if heads != own:
        key, value = (t.repeat_interleave(heads // own, 1) for t in (key, value))
    width = query.dtype if query.dtype is DTYPES["float64"] else FLOAT32
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.transpose(-2, -1)).to(width) * factor
    sizes = (scores.shape[0], scores.shape[1], scores.shape[2], scores.shape[3])
    if score_mod is not None:
        scores = _over_places(score_mod, True)(scores, *_places(*sizes)).to(width)
    if block_mask is not None:
        seen = create_mask(block_mask.mask_mod, *sizes)
        scores = scores.masked_fill(~seen, float("-inf"))
    lse = scores.logsumexp(-1)
    blind = lse == float("-inf")
    weights = (scores - lse.masked_fill(blind, 0.0).unsqueeze(-1)).exp()
    output = (weights.to(query.dtype) @ value).to(query.dtype)
    if return_aux is not None:
        return output, AuxOutput(
            lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None
        )
    return (output, lse) if return_lse else output

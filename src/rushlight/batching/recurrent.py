"""Batching rules of packed sequences: what is batched becomes the last dimension of every element."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor
from .declare import batching, expand_batch

Pair = tuple[Tensor, Tensor]


def check_same(batched: bool, name: str, what: str) -> None:
    check(
        not batched,
        f"vmap: {name} has an output whose shape depends on {what}, which must be the same "
        f"for "
        "the whole batch",
    )


def in_front(results: Pair, batch: int) -> Pair:
    """Elements with their batch in front, and sizes, of which there were one set for all."""
    return results[0].movedim(-1, 0), expand_batch(results[1], batch)


@batching("_pack_padded_sequence")
def pack_padded_sequence(
    input: Tensor, lengths: Tensor, batch_first: bool, lengths_batched: bool, batch: int
) -> Pair:
    check_same(lengths_batched, "_pack_padded_sequence", "lengths")
    return in_front(run_name("_pack_padded_sequence", input.movedim(0, -1), lengths, batch_first), batch)


@batching("_pack_padded_sequence_backward")
def pack_padded_sequence_backward(
    grad: Tensor,
    input_size: Sequence[int],
    batch_sizes: Tensor,
    batch_first: bool,
    grad_batched: bool,
    batch_sizes_batched: bool,
    batch: int,
) -> Tensor:
    sizes = batch_sizes
    if batch_sizes_batched:  # the forward rule made them equal
        sizes = batch_sizes.select(0, 0)
    grad = grad if grad_batched else expand_batch(grad, batch)
    return run_name(
        "_pack_padded_sequence_backward", grad.movedim(0, -1), (*input_size, batch), sizes, batch_first
    ).movedim(-1, 0)


@batching("_pad_packed_sequence")
def pad_packed_sequence(
    data: Tensor,
    batch_sizes: Tensor,
    batch_first: bool,
    padding_value: complex,
    total_length: int,
    batch_sizes_batched: bool,
    batch: int,
) -> Pair:
    check_same(batch_sizes_batched, "_pad_packed_sequence", "batch_sizes")
    return in_front(
        run_name(
            "_pad_packed_sequence", data.movedim(0, -1), batch_sizes, batch_first, padding_value, total_length
        ),
        batch,
    )

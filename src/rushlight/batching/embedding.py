"""Batching rules of embeddings."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.tensor import Tensor
from .declare import batching, flat
from .vmap import Through


def offset_rows(indices: Tensor, rows: int) -> Tensor:
    """Row numbers into the tables of a batch laid one below the other."""
    batch = indices.shape[0]
    step = run_name("arange", batch, indices.dtype, None, indices.device, None) * rows
    return indices + step.reshape(-1, *[1] * (indices.ndim - 1))


@batching("embedding")
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
    weight_batched: bool,
    indices_batched: bool,
    batch: int,
) -> Tensor:
    if not weight_batched:
        return run_name("embedding", weight, indices, padding_idx, scale_grad_by_freq, sparse)
    if not indices_batched:
        moved = run_name(
            "embedding",
            weight.transpose(0, 1).reshape(weight.shape[1], -1),
            indices,
            padding_idx,
            scale_grad_by_freq,
            sparse,
        )
        return moved.reshape(*indices.shape, batch, weight.shape[2]).movedim(-2, 0)
    table = weight.reshape(-1, weight.shape[2])
    return run_name("embedding", table, offset_rows(indices, weight.shape[1]), -1, scale_grad_by_freq, sparse)


@batching("embedding_dense_backward", all_batched=True)
def embedding_dense_backward(
    grad_output: Tensor,
    indices: Tensor,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
    batch: int,
) -> Tensor:
    if padding_idx >= 0:
        grad_output = grad_output.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    rows = offset_rows(indices, num_weights)
    table = run_name(
        "embedding_dense_backward", grad_output, rows, batch * num_weights, -1, scale_grad_by_freq
    )
    return table.reshape(batch, num_weights, table.shape[-1])


@batching("embedding_renorm", all_batched=True)
def embedding_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    table = self.reshape(-1, self.shape[2])
    return run_name(
        "embedding_renorm", table, offset_rows(indices, self.shape[1]), max_norm, norm_type
    ).reshape(self.shape)


@batching("one_hot")
def one_hot(self: Tensor, num_classes: int) -> Tensor:
    if num_classes < 0:
        raise RuntimeError(
            "vmap: one_hot with num_classes=-1 has an output whose shape depends on the data; "
            "give num_classes"
        )
    return run_name("one_hot", flat(self), num_classes).reshape(*self.shape, num_classes)


# Bags of rows: as sums, means and maxima by index. An index outside of all bags, or of padding, counts for
# one more bag behind the others.

SUM, MEAN, MAX = range(3)


def owners(indices: Tensor, offset2bag: Tensor, padding_idx: int, bags: int) -> Tensor:
    """The bag that each index counts for."""
    return offset2bag.where((offset2bag >= 0) & (indices != padding_idx), bags)


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    mode: int,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    count, bags = indices.shape[0], offsets.shape[0] - include_last_offset
    dtype = indices.dtype if indices.dtype is offsets.dtype else DTYPES["int64"]
    places = run_name("arange", count, dtype, None, indices.device, None)
    bag_of = run_name("searchsorted.Tensor", offsets.to(dtype), places, False, True, None, None).to(dtype) - 1
    if include_last_offset:
        bag_of = bag_of.where(bag_of < bags, -1)
    owner = owners(indices, bag_of, padding_idx, bags)
    sizes = bag_of.new_zeros((bags + 1,)).index_add(0, owner, (bag_of >= -1).to(dtype))[:bags]
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    empty = rows.new_zeros((bags + 1, rows.shape[1]))
    if mode == MAX:
        values = empty.index_reduce(0, owner, rows, "amax", include_self=False)
        first = places.unsqueeze(1).where(rows == values.index_select(0, owner), count)
        first = empty.to(dtype).index_reduce(0, owner, first, "amin", include_self=False)[:bags]
        chosen = first
        if count:
            chosen = indices.index_select(0, first.clamp(max=count - 1).reshape(-1)).reshape(first.shape)
        return values[:bags], bag_of, sizes, chosen.to(dtype).where(sizes.unsqueeze(1) > 0, 0)
    result = empty.index_add(0, owner, rows)[:bags]
    if mode == MEAN:
        result = result / sizes.clamp(min=1).unsqueeze(1).to(result.dtype)
    return result, bag_of, sizes, sizes.clone()


def embedding_bag_dense_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    table = grad.new_zeros((num_weights, grad.shape[1]))
    if mode == MAX:
        return table.scatter_add(
            0, maximum_indices.to(DTYPES["int64"]), grad.where(bag_size.unsqueeze(1) > 0, 0)
        )
    bags = grad.shape[0]
    owner = owners(indices, offset2bag, padding_idx, bags)
    if mode == MEAN:
        grad = grad / bag_size.clamp(min=1).unsqueeze(1).to(grad.dtype)
    values = run_name("constant_pad_nd", grad, (0, 0, 0, 1), 0).index_select(0, owner)
    if per_sample_weights is not None:
        values = values * per_sample_weights.unsqueeze(1)
    if scale_grad_by_freq:
        counted = (owner < bags).to(grad.dtype)
        times = grad.new_zeros((num_weights,)).index_add(0, indices, counted).index_select(0, indices)
        values = values / times.clamp(min=1).unsqueeze(1)
    return table.index_add(0, indices, values)


def per_sample_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offset2bag: Tensor, padding_idx: int
) -> Tensor:
    owner = owners(indices, offset2bag, padding_idx, grad.shape[0])
    padded = run_name("constant_pad_nd", grad, (0, 0, 0, 1), 0)
    return (padded.index_select(0, owner) * weight.index_select(0, indices)).sum(1)


batching(["_embedding_bag", "_embedding_bag_forward_only"], Through(embedding_bag))
batching("_embedding_bag_dense_backward", Through(embedding_bag_dense_backward))
batching("_embedding_bag_per_sample_weights_backward", Through(per_sample_weights_backward))

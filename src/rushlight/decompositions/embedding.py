"""Embeddings in terms of simpler operators."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite, decomposition
from ..core.tensor import Tensor
from ..ops.embedding import MEAN, SUM
from .indexing_basic import picked, put


@composite(
    "embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, bool "
    "scale_grad_by_freq, bool sparse) -> Tensor",
    api=INTERNAL,
)
def embedding_backward(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    if sparse:
        return run_name(
            "embedding_sparse_backward", grad, indices, num_weights, padding_idx, scale_grad_by_freq
        )
    return run_name("embedding_dense_backward", grad, indices, num_weights, padding_idx, scale_grad_by_freq)


@composite(
    "embedding_sparse_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, bool "
    "scale_grad_by_freq) -> Tensor",
    api=INTERNAL,
)
def embedding_sparse_backward(
    grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """The rows of the gradient, as a tensor of coordinates with a row for each index."""
    check(
        not scale_grad_by_freq, "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
    )
    rows, width = indices.reshape((indices.numel(),)), grad.shape[-1]
    values = grad.reshape((rows.shape[0], width))
    if padding_idx != -1:
        kept = (rows != padding_idx).nonzero().squeeze(1)
        rows, values = rows.index_select(0, kept), values.index_select(0, kept)
    else:  # the caller may write to its indices later, and whoever computed `grad` to that
        rows, values = rows.clone(), values.clone()
    return run_name(
        "_sparse_coo_tensor_with_dims_and_tensors",
        1,
        1,
        (num_weights, width),
        rows.unsqueeze(0),
        values,
        None,
        None,
        None,
        None,
        None,
    )


@composite(
    "embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int "
    "mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> "
    "(Tensor, Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
) -> Any:
    return run_name(
        "_embedding_bag",
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        -1,
    )


@composite(
    "embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool "
    "scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, "
    "int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def embedding_bag_padded(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> Any:
    rows = weight.shape[0]
    if padding_idx is not None:
        check(
            -rows <= padding_idx < rows,
            f"embedding_bag: padding_idx must be within the number of "
            f"embeddings, -{rows} through {rows - 1}, but got {padding_idx}",
        )
    padding = -1 if padding_idx is None else padding_idx % rows
    return run_name(
        "_embedding_bag",
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        per_sample_weights,
        include_last_offset,
        padding,
    )


@composite(
    "_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor "
    "bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool "
    "sparse, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
    api=INTERNAL,
)
def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    if sparse:
        return run_name(
            "_embedding_bag_sparse_backward",
            grad,
            indices,
            offsets,
            offset2bag,
            bag_size,
            num_weights,
            scale_grad_by_freq,
            mode,
            per_sample_weights,
            padding_idx,
        )
    return run_name(
        "_embedding_bag_dense_backward",
        grad,
        indices,
        offset2bag,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights if mode == SUM else None,
        padding_idx,
    )


@composite(
    "_embedding_bag_sparse_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, "
    "Tensor bag_size, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? "
    "per_sample_weights, int padding_idx=-1) -> Tensor",
    api=INTERNAL,
)
def embedding_bag_sparse_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int,
) -> Tensor:
    """For each index the gradient of its bag, shared among its indices if the bag is a mean."""
    rows = grad.index_select(0, offset2bag.clamp(min=0))
    rows = rows.where((offset2bag >= 0).unsqueeze(1), 0)
    if mode == MEAN:
        sizes = bag_size.clamp(min=1).index_select(0, offset2bag.clamp(min=0))
        rows = rows / sizes.unsqueeze(1).to(grad.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return run_name("embedding_sparse_backward", rows, indices, num_weights, padding_idx, scale_grad_by_freq)


# The rows themselves, and the sum of their gradients.

decomposition("embedding")(lambda weight, indices: run_name("index.Tensor", weight, (indices,)))


@decomposition("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    rows = indices.reshape((-1,))
    grad = grad_output.to(grad_output.dtype.opmath).reshape((rows.shape[0], grad_output.shape[-1]))
    if scale_grad_by_freq:
        counts = put(grad.new_zeros((num_weights,)), 0, rows, grad.new_ones(rows.shape), True)
        grad = grad / picked(counts, 0, rows).unsqueeze(1)
    grad = grad.masked_fill((rows == padding_idx).unsqueeze(1), 0)
    total = put(grad.new_zeros((num_weights, grad.shape[1])), 0, rows, grad, True)
    return total.to(grad_output.dtype)

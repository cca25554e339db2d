"""Batching rules of embeddings."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import batching, flat


def offset_rows(indices: Tensor, rows: int) -> Tensor:
    """Row numbers into the tables of a batch laid one below the other."""
    batch = indices.shape[0]
    step = run_name("arange", batch, indices.dtype, None, indices.device, None) * rows
    return indices + step.reshape(-1, *[1] * (indices.ndim - 1))


@batching("embedding")
def embedding(weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool,
              weight_batched: bool,
              indices_batched: bool, batch: int) -> Tensor:
    if not weight_batched:
        return run_name("embedding", weight, indices, padding_idx, scale_grad_by_freq, sparse)
    if not indices_batched:
        moved = run_name("embedding", weight.transpose(0, 1).reshape(weight.shape[1], -1), indices,
                         padding_idx,
                         scale_grad_by_freq, sparse)
        return moved.reshape(*indices.shape, batch, weight.shape[2]).movedim(-2, 0)
    table = weight.reshape(-1, weight.shape[2])
    return run_name("embedding", table, offset_rows(indices, weight.shape[1]), -1, scale_grad_by_freq, sparse)


@batching("embedding_dense_backward", all_batched=True)
def embedding_dense_backward(grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
                             scale_grad_by_freq: bool, batch: int) -> Tensor:
    if padding_idx >= 0:
        grad_output = grad_output.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    rows = offset_rows(indices, num_weights)
    table = run_name("embedding_dense_backward", grad_output, rows, batch * num_weights, -1,
                     scale_grad_by_freq)
    return table.reshape(batch, num_weights, table.shape[-1])


@batching("embedding_renorm", all_batched=True)
def embedding_renorm(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    table = self.reshape(-1, self.shape[2])
    return run_name("embedding_renorm", table, offset_rows(indices, self.shape[1]), max_norm,
                    norm_type).reshape(self.shape)


@batching("one_hot")
def one_hot(self: Tensor, num_classes: int) -> Tensor:
    if num_classes < 0:
        raise RuntimeError("vmap: one_hot with num_classes=-1 has an output whose shape depends on the data; "
                           "give num_classes")
    return run_name("one_hot", flat(self), num_classes).reshape(*self.shape, num_classes)

"""Embeddings in terms of simpler operators."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.tensor import Tensor
from ..ops.embedding import SUM

_SPARSE = "sparse gradients of embeddings are not supported; pass sparse=False"


@composite("embedding_backward(Tensor grad, Tensor indices, SymInt num_weights, SymInt padding_idx, bool "
           "scale_grad_by_freq, bool sparse) -> Tensor", api=INTERNAL)
def embedding_backward(grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
                       scale_grad_by_freq: bool, sparse: bool) -> Tensor:
    check(not sparse, _SPARSE, NotImplementedError)
    return run_name("embedding_dense_backward", grad, indices, num_weights,
                    padding_idx, scale_grad_by_freq)


@composite("embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int "
           "mode=0, bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False) -> "
           "(Tensor, Tensor, Tensor, Tensor)", api=FUNCTION)
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool, mode: int,
                  sparse: bool, per_sample_weights: Tensor | None, include_last_offset: bool) -> Any:
    return run_name("_embedding_bag", weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                    per_sample_weights, include_last_offset, -1)


@composite("embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool "
           "scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, "
           "int? padding_idx) -> (Tensor, Tensor, Tensor, Tensor)", api=FUNCTION)
def embedding_bag_padded(weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool,
                         mode: int,
                         sparse: bool, per_sample_weights: Tensor | None, include_last_offset: bool,
                         padding_idx: int | None) -> Any:
    rows = weight.shape[0]
    if padding_idx is not None:
        check(-rows <= padding_idx < rows, f"embedding_bag: padding_idx must be within the number of "
              f"embeddings, -{rows} through {rows - 1}, but got {padding_idx}")
    padding = -1 if padding_idx is None else padding_idx % rows
    return run_name("_embedding_bag", weight, indices, offsets, scale_grad_by_freq, mode, sparse,
                    per_sample_weights, include_last_offset, padding)


@composite("_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor "
           "bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool "
           "sparse, Tensor? per_sample_weights, int padding_idx=-1) -> Tensor", api=INTERNAL)
def embedding_bag_backward(grad: Tensor, indices: Tensor, offset2bag: Tensor, bag_size: Tensor,
                           maximum_indices: Tensor,
                           num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool,
                           per_sample_weights: Tensor | None, padding_idx: int) -> Tensor:
    check(not sparse, _SPARSE, NotImplementedError)
    return run_name("_embedding_bag_dense_backward", grad, indices, offset2bag,
                    bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
                    per_sample_weights if mode == SUM else None, padding_idx)

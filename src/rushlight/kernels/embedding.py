"""Embeddings and one-hot vectors: eager kernels on NumPy arrays."""

from __future__ import annotations

import numpy as np

from ..core.errors import check
from ..core.registry import kernel
from ..core.shapes import Spec
from ..ops.embedding import MAX, MEAN, SUM
from .accumulate import Combine, combine_rows
from .creation import filled
from .indexing import check_bounds


@kernel("embedding")
def embedding(weight: np.ndarray, indices: np.ndarray) -> np.ndarray:
    check_bounds(indices, len(weight), 0, "embedding: index out of range in self", negative=False)
    return np.take(weight, indices, axis=0)


@kernel("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: np.ndarray,
    indices: np.ndarray,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
    out: Spec,
) -> np.ndarray:
    rows = indices.reshape(-1)
    values = grad_output.reshape(rows.size, grad_output.shape[-1])
    kept = (rows >= 0) & (rows < num_weights) & (rows != padding_idx)
    rows, values = rows[kept], values[kept]
    if scale_grad_by_freq:
        values = _per_occurrence(values, rows)
    return combine_rows(Combine.SUM, np.zeros(out.known_shape(), values.dtype), rows, values)


def _per_occurrence(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Each row of `values` divided by how often its target occurs."""
    return (values / np.bincount(rows)[rows][:, None]).astype(values.dtype) if rows.size else values


@kernel("embedding_renorm")
def embedding_renorm(
    self: np.ndarray, indices: np.ndarray, max_norm: float, norm_type: float, out: Spec
) -> np.ndarray:
    """Rows whose norm exceeds `max_norm` are scaled to it."""
    check_bounds(indices, len(self), 0, "embedding_renorm_", negative=False)
    result = filled(out, self).astype(self.dtype)
    rows = np.unique(indices)
    norms = np.linalg.norm(result[rows], ord=norm_type, axis=1)
    large = norms > max_norm
    scale = max_norm / (norms[large] + 1e-7)
    result[rows[large]] *= scale[:, None].astype(result.dtype)
    return result


# Bags of embeddings.


def _bag_of(offsets: np.ndarray, count: int, include_last_offset: bool) -> np.ndarray:
    """The bag of each of `count` indices; -1 for those after the last offset, where that is an end."""
    name = "embedding_bag"
    if len(offsets):
        check(
            offsets[0] == 0,
            f"{name}: offsets[0] has to be 0, i.e., the first sequence in the mini-batch "
            f"has to start from position 0. However, got {offsets[0]}",
        )
        check(
            offsets[-1] <= count,
            f"{name}: offsets[-1] can not be greater than input's length {count} but "
            f"got offsets[-1] of {offsets[-1]}",
        )
        check((offsets[1:] >= offsets[:-1]).all(), f"{name}: offsets must not decrease")
    bags = np.searchsorted(offsets, np.arange(count), "right") - 1
    if include_last_offset:
        bags[bags == len(offsets) - 1] = -1
    return bags


@kernel("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: np.ndarray,
    indices: np.ndarray,
    offsets: np.ndarray,
    mode: int,
    per_sample_weights: np.ndarray | None,
    include_last_offset: bool,
    padding_idx: int,
    out: tuple[Spec, ...],
) -> tuple[np.ndarray, ...]:
    check_bounds(indices, len(weight), 0, "embedding_bag", negative=False, error=RuntimeError)
    bag_of = _bag_of(offsets, len(indices), include_last_offset)
    bags = out[0].known_shape()[0]
    kept = (bag_of >= 0) & (indices != padding_idx)
    owner, chosen = bag_of[kept], indices[kept]
    sizes = np.bincount(owner, minlength=bags) if owner.size else np.zeros(bags, np.int64)
    rows = weight[chosen]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[kept][:, None]
    empty = np.zeros(out[0].known_shape(), rows.dtype)
    if mode == MAX:
        values, maxima = _maxima(empty, owner, rows, chosen)
        return values, bag_of, sizes, maxima
    result = combine_rows(
        Combine.MEAN if mode == MEAN else Combine.SUM, empty, owner, rows, include_self=False
    )
    return result, bag_of, sizes, sizes


def _maxima(
    empty: np.ndarray, owner: np.ndarray, rows: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The maximum of each column in each bag, and the index of the first row that has it; 0 in empty bags."""
    values = combine_rows(Combine.AMAX, empty, owner, rows, include_self=False)
    if not rows.size:
        return values, np.zeros(empty.shape, np.int64)
    places = np.where(rows == values[owner], np.arange(len(rows))[:, None], len(rows))
    first = combine_rows(Combine.AMIN, np.zeros(empty.shape, np.int64), owner, places, include_self=False)
    maxima = np.zeros(empty.shape, np.int64)
    filled_bags = np.unique(owner)
    maxima[filled_bags] = chosen[np.minimum(first[filled_bags], len(rows) - 1)]
    return values, maxima


@kernel("_embedding_bag_dense_backward")
def embedding_bag_dense_backward(
    grad: np.ndarray,
    indices: np.ndarray,
    offset2bag: np.ndarray,
    bag_size: np.ndarray,
    maximum_indices: np.ndarray,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: np.ndarray | None,
    padding_idx: int,
    out: Spec,
) -> np.ndarray:
    result = np.zeros(out.known_shape(), grad.dtype)
    if mode == MAX:
        return _maxima_backward(result, grad, bag_size, maximum_indices)
    kept = (offset2bag >= 0) & (indices != padding_idx)
    rows, owner = indices[kept], offset2bag[kept]
    values = grad[owner]
    if mode == MEAN:
        values = values / np.maximum(bag_size, 1)[owner][:, None].astype(grad.dtype)
    if mode == SUM and per_sample_weights is not None:
        values = values * per_sample_weights[kept][:, None]
    if scale_grad_by_freq:
        values = _per_occurrence(values, rows)
    return combine_rows(Combine.SUM, result, rows, values)


def _maxima_backward(
    result: np.ndarray, grad: np.ndarray, bag_size: np.ndarray, maxima: np.ndarray
) -> np.ndarray:
    filled_bags = bag_size > 0
    columns = np.broadcast_to(np.arange(result.shape[1]), maxima[filled_bags].shape)
    np.add.at(result, (maxima[filled_bags], columns), grad[filled_bags])
    return result


@kernel("_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    grad: np.ndarray, weight: np.ndarray, indices: np.ndarray, offset2bag: np.ndarray, padding_idx: int
) -> np.ndarray:
    kept = (offset2bag >= 0) & (indices != padding_idx)
    result = np.zeros(indices.shape, grad.dtype)
    result[kept] = np.einsum("nd,nd->n", grad[offset2bag[kept]], weight[indices[kept]])
    return result


# One-hot vectors.


@kernel("one_hot")
def one_hot(self: np.ndarray, num_classes: int) -> np.ndarray:
    if self.size:
        check(self.min() >= 0, f"one_hot: Class values must be non-negative, got {self.min()}")
    classes = int(self.max()) + 1 if num_classes == -1 else num_classes
    if self.size:
        check(
            self.max() < classes,
            f"one_hot: Class values must be smaller than num_classes ({classes}), got {self.max()}",
        )
    return (self[..., None] == np.arange(classes)).astype(np.int64)

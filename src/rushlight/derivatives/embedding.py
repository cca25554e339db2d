"""Derivatives of embeddings.

Backward operators of embeddings are linear in each of their arguments, so they are differentiable as well.
"""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.shapes import Shape
from ..core.tensor import Tensor
from ..ops.embedding import MAX, MEAN
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative
from .reduction import vector_norm_backward


def per_occurrence(values: Tensor, rows: Tensor, kept: Tensor, num_weights: int) -> Tensor:
    """Each row of `values` divided by how many of the kept `rows` name the same one."""
    counts = values.new_zeros((num_weights,)).index_add(0, rows, kept.to(values.dtype))
    return values / counts.index_select(0, rows).clamp(min=1).unsqueeze(1)


# Rows of a table.

def embedding_dense_double_backward(grad: Tensor, indices: Tensor, num_weights: int, padding_idx: int,
                                    scale_grad_by_freq: bool) -> Tensor:
    rows = indices.reshape(-1)
    kept = rows != padding_idx
    values = grad.index_select(0, rows).where(kept.unsqueeze(1), 0)
    if scale_grad_by_freq:
        values = per_occurrence(values, rows, kept, num_weights)
    return values.reshape((*indices.shape, grad.shape[1]))


derivative("embedding", indices=NOT_DIFFERENTIABLE, result=AUTO_LINEAR,
           weight=lambda grad, indices, weight_shape, padding_idx, scale_grad_by_freq, sparse:
               run_name("embedding_backward", grad, indices, weight_shape[0], padding_idx, scale_grad_by_freq,
                        sparse))
derivative("embedding_dense_backward", indices=NOT_DIFFERENTIABLE, result=AUTO_LINEAR,
           grad_output=embedding_dense_double_backward)


def embedding_renorm_backward(grad: Tensor, self: Tensor, indices: Tensor, max_norm: float,
                              norm_type: float) -> Tensor:
    """Rows that were scaled: x * max_norm / (norm + 1e-7), where the norm depends on x as well."""
    named = self.new_zeros((self.shape[0], 1), dtype=DTYPES["bool"]).index_fill(
        0, indices.reshape(-1).to(DTYPES["int64"]), True)
    norm = run_name("linalg_vector_norm", self, norm_type, (1,), True, None)
    scaled = named & (norm > max_norm)
    scale = (max_norm / (norm + 1e-7)).where(scaled, 1)
    of_norm = (-(grad * self).sum(1, keepdim=True) * scale / (norm + 1e-7)).where(scaled, 0)
    through_norm = vector_norm_backward(of_norm, self, norm_type, (1,), True, None, norm)
    return grad * scale if through_norm is None else grad * scale + through_norm


derivative("embedding_renorm", self=embedding_renorm_backward, indices=NOT_DIFFERENTIABLE)


# Bags of rows. An index after the last offset belongs to no bag: -1.

def in_bag(indices: Tensor, offset2bag: Tensor, padding_idx: int) -> Tensor:
    """The indices that count, as a column."""
    return ((offset2bag >= 0) & (indices != padding_idx)).unsqueeze(1)


def of_bag(per_bag: Tensor, offset2bag: Tensor) -> Tensor:
    """For each index the row of its bag; any row for those without a bag."""
    return per_bag.index_select(0, offset2bag.clamp(min=0))


def into_bags(rows: Tensor, counted: Tensor, offset2bag: Tensor, bags: int) -> Tensor:
    """The sum of the counted rows of each bag."""
    return rows.new_zeros((bags, rows.shape[1])).index_add(0, offset2bag.clamp(min=0), rows.where(counted, 0))


def shares(like: Tensor, indices: Tensor, offset2bag: Tensor, bag_size: Tensor, num_weights: int,
           scale_grad_by_freq: bool, mode: int, padding_idx: int) -> Tensor:
    """What each index counts for in the gradient of the table apart from its sample weight, as a column."""
    counted = in_bag(indices, offset2bag, padding_idx)
    share = counted.to(like.dtype)
    if mode == MEAN:
        share = share / of_bag(bag_size, offset2bag).clamp(min=1).unsqueeze(1).to(like.dtype)
    return per_occurrence(share, indices, counted.squeeze(1), num_weights) if scale_grad_by_freq else share


def bag_double_backward(grad: Tensor, grad_shape: Shape, indices: Tensor, offset2bag: Tensor,
                        bag_size: Tensor, maximum_indices: Tensor, num_weights: int, scale_grad_by_freq: bool,
                        mode: int, per_sample_weights: Tensor | None, padding_idx: int) -> Tensor:
    """Bags of the rows of `grad`, as the gradient was spread to them."""
    if mode == MAX:
        return grad.gather(0, maximum_indices).where((bag_size > 0).unsqueeze(1), 0)
    share = shares(grad, indices, offset2bag, bag_size, num_weights, scale_grad_by_freq, mode, padding_idx)
    if per_sample_weights is not None:
        share = share * per_sample_weights.unsqueeze(1)
    counted = in_bag(indices, offset2bag, padding_idx)
    return into_bags(grad.index_select(0, indices) * share, counted, offset2bag, grad_shape[0])


def bag_sample_double_backward(grad: Tensor, grad_p: Tensor, indices: Tensor, offset2bag: Tensor,
                               bag_size: Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int,
                               padding_idx: int) -> Tensor:
    share = shares(grad, indices, offset2bag, bag_size, num_weights, scale_grad_by_freq, mode, padding_idx)
    return (grad.index_select(0, indices) * of_bag(grad_p, offset2bag) * share).sum(1)


derivative(["_embedding_bag", "_embedding_bag_forward_only"],
           indices=NOT_DIFFERENTIABLE, offsets=NOT_DIFFERENTIABLE,
           weight=lambda grad, indices, offsets, result1, result2, result3, weight_shape, scale_grad_by_freq,
                         mode, sparse, per_sample_weights, padding_idx:
               run_name("_embedding_bag_backward", grad, indices, offsets, result1, result2, result3,
                        weight_shape[0], scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx),
           per_sample_weights=lambda grad, weight, indices, offsets, result1, mode, padding_idx:
               run_name("_embedding_bag_per_sample_weights_backward", grad, weight, indices, offsets, result1,
                        mode, padding_idx))
derivative("_embedding_bag_dense_backward",
           indices=NOT_DIFFERENTIABLE, offset2bag=NOT_DIFFERENTIABLE, bag_size=NOT_DIFFERENTIABLE,
           maximum_indices=NOT_DIFFERENTIABLE,
           grad=bag_double_backward, per_sample_weights=bag_sample_double_backward)
derivative("_embedding_bag_per_sample_weights_backward",
           indices=NOT_DIFFERENTIABLE, offsets=NOT_DIFFERENTIABLE, offset2bag=NOT_DIFFERENTIABLE,
           grad=lambda grad, grad_shape, weight, indices, offset2bag, padding_idx:
               into_bags(grad.unsqueeze(1) * weight.index_select(0, indices),
                         in_bag(indices, offset2bag, padding_idx), offset2bag, grad_shape[0]),
           weight=lambda grad, grad_p, weight_shape, indices, offset2bag, padding_idx:
               grad.new_zeros(weight_shape).index_add(
                   0, indices, (grad.unsqueeze(1) * of_bag(grad_p, offset2bag)).where(
                       in_bag(indices, offset2bag, padding_idx), 0)))


# One-hot vectors.

derivative("one_hot", NOT_DIFFERENTIABLE)

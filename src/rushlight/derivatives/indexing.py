"""Derivatives of advanced indices and masks. Those along one dimension are in indexing_dim.py."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dispatch import run_name
from ..core.shapes import Shape, broadcast_shapes
from ..core.tensor import Tensor
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative

Indices = Sequence[Tensor | None]


# Advanced indices.

def index_backward(grad: Tensor, self_shape: Shape, indices: Indices) -> Tensor:
    """Elements that were read several times get the sum of the gradients."""
    return run_name("index_put", grad.new_zeros(self_shape), indices, grad, True)


def kept(grad: Tensor, indices: Indices, accumulate: bool) -> Tensor:
    """`grad` for the elements that an index_put left as they were."""
    return grad if accumulate else run_name("index_put", grad, indices, grad.new_zeros(()), False)


derivative(["index.Tensor", "_unsafe_index.Tensor"], self=index_backward, indices=NOT_DIFFERENTIABLE,
           result=AUTO_LINEAR)
derivative(["index_put", "_unsafe_index_put", "_index_put_impl"], self=kept, indices=NOT_DIFFERENTIABLE,
           values=lambda grad, indices: run_name("index.Tensor", grad, indices), result=AUTO_LINEAR)
derivative(["nonzero", "nonzero_static"], NOT_DIFFERENTIABLE)


# Masks.

def masked_select_backward(grad: Tensor, self_shape: Shape, mask: Tensor) -> Tensor:
    shape = broadcast_shapes(self_shape, mask.shape)
    return grad.new_zeros(shape).masked_scatter(mask, grad)


derivative("masked_fill.Scalar", self=lambda grad, mask: grad.masked_fill(mask, 0), mask=NOT_DIFFERENTIABLE,
           result=lambda self_t, mask: self_t.masked_fill(mask, 0))
derivative("masked_fill.Tensor", self=lambda grad, mask: grad.masked_fill(mask, 0), mask=NOT_DIFFERENTIABLE,
           value=lambda grad, mask: grad.where(mask, 0).sum(), result=AUTO_LINEAR)
derivative("masked_select", self=masked_select_backward, mask=NOT_DIFFERENTIABLE, result=AUTO_LINEAR)
derivative("masked_scatter", self=lambda grad, mask: grad.masked_fill(mask, 0), mask=NOT_DIFFERENTIABLE,
           source=lambda grad, mask, source_shape:
               run_name("masked_scatter_backward", grad, mask, source_shape),
           result=AUTO_LINEAR)

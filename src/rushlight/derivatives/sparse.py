"""Derivatives of the operators that sparse tensors are made of.

Taking values at places and putting them there are adjoint. Most operators on sparse tensors have no formula:
what they do to values they do by operators (kernels/sparse*.py), and are differentiated through them.
Gradients and tangents of a sparse tensor may be sparse or strided; formulas take either.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.shapes import Shape, Spec
from ..core.sparse import Compressed, Coo, make_sparse
from ..core.tensor import Tensor
from ..core.tokens import layout as Layout
from ..kernels.sparse import is_sparse, settled, structure
from ..kernels.sparse_matmul import sampled_rows
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative
from .helpers import conj
from .matmul import adjoint, plus, times


def take(self: Tensor, like: Tensor) -> Tensor:
    return run_name("_sparse_take", self, like)


def put(values: Tensor, like: Tensor) -> Tensor:
    return run_name("_sparse_put", values, like)


def at_places_of(grad: Tensor, self: Tensor) -> Tensor:
    """`grad` where a sparse `self` has elements; the whole of it for a strided one."""
    if not is_sparse(self):
        return grad
    places = structure(settled(self.detach()))
    return put(take(grad, places), places)


# Structure.


def take_backward(grad: Tensor, like: Tensor, self_spec: Spec) -> Tensor:
    spread = put(grad, like)
    return spread if self_spec.strides is None else run_name("_to_dense", spread, None, None)


derivative("_sparse_take", self=take_backward, like=NOT_DIFFERENTIABLE, result=AUTO_LINEAR)
derivative(
    "_sparse_put", values=lambda grad, like: take(grad, like), like=NOT_DIFFERENTIABLE, result=AUTO_LINEAR
)


def blank(shape: Shape, like: Tensor) -> Tensor:
    """Values that are only looked at for their shape."""
    return run_name("as_strided", like.new_zeros((1,)), shape, (0,) * len(shape), 0)


def coo_places(indices: Tensor, shape: Shape, size: Shape) -> Tensor:
    return make_sparse(Coo(indices.detach(), blank(shape, indices)), size)


def compressed_places(compressed: Tensor, plain: Tensor, shape: Shape, size: Shape, layout: Layout) -> Tensor:
    return make_sparse(Compressed(layout, compressed.detach(), plain.detach(), blank(shape, plain)), size)


derivative(
    "_sparse_coo_tensor_with_dims_and_tensors",
    indices=NOT_DIFFERENTIABLE,
    values=lambda grad, indices, values_shape, size: take(grad, coo_places(indices, values_shape, size)),
    result=lambda values_t, result: put(values_t, structure(result)),
)
derivative(
    ["sparse_compressed_tensor.comp_plain_value_size", "_sparse_compressed_tensor_unsafe"],
    compressed_indices=NOT_DIFFERENTIABLE,
    plain_indices=NOT_DIFFERENTIABLE,
    values=lambda grad, compressed_indices, plain_indices, values_shape, size, layout: take(
        grad, compressed_places(compressed_indices, plain_indices, values_shape, size, layout)
    ),
    result=lambda values_t, result: put(values_t, structure(result)),
)
derivative("_coalesce", self=lambda grad: grad, result=lambda self_t: self_t)
derivative(
    "values",
    self=lambda grad, self: put(grad, structure(self)),
    result=lambda self_t, self: take(self_t, structure(self)),
)
for _name in ("indices", "_indices", "_values", "crow_indices", "col_indices", "ccol_indices", "row_indices"):
    derivative(_name, NOT_DIFFERENTIABLE)


# Density.


def to_dense_backward(grad: Tensor, self: Tensor, masked_grad: bool | None) -> Tensor:
    """The gradient at the places of `self` or, unless it is masked, at all places."""
    if masked_grad is not False or not is_sparse(self):
        return at_places_of(grad, self)
    parts = self._parts
    if isinstance(parts, Coo):
        return run_name("_to_sparse.sparse_dim", grad, parts.sparse_dim) if parts.sparse_dim else grad
    block = parts.block if parts.values.ndim > parts.plain.ndim + parts.dense_dim else None
    return grad if parts.batch else run_name("_to_sparse", grad, parts.layout, block, parts.dense_dim)


def dense(tensor: Tensor, dtype: Any = None) -> Tensor:
    """`tensor` as a strided one."""
    if is_sparse(tensor):
        return run_name("_to_dense", tensor, dtype, None)
    return tensor if dtype in (None, tensor.dtype) else tensor.to(dtype)


derivative("_to_dense", self=to_dense_backward, result=lambda self_t, dtype: dense(self_t, dtype))

derivative("_sparse_strided", self=lambda grad: grad, result=lambda self_t: dense(self_t))


# Products.

derivative(
    "_sparse_sparse_matmul",
    self=lambda grad, self, other: at_places_of(grad.mm(adjoint(other)), self),
    other=lambda grad, self, other: at_places_of(adjoint(self).mm(grad), other),
    result=lambda self_t, other_t, self_p, other_p: dense(self_t.mm(other_p)) + self_p.mm(other_t),
)
derivative(
    "_sparse_addmm",
    self=lambda grad, beta: times(beta, grad),
    mat1=lambda grad, mat1, mat2, alpha: at_places_of(times(alpha, grad.mm(adjoint(mat2))), mat1),
    mat2=lambda grad, mat1, mat2, alpha: at_places_of(times(alpha, adjoint(mat1).mm(grad)), mat2),
    result=lambda self_t, mat1_t, mat2_t, mat1_p, mat2_p, beta, alpha: plus(
        "addmm", beta, alpha, self_t, mat1_t, mat2_t, mat1_p, mat2_p
    ),
)


def sampled_backward(
    grad: Tensor, self: Tensor, mat1: Tensor, mat2: Tensor, alpha: Any, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """The gradient at each place goes to the row and the column that met there."""
    places = structure(self)
    left, right, left_at, right_at = sampled_rows(places, mat1, mat2)
    grads = times(alpha, take(grad, places)).reshape(-1, 1)

    def spread(matrix: Tensor, at: Any, rows: Tensor) -> Tensor:
        found: Tensor = run_name("index_put", matrix.new_zeros(matrix.shape), at, rows, True)
        return found

    return (
        spread(mat1, left_at, grads * conj(right)) if needs[0] else None,
        spread(mat2.transpose(-2, -1), right_at, grads * conj(left)).transpose(-2, -1) if needs[1] else None,
    )


derivative(
    "sparse_sampled_addmm",
    ("mat1", "mat2"),
    sampled_backward,
    self=lambda grad, beta: times(beta, grad),
    result=lambda self_t, mat1_t, mat2_t, self_p, mat1_p, mat2_p, beta, alpha: plus(
        "sparse_sampled_addmm", beta, alpha, at_places_of(self_t, self_p), mat1_t, mat2_t, mat1_p, mat2_p
    ),
)

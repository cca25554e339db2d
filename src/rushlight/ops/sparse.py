"""Operators that make sparse tensors or look inside of them: their schemas.

How they run is on the kernels floor, in `sparse.py` and its parts.
"""

from __future__ import annotations

from ..core.declare_layouts import sparse_operator
from ..core.registry import FUNCTION, INTERNAL, METHOD
from ..core.traits import Trait
from .creation import OPTIONS

# Structure. `_sparse_take` and `_sparse_put` are adjoint; what happens to values happens between the two.
for _schema in (
    # the values of `self`, of any layout, at the places of a sparse tensor, in the shape of its values
    "_sparse_take(Tensor self, Tensor like) -> Tensor",
    # the tensor that has `values` at the places of `like`
    "_sparse_put(Tensor values, Tensor like) -> Tensor",
    "_sparse_coo_tensor_with_dims_and_tensors(int sparse_dim, int dense_dim, SymInt[] size, Tensor indices, "
    f"Tensor values, *, {OPTIONS}, bool? is_coalesced=None) -> Tensor",
    f"_sparse_coo_tensor_with_dims(int sparse_dim, int dense_dim, int[] size, *, {OPTIONS}) -> Tensor",
    f"_sparse_compressed_tensor_unsafe(Tensor compressed_indices, Tensor plain_indices, Tensor values, "
    f"SymInt[] size, *, {OPTIONS}) -> Tensor",
    f"sparse_compressed_tensor.comp_plain_value_size(Tensor compressed_indices, Tensor plain_indices, "
    f"Tensor values, SymInt[] size, *, {OPTIONS}) -> Tensor",
    # `_to_dense` with the strided gradient as it is
    "_sparse_strided(Tensor self) -> Tensor",
    "_to_dense(Tensor self, ScalarType? dtype=None, bool? masked_grad=None) -> Tensor",
    "_sparse_mask_projection(Tensor self, Tensor mask, bool accumulate_matches=False) -> Tensor",
    "_sparse_sum_backward(Tensor grad, Tensor self, int[] dim) -> Tensor",
    "_sparse_mm_reduce_impl(Tensor self, Tensor other, str reduce) -> (Tensor, Tensor)",
    "_sparse_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    "_sparse_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
):
    sparse_operator(_schema, api=INTERNAL)

for _schema in (
    "_coalesce(Tensor self) -> Tensor",
    "_sparse_sparse_matmul(Tensor self, Tensor other) -> Tensor",
    "_sparse_sum.dim(Tensor self, int[1] dim) -> Tensor",
    "_sparse_csr_sum.dim_dtype(Tensor self, int[1] dim, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "_sparse_csr_prod.dim_dtype(Tensor self, int[1] dim, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
):
    sparse_operator(_schema, api=FUNCTION)

# Members. The ones with an underscore have no history.
for _name in (
    "indices",
    "values",
    "_indices",
    "_values",
    "crow_indices",
    "col_indices",
    "ccol_indices",
    "row_indices",
):
    sparse_operator(f"{_name}(Tensor(a) self) -> Tensor(a)", api=METHOD)

# Conversion.
for _schema in (
    "_to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None) -> Tensor",
    "_to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor",
    "_to_sparse_csr(Tensor self, int? dense_dim=None) -> Tensor",
    "_to_sparse_csc(Tensor self, int? dense_dim=None) -> Tensor",
    "_to_sparse_bsr(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor",
    "_to_sparse_bsc(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor",
):
    sparse_operator(_schema, api=METHOD, traits=Trait.DEFERRED)
sparse_operator("sparse_mask(Tensor self, Tensor mask) -> Tensor", api=METHOD)

# Functions of the namespace `sparse`.
sparse_operator(
    "_spdiags(Tensor diagonals, Tensor offsets, int[] shape, Layout? layout=None) -> Tensor",
    namespace="sparse",
    public_name="spdiags",
    api=FUNCTION,
)
sparse_operator(
    "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    namespace="sparse",
    public_name="addmm",
    api=FUNCTION,
)
sparse_operator(
    "sparse_sampled_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    namespace="sparse",
    public_name="sampled_addmm",
    api=FUNCTION,
    traits=Trait.DEFERRED,
)

"""Operators on sparse tensors in terms of simpler ones, and how composites treat sparse arguments."""

from __future__ import annotations

from typing import Any

from ..core.declare_layouts import sparse_kernel
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, METHOD, composite
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor
from ..core.tokens import layout as Layout
from ..core.tokens import sparse_coo
from ..core.traits import Trait
from ..kernels.sparse import is_sparse, put, settled, stored, values_of
from ..kernels.sparse_shape import narrow_copy
from . import pointwise, reduction, shape, view  # noqa: F401  whose operators are given sparse kernels here

# Conversion.


@composite("to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor", api=METHOD)
def to_dense(self: Tensor, dtype: Any, masked_grad: bool | None) -> Tensor:
    if is_sparse(self):
        return run_name("_to_dense", self, dtype, masked_grad)
    return self if dtype is None else self.to(dtype)


@composite(
    "to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, int? dense_dim=None) -> Tensor",
    api=METHOD,
)
def to_sparse(self: Tensor, layout: Layout | None, blocksize: Any, dense_dim: int | None) -> Tensor:
    if self.layout is (layout or sparse_coo) and blocksize is None and dense_dim is None:
        return self
    return run_name("_to_sparse", self, layout, blocksize, dense_dim)


@composite("to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor", api=METHOD)
def to_sparse_dim(self: Tensor, sparse_dim: int) -> Tensor:
    return run_name("_to_sparse.sparse_dim", self, sparse_dim)


@composite("to_sparse_csr(Tensor self, int? dense_dim=None) -> Tensor", api=METHOD)
def to_sparse_csr(self: Tensor, dense_dim: int | None) -> Tensor:
    return run_name("_to_sparse_csr", self, dense_dim)


@composite("to_sparse_csc(Tensor self, int? dense_dim=None) -> Tensor", api=METHOD)
def to_sparse_csc(self: Tensor, dense_dim: int | None) -> Tensor:
    return run_name("_to_sparse_csc", self, dense_dim)


@composite("to_sparse_bsr(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor", api=METHOD)
def to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None) -> Tensor:
    return run_name("_to_sparse_bsr", self, blocksize, dense_dim)


@composite("to_sparse_bsc(Tensor self, int[2] blocksize, int? dense_dim=None) -> Tensor", api=METHOD)
def to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None) -> Tensor:
    return run_name("_to_sparse_bsc", self, blocksize, dense_dim)


@composite("coalesce(Tensor self) -> Tensor", api=METHOD)
def coalesce(self: Tensor) -> Tensor:
    check(
        self.layout is sparse_coo,
        f"coalesce expected sparse coordinate tensor layout but got {self.layout.name}",
    )
    return self if self._parts.coalesced else run_name("_coalesce", self)


# Products.


@composite(
    "_sparse_mm(Tensor sparse, Tensor dense) -> Tensor", api=FUNCTION, namespace="sparse", public_name="mm"
)
def sparse_mm(sparse: Tensor, dense: Tensor) -> Tensor:
    if is_sparse(sparse) and is_sparse(dense):
        return run_name("_sparse_sparse_matmul", sparse, dense)
    check(is_sparse(sparse) or is_sparse(dense), "sparse.mm: one of the two matrices must be sparse")
    check(
        sparse.ndim == 2 and dense.ndim == 2,
        f"sparse.mm: both arguments must be matrices, got {sparse.ndim}-D and {dense.ndim}-D tensors",
    )
    start = (dense if is_sparse(sparse) else sparse).new_zeros((sparse.shape[0], dense.shape[1]))
    return run_name("_sparse_addmm", start, sparse, dense, 0, 1)


@composite(
    "_sparse_mm.reduce(Tensor sparse, Tensor dense, str reduce) -> Tensor",
    api=FUNCTION,
    namespace="sparse",
    public_name="mm",
    traits=Trait.DEFERRED,
)
def sparse_mm_reduce(sparse: Tensor, dense: Tensor, reduce: str) -> Tensor:
    return run_name("_sparse_mm_reduce_impl", sparse, dense, reduce)[0]


@composite("smm(Tensor self, Tensor mat2) -> Tensor")
def smm(self: Tensor, mat2: Tensor) -> Tensor:
    """A sparse matrix times a strided one, as a sparse matrix."""
    return run_name("_to_sparse", self.mm(mat2), None, None, None)


@composite("hspmm(Tensor mat1, Tensor mat2) -> Tensor", api=FUNCTION)
def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """A sparse matrix times a strided one, as a tensor of sparse rows."""
    return run_name("_to_sparse.sparse_dim", mat1.mm(mat2), 1)


@composite("sspaddmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
def sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * self + alpha * (mat1 @ mat2), as a sparse matrix."""
    return self * beta + run_name("_to_sparse", mat1.mm(mat2), None, None, None) * alpha


# Sums and softmax.


@composite("_sparse_sum(Tensor self) -> Tensor", api=FUNCTION)
def sparse_sum(self: Tensor) -> Tensor:
    check(is_sparse(self), "sparse.sum expected a sparse tensor but got a strided one")
    return values_of(settled(self)).sum()


@composite("_sparse_sum.dtype(Tensor self, *, ScalarType dtype) -> Tensor", api=FUNCTION)
def sparse_sum_dtype(self: Tensor, dtype: Any) -> Tensor:
    check(is_sparse(self), "sparse.sum expected a sparse tensor but got a strided one")
    return values_of(settled(self)).sum(dtype=dtype)


@composite("_sparse_sum.dim_dtype(Tensor self, int[1] dim, *, ScalarType dtype) -> Tensor", api=FUNCTION)
def sparse_sum_dim_dtype(self: Tensor, dim: Any, dtype: Any) -> Tensor:
    return run_name("_sparse_sum.dim", self.to(dtype), dim)


@composite("_sparse_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", api=INTERNAL)
def sparse_softmax(self: Tensor, dim: int, dtype: Any) -> Tensor:
    return run_name("_sparse_softmax", self if dtype is None else self.to(dtype), dim, False)


@composite("_sparse_log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", api=INTERNAL)
def sparse_log_softmax(self: Tensor, dim: int, dtype: Any) -> Tensor:
    return run_name("_sparse_log_softmax", self if dtype is None else self.to(dtype), dim, False)


@sparse_kernel("linalg_vector_norm")
def vector_norm(self: Tensor, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    check(
        dim is None or len(set(dim)) == self.ndim,
        "norm of a sparse tensor: only full reductions are "
        "supported, so that 'dim' must be empty or contain all dimensions",
    )
    total = run_name("linalg_vector_norm", values_of(settled(self)), ord, None, False, dtype)
    return total.reshape((1,) * self.ndim) if keepdim else total


@sparse_kernel("norm.Scalar")
def norm(self: Tensor, p: Any) -> Tensor:
    return values_of(settled(self)).norm(p)


@sparse_kernel("norm.ScalarOpt_dtype")
def norm_dtype(self: Tensor, p: Any, dtype: Any) -> Tensor:
    return values_of(settled(self)).to(dtype).norm(2 if p is None else p)


@sparse_kernel("norm.ScalarOpt_dim")
def norm_dim(self: Tensor, p: Any, dim: Any, keepdim: bool) -> Tensor:
    check(
        len(dim) in (0, self.ndim) and not keepdim,
        "norm_sparse currently only supports full reductions, so "
        "'dim' must either be empty or contain all dimensions of the input",
    )
    return values_of(settled(self)).norm(2 if p is None else p)


@sparse_kernel("real")
def real(self: Tensor) -> Tensor:
    source = stored(self)
    return put(run_name("real", values_of(source)), source) if self.dtype.is_complex else self


@sparse_kernel("imag")
def imag(self: Tensor) -> Tensor:
    source = stored(self)
    return put(run_name("imag", values_of(source)), source)


# Shapes.


@sparse_kernel("narrow_copy", layouts=(sparse_coo,))
def narrowed(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    return narrow_copy(self, dim, start, length)


@sparse_kernel("stack", layouts=(sparse_coo,))
def stack(tensors: tuple[Tensor, ...], dim: int) -> Tensor:
    at = wrap_dim(dim, tensors[0].ndim + 1, name="stack")
    return run_name("cat", tuple(tensor.unsqueeze(at) for tensor in tensors), at)


@sparse_kernel("reshape")
def no_reshape() -> Tensor:
    raise NotImplementedError("reshape is not implemented for sparse tensors; call .to_dense() first")


@sparse_kernel("positive", "resolve_conj", "resolve_neg", "contiguous")
def itself(self: Tensor) -> Tensor:
    return self


# Gradients.


@composite("_gather_sparse_backward(Tensor self, int dim, Tensor index, Tensor grad) -> Tensor", api=INTERNAL)
def gather_sparse_backward(self: Tensor, dim: int, index: Tensor, grad: Tensor) -> Tensor:
    """The gradient of `gather` as a tensor of coordinates, one for each index."""
    if self.ndim == 0:
        return run_name(
            "_sparse_coo_tensor_with_dims_and_tensors",
            0,
            0,
            (),
            index.new_zeros((0, index.numel())),
            grad.reshape(-1),
            None,
            None,
            None,
            None,
            None,
        )
    at = wrap_dim(dim, self.ndim, name="gather")
    if index.ndim == 0:
        index, grad = index.unsqueeze(0), grad.unsqueeze(0)
    places = []
    for d, size in enumerate(index.shape):
        steps = run_name("arange", size, index.dtype, None, None, None)
        steps = steps.reshape((1,) * d + (size,) + (1,) * (index.ndim - d - 1))
        places.append((index if d == at else steps.expand(index.shape)).reshape(-1))
    return run_name(
        "_sparse_coo_tensor_with_dims_and_tensors",
        self.ndim,
        0,
        tuple(self.shape),
        run_name("stack", tuple(places), 0),
        grad.reshape(-1),
        None,
        None,
        None,
        None,
        None,
    )

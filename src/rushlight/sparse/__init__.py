"""Sparse tensors: construction, products, sums and softmax, under PyTorch's names (see docs/sparse.md)."""

from __future__ import annotations

import builtins
from typing import Any

from .._api.link import API
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor
from . import _methods  # noqa: F401  attaches the methods of sparse tensors
from ._construct import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from ._gradcheck import as_sparse_gradcheck
from ._invariants import check_sparse_tensor_invariants

addmm = API.functions["sparse"]["addmm"]
mm = API.functions["sparse"]["mm"]
sampled_addmm = API.functions["sparse"]["sampled_addmm"]
spdiags = API.functions["sparse"]["spdiags"]

__all__ = [
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "spdiags",
    "sum",
]


def sum(input: Tensor, dim: int | tuple[int, ...] | None = None, dtype: Any = None) -> Tensor:
    """The sum of a tensor of coordinates: over everything, or over `dim`, the result being sparse if a sparse
    dimension is left.

    >>> rl.sparse.sum(rl.eye(2).to_sparse())
    tensor(2.)
    """
    if dim is None:
        return (
            run_name("_sparse_sum", input) if dtype is None else run_name("_sparse_sum.dtype", input, dtype)
        )
    dims = tuple(dim) if isinstance(dim, tuple | list) else (dim,)
    check(
        builtins.all(isinstance(d, int) for d in dims),
        f"sparse.sum: dim must be ints, not {dim!r}",
        TypeError,
    )
    if dims:
        return run_name("_sparse_sum.dim", input if dtype is None else input.to(dtype), dims)
    return input.clone() if dtype is None else input.to(dtype)


def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along `dim` of the elements that are there; the others count as -inf.

    >>> rl.sparse.softmax(rl.eye(2).to_sparse(), dim=1).values()
    tensor([1., 1.])
    """
    return run_name("_sparse_softmax.int", input, dim, dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of `softmax`.

    >>> rl.sparse.log_softmax(rl.eye(2).to_sparse(), dim=1).values()
    tensor([0., 0.])
    """
    return run_name("_sparse_log_softmax.int", input, dim, dtype)

"""Batching rules of factorizations and solvers: any batch in front of the matrices is theirs already."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import Whole, batching

batching(
    [
        "linalg_cholesky_ex", "linalg_inv_ex", "_linalg_det", "_linalg_slogdet", "linalg_lu_factor_ex",
        "linalg_lu", "linalg_eig", "_linalg_eigvals", "linalg_ldl_factor_ex", "linalg_matrix_exp",
    ],
    Whole(),
)  # fmt: skip


def with_batch(results: tuple[Tensor, ...], batch: int) -> tuple[Tensor, ...]:
    """Results that were not asked for are empty; under vmap they have a batch like the others."""
    return tuple(x.new_empty((batch, 0)) if tuple(x.shape) == (0,) else x for x in results)


@batching("linalg_qr")
def qr(A: Any, mode: Any, batch: Any) -> Any:
    return with_batch(run_name("linalg_qr", A, mode), batch)


@batching("_linalg_svd")
def svd(A: Any, full_matrices: Any, compute_uv: Any, driver: Any, batch: Any) -> Any:
    return with_batch(run_name("_linalg_svd", A, full_matrices, compute_uv, driver), batch)


@batching("_linalg_eigh")
def eigh(A: Any, UPLO: Any, compute_v: Any, batch: Any) -> Any:
    return with_batch(run_name("_linalg_eigh", A, UPLO, compute_v), batch)


@batching("lu_unpack", all_batched=True)
def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: Any, unpack_pivots: Any, batch: Any) -> Any:
    return with_batch(run_name("lu_unpack", LU_data, LU_pivots, unpack_data, unpack_pivots), batch)


def aligned(tensor: Tensor, ndim: int, batched: bool, rank: int) -> Tensor:
    """A batched tensor with as many dimensions after its batch as `rank`."""
    if not batched or ndim >= rank:
        return tensor
    return tensor.reshape(tensor.shape[0], *(1,) * (rank - ndim), *tensor.shape[1:])


@batching("_linalg_solve_ex")
def solve(
    A: Any, B: Any, left: Any, check_errors: Any, A_batched: Any, A_ndim: Any, B_batched: Any, B_ndim: Any
) -> Any:
    shape_a = A.shape[1:] if A_batched else A.shape
    shape_b = B.shape[1:] if B_batched else B.shape
    vector = B_ndim == 1 or (A_ndim - 1 == B_ndim and tuple(shape_b) == tuple(shape_a[:-1]))
    side = B.unsqueeze(-1) if vector else B
    columns = B_ndim + 1 if vector else B_ndim
    rank = max(A_ndim, columns)
    matrix = aligned(A, A_ndim, A_batched, rank)
    side = aligned(side, columns, B_batched, rank)
    size = A.shape[0] if A_batched else B.shape[0]
    if not A_batched:  # the factors are results too, so they need the batch
        matrix = (
            A.expand(size, *A.shape)
            if A_ndim == rank
            else A.reshape((1,) * (rank - A_ndim) + tuple(A.shape)).expand(
                size, *(1,) * (rank - A_ndim), *A.shape
            )
        )
    result, lu, pivots, info = run_name("_linalg_solve_ex", matrix, side, left, check_errors)
    extra = rank - A_ndim
    trimmed = [x.reshape(size, *x.shape[1 + extra :]) for x in (lu, pivots, info)]
    return (result.squeeze(-1) if vector else result, *trimmed)


@batching("linalg_solve_triangular")
def solve_triangular(
    self: Any,
    B: Any,
    upper: Any,
    left: Any,
    unitriangular: Any,
    self_batched: Any,
    self_ndim: Any,
    B_batched: Any,
    B_ndim: Any,
) -> Any:
    rank = max(self_ndim, B_ndim)
    matrix, side = aligned(self, self_ndim, self_batched, rank), aligned(B, B_ndim, B_batched, rank)
    return run_name("linalg_solve_triangular", matrix, side, upper, left, unitriangular)


@batching("linalg_ldl_solve", all_batched=True)
def ldl_solve(LD: Any, pivots: Any, B: Any, hermitian: Any, LD_ndim: Any, B_ndim: Any) -> Any:
    rank = max(LD_ndim, B_ndim)
    return run_name(
        "linalg_ldl_solve",
        aligned(LD, LD_ndim, True, rank),
        aligned(pivots, LD_ndim - 1, True, rank - 1),
        aligned(B, B_ndim, True, rank),
        hermitian,
    )


@batching("linalg_lstsq", all_batched=True)
def lstsq(self: Any, b: Any, rcond: Any, driver: Any, self_ndim: Any, b_ndim: Any, batch: Any) -> Any:
    vector = self_ndim - 1 == b_ndim and tuple(b.shape) == tuple(self.shape[:-1])
    side = b.unsqueeze(-1) if vector else b
    columns = b_ndim + 1 if vector else b_ndim
    rank = max(self_ndim, columns)
    found = run_name(
        "linalg_lstsq",
        aligned(self, self_ndim, True, rank),
        aligned(side, columns, True, rank),
        rcond,
        driver,
    )
    solution, *others = with_batch(found, batch)
    return (solution.squeeze(-1) if vector else solution, *others)

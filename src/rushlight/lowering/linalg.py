"""Factorizations, and what is computed from them, are calls of LAPACK on whole matrices."""

from __future__ import annotations

from .declare import extern

extern(
    "LAPACK factorizes whole matrices",
    "linalg_cholesky_ex",
    "linalg_lu_factor_ex",
    "linalg_lu",
    "linalg_qr",
    "linalg_ldl_factor_ex",
    "_linalg_svd",
    "_linalg_eigh",
    "linalg_eig",
    "_linalg_eigvals",
)
extern(
    "LAPACK solves with whole matrices",
    "_linalg_solve_ex",
    "linalg_inv_ex",
    "linalg_solve_triangular",
    "linalg_ldl_solve",
    "linalg_lstsq",
)
extern("read off a factorization by LAPACK", "_linalg_det", "_linalg_slogdet")
extern("the rows that a factorization swapped are data", "lu_unpack")
extern("how often a matrix is halved and squared depends on its norm", "linalg_matrix_exp")

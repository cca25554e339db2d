"""Factorizations and solvers on NumPy arrays: LAPACK through NumPy where it works on batches, SciPy where "
"not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core.errors import LinAlgError
from ..core.lazy import LazyModule
from ..core.registry import kernel, operator
from ..core.shapes import Shape, Spec
from .linalg_threads import in_one_thread

lapack, blas = LazyModule("scipy.linalg.lapack"), LazyModule("scipy.linalg.blas")
scipy_linalg = LazyModule("scipy.linalg")
numpy_linalg: Any = np.linalg  # whose overloads know letters and modes only as literals


def routine(name: str, like: np.ndarray) -> Callable[..., Any]:
    """A LAPACK routine for the dtype of an array."""
    return _routine(lapack, name, like.dtype.char)


@functools.cache
def _routine(library: Any, name: str, char: str) -> Callable[..., Any]:
    letter = {"f": "s", "d": "d", "F": "c", "D": "z"}[char]
    found: Callable[..., Any] = getattr(library, letter + name)
    return found


def each(a: np.ndarray) -> Iterable[tuple[int, ...]]:
    """The indices of all matrices of a batch."""
    return indices(a.shape[:-2])


def indices(batch: Shape) -> Iterable[tuple[int, ...]]:
    """Those of a batch; of a single matrix without NumPy's iterator, which takes longer than small matrices."""
    return np.ndindex(batch) if batch else ((),)


def spread(a: np.ndarray, shape: Shape) -> np.ndarray:
    """`a` broadcast to a shape, to be read."""
    return a if a.shape == shape else np.broadcast_to(a, shape)


def report(
    info: np.ndarray,
    wanted: bool,
    name: str,
    message: Callable[[int], str],
    error: type[Exception] = LinAlgError,
) -> None:
    """Raise for the first matrix in trouble, if errors are wanted."""
    if not wanted or not info.any():
        return
    position = np.flatnonzero(info.ravel())[0]
    where = f"(Batch element {position}): " if info.ndim else ""
    raise error(f"{name}: {where}{message(int(info.ravel()[position]))}")


# LU.


def lu_factor(a: np.ndarray, pivot: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(LU, pivots counted from 1, info)."""
    m, n = a.shape[-2:]
    lu = np.empty(a.shape, a.dtype)
    pivots = np.empty((*a.shape[:-2], min(m, n)), np.int32)
    info = np.zeros(a.shape[:-2], np.int32)
    getrf = routine("getrf", a) if a.size else None
    for at in each(a):
        if getrf is None:
            continue
        if pivot:
            lu[at], pivots[at], info[at] = getrf(a[at])
            pivots[at] += 1
        else:
            lu[at], info[at] = _lu_without_pivots(a[at])
            pivots[at] = np.arange(1, min(m, n) + 1)
    return lu, pivots, info


def _lu_without_pivots(a: np.ndarray) -> tuple[np.ndarray, int]:
    lu, info = a.copy(), 0
    with np.errstate(all="ignore"):
        for k in range(min(a.shape)):
            if lu[k, k] == 0 and not info:
                info = k + 1
            lu[k + 1 :, k] /= lu[k, k]
            lu[k + 1 :, k + 1 :] -= np.outer(lu[k + 1 :, k], lu[k, k + 1 :])
    return lu, info


def permutations(pivots: np.ndarray, m: int) -> np.ndarray:
    """For each list of row exchanges, which row comes to each place."""
    if pivots.size and (pivots.min() < 1 or pivots.max() > m):
        raise RuntimeError(
            f"pivots given to lu_unpack and lu_solve must be in 1..{m}; they are those that lu_factor returns"
        )
    order = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).copy()
    for at in indices(pivots.shape[:-1]):
        row = order[at]
        for i, j in enumerate(pivots[at] - 1):
            row[i], row[j] = row[j], row[i]
    return order


def permutation_matrices(order: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """P with A = P L U, where row i of L U is row order[i] of A."""
    m = order.shape[-1]
    matrix = np.zeros((*order.shape, m), dtype)
    np.put_along_axis(matrix, order[..., None, :], 1, axis=-2)
    return matrix


def unpacked(lu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    m, n = lu.shape[-2:]
    k = min(m, n)
    return np.tril(lu[..., :k], -1) + np.eye(m, k, dtype=lu.dtype), np.triu(lu[..., :k, :])


def lu_factor_ex(A: np.ndarray, pivot: bool, check_errors: bool) -> tuple[np.ndarray, ...]:
    lu, pivots, info = lu_factor(A, pivot)
    report(
        info,
        check_errors,
        "torch.linalg.lu_factor_ex",
        lambda i: f"U[{i},{i}] is zero and using it on lu_solve would result in a division by zero.",
        RuntimeError,
    )
    return lu, pivots, info


def lu(A: np.ndarray, pivot: bool) -> tuple[np.ndarray, ...]:
    packed, pivots, _ = lu_factor(A, pivot)
    return (permutation_matrices(permutations(pivots, A.shape[-2]), A.dtype), *unpacked(packed))


def lu_unpack(
    LU_data: np.ndarray, LU_pivots: np.ndarray, unpack_data: bool, unpack_pivots: bool, out: tuple[Spec, ...]
) -> tuple[np.ndarray, ...]:
    nothing = np.empty((0,), LU_data.dtype)
    m = LU_data.shape[-2]
    matrix = permutation_matrices(permutations(LU_pivots, m), LU_data.dtype) if unpack_pivots else nothing
    return (matrix, *(unpacked(LU_data) if unpack_data else (nothing, nothing.copy())))


def sign_of_exchanges(pivots: np.ndarray) -> np.ndarray:
    exchanged = (pivots != np.arange(1, pivots.shape[-1] + 1)).sum(-1)
    return 1 - 2 * (exchanged % 2)


def det(A: np.ndarray) -> tuple[np.ndarray, ...]:
    packed, pivots, _ = lu_factor(A)
    diagonal = np.diagonal(packed, axis1=-2, axis2=-1)
    return (diagonal.prod(-1) * sign_of_exchanges(pivots)).astype(A.dtype), packed, pivots


def slogdet(A: np.ndarray) -> tuple[np.ndarray, ...]:
    packed, pivots, _ = lu_factor(A)
    diagonal = np.diagonal(packed, axis1=-2, axis2=-1)
    size = np.abs(diagonal)
    with np.errstate(all="ignore"):
        if A.dtype.kind == "c":
            units = np.where(size == 0, 0, diagonal / np.where(size == 0, 1, size))
        else:
            units = (diagonal > 0) * 1.0 - (diagonal < 0)  # NaN has no sign
        signs = units.prod(-1) * sign_of_exchanges(pivots)
        return signs.astype(A.dtype), np.log(size).sum(-1).astype(size.dtype), packed, pivots


def inverse(A: np.ndarray, check_errors: bool) -> tuple[np.ndarray, np.ndarray]:
    info = np.zeros(A.shape[:-2], np.int32)
    try:
        return np.linalg.inv(A), info
    except np.linalg.LinAlgError:
        pass  # some matrix is singular: find out which
    result = np.empty_like(A)
    for at in each(A):
        packed, pivots, status = routine("getrf", A)(A[at])
        info[at] = status
        result[at] = np.full(A.shape[-2:], np.inf) if status else routine("getri", A)(packed, pivots)[0]
    report(
        info,
        check_errors,
        "linalg.inv",
        lambda i: (
            f"The diagonal element {i} is zero, the inversion could not be "
            "completed because the input matrix is singular."
        ),
    )
    return result, info


def solve(
    A: np.ndarray, B: np.ndarray, left: bool, check_errors: bool, out: tuple[Spec, ...]
) -> tuple[np.ndarray, ...]:
    packed, pivots, info = lu_factor(A)
    report(
        info,
        check_errors,
        "torch.linalg.solve",
        lambda i: "The solver failed because the input matrix is singular.",
    )
    shape = out[0].known_shape()
    vector = (
        len(shape) < max(A.ndim, B.ndim) or B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    )
    right = B[..., None] if vector else B
    batch = shape[:-1] if vector else shape[:-2]
    result = np.empty((*batch, *right.shape[-2:]), A.dtype)
    if result.size:
        getrs = routine("getrs", A)
        factors = spread(packed, (*batch, *A.shape[-2:]))
        exchanges = spread(pivots, (*batch, pivots.shape[-1]))
        sides = spread(right, result.shape)
        with np.errstate(all="ignore"):
            for at in indices(batch):
                if left:
                    result[at] = getrs(factors[at], exchanges[at] - 1, sides[at])[0]
                else:
                    result[at] = getrs(factors[at], exchanges[at] - 1, sides[at].T, trans=1)[0].T
    return (result[..., 0] if vector else result), packed, pivots, info


def solve_triangular(
    self: np.ndarray, B: np.ndarray, upper: bool, left: bool, unitriangular: bool, out: Spec
) -> np.ndarray:
    shape = out.known_shape()
    result = np.empty(shape, B.dtype)
    result[...] = B
    if not result.size:
        return result
    matrices = spread(self, (*shape[:-2], *self.shape[-2:]))
    trsm = _routine(blas, "trsm", B.dtype.char)
    for at in indices(shape[:-2]):
        # transposed, since the routine wants columns: X A = B for A X = B, with the transpose of A
        matrix, solved = matrices[at], result[at].T
        turned = matrix.flags.f_contiguous
        found = trsm(
            1,
            matrix if turned else matrix.T,
            solved,
            side=left,
            lower=upper != turned,
            trans_a=turned,
            diag=unitriangular,
            overwrite_b=1,
        )
        if found is not solved:
            solved[...] = found
    return result


# Cholesky, QR, singular and eigenvalues.


def cholesky(self: np.ndarray, upper: bool, check_errors: bool) -> tuple[np.ndarray, np.ndarray]:
    info = np.zeros(self.shape[:-2], np.int32)
    result = np.empty(self.shape, self.dtype)
    for at in each(self):
        if self.shape[-1]:
            # the transpose, which lies in memory as the routine wants it
            found, info[at] = routine("potrf", self)(self[at].T, lower=upper, clean=1)
            result[at] = found.T
    if not info.all() and not np.isfinite(self).all():
        for at in each(self):
            if not info[at] and not np.isfinite(self[at]).all():
                result[at], info[at] = _cholesky_by_columns(self[at], upper)
    report(
        info,
        check_errors,
        "linalg.cholesky",
        lambda i: (
            "The factorization could not be completed because the input is not positive-definite (the "
            "leading "
            f"minor of order {i} is not positive-definite)."
        ),
    )
    return result, info


def _cholesky_by_columns(a: np.ndarray, upper: bool) -> tuple[np.ndarray, int]:
    """As the routine of LAPACK, which stops at NaN; the one that is linked may go on."""
    a = np.conj(a.T) if upper else a
    lower = np.zeros_like(a)
    found = 0
    with np.errstate(all="ignore"):
        for j in range(len(a)):
            pivot = a[j, j].real - (np.abs(lower[j, :j]) ** 2).sum()
            if not pivot > 0:
                lower[j:, j:] = np.tril(a[j:, j:])
                lower[j, j] = pivot
                found = j + 1
                break
            lower[j, j] = np.sqrt(pivot)
            lower[j + 1 :, j] = (a[j + 1 :, j] - lower[j + 1 :, :j] @ np.conj(lower[j, :j])) / lower[j, j]
    return (np.conj(lower.T) if upper else lower), found


def qr(A: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    if mode == "r":
        return np.empty((0,), A.dtype), numpy_linalg.qr(A, "r")
    q, r = numpy_linalg.qr(A, mode)
    return q, r


def svd(A: np.ndarray, full_matrices: bool, compute_uv: bool) -> tuple[np.ndarray, ...]:
    try:
        if compute_uv:
            u, s, vh = np.linalg.svd(A, full_matrices=full_matrices)
            return u, s, vh
        return np.empty((0,), A.dtype), np.linalg.svd(A, compute_uv=False), np.empty((0,), A.dtype)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(
            "linalg.svd: The algorithm failed to converge because the input matrix is ill-conditioned or "
            "has too many repeated singular values"
        ) from error


def eigh(A: np.ndarray, UPLO: str, compute_v: bool) -> tuple[np.ndarray, np.ndarray]:
    try:
        if compute_v:
            values, vectors = numpy_linalg.eigh(A, UPLO.upper())
            return values, vectors
        return numpy_linalg.eigvalsh(A, UPLO.upper()), np.empty((0,), A.dtype)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(
            "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or "
            "has too many repeated eigenvalues"
        ) from error


def eig(self: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _check_finite(self, "linalg.eig")
    wide = np.result_type(self.dtype, np.complex64)
    values, vectors = np.linalg.eig(self)
    return values.astype(wide), vectors.astype(wide)


def eigvals(self: np.ndarray) -> np.ndarray:
    _check_finite(self, "linalg.eigvals")
    return np.linalg.eigvals(self).astype(np.result_type(self.dtype, np.complex64))


def _check_finite(a: np.ndarray, name: str) -> None:
    if not np.isfinite(a).all():
        raise RuntimeError(f"{name}: input tensor should not contain infs or NaNs.")


# LDL, least squares, exponential.


def ldl_factor(self: np.ndarray, hermitian: bool, check_errors: bool) -> tuple[np.ndarray, ...]:
    packed = np.empty_like(self)
    pivots = np.empty(self.shape[:-1], np.int32)
    info = np.zeros(self.shape[:-2], np.int32)
    name = "hetrf" if hermitian and self.dtype.kind == "c" else "sytrf"
    for at in each(self):
        if self.shape[-1]:
            factors, order, info[at] = routine(name, self)(self[at], lower=1)
            packed[at], pivots[at] = np.tril(factors), order
    report(
        info,
        check_errors,
        "torch.linalg.ldl_factor_ex",
        lambda i: f"The factorization is completed but D[{i},{i}] is zero",
    )
    return packed, pivots, info


def ldl_solve(LD: np.ndarray, pivots: np.ndarray, B: np.ndarray, hermitian: bool, out: Spec) -> np.ndarray:
    shape = out.known_shape()
    result = np.empty(shape, B.dtype)
    factors = spread(LD, (*shape[:-2], *LD.shape[-2:]))
    order = spread(pivots, (*shape[:-2], LD.shape[-1]))
    sides = spread(B, shape)
    name = "hetrs" if hermitian and LD.dtype.kind == "c" else "sytrs"
    if result.size:
        _check_ldl_pivots(pivots)
        for at in indices(shape[:-2]):
            result[at] = routine(name, LD)(factors[at], order[at], sides[at], lower=1)[0]
    return result


def _check_ldl_pivots(pivots: np.ndarray) -> None:
    """LAPACK follows the pivots without looking: rows that exist, and blocks of two marked twice."""
    n = pivots.shape[-1]
    good = (np.abs(pivots) >= 1).all() and (np.abs(pivots) <= n).all()
    for row in pivots.reshape(-1, n) if good else ():
        i = 0
        while i < n:
            if row[i] < 0 and (i + 1 == n or row[i + 1] != row[i]):
                good = False
            i += 1 if row[i] > 0 else 2
    if not good:
        raise RuntimeError(
            f"linalg.ldl_solve: pivots must be those of linalg.ldl_factor, with rows in 1..{n}"
        )


def lstsq(
    self: np.ndarray, b: np.ndarray, rcond: float | None, driver: str | None, out: tuple[Spec, ...]
) -> tuple[np.ndarray, ...]:
    solution_spec, residual_spec, rank_spec, values_spec = out
    m, n = self.shape[-2:]
    vector = self.ndim - 1 == b.ndim and b.shape == self.shape[:-1]
    right = b[..., None] if vector else b
    batch = solution_spec.known_shape()[: -1 if vector else -2]
    matrices = spread(self, (*batch, m, n))
    sides = spread(right, (*batch, m, right.shape[-1]))
    cut = rcond if rcond is not None else np.finfo(self.dtype).eps * max(m, n)
    solution = np.zeros((*batch, n, right.shape[-1]), self.dtype)
    rank = np.zeros(batch, np.int64)
    values = np.zeros((*batch, min(m, n)), values_spec.dtype.numpy)
    for at in indices(batch):
        if self.size and right.shape[-1]:
            try:
                solution[at], _, rank[at], values[at] = np.linalg.lstsq(matrices[at], sides[at], rcond=cut)
            except np.linalg.LinAlgError as error:  # a ValueError to NumPy
                raise LinAlgError(f"linalg.lstsq: {error}") from None
    residuals = np.empty((0,), residual_spec.dtype.numpy)
    if residual_spec.known_shape() != (0,):
        gap = sides - matrices @ solution
        residuals = (np.abs(gap) ** 2).sum(-2)
    own = self.shape[:-2]  # a matrix that serves several right sides has one rank
    first = (
        *(0 for _ in range(len(batch) - len(own))),
        *(slice(0, 1) if size == 1 else slice(None) for size in own),
    )
    rank, values = rank[first], values[first]
    return (
        solution[..., 0] if vector else solution,
        residuals.astype(residual_spec.dtype.numpy),
        rank if rank_spec.known_shape() != (0,) or driver != "gels" else np.empty((0,), np.int64),
        values if driver in ("gelsd", "gelss") else np.empty((0,), values_spec.dtype.numpy),
    )


def matrix_exp(self: np.ndarray) -> np.ndarray:
    """In double precision: squaring makes small errors large."""
    wide = np.complex128 if self.dtype.kind == "c" else np.float64
    return scipy_linalg.expm(self.astype(wide)).astype(self.dtype) if self.size else self.copy()


kernel("lu_unpack", lu_unpack)
kernel("linalg_cholesky_ex", cholesky)
kernel("linalg_inv_ex", inverse)
kernel("_linalg_det", det)
kernel("_linalg_slogdet", slogdet)
kernel("_linalg_solve_ex", solve)
kernel("linalg_lu_factor_ex", lu_factor_ex)
kernel("linalg_lu", lu)
kernel("linalg_qr", qr)
kernel("_linalg_svd", svd)
kernel("_linalg_eigh", eigh)
kernel("linalg_eig", eig)
kernel("_linalg_eigvals", eigvals)
kernel("linalg_solve_triangular", solve_triangular)
kernel("linalg_ldl_factor_ex", ldl_factor)
kernel("linalg_ldl_solve", ldl_solve)
kernel("linalg_lstsq", lstsq)
kernel("linalg_matrix_exp", matrix_exp)

for _name in (
    "linalg_cholesky_ex",
    "linalg_inv_ex",
    "_linalg_det",
    "_linalg_slogdet",
    "_linalg_solve_ex",
    "linalg_lu_factor_ex",
    "linalg_lu",
    "linalg_qr",
    "_linalg_svd",
    "_linalg_eigh",
    "linalg_eig",
    "_linalg_eigvals",
    "linalg_solve_triangular",
    "linalg_ldl_factor_ex",
    "linalg_ldl_solve",
    "linalg_lstsq",
    "linalg_matrix_exp",
):
    _op = operator(_name)
    assert _op.kernel is not None
    _op.kernel = in_one_thread(_op.kernel)

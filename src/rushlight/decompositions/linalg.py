"""The functions of `rushlight.linalg` and their older names, in terms of the factorizations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, METHOD, OUT, composite
from ..core.shapes import broadcast_shapes, wrap_dim
from ..core.tensor import Tensor
from ..ops.linalg import LINALG, check_matrix, check_numbers, check_same_dtype, check_square, square

INT64 = DTYPES["int64"]


Body = TypeVar("Body", bound=Callable[..., Any])


def linalg(schema: str, name: str, api: Any = LINALG) -> Callable[[Body], Body]:
    declare: Any = composite(schema, api=api, namespace="linalg", public_name=name)
    return cast(Callable[[Body], Body], declare)


def eye_like(a: Tensor, n: int) -> Tensor:
    return run_name("eye.m", n, n, a.dtype, None, a.device, None)


# Determinants, inverses, solvers.


@linalg("linalg_det(Tensor A) -> Tensor", "det")
def linalg_det(A: Tensor) -> Tensor:
    return run_name("_linalg_det", A)[0]


@composite("det(Tensor self) -> Tensor", api=FUNCTION | METHOD)
def det(self: Tensor) -> Tensor:
    return run_name("_linalg_det", self)[0]


@linalg("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", "slogdet")
def linalg_slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    return run_name("_linalg_slogdet", A)[:2]


@composite("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", api=FUNCTION | METHOD | OUT)
def slogdet(self: Tensor) -> tuple[Tensor, Tensor]:
    return run_name("_linalg_slogdet", self)[:2]


@composite("logdet(Tensor self) -> Tensor", api=FUNCTION | METHOD)
def logdet(self: Tensor) -> Tensor:
    """log det, NaN for a negative determinant; the logarithm of a complex one."""
    square(self, "logdet")
    sign, size = run_name("_linalg_slogdet", self)[:2]
    if self.is_complex():
        return sign.log() + size
    return run_name("where.ScalarSelf", sign == -1.0, math.nan, size)


@linalg("linalg_inv(Tensor A) -> Tensor", "inv")
def linalg_inv(A: Tensor) -> Tensor:
    return run_name("linalg_inv_ex", A, True)[0]


@composite("inverse(Tensor self) -> Tensor", api=FUNCTION | METHOD | OUT)
def inverse(self: Tensor) -> Tensor:
    return run_name("linalg_inv_ex", self, True)[0]


@linalg(
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, "
    "Tensor info)",
    "solve_ex",
)
def linalg_solve_ex(A: Tensor, B: Tensor, left: bool, check_errors: bool) -> tuple[Tensor, Tensor]:
    found = run_name("_linalg_solve_ex", A, B, left, check_errors)
    return found[0], found[3]


@linalg("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", "solve")
def linalg_solve(A: Tensor, B: Tensor, left: bool) -> Tensor:
    return run_name("_linalg_solve_ex", A, B, left, True)[0]


@linalg("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", "lu_factor")
def linalg_lu_factor(A: Tensor, pivot: bool) -> tuple[Tensor, Tensor]:
    return run_name("linalg_lu_factor_ex", A, pivot, True)[:2]


@composite(
    "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) "
    "-> (Tensor LU, Tensor pivots, Tensor info)",
    api=INTERNAL,
)
def lu_with_info(self: Tensor, pivot: bool, check_errors: bool) -> tuple[Tensor, Tensor, Tensor]:
    return run_name("linalg_lu_factor_ex", self, pivot, check_errors)


@linalg(
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    "lu_solve",
)
def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, left: bool, adjoint: bool) -> Tensor:
    """With A = P L U: two triangular systems and a permutation."""
    name = "linalg.lu_solve"
    square(LU, name)
    check_matrix(B, name, "B")
    check_same_dtype(LU, B, name)
    check(pivots.dtype.name == "int32", f"{name}: pivots should be a Tensor of scalar type torch.int32")
    check(
        B.shape[-2 if left else -1] == LU.shape[-1],
        f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'}: "
        f"{tuple(LU.shape)} "
        f"and {tuple(B.shape)}",
    )
    if not left:
        return run_name("linalg_lu_solve", LU, pivots, B.mH, True, not adjoint).mH
    permutation = run_name("lu_unpack", LU, pivots, False, True)[0]
    if not adjoint:
        half = triangular(LU, permutation.mT.matmul(B), upper=False, unit=True)
        return triangular(LU, half, upper=True)
    half = triangular(LU.mH, B, upper=False)
    return permutation.matmul(triangular(LU.mH, half, upper=True, unit=True))


def triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unit: bool = False) -> Tensor:
    return run_name("linalg_solve_triangular", a, b, upper, left, unit)


@composite("lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", api=FUNCTION | METHOD | OUT)
def lu_solve(self: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    return run_name("linalg_lu_solve", LU_data, LU_pivots, self, True, False)


@composite(
    "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
    "unitriangular=False) "
    "-> (Tensor solution, Tensor cloned_coefficient)",
    api=FUNCTION | METHOD | OUT,
)
def triangular_solve(
    self: Tensor, A: Tensor, upper: bool, transpose: bool, unitriangular: bool
) -> tuple[Tensor, Tensor]:
    check_matrix(self, "torch.triangular_solve", "b")
    check_square(A, "torch.triangular_solve")
    batch = broadcast_shapes(tuple(self.shape[:-2]), tuple(A.shape[:-2]), name="triangular_solve")
    matrix = A.mT if transpose else A
    solution = triangular(matrix, self, upper=upper != transpose, unit=unitriangular)
    return solution, A.expand(*batch, *A.shape[-2:]).clone()


# Cholesky.


@linalg("linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", "cholesky")
def linalg_cholesky(self: Tensor, upper: bool) -> Tensor:
    return run_name("linalg_cholesky_ex", self, upper, True)[0]


@composite("cholesky(Tensor self, bool upper=False) -> Tensor", api=FUNCTION | METHOD | OUT)
def cholesky(self: Tensor, upper: bool) -> Tensor:
    return run_name("linalg_cholesky_ex", self, upper, True)[0]


@composite(
    "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", api=FUNCTION | METHOD | OUT
)
def cholesky_solve(self: Tensor, input2: Tensor, upper: bool) -> Tensor:
    check_matrix(self, "cholesky_solve", "b")
    check_matrix(input2, "cholesky_solve", "u")
    check(
        input2.shape[-1] == input2.shape[-2],
        f"cholesky_solve: the factor must be square, but it is {input2.shape[-2]} by {input2.shape[-1]}",
    )
    check(
        self.shape[-2] == input2.shape[-2],
        f"Incompatible matrix sizes for cholesky_solve: each A matrix is "
        f"{input2.shape[-1]} by {input2.shape[-1]} but each b matrix is {self.shape[-2]} by {self.shape[-1]}",
    )
    lower, higher = (input2.mH, input2) if upper else (input2, input2.mH)
    return triangular(higher, triangular(lower, self, upper=False), upper=True)


@composite("cholesky_inverse(Tensor self, bool upper=False) -> Tensor", api=FUNCTION | METHOD | OUT)
def cholesky_inverse(self: Tensor, upper: bool) -> Tensor:
    check_square(self, "cholesky_inverse")
    half = triangular(
        self.mH if upper else self, eye_like(self, self.shape[-1]).expand(self.shape), upper=False
    )
    return half.mH.matmul(half)


# Householder reflections.


def reflector(a: Tensor, i: int) -> Tensor:
    """Column i of a packed factorization as a reflection vector: zeros, a one, and what is below the "
    "diagonal."""
    column = a.narrow(-1, i, 1)
    place = run_name("arange", a.shape[-2], INT64, None, a.device, None).unsqueeze(-1)
    below = column.masked_fill(place <= i, 0.0)
    return below + (place == i).to(a.dtype)


def reflected(x: Tensor, vector: Tensor, tau: Tensor) -> Tensor:
    """(I - tau v v^H) x."""
    return x - tau.unsqueeze(-1).unsqueeze(-1) * vector.matmul(vector.mH.matmul(x))


@linalg("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", "householder_product")
def linalg_householder_product(input: Tensor, tau: Tensor) -> Tensor:
    name = "torch.linalg.householder_product"
    check(input.ndim >= 2, f"{name}: input must have at least 2 dimensions.")
    m, n = input.shape[-2:]
    check(m >= n, f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    check(tau.shape[-1] <= n, f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    check(
        input.ndim - tau.ndim == 1 and tuple(tau.shape[:-1]) == tuple(input.shape[:-2]),
        f"{name}: Expected tau to have one dimension less than input and the same batch, but got shapes "
        f"{tuple(tau.shape)} and {tuple(input.shape)}",
    )
    check(
        input.dtype is tau.dtype,
        f"{name}: tau dtype {tau.dtype.name} does not match input dtype {input.dtype.name}",
    )
    result = run_name("eye.m", m, n, input.dtype, None, input.device, None).expand(input.shape)
    for i in reversed(range(tau.shape[-1])):
        result = reflected(result, reflector(input, i), tau.select(-1, i))
    return (
        result if tau.shape[-1] else run_name("copy", input, result, False)
    )  # a result of `input` all the same


@composite("orgqr(Tensor self, Tensor input2) -> Tensor", api=FUNCTION | METHOD | OUT)
def orgqr(self: Tensor, input2: Tensor) -> Tensor:
    return run_name("linalg_householder_product", self, input2)


@composite(
    "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
    api=FUNCTION | METHOD | OUT,
)
def ormqr(self: Tensor, input2: Tensor, input3: Tensor, left: bool, transpose: bool) -> Tensor:
    check(
        self.ndim >= 2 and input3.ndim >= 2, "torch.ormqr: input and other must have at least 2 dimensions."
    )
    side = -2 if left else -1
    check(
        input3.shape[side] >= input2.shape[-1],
        f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]",
    )
    check(
        input3.shape[side] == self.shape[-2],
        f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]",
    )
    check(
        tuple(self.shape[:-2]) == tuple(input3.shape[:-2]) == tuple(input2.shape[:-1]),
        "torch.ormqr: the batch dimensions of input, tau and other must be equal",
    )
    # Q = H_1 H_2 ... H_k: Q x applies the last reflection first, its adjoint the other way round.
    count, result = input2.shape[-1], input3 if left else input3.mH
    adjoint = transpose == left
    order = range(count) if adjoint else reversed(range(count))
    for i in order:
        tau = input2.select(-1, i)
        result = reflected(result, reflector(self, i), tau.conj() if adjoint else tau)
    return (result if left else result.mH) if count else input3.clone()


@composite("geqrf(Tensor self) -> (Tensor a, Tensor tau)", api=FUNCTION | METHOD | OUT)
def geqrf(self: Tensor) -> tuple[Tensor, Tensor]:
    """R above the diagonal and the reflections below it, column by column, as LAPACK packs them."""
    check_matrix(self, "torch.geqrf", "input")
    check_numbers(self, "torch.geqrf")
    m, n = self.shape[-2:]
    count = min(m, n)
    place = run_name("arange", m, INT64, None, self.device, None)
    work, taus = self, []
    for i in range(count):
        column = work.select(-1, i)
        head = column.narrow(-1, i, 1)
        rest = column.masked_fill(place <= i, 0.0)
        vector, tau, beta = _reflection(head, rest)
        full = vector + (place == i).to(self.dtype)
        moved = reflected(work, full.unsqueeze(-1), tau.squeeze(-1).conj())
        kept = work.narrow(-1, 0, i)
        packed = (
            column.masked_fill(place >= i, 0.0) + vector + (place == i).to(self.dtype) * beta
        ).unsqueeze(-1)
        later = moved.narrow(-1, i + 1, n - i - 1)
        work = run_name("cat", (kept, packed, later), -1)
        taus.append(tau.squeeze(-1))
    tau = run_name("stack", tuple(taus), -1) if taus else self.new_empty((*self.shape[:-2], 0))
    return (work if taus else work.clone()), tau


def _reflection(head: Tensor, rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(v without its leading one, tau, beta) of the reflection that takes (head, rest) to (beta, 0)."""
    size = rest.abs().square().sum(-1, True)
    real = head.real if head.is_complex() else head
    trivial = size == 0
    if head.is_complex():
        trivial = trivial.logical_and(head.imag == 0)
    norm = run_name("where.ScalarSelf", trivial, 1.0, head.abs().square() + size).sqrt()
    beta = run_name("where.self", real >= 0, -norm, norm)
    beta = run_name("where.self", trivial, real, beta).to(head.dtype)
    safe = beta.masked_fill(beta == 0, 1.0)
    tau = ((beta - head) / safe).masked_fill(trivial, 0.0)
    scale = (head - beta).masked_fill(trivial, 1.0)
    return rest / scale, tau, beta


@composite("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", api=FUNCTION | METHOD | OUT)
def qr(self: Tensor, some: bool) -> tuple[Tensor, Tensor]:
    return run_name("linalg_qr", self, "reduced" if some else "complete")


# Singular values and eigenvalues.


@linalg(
    "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    "svd",
)
def linalg_svd(A: Tensor, full_matrices: bool, driver: str | None) -> tuple[Tensor, ...]:
    return run_name("_linalg_svd", A, full_matrices, True, driver)


@linalg("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", "svdvals")
def linalg_svdvals(A: Tensor, driver: str | None) -> Tensor:
    return run_name("_linalg_svd", A, False, True, driver)[1]


@composite(
    "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    api=FUNCTION | METHOD | OUT,
)
def svd(self: Tensor, some: bool, compute_uv: bool) -> tuple[Tensor, ...]:
    check_matrix(self, "linalg.svd", "input")
    if compute_uv:
        u, s, vh = run_name("_linalg_svd", self, not some, True, None)
        return u, s, vh.mH
    s = run_name("_linalg_svd", self, False, True, None)[1]
    m, n = self.shape[-2:]
    batch = tuple(self.shape[:-2])
    return self.new_zeros((*batch, m, m)), s, self.new_zeros((*batch, n, n))


@linalg('linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)', "eigh")
def linalg_eigh(self: Tensor, UPLO: str) -> tuple[Tensor, Tensor]:
    return run_name("_linalg_eigh", self, UPLO, True)


@linalg('linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor', "eigvalsh")
def linalg_eigvalsh(self: Tensor, UPLO: str) -> Tensor:
    return run_name("_linalg_eigh", self, UPLO, True)[0]


@linalg("linalg_eigvals(Tensor self) -> Tensor", "eigvals")
def linalg_eigvals(self: Tensor) -> Tensor:
    return run_name("linalg_eig", self)[0]


# LDL.


@linalg("linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", "ldl_factor")
def linalg_ldl_factor(self: Tensor, hermitian: bool) -> tuple[Tensor, Tensor]:
    return run_name("linalg_ldl_factor_ex", self, hermitian, True)[:2]


@composite("matrix_exp(Tensor self) -> Tensor", api=FUNCTION | METHOD)
def matrix_exp(self: Tensor) -> Tensor:
    return run_name("linalg_matrix_exp", self)


# Tensors as matrices.


@linalg("linalg_tensorinv(Tensor self, int ind=2) -> Tensor", "tensorinv")
def linalg_tensorinv(self: Tensor, ind: int) -> Tensor:
    check(ind > 0, "Expected a strictly positive integer for 'ind'")
    check(ind <= self.ndim, f"linalg.tensorinv: ind is {ind}, but the tensor has {self.ndim} dimensions")
    first, last = tuple(self.shape[:ind]), tuple(self.shape[ind:])
    check(
        math.prod(first) == math.prod(last),
        "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
        f"{math.prod(last)} != {math.prod(first)}",
    )
    inverse = run_name("linalg_inv", self.reshape(math.prod(first), math.prod(first)))
    return inverse.reshape(*last, *first)


@linalg("linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", "tensorsolve")
def linalg_tensorsolve(self: Tensor, other: Tensor, dims: Any) -> Tensor:
    if dims:
        moved = [wrap_dim(d, self.ndim) for d in dims]
        self = self.permute([d for d in range(self.ndim) if d not in moved] + moved)
    shape = tuple(self.shape[other.ndim :])
    size = math.prod(self.shape[: other.ndim])
    check(
        size == math.prod(shape),
        "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
        "prod(self.shape[:other.ndim]), but "
        f"got {math.prod(shape)} != {size}",
    )
    solved = run_name("linalg_solve", self.reshape(size, size), other.reshape(size), True)
    return solved.reshape(shape)


@linalg("linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor", "vander", FUNCTION)
def linalg_vander(x: Tensor, N: int | None) -> Tensor:
    check(x.dtype.name != "bool", "linalg.vander: bool is not supported")
    x = x.unsqueeze(0) if x.ndim == 0 else x
    count = x.shape[-1] if N is None else N
    check(count > 1, "N must be greater than 1.")
    powers = x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)
    return run_name(
        "cat", (run_name("ones_like", powers.narrow(-1, 0, 1), None, None, None, None, None), powers), -1
    )

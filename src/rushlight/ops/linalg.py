"""Factorizations and solvers: what they take and return.

Every operator works on the last two dimensions and takes any batch in front of them. Operators that end in
`_ex` report trouble in `info` (0 is fine) unless `check_errors` asks for an exception.
"""

from __future__ import annotations

from typing import Any

from ..core.data_sizes import shorter
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, OUT, define
from ..core.shapes import Shape, Spec, broadcast_shapes
from ..core.tensor import Tensor

INT32, INT64 = DTYPES["int32"], DTYPES["int64"]
LINALG = FUNCTION | OUT


# Conditions.


def check_matrix(a: Tensor, name: str, argument: str = "A") -> None:
    check(
        a.ndim >= 2,
        f"{name}: The input tensor {argument} must have at least 2 dimensions, but it has {a.ndim}.",
    )


def check_square(a: Tensor, name: str, argument: str = "A") -> None:
    check_matrix(a, name, argument)
    check(
        a.shape[-1] == a.shape[-2],
        f"{name}: {argument} must be batches of square matrices, but they are {a.shape[-2]} by "
        f"{a.shape[-1]} matrices",
    )


def check_numbers(a: Tensor, name: str) -> None:
    check(
        a.is_floating_point() or a.is_complex(),
        f"{name}: Expected a floating point or complex tensor as input. Got {a.dtype.name}",
    )
    check(
        a.dtype.opmath is a.dtype,
        f"{name}: Low precision dtypes not supported. Got {a.dtype.name}; convert to float32 first",
    )


def check_same_dtype(a: Tensor, b: Tensor, name: str) -> None:
    check(
        a.dtype is b.dtype,
        f"{name}: Expected A and B to have the same dtype, but found A of type {a.dtype.name} "
        f"and B of type {b.dtype.name} instead",
    )


def square(a: Tensor, name: str) -> Shape:
    """The batch of a batch of square matrices."""
    check_square(a, name)
    check_numbers(a, name)
    return tuple(a.shape[:-2])


def is_vector(a: Tensor, b: Tensor) -> bool:
    """Whether `b` is one right-hand side for each matrix, without a dimension for several."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and tuple(b.shape) == tuple(a.shape[:-1]))


def real(a: Tensor) -> Any:
    return a.dtype.to_real() if a.is_complex() else a.dtype


def as_complex(a: Tensor) -> Any:
    return a.dtype if a.is_complex() else a.dtype.to_complex()


# Shape rules.


def lu_specs(a: Tensor, name: str) -> tuple[Spec, Spec, Spec]:
    check_matrix(a, name)
    check_numbers(a, name)
    batch, (m, n) = tuple(a.shape[:-2]), a.shape[-2:]
    return Spec(tuple(a.shape), a.dtype), Spec((*batch, shorter(m, n)), INT32), Spec(batch, INT32)


def det_rule(A: Tensor) -> tuple[Spec, ...]:
    batch = square(A, "linalg.det")
    return (Spec(batch, A.dtype), *lu_specs(A, "linalg.det")[:2])


def slogdet_rule(A: Tensor) -> tuple[Spec, ...]:
    batch = square(A, "linalg.slogdet")
    return (Spec(batch, A.dtype), Spec(batch, real(A)), *lu_specs(A, "linalg.slogdet")[:2])


def inverse_rule(A: Tensor) -> tuple[Spec, Spec]:
    batch = square(A, "linalg.inv")
    return Spec(tuple(A.shape), A.dtype), Spec(batch, INT32)


def cholesky_rule(self: Tensor) -> tuple[Spec, Spec]:
    batch = square(self, "linalg.cholesky")
    return Spec(tuple(self.shape), self.dtype), Spec(batch, INT32)


def solve_rule(A: Tensor, B: Tensor, left: bool) -> tuple[Spec, ...]:
    name = "linalg.solve"
    batch = square(A, name)
    check_same_dtype(A, B, name)
    vector = is_vector(A, B)
    check(
        left or not vector,
        f"{name}: Vector broadcasting of the left hand side is not supported for left=False; "
        "give B a second dimension",
    )
    matrix = (*B.shape, 1) if vector else tuple(B.shape)
    check(len(matrix) >= 2, f"{name}: B must have at least 2 dimensions, or be a vector")
    check(
        matrix[-2 if left else -1] == A.shape[-1],
        f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'}: "
        f"{tuple(A.shape)} and {tuple(B.shape)}",
    )
    whole = broadcast_shapes(batch, matrix[:-2], name=name)
    shape = (*whole, *matrix[-2:])
    return (Spec(shape[:-1] if vector else shape, A.dtype), *lu_specs(A, name))


def lu_rule(A: Tensor) -> tuple[Spec, Spec, Spec]:
    lu_specs(A, "linalg.lu")
    batch, (m, n) = tuple(A.shape[:-2]), A.shape[-2:]
    k = shorter(m, n)
    return Spec((*batch, m, m), A.dtype), Spec((*batch, m, k), A.dtype), Spec((*batch, k, n), A.dtype)


def lu_unpack_rule(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool, unpack_pivots: bool
) -> tuple[Spec, Spec, Spec]:
    check_matrix(LU_data, "lu_unpack", "LU_data")
    check(
        not unpack_pivots or LU_pivots.dtype is INT32,
        "lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got "
        f"{LU_pivots.dtype.name}",
    )
    batch, (m, n) = tuple(LU_data.shape[:-2]), LU_data.shape[-2:]
    k = shorter(m, n)
    nothing = Spec((0,), LU_data.dtype)
    permutation = Spec((*batch, m, m), LU_data.dtype) if unpack_pivots else nothing
    if not unpack_data:
        return permutation, nothing, nothing
    return permutation, Spec((*batch, m, k), LU_data.dtype), Spec((*batch, k, n), LU_data.dtype)


def qr_rule(A: Tensor, mode: str) -> tuple[Spec, Spec]:
    check_matrix(A, "linalg.qr")
    check_numbers(A, "linalg.qr")
    check(
        mode in ("reduced", "complete", "r"),
        f"linalg.qr: received unrecognized mode '{mode}'; expected one of 'reduced', 'r', or 'complete'",
    )
    batch, (m, n) = tuple(A.shape[:-2]), A.shape[-2:]
    k = m if mode == "complete" else shorter(m, n)
    q = Spec((0,), A.dtype) if mode == "r" else Spec((*batch, m, k), A.dtype)
    return q, Spec((*batch, k, n), A.dtype)


def svd_rule(A: Tensor, full_matrices: bool, compute_uv: bool, driver: str | None) -> tuple[Spec, Spec, Spec]:
    check_matrix(A, "linalg.svd")
    check_numbers(A, "linalg.svd")
    check(
        driver is None,
        "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.",
    )
    batch, (m, n) = tuple(A.shape[:-2]), A.shape[-2:]
    k = shorter(m, n)
    values = Spec((*batch, k), real(A))
    if not compute_uv:
        return Spec((0,), A.dtype), values, Spec((0,), A.dtype)
    return (
        Spec((*batch, m, m if full_matrices else k), A.dtype),
        values,
        Spec((*batch, n if full_matrices else k, n), A.dtype),
    )


def eigh_rule(A: Tensor, UPLO: str, compute_v: bool) -> tuple[Spec, Spec]:
    square(A, "linalg.eigh")
    check(UPLO.upper() in ("L", "U"), f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return (Spec(tuple(A.shape[:-1]), real(A)), Spec(tuple(A.shape) if compute_v else (0,), A.dtype))


def eig_rule(self: Tensor) -> tuple[Spec, Spec]:
    square(self, "linalg.eig")
    return Spec(tuple(self.shape[:-1]), as_complex(self)), Spec(tuple(self.shape), as_complex(self))


def eigvals_rule(self: Tensor) -> Spec:
    square(self, "linalg.eigvals")
    return Spec(tuple(self.shape[:-1]), as_complex(self))


def triangular_rule(self: Tensor, B: Tensor, left: bool) -> Spec:
    name = "linalg.solve_triangular"
    batch = square(self, name)
    check_matrix(B, name, "B")
    check_same_dtype(self, B, name)
    check(
        B.shape[-2 if left else -1] == self.shape[-1],
        f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'}: "
        f"{tuple(self.shape)} and {tuple(B.shape)}",
    )
    return Spec((*broadcast_shapes(batch, tuple(B.shape[:-2]), name=name), *B.shape[-2:]), self.dtype)


def ldl_rule(self: Tensor) -> tuple[Spec, Spec, Spec]:
    batch = square(self, "linalg.ldl_factor_ex")
    return Spec(tuple(self.shape), self.dtype), Spec(tuple(self.shape[:-1]), INT32), Spec(batch, INT32)


def ldl_solve_rule(LD: Tensor, pivots: Tensor, B: Tensor, hermitian: bool) -> Spec:
    name = "linalg.ldl_solve"
    batch = square(LD, name)
    check_matrix(B, name, "B")
    check_same_dtype(LD, B, name)
    check(
        pivots.dtype is INT32 or pivots.dtype is INT64,
        f"{name}: Expected pivots to be integers. Got {pivots.dtype.name}",
    )
    check(
        tuple(pivots.shape) == tuple(LD.shape[:-1]),
        f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
        f"{tuple(pivots.shape)} instead",
    )
    check(
        B.shape[-2] == LD.shape[-1],
        f"{name}: Incompatible shapes of LD and B: {tuple(LD.shape)} and {tuple(B.shape)}",
    )
    return Spec((*broadcast_shapes(batch, tuple(B.shape[:-2]), name=name), *B.shape[-2:]), B.dtype)


def lstsq_rule(self: Tensor, b: Tensor, driver: str | None) -> tuple[Spec, ...]:
    name = "linalg.lstsq"
    check(self.ndim >= 2, f"{name}: input must have at least 2 dimensions.")
    check(b.ndim >= 1, f"{name}: other must have at least 1 dimension.")
    check(
        self.ndim - 1 <= b.ndim <= self.ndim,
        f"{name}: input has {self.ndim} dimensions, other {b.ndim}; other must have as many, or one less",
    )
    check_numbers(self, name)
    check(
        self.dtype is b.dtype,
        f"{name}: Expected input and other to have the same dtype, but got input's dtype {self.dtype.name} "
        "and other's "
        f"dtype {b.dtype.name}",
    )
    check(
        driver in (None, "gels", "gelsy", "gelsd", "gelss"),
        f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}",
    )
    m, n = self.shape[-2:]
    vector = self.ndim - 1 == b.ndim and tuple(b.shape) == tuple(self.shape[:-1])
    matrix = (*b.shape, 1) if vector else tuple(b.shape)
    check(
        len(matrix) >= 2 and matrix[-2] == m,
        f"{name}: input.size(-2) should match other.size({-1 if vector else -2}): {tuple(self.shape)} and "
        f"{tuple(b.shape)}",
    )
    batch = broadcast_shapes(tuple(self.shape[:-2]), matrix[:-2], name=name)
    right = matrix[-1]
    solution = (*batch, n) if vector else (*batch, n, right)
    return (
        Spec(solution, self.dtype),
        Spec(residual_shape(m, n, batch, right, driver), real(self)),
        Spec(tuple(self.shape[:-2]) if driver != "gels" else (0,), INT64),
        Spec((*self.shape[:-2], shorter(m, n)) if driver in ("gelsd", "gelss") else (0,), real(self)),
    )


def residual_shape(m: int, n: int, batch: Shape, right: int, driver: str | None) -> Shape:
    """Residuals exist for overdetermined systems of full rank, which the data decide unless the driver "
    "says so."""
    return (*batch, right) if m > n and driver not in (None, "gelsy") else (0,)


def matrix_exp_rule(self: Tensor) -> Spec:
    check_square(self, "linalg.matrix_exp")
    check(
        self.is_floating_point() or self.is_complex(),
        f"linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {self.dtype.name}",
    )
    return Spec(tuple(self.shape), self.dtype)


define(
    "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor "
    "info)",
    shape=cholesky_rule,
    api=LINALG,
    namespace="linalg",
    public_name="cholesky_ex",
)
define(
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    shape=inverse_rule,
    api=LINALG,
    namespace="linalg",
    public_name="inv_ex",
)
define("_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", shape=det_rule, api=INTERNAL)
define(
    "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    shape=slogdet_rule,
    api=INTERNAL,
)
define(
    "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) "
    "-> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
    shape=solve_rule,
    api=INTERNAL,
)
define(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) "
    "-> (Tensor LU, Tensor pivots, Tensor info)",
    shape=lambda A: lu_specs(A, "linalg.lu_factor"),
    api=LINALG,
    namespace="linalg",
    public_name="lu_factor_ex",
)
define(
    "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    shape=lu_rule,
    api=LINALG,
    namespace="linalg",
    public_name="lu",
)
define(
    "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) "
    "-> (Tensor P, Tensor L, Tensor U)",
    shape=lu_unpack_rule,
    api=LINALG,
)
define(
    'linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)',
    shape=qr_rule,
    api=LINALG,
    namespace="linalg",
    public_name="qr",
)
define(
    "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None) "
    "-> (Tensor U, Tensor S, Tensor Vh)",
    shape=svd_rule,
    api=INTERNAL,
)
define(
    '_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> (Tensor eigenvalues, Tensor eigenvectors)',
    shape=eigh_rule,
    api=INTERNAL,
)
define(
    "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    shape=eig_rule,
    api=LINALG,
    namespace="linalg",
    public_name="eig",
)
define("_linalg_eigvals(Tensor self) -> Tensor", shape=eigvals_rule, api=INTERNAL)
define(
    "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) "
    "-> Tensor",
    shape=triangular_rule,
    api=LINALG,
    namespace="linalg",
    public_name="solve_triangular",
)
define(
    "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) "
    "-> (Tensor LD, Tensor pivots, Tensor info)",
    shape=ldl_rule,
    api=LINALG,
    namespace="linalg",
    public_name="ldl_factor_ex",
)
define(
    "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    shape=ldl_solve_rule,
    api=LINALG,
    namespace="linalg",
    public_name="ldl_solve",
)
define(
    "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) "
    "-> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    shape=lstsq_rule,
    api=LINALG,
    namespace="linalg",
    public_name="lstsq",
)
define(
    "linalg_matrix_exp(Tensor self) -> Tensor",
    shape=matrix_exp_rule,
    api=FUNCTION,
    namespace="linalg",
    public_name="matrix_exp",
)

"""Norms of matrices, condition numbers, ranks and pseudo-inverses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.data_sizes import derived_size
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType, finfo
from ..core.errors import check
from ..core.registry import FUNCTION, METHOD, composite
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor
from ..ops.linalg import check_matrix, check_numbers, check_square, real
from .linalg import linalg

INT64 = DTYPES["int64"]


# Norms.


def check_norm_dtype(self: Tensor, dtype: DType | None, name: str) -> Tensor:
    check(
        self.is_floating_point() or self.is_complex(),
        f"{name}: Expected a floating point or complex tensor as input. Got {self.dtype.name}",
    )
    if dtype is None:
        return self
    check(
        dtype.is_floating_point or dtype.is_complex,
        f"{name}: dtype should be floating point or complex, got {dtype.name}",
    )
    check(
        dtype.is_complex == self.is_complex(),
        f"{name}: dtype should be {'complex' if self.is_complex() else 'real'} for a "
        f"{'complex' if self.is_complex() else 'real'} input, got {dtype.name}",
    )
    return self.to(dtype)


def matrix_dims(self: Tensor, dim: Sequence[int], name: str) -> tuple[int, int]:
    check(len(dim) == 2, f"{name}: dim must be a 2-tuple. Got {tuple(dim)}")
    first, second = (wrap_dim(d, self.ndim, name=name) for d in dim)
    check(first != second, f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


@linalg(
    "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2, -1], bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "matrix_norm",
)
def linalg_matrix_norm(
    self: Tensor, ord: Any, dim: Sequence[int], keepdim: bool, dtype: DType | None
) -> Tensor:
    name = "linalg.matrix_norm"
    check_matrix(self, name)
    size = abs(float(ord))
    check(size in (1.0, 2.0, math.inf), f"{name}: Order {ord} not supported.")
    rows, columns = matrix_dims(self, dim, name)
    self = check_norm_dtype(self, dtype, name)
    fold = largest if ord > 0 else smallest
    if size == 2.0:
        values = singular_values(self, rows, columns)
        return _restored(fold(values, -1), rows, columns, keepdim)
    if size == math.inf:
        rows, columns = columns, rows
    sums = run_name("linalg_vector_norm", self, 1.0, (rows,), True, None)
    result = fold(sums, columns, keepdim=True)
    if keepdim:
        return result
    for d in sorted((rows, columns), reverse=True):
        result = result.squeeze(d)
    return result


def largest(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """The largest of numbers that are not negative; of none it is 0."""
    return run_name("amax", x, (dim,), keepdim) if x.shape[dim] else x.sum(dim, keepdim)


def smallest(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    return run_name("amin", x, (dim,), keepdim)


def singular_values(self: Tensor, rows: int, columns: int) -> Tensor:
    return run_name("linalg_svdvals", run_name("movedim.intlist", self, (rows, columns), (-2, -1)), None)


def _restored(x: Tensor, rows: int, columns: int, keepdim: bool) -> Tensor:
    if keepdim:
        for d in sorted((rows, columns)):
            x = x.unsqueeze(d)
    return x


@linalg(
    'linalg_matrix_norm.str_ord(Tensor self, str ord="fro", int[] dim=[-2, -1], bool keepdim=False, *, '
    "ScalarType? dtype=None) -> Tensor",
    "matrix_norm",
)
def linalg_matrix_norm_str(
    self: Tensor, ord: str, dim: Sequence[int], keepdim: bool, dtype: DType | None
) -> Tensor:
    name = "linalg.matrix_norm"
    check_matrix(self, name)
    check(ord in ("fro", "nuc"), f"{name}: Order {ord} not supported.")
    rows, columns = matrix_dims(self, dim, name)
    self = check_norm_dtype(self, dtype, name)
    if ord == "fro":
        return run_name("linalg_vector_norm", self, 2, (rows, columns), keepdim, None)
    return _restored(singular_values(self, rows, columns).sum(-1), rows, columns, keepdim)


@linalg(
    "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
    "dtype=None) "
    "-> Tensor",
    "norm",
)
def linalg_norm(
    self: Tensor, ord: Any, dim: Sequence[int] | None, keepdim: bool, dtype: DType | None
) -> Tensor:
    if dim is not None:
        check(
            len(dim) in (1, 2),
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {tuple(dim)}",
        )
    elif ord is not None:
        check(
            self.ndim in (1, 2),
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {self.ndim}D.",
        )
    if ord is not None and (len(dim) == 2 if dim is not None else self.ndim == 2):
        return run_name("linalg_matrix_norm", self, ord, (0, 1) if dim is None else dim, keepdim, dtype)
    return run_name("linalg_vector_norm", self, 2 if ord is None else ord, dim, keepdim, dtype)


@linalg(
    "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
    "dtype=None) "
    "-> Tensor",
    "norm",
)
def linalg_norm_str(
    self: Tensor, ord: str, dim: Sequence[int] | None, keepdim: bool, dtype: DType | None
) -> Tensor:
    check(
        dim is None or len(dim) in (1, 2),
        f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {dim}",
    )
    check(
        dim is not None or self.ndim in (1, 2),
        f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {self.ndim}D.",
    )
    return run_name("linalg_matrix_norm.str_ord", self, ord, (0, 1) if dim is None else dim, keepdim, dtype)


# Conditions.


@linalg("linalg_cond(Tensor self, Scalar? p=None) -> Tensor", "cond")
def linalg_cond(self: Tensor, p: Any) -> Tensor:
    check_matrix(self, "linalg.cond")
    check_numbers(self, "linalg.cond")
    if 0 in self.shape:
        return self.new_zeros(self.shape[:-2]).to(real(self))
    if p is None or abs(p) == 2.0:
        values = run_name("linalg_svdvals", self, None)
        first, last = values.select(-1, 0), values.select(-1, -1)
        return last / first if p == -2.0 else first / last
    check_square(self, "linalg.cond")
    return _cond_by_inverse(self, lambda x: run_name("linalg_matrix_norm", x, p, (-2, -1), False, None))


@linalg("linalg_cond.p_str(Tensor self, str p) -> Tensor", "cond")
def linalg_cond_str(self: Tensor, p: str) -> Tensor:
    check_square(self, "linalg.cond")
    check_numbers(self, "linalg.cond")
    check(p in ("fro", "nuc"), f"linalg.cond got an invalid norm type: {p}")
    if p == "nuc":  # of the singular values of both
        values = run_name("linalg_svdvals", self, None)
        return values.sum(-1) * values.reciprocal().sum(-1)
    return _cond_by_inverse(
        self, lambda x: run_name("linalg_matrix_norm.str_ord", x, p, (-2, -1), False, None)
    )


def _cond_by_inverse(self: Tensor, norm: Any) -> Tensor:
    """norm(A) norm(A^-1), infinite for a singular matrix."""
    if 0 in self.shape:
        return self.new_zeros(self.shape[:-2]).to(real(self))
    inverse, info = run_name("linalg_inv_ex", self, False)
    singular = info > 0
    inverse = inverse.masked_fill(singular.unsqueeze(-1).unsqueeze(-1), math.inf)
    return norm(self) * norm(inverse)


# Ranks and pseudo-inverses. What is below a tolerance counts as zero.


def tolerance(values: Tensor, atol: Any, rtol: Any, shape: Sequence[int]) -> Tensor:
    """max(atol, rtol * largest); rtol is eps * max(m, n) unless one of the two is given."""
    top = largest(values, -1, True)
    if rtol is None:
        relative: Any = finfo(values.dtype).eps * derived_size("max", *shape[-2:])
        if atol is not None:
            given = atol if isinstance(atol, Tensor) else values.new_full((), float(atol))
            relative = run_name("where.ScalarSelf", given > 0, 0.0, values.new_full((), relative))
            relative = relative.unsqueeze(-1) if isinstance(atol, Tensor) else relative
    else:
        relative = rtol.unsqueeze(-1) if isinstance(rtol, Tensor) else rtol
    absolute = 0.0 if atol is None else atol.unsqueeze(-1) if isinstance(atol, Tensor) else atol
    scaled = top * relative
    return (
        scaled.clamp(min=absolute)
        if not isinstance(absolute, Tensor)
        else run_name("maximum", scaled, absolute)
    )


def magnitudes(self: Tensor, hermitian: bool) -> Tensor:
    if hermitian:
        return run_name("linalg_eigvalsh", self, "L").abs()
    return run_name("linalg_svdvals", self, None)


def rank(self: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    check_matrix(self, "torch.linalg.matrix_rank", "input")
    if 0 in self.shape:
        return self.new_zeros(self.shape[:-2]).long()
    values = magnitudes(self, hermitian)
    return (values > tolerance(values, atol, rtol, self.shape)).sum(-1)


# The overloads for tensors come first: a 0-d tensor would fit a float as well, and be read.


@linalg(
    "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, "
    "bool hermitian=False) -> Tensor",
    "matrix_rank",
)
def matrix_rank_tensors(input: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    return rank(input, atol, rtol, hermitian)


@linalg(
    "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool "
    "hermitian=False) "
    "-> Tensor",
    "matrix_rank",
)
def matrix_rank_floats(self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    return rank(self, atol, rtol, hermitian)


@linalg(
    "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor", "matrix_rank"
)
def matrix_rank_tensor(input: Tensor, tol: Tensor, hermitian: bool) -> Tensor:
    return rank(input, tol, 0.0, hermitian)


@linalg("linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor", "matrix_rank")
def matrix_rank(self: Tensor, tol: float, hermitian: bool) -> Tensor:
    return rank(self, tol, 0.0, hermitian)


def pseudo_inverse(self: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    check_matrix(self, "linalg.pinv")
    check_numbers(self, "linalg.pinv")
    if 0 in self.shape:
        return self.new_empty((*self.shape[:-2], self.shape[-1], self.shape[-2]))
    if hermitian:
        check_square(self, "linalg.pinv")
        values, vectors = run_name("linalg_eigh", self, "L")
        size = values.abs()
        inverted = _inverted(values, size, tolerance(size, atol, rtol, self.shape))
        return (vectors * inverted.unsqueeze(-2)).matmul(vectors.mH)
    u, s, vh = run_name("_linalg_svd", self, False, True, None)
    inverted = _inverted(s, s, tolerance(s, atol, rtol, self.shape))
    return (vh.mH * inverted.unsqueeze(-2)).matmul(u.mH)


def _inverted(values: Tensor, size: Tensor, least: Tensor) -> Tensor:
    """1 / value, and 0 for those that are not above the least size, which NaN is not."""
    small = ~(size > least)
    return values.masked_fill(small, 1.0).reciprocal().masked_fill(small, 0.0)


@linalg(
    "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool "
    "hermitian=False) "
    "-> Tensor",
    "pinv",
)
def pinv_tensors(self: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    return pseudo_inverse(self, atol, rtol, hermitian)


@linalg(
    "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, bool hermitian=False) "
    "-> Tensor",
    "pinv",
)
def pinv_floats(self: Tensor, atol: float | None, rtol: float | None, hermitian: bool) -> Tensor:
    def tensor(number: float | None) -> Tensor | None:
        return None if number is None else run_name("full", (), number, real(self), None, self.device, None)

    return run_name("linalg_pinv.atol_rtol_tensor", self, tensor(atol), tensor(rtol), hermitian)


@linalg("linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor", "pinv")
def pinv(self: Tensor, rcond: float, hermitian: bool) -> Tensor:
    return pinv_floats(self, 0.0, rcond, hermitian)


@linalg("linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor", "pinv")
def pinv_rcond(self: Tensor, rcond: Tensor, hermitian: bool) -> Tensor:
    zero = run_name("zeros_like", rcond, None, None, None, None, None)
    return run_name("linalg_pinv.atol_rtol_tensor", self, zero, rcond, hermitian)


@composite("pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor", api=FUNCTION | METHOD)
def pinverse(self: Tensor, rcond: float) -> Tensor:
    return pinv_floats(self, 0.0, rcond, False)

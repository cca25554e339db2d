"""Variances, norms and other reductions in terms of simpler operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, Category, DType
from ..core.errors import check
from ..core.registry import FUNCTION, INPLACE_METHOD, INTERNAL, METHOD, OUT, Api, composite
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor

Pair = tuple[Tensor, Tensor]


# The older spellings of variance: `unbiased` is a correction of one.


@composite("var(Tensor self, bool unbiased=True) -> Tensor", api=FUNCTION | METHOD)
def var(self: Tensor, unbiased: bool) -> Tensor:
    return run_name("var.correction", self, None, int(unbiased), False)


@composite(
    "var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
    api=FUNCTION | METHOD | OUT,
)
def var_dim(self: Tensor, dim: Sequence[int] | None, unbiased: bool, keepdim: bool) -> Tensor:
    return run_name("var.correction", self, dim, int(unbiased), keepdim)


@composite("std(Tensor self, bool unbiased=True) -> Tensor", api=FUNCTION | METHOD)
def std(self: Tensor, unbiased: bool) -> Tensor:
    return run_name("std.correction", self, None, int(unbiased), False)


@composite(
    "std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor",
    api=FUNCTION | METHOD | OUT,
)
def std_dim(self: Tensor, dim: Sequence[int] | None, unbiased: bool, keepdim: bool) -> Tensor:
    return run_name("std.correction", self, dim, int(unbiased), keepdim)


@composite("var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", api=FUNCTION)
def var_mean(self: Tensor, unbiased: bool) -> Pair:
    return run_name("var_mean.correction", self, None, int(unbiased), False)


@composite(
    "var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    api=FUNCTION,
)
def var_mean_dim(self: Tensor, dim: Sequence[int] | None, unbiased: bool, keepdim: bool) -> Pair:
    return run_name("var_mean.correction", self, dim, int(unbiased), keepdim)


@composite("std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", api=FUNCTION)
def std_mean(self: Tensor, unbiased: bool) -> Pair:
    return run_name("std_mean.correction", self, None, int(unbiased), False)


@composite(
    "std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)",
    api=FUNCTION,
)
def std_mean_dim(self: Tensor, dim: Sequence[int] | None, unbiased: bool, keepdim: bool) -> Pair:
    return run_name("std_mean.correction", self, dim, int(unbiased), keepdim)


# Sums.


@composite(
    "nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION | METHOD | OUT,
)
def nanmean(self: Tensor, dim: Sequence[int] | None, keepdim: bool, dtype: DType | None) -> Tensor:
    check(
        self.dtype.category >= Category.FLOATING,
        f"nanmean(): expected input to have floating point or complex dtype but got {self.dtype.torch_name}",
    )
    present = self.detach().isnan().logical_not().sum(dim, keepdim)
    return self.nansum(dim, keepdim, dtype=dtype) / present


@composite("sum_to_size(Tensor self, SymInt[] size) -> Tensor", api=METHOD)
def sum_to_size(self: Tensor, size: Sequence[int]) -> Tensor:
    lead = self.ndim - len(size)
    fits = lead >= 0 and all(n in (1, have) for n, have in zip(size, self.shape[lead:], strict=True))
    check(fits, f"sum_to_size: size {tuple(size)} is not expandable to size {tuple(self.shape)}")
    if not size:
        return self.sum()
    dims = [*range(lead), *[d for d, n in enumerate(size, lead) if n == 1 and self.shape[d] != 1]]
    result = self.sum(dims, keepdim=True) if dims else self
    return result.reshape(tuple(size)) if lead else result


@composite(
    "special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    api=FUNCTION | OUT,
    namespace="special",
    public_name="logsumexp",
)
def special_logsumexp(self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    return self.logsumexp(dim, keepdim)


@composite("_aminmax(Tensor self) -> (Tensor, Tensor)", api=FUNCTION)
def _aminmax(self: Tensor) -> Pair:
    return run_name("aminmax", self, None, False)


@composite("_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", api=FUNCTION)
def _aminmax_dim(self: Tensor, dim: int, keepdim: bool) -> Pair:
    return run_name("aminmax", self, dim, keepdim)


# Norms. The public norm is written in _api/reduction.py.


def vector_norm(
    self: Tensor,
    p: Any = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    return run_name("linalg_vector_norm", self, 2 if p is None else p, dim, keepdim, dtype)


composite("norm.Scalar(Tensor self, Scalar p=2) -> Tensor", api=INTERNAL)(
    lambda self, p: vector_norm(self, p)
)
composite(
    "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", api=INTERNAL
)(lambda self, p, dim, keepdim: vector_norm(self, p, dim, keepdim))
composite("norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", api=INTERNAL)(
    lambda self, p, dtype: vector_norm(self, p, dtype=dtype)
)
composite(
    "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) "
    "-> Tensor",
    api=INTERNAL,
)(lambda self, p, dim, keepdim, dtype: vector_norm(self, p, dim, keepdim, dtype))


@composite("frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", api=FUNCTION | OUT)
def frobenius_norm(self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    check(
        len(dim) <= 2, f"frobenius_norm: expected at most 2 dimensions, but got {len(dim)} dimensions instead"
    )
    return vector_norm(self, 2, dim, keepdim)


@composite("nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor", api=FUNCTION | OUT)
def nuclear_norm_dim(self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    """The sum of the singular values of the matrices that lie in the two dims."""
    check(self.ndim >= 2, "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    check(len(dim) == 2, f"nuclear_norm: the dim argument must list two dimensions, got {tuple(dim)}")
    row, column = (wrap_dim(d, self.ndim, name="nuclear_norm") for d in dim)
    check(row != column, f"nuclear_norm: dims must be different, got {tuple(dim)}")
    result = run_name("linalg_svdvals", self.movedim((row, column), (-2, -1)), None).sum(-1)
    if keepdim:
        for d in sorted((row, column)):
            result = result.unsqueeze(d)
    return result


@composite("nuclear_norm(Tensor self, bool keepdim=False) -> Tensor", api=FUNCTION | OUT)
def nuclear_norm(self: Tensor, keepdim: bool) -> Tensor:
    check(
        self.ndim == 2,
        f"nuclear_norm: expected a tensor with 2 dimensions, but got {self.ndim} dimensions instead",
    )
    return nuclear_norm_dim(self, (0, 1), keepdim)


@composite("norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor", api=FUNCTION)
def norm_except_dim(v: Tensor, pow: int, dim: int) -> Tensor:
    """The norm over all dims but one, shaped to divide `v`; dim=-1 means over all."""
    if dim == -1:
        return vector_norm(v, pow)
    if v.ndim == 0:
        raise IndexError(f"norm_except_dim: Dimension specified as {dim} but tensor has no dimensions")
    kept = wrap_dim(dim, v.ndim, name="norm_except_dim")
    if v.ndim == 1:
        return vector_norm(v.unsqueeze(1), pow, [1])
    return vector_norm(v, pow, [d for d in range(v.ndim) if d != kept], True)


@composite("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", api=FUNCTION | METHOD)
def dist(self: Tensor, other: Tensor, p: Any) -> Tensor:
    return vector_norm(self - other, p)


@composite(
    "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    api=FUNCTION | METHOD | INPLACE_METHOD | OUT | Api.EXACT,
)
def renorm(self: Tensor, p: Any, dim: int, maxnorm: Any) -> Tensor:
    """Each slice along `dim` scaled down to a norm of `maxnorm`, if it is larger."""
    check(not isinstance(p, complex), f"renorm: p must be real-valued, got {p}")
    check(not isinstance(maxnorm, complex), f"renorm: maxnorm must be real-valued, got {maxnorm}")
    check(p > 0, f"renorm: non-positive-norm not supported, got p = {p}")
    check(maxnorm >= 0, f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    check(self.ndim > 1, f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    kept = wrap_dim(dim, self.ndim, name="renorm")
    half = self.dtype.opmath is not self.dtype
    norm = vector_norm(
        self, p, [d for d in range(self.ndim) if d != kept], True, DTYPES["float32"] if half else None
    )
    factor = (maxnorm / (norm + 1e-7)).where(norm > maxnorm, 1.0)
    return self * factor.to(self.dtype)


# Assertions: the truth of a bool tensor as a whole.


def _check_bool(self: Tensor, name: str) -> None:
    check(self.dtype is DTYPES["bool"], f"{name} expects a bool tensor, got {self.dtype.name}")


@composite("_is_all_true(Tensor self) -> Tensor", api=FUNCTION | METHOD)
def is_all_true(self: Tensor) -> Tensor:
    _check_bool(self, "_is_all_true")
    return self.all()


@composite("_is_any_true(Tensor self) -> Tensor", api=FUNCTION | METHOD)
def is_any_true(self: Tensor) -> Tensor:
    _check_bool(self, "_is_any_true")
    return self.any()

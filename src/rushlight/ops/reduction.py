"""Sums, means, products, variances, norms and truth values over dimensions: what they take and return.

Extremes and order statistics are in reduction_extremes.py, histograms and segments in reduction_counts.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from ..core.data_sizes import is_data, shorter
from ..core.dtype_promotion import promote_types
from ..core.dtypes import DTYPES, Category, DType, get_default_dtype
from ..core.errors import check, warn_user
from ..core.registry import FUNCTION, METHOD, OUT, Api, define
from ..core.shapes import Spec, numel, reduced_shape, wrap_dims
from ..core.tensor import Tensor
from .rules import reduced, sum_dtype

Dims = Sequence[int] | int | None

EXACT = FUNCTION | METHOD | OUT | Api.EXACT | Api.OVERLAPS
_REDUCED = FUNCTION | METHOD | OUT | Api.OVERLAPS


def not_implemented(name: str, dtype: DType) -> NoReturn:
    """Refuse a dtype as PyTorch does."""
    raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.torch_name}'")


def check_dtype(
    tensor: Tensor, name: str, *, boolean: bool = True, integer: bool = True, complex: bool = True
) -> None:
    """Refuse the dtypes of a category that is not taken."""
    if not (boolean, integer, True, complex)[tensor.dtype.category]:
        not_implemented(name, tensor.dtype)


def is_inexact(dtype: DType) -> bool:
    """Floating or complex."""
    return dtype.category >= Category.FLOATING


# Sums and products.


def sum_rule(self: Tensor, dim: Dims, keepdim: bool, dtype: DType | None, name: str) -> Spec:
    return reduced(self, dim, keepdim, sum_dtype(self, dtype), name=name)


define(
    "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION | METHOD,
    shape=lambda self, dtype: sum_rule(self, None, False, dtype, "sum"),
)
define(
    "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    api=_REDUCED,
    shape=lambda self, dim, keepdim, dtype: sum_rule(self, dim, keepdim, dtype, "sum"),
)
define(
    "prod(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION | METHOD,
    shape=lambda self, dtype: sum_rule(self, None, False, dtype, "prod"),
)
define(
    "prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    api=_REDUCED,
    shape=lambda self, dim, keepdim, dtype: sum_rule(self, dim, keepdim, dtype, "prod"),
)


def nansum_rule(self: Tensor, dim: Dims, keepdim: bool, dtype: DType | None) -> Spec:
    check(
        not self.dtype.is_complex,
        "nansum: complex inputs are not supported; sum the real and imaginary parts apart",
    )
    return sum_rule(self, dim, keepdim, dtype, "nansum")


define(
    "nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    api=_REDUCED,
    shape=nansum_rule,
)


def mean_rule(self: Tensor, dim: Dims, keepdim: bool, dtype: DType | None) -> Spec:
    wanted = dtype or self.dtype
    which = "Input" if dtype is None else "Optional"
    check(
        is_inexact(wanted),
        f"mean(): could not infer output dtype. {which} dtype must be either a "
        f"floating point or complex dtype. Got: {wanted.torch_name}",
    )
    return reduced(self, dim, keepdim, wanted, name="mean")


define(
    "mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    api=_REDUCED,
    shape=lambda self, dtype: mean_rule(self, None, False, dtype),
)
define(
    "mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    api=_REDUCED,
    shape=mean_rule,
)


def trace_rule(self: Tensor) -> Spec:
    check(self.ndim == 2, f"trace: expected a matrix, but got tensor with dim {self.ndim}")
    check_dtype(self, "trace", boolean=False)
    shorter(*self.shape)  # which its lowering asks for
    return Spec((), sum_dtype(self, None))


define("trace(Tensor self) -> Tensor", shape=trace_rule, api=FUNCTION | METHOD)


# Variances.


def variance_rule(self: Tensor, dim: Dims, correction: Any, keepdim: bool, name: str) -> Spec:
    check(
        is_inexact(self.dtype),
        f"{name}: std and var only support floating point and complex dtypes, got {self.dtype.torch_name}",
    )
    out = reduced(self, dim, keepdim, self.dtype.to_real(), name=name)
    results = numel(out.known_shape())
    samples = self.numel() // results if results else 0
    if samples - (1 if correction is None else correction) <= 0:
        warn_user(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            f"reduction factor (input numel divided by output numel), which is {samples}."
        )
    return out


def with_mean(self: Tensor, dim: Dims, correction: Any, keepdim: bool, name: str) -> tuple[Spec, Spec]:
    out = variance_rule(self, dim, correction, keepdim, name)
    return out, Spec(out.shape, self.dtype)


define(
    "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    api=_REDUCED,
    shape=lambda self, dim, correction, keepdim: variance_rule(self, dim, correction, keepdim, "var"),
)
define(
    "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    api=_REDUCED,
    shape=lambda self, dim, correction, keepdim: variance_rule(self, dim, correction, keepdim, "std"),
)
define(
    "var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
    "-> (Tensor, Tensor)",
    api=FUNCTION,
    shape=lambda self, dim, correction, keepdim: with_mean(self, dim, correction, keepdim, "var_mean"),
)
define(
    "std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
    "-> (Tensor, Tensor)",
    api=FUNCTION,
    shape=lambda self, dim, correction, keepdim: with_mean(self, dim, correction, keepdim, "std_mean"),
)


# Truth values and counts.


def truth_rule(self: Tensor, dim: Dims, keepdim: bool, name: str) -> Spec:
    """any and all: uint8 stays uint8, as before there was bool; an empty list of dims reduces nothing."""
    dtype = self.dtype if self.dtype is DTYPES["uint8"] else DTYPES["bool"]
    dims = wrap_dims(dim, self.ndim, name=name, empty_is_all=False)
    return Spec(reduced_shape(self.shape, dims, keepdim), dtype)


define("any(Tensor self) -> Tensor", api=EXACT, shape=lambda self: truth_rule(self, None, False, "any"))
define(
    "any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
    api=EXACT,
    shape=lambda self, dim, keepdim: truth_rule(self, dim, keepdim, "any"),
)
define(
    "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    api=EXACT,
    shape=lambda self, dim, keepdim: truth_rule(self, dim, keepdim, "any"),
)
define("all(Tensor self) -> Tensor", api=EXACT, shape=lambda self: truth_rule(self, None, False, "all"))
define(
    "all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor",
    api=EXACT,
    shape=lambda self, dim, keepdim: truth_rule(self, dim, keepdim, "all"),
)
define(
    "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    api=EXACT,
    shape=lambda self, dim, keepdim: truth_rule(self, dim, keepdim, "all"),
)
define(
    "count_nonzero(Tensor self, int? dim=None) -> Tensor",
    api=FUNCTION | METHOD,
    shape=lambda self, dim: reduced(self, dim, False, DTYPES["int64"], name="count_nonzero"),
)
define(
    "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
    api=FUNCTION | METHOD,
    shape=lambda self, dim: reduced(self, dim, False, DTYPES["int64"], name="count_nonzero"),
)


def hash_rule(self: Tensor, dim: Dims, keepdim: bool, mode: int) -> Spec:
    check(mode == 0, f"hash_tensor: unknown mode {mode}; the only one is 0, the exclusive or of all bits")
    check_dtype(self, "hash_tensor", complex=False)
    check_nonempty(self, dim, "hash_tensor")
    return reduced(self, dim, keepdim, DTYPES["uint64"], name="hash_tensor")


def check_nonempty(self: Tensor, dim: Dims, name: str, error: type[Exception] = RuntimeError) -> None:
    """Refuse to reduce no elements with an operation that has no identity; `error` where no dim was given."""
    if is_data(self.numel()):  # a run looks
        message = f"{name}(): Expected reduction dim to have non-zero size."
        if dim is None or dim == ():
            check(self.numel() > 0, message, error)
            return
        for d in wrap_dims(dim, self.ndim, name=name):
            check(self.shape[d] > 0, message, IndexError)
        return
    if self.numel():
        return
    check(
        dim is not None and dim != (),
        f"{name}(): Expected reduction dim to be specified for "
        "input.numel() == 0. Specify the reduction dim with the 'dim' argument.",
        error,
    )
    for d in wrap_dims(dim, self.ndim, name=name):
        check(
            self.ndim == 0 or self.shape[d] > 0,
            f"{name}(): Expected reduction dim {d} to have non-zero size.",
            IndexError,
        )


define(
    "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
    shape=hash_rule,
    api=EXACT,
)


# Exponentials and norms.


def logsumexp_rule(self: Tensor, dim: Dims, keepdim: bool) -> Spec:
    dtype = self.dtype if is_inexact(self.dtype) else get_default_dtype()
    return reduced(self, dim, keepdim, dtype, name="logsumexp")


define("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", shape=logsumexp_rule)


def vector_norm_rule(self: Tensor, ord: Any, dim: Dims, keepdim: bool, dtype: DType | None) -> Spec:
    name = "linalg.vector_norm"
    check(
        is_inexact(self.dtype),
        f"{name}: Expected a floating point or complex tensor as input. Got {self.dtype.torch_name}",
    )
    check(not isinstance(ord, complex), f"{name}: Expected a non-complex order of norm, got {ord}")
    if dtype is not None:
        _check_norm_dtype(self.dtype, dtype, name)
    if ord < 0 or ord == math.inf:
        _check_norm_of_none(self, ord, dim, name)
    return reduced(self, dim, keepdim, (dtype or self.dtype).to_real(), name=name)


def _check_norm_of_none(self: Tensor, ord: Any, dim: Dims, name: str) -> None:
    """RuntimeError for a norm without an identity of no elements."""
    if is_data(self.numel()):  # a run looks
        check(self.numel() > 0, f"{name} cannot compute the {ord} norm of no elements")
    elif self.numel() == 0:
        dims = wrap_dims(dim, self.ndim, name=name)
        empty = [d for d in dims if self.shape[d] == 0]
        check(
            not empty and dim not in (None, ()),
            f"{name} cannot compute the {ord} norm of no elements, "
            f"because the operation does not have an identity; the input has shape {tuple(self.shape)}",
        )


def _check_norm_dtype(source: DType, dtype: DType, name: str) -> None:
    check(is_inexact(dtype), f"{name}: dtype should be floating point or complex, but got {dtype.torch_name}")
    kind = "complex" if source.is_complex else "real"
    check(
        source.is_complex == dtype.is_complex,
        f"{name}: dtype should be {kind} for {kind} inputs, but got {dtype.torch_name}",
    )
    check(
        promote_types(source, dtype) is dtype,
        f"{name}: the dtype of the input ({source.torch_name}) "
        f"should be convertible without narrowing to the specified dtype ({dtype.torch_name})",
    )


define(
    "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    shape=vector_norm_rule,
    api=FUNCTION | OUT | Api.EXACT | Api.OVERLAPS,
    namespace="linalg",
    public_name="vector_norm",
)

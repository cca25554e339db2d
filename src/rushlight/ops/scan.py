"""Running reductions along a dimension: what they take and return."""

from __future__ import annotations

from ..core.dtypes import DTYPES, DType
from ..core.registry import FUNCTION, INPLACE_METHOD, METHOD, OUT, define
from ..core.shapes import Spec, wrap_dim
from ..core.tensor import Tensor
from .reduction import EXACT, check_dtype
from .rules import like, sum_dtype


def scan_rule(self: Tensor, dim: int, dtype: DType, name: str) -> Spec:
    wrap_dim(dim, self.ndim, name=name)
    return like(self, dtype)


def extreme_scan_rule(self: Tensor, dim: int, name: str) -> tuple[Spec, Spec]:
    check_dtype(self, name, complex=False)
    return scan_rule(self, dim, self.dtype, name), like(self, DTYPES["int64"])


def logcumsumexp_rule(self: Tensor, dim: int) -> Spec:
    check_dtype(self, "logcumsumexp", boolean=False, integer=False)
    return scan_rule(self, dim, self.dtype, "logcumsumexp")


define(
    "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION | METHOD | INPLACE_METHOD | OUT,
    shape=lambda self, dim, dtype: scan_rule(self, dim, sum_dtype(self, dtype), "cumsum"),
)
define(
    "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION | METHOD | INPLACE_METHOD | OUT,
    shape=lambda self, dim, dtype: scan_rule(self, dim, sum_dtype(self, dtype), "cumprod"),
)
define(
    "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    api=EXACT,
    shape=lambda self, dim: extreme_scan_rule(self, dim, "cummax"),
)
define(
    "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    api=EXACT,
    shape=lambda self, dim: extreme_scan_rule(self, dim, "cummin"),
)
define("logcumsumexp(Tensor self, int dim) -> Tensor", shape=logcumsumexp_rule, api=EXACT)

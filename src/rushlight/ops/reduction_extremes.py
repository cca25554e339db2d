"""Extremes and order statistics over dimensions: what they take and return."""

from __future__ import annotations

from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import EXACT_OUT, FUNCTION, METHOD, define
from ..core.shapes import Spec, reduced_shape, wrap_dim
from ..core.tensor import Tensor
from .reduction import EXACT, Dims, check_dtype, check_nonempty
from .rules import reduced

INDEX = DTYPES["int64"]
APART = FUNCTION | METHOD | EXACT_OUT


def extreme_rule(self: Tensor, dim: Dims, keepdim: bool, name: str) -> Spec:
    check_dtype(self, name, complex=False)
    check_nonempty(self, dim, name)
    return reduced(self, dim, keepdim, name=name)


def with_index(
    self: Tensor, dim: int, keepdim: bool, name: str, *, boolean: bool = True
) -> tuple[Spec, Spec]:
    """(values, indices) of a reduction that selects one element of each row along `dim`."""
    check_dtype(self, name, boolean=boolean, complex=False)
    d = wrap_dim(dim, self.ndim, name=name)
    check_nonempty(self, (d,), name)
    shape = reduced_shape(self.shape, (d,), keepdim)
    return Spec(shape, self.dtype), Spec(shape, INDEX)


define(
    "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    api=EXACT,
    shape=lambda self, dim, keepdim: extreme_rule(self, dim, keepdim, "amax"),
)
define(
    "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    api=EXACT,
    shape=lambda self, dim, keepdim: extreme_rule(self, dim, keepdim, "amin"),
)
define("max(Tensor self) -> Tensor", shape=lambda self: extreme_rule(self, None, False, "max"))
define("min(Tensor self) -> Tensor", shape=lambda self: extreme_rule(self, None, False, "min"))
define(
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    api=APART,
    shape=lambda self, dim, keepdim: with_index(self, dim, keepdim, "max"),
)
define(
    "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    api=APART,
    shape=lambda self, dim, keepdim: with_index(self, dim, keepdim, "min"),
)


def aminmax_rule(self: Tensor, dim: int | None, keepdim: bool) -> tuple[Spec, Spec]:
    out = extreme_rule(self, dim, keepdim, "aminmax")
    return out, out


define(
    "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    shape=aminmax_rule,
    api=APART,
)


def position_rule(self: Tensor, dim: int | None, keepdim: bool, name: str) -> Spec:
    kind = {"bool": "bool", "complex32": "complex", "complex64": "complex", "complex128": "complex"}.get(
        self.dtype.name
    )
    check(kind is None, f"{name}(): does not support {kind} input")
    check_nonempty(self, dim, name, IndexError)
    return reduced(self, dim, keepdim, INDEX, name=name)


define(
    "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    api=EXACT,
    shape=lambda self, dim, keepdim: position_rule(self, dim, keepdim, "argmax"),
)
define(
    "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    api=EXACT,
    shape=lambda self, dim, keepdim: position_rule(self, dim, keepdim, "argmin"),
)


def median_rule(self: Tensor, name: str) -> Spec:
    check_dtype(self, name, boolean=False, complex=False)
    return Spec((), self.dtype)


define("median(Tensor self) -> Tensor", api=FUNCTION | METHOD, shape=lambda self: median_rule(self, "median"))
define(
    "nanmedian(Tensor self) -> Tensor",
    api=FUNCTION | METHOD,
    shape=lambda self: median_rule(self, "nanmedian"),
)
define(
    "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    api=EXACT,
    shape=lambda self, dim, keepdim: with_index(self, dim, keepdim, "median", boolean=False),
)
define(
    "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    api=EXACT,
    shape=lambda self, dim, keepdim: with_index(self, dim, keepdim, "nanmedian", boolean=False),
)
define(
    "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    api=APART,
    shape=lambda self, dim, keepdim: with_index(self, dim, keepdim, "mode"),
)

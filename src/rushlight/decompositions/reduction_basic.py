"""Reductions in terms of sum, any, amin, amax and var over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import dtypes
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.registry import decomposition
from ..core.tensor import Tensor

Dims = Sequence[int] | None


def wide(self: Tensor) -> Tensor:
    """Half types as the float32 they compute in, to be rounded once."""
    return self.to(self.dtype.opmath)


decomposition("sum")(lambda self, dtype: run_name("sum.dim_IntList", self, None, False, dtype))
decomposition("trace")(lambda self: self.diagonal().sum())


# Truth.


def every(self: Tensor, some: Tensor) -> Tensor:
    """Not any that is not; of bytes, a byte."""
    found = some.logical_not()
    return found.to(self.dtype) if self.dtype is DTYPES["uint8"] else found


decomposition("all")(lambda self: every(self, run_name("any", self.logical_not())))
decomposition("all.dim")(
    lambda self, dim, keepdim: every(self, run_name("any.dim", self.logical_not(), dim, keepdim))
)
decomposition("all.dims")(
    lambda self, dim, keepdim: every(self, run_name("any.dims", self.logical_not(), dim, keepdim))
)


# Counts and extremes.


@decomposition("count_nonzero.dim_IntList")
def count_nonzero(self: Tensor, dim: Sequence[int]) -> Tensor:
    count: Tensor = run_name("sum.dim_IntList", self != 0, dim, False, DTYPES["int64"])
    return count


decomposition("count_nonzero")(lambda self, dim: count_nonzero(self, () if dim is None else (dim,)))


@decomposition("aminmax")
def aminmax(self: Tensor, dim: int | None, keepdim: bool) -> tuple[Tensor, Tensor]:
    dims = () if dim is None else (dim,)
    return run_name("amin", self, dims, keepdim), run_name("amax", self, dims, keepdim)


# Sums and spreads.


@decomposition("nansum")
def nansum(self: Tensor, dim: Dims, keepdim: bool, dtype: DType | None) -> Tensor:
    total: Tensor = run_name("sum.dim_IntList", self.masked_fill(self.isnan(), 0), dim, keepdim, dtype)
    return total


@decomposition("std.correction")
def std(self: Tensor, dim: Dims, correction: Any, keepdim: bool) -> Tensor:
    spread: Tensor = run_name("var.correction", wide(self), dim, correction, keepdim).sqrt()
    return spread.to(self.dtype) if spread.dtype is not self.dtype and not self.dtype.is_complex else spread


@decomposition("std_mean.correction")
def std_mean(self: Tensor, dim: Dims, correction: Any, keepdim: bool) -> tuple[Tensor, Tensor]:
    variance, mean = run_name("var_mean.correction", wide(self), dim, correction, keepdim)
    spread = variance.sqrt()
    real = spread if self.dtype.is_complex else spread.to(self.dtype)
    return real, mean.to(self.dtype)


@decomposition("logsumexp")
def logsumexp(self: Tensor, dim: Sequence[int], keepdim: bool) -> Tensor:
    """The largest is taken out first, unless it is infinite; nothing needs no such care."""
    x = (
        wide(self)
        if self.dtype.is_floating_point or self.dtype.is_complex
        else self.to(dtypes.get_default_dtype())
    )
    result = self.dtype if x.dtype is self.dtype.opmath else x.dtype
    if self.numel() == 0:
        return x.exp().sum(dim, keepdim).log().to(result)
    largest = run_name("amax", x.real if x.dtype.is_complex else x, dim, True)
    largest = largest.masked_fill(largest.abs() == float("inf"), 0)
    total = (x - largest).exp().sum(dim, True).log() + largest
    return (total if keepdim else squeezed(total, dim)).to(result)


def squeezed(total: Tensor, dim: Sequence[int]) -> Tensor:
    if total.ndim == 0:
        return total
    done: Tensor = run_name("squeeze.dims", total, tuple(dim) or tuple(range(total.ndim)))
    return done

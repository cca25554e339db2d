"""Reductions as loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dtypes import DTYPES, DType
from ..core.shapes import Spec, numel, wrap_dims
from ..loops.expr import NotRecordable
from ..loops.nest import Combine
from .declare import lowering
from .lowered import Lowered


def folded(self: Lowered, dim: Any, keepdim: bool, combine: Combine, compute: DType) -> Lowered:
    """`self` cast to `compute` and folded over `dim`."""
    dims = wrap_dims(dim, self.ndim)
    if self.ndim == 0:
        return self.cast(compute)
    if 0 in self.shape:
        raise NotRecordable("a reduction of no elements")
    return self.cast(compute).reduce(dims, combine, keepdim, compute)


def truth(x: Lowered) -> Lowered:
    return x.map(lambda ops, v: ops.ne(v, ops.constant(0, like=v)), DTYPES["bool"])


@lowering("sum.dim_IntList")
def sum_dims(self: Lowered, dim: Any, keepdim: bool, dtype: DType | None, out: Spec) -> Lowered:
    source = self if dtype is None else self.cast(dtype)
    return folded(source, dim, keepdim, Combine.SUM, out.dtype.opmath).cast(out.dtype)


@lowering("sum")
def sum_all(self: Lowered, dtype: DType | None, out: Spec) -> Lowered:
    return sum_dims(self, None, False, dtype, out)


@lowering("mean.dim")
def mean_dims(self: Lowered, dim: Any, keepdim: bool, dtype: DType | None, out: Spec) -> Lowered:
    compute = out.dtype.opmath
    source = self if dtype is None else self.cast(dtype)
    count = numel([self.shape[d] for d in wrap_dims(dim, self.ndim)]) if self.ndim else 1
    total = folded(source, dim, keepdim, Combine.SUM, compute)
    return total.map(lambda ops, x: ops.div(x, ops.constant(float(count), like=x)), compute).cast(out.dtype)


@lowering("mean")
def mean_all(self: Lowered, dtype: DType | None, out: Spec) -> Lowered:
    return mean_dims(self, None, False, dtype, out)


@lowering("prod")
def prod_all(self: Lowered, dtype: DType | None, out: Spec) -> Lowered:
    source = self if dtype is None else self.cast(dtype)
    return folded(source, None, False, Combine.PRODUCT, out.dtype.opmath).cast(out.dtype)


@lowering("prod.dim_int")
def prod_dim(self: Lowered, dim: int, keepdim: bool, dtype: DType | None, out: Spec) -> Lowered:
    source = self if dtype is None else self.cast(dtype)
    return folded(source, dim, keepdim, Combine.PRODUCT, out.dtype.opmath).cast(out.dtype)


@lowering("amax")
def amax(self: Lowered, dim: Sequence[int], keepdim: bool, out: Spec) -> Lowered:
    return folded(self, dim, keepdim, Combine.MAXIMUM, out.dtype.opmath).cast(out.dtype)


@lowering("amin")
def amin(self: Lowered, dim: Sequence[int], keepdim: bool, out: Spec) -> Lowered:
    return folded(self, dim, keepdim, Combine.MINIMUM, out.dtype.opmath).cast(out.dtype)


def _declare_truth(name: str, combine: Combine) -> None:
    """any and all, with no, one or several dimensions."""
    def fold(self: Lowered, dim: Any, keepdim: bool, out: Spec) -> Lowered:
        return folded(truth(self), dim, keepdim, combine, DTYPES["bool"]).cast(out.dtype)

    lowering(name)(lambda self, out: fold(self, None, False, out))
    lowering(f"{name}.dim", f"{name}.dims")(fold)


_declare_truth("any", Combine.ANY)
_declare_truth("all", Combine.ALL)


@lowering("_softmax")
def softmax(self: Lowered, dim: int, out: Spec) -> Lowered:
    x, dims = _stable(self, dim, out)
    total = x.reduce(dims, Combine.SUM, True, x.dtype).expand(x.shape)
    return x.map(lambda ops, e, s: ops.div(e, s), x.dtype, total).cast(out.dtype)


def _stable(self: Lowered, dim: int, out: Spec) -> tuple[Lowered, tuple[int, ...]]:
    """exp(self - its maximum along dim), stored."""
    if 0 in self.shape or self.ndim == 0:
        raise NotRecordable("softmax of no elements")
    dims = wrap_dims(dim, self.ndim)
    x = self.cast(out.dtype.opmath)
    top = x.reduce(dims, Combine.MAXIMUM, True).expand(x.shape)
    return x.map(lambda ops, v, m: ops.exp(ops.sub(v, m)), x.dtype, top).realize(), dims


@lowering("_log_softmax")
def log_softmax(self: Lowered, dim: int, out: Spec) -> Lowered:
    if 0 in self.shape or self.ndim == 0:
        raise NotRecordable("log_softmax of no elements")
    dims = wrap_dims(dim, self.ndim)
    x = self.cast(out.dtype.opmath)
    top = x.reduce(dims, Combine.MAXIMUM, True)
    shifted = x.map(lambda ops, v, m: ops.sub(v, m), x.dtype, top.expand(x.shape))
    total = shifted.map(lambda ops, v: ops.exp(v), x.dtype).reduce(dims, Combine.SUM, True)
    log_total = total.map(lambda ops, s: ops.log(s), x.dtype).realize().expand(x.shape)
    return shifted.map(lambda ops, v, s: ops.sub(v, s), x.dtype, log_total).cast(out.dtype)


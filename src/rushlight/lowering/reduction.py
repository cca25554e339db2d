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



@lowering("_softmax_backward_data")
def softmax_backward(grad_output: Lowered, output: Lowered, dim: int, out: Spec) -> Lowered:
    grad, result, dims = _backward_operands(grad_output, output, dim)
    weighted = grad.map(lambda ops, g, y: ops.mul(g, y), grad.dtype, result)
    total = weighted.reduce(dims, Combine.SUM, True).expand(grad.shape)
    return grad.map(lambda ops, g, y, s: ops.mul(y, ops.sub(g, s)), grad.dtype, result, total).cast(out.dtype)


@lowering("_log_softmax_backward_data")
def log_softmax_backward(grad_output: Lowered, output: Lowered, dim: int, out: Spec) -> Lowered:
    grad, result, dims = _backward_operands(grad_output, output, dim)
    total = grad.reduce(dims, Combine.SUM, True).expand(grad.shape)
    return grad.map(lambda ops, g, y, s: ops.sub(g, ops.mul(ops.exp(y), s)), grad.dtype, result, total).cast(
        out.dtype
    )


def _backward_operands(grad: Lowered, output: Lowered, dim: int) -> tuple[Lowered, Lowered, tuple[int, ...]]:
    if 0 in output.shape or output.ndim == 0:
        raise NotRecordable("softmax of no elements")
    compute = output.dtype.opmath
    return grad.cast(compute), output.cast(compute), wrap_dims(dim, output.ndim)


def _argument_rule(combine: Combine) -> Any:
    def rule(self: Lowered, dim: int | None, keepdim: bool, out: Spec) -> Lowered:
        if 0 in self.shape or self.ndim == 0:
            raise NotRecordable("the position of an extreme of no elements")
        dims = wrap_dims(dim, self.ndim)
        found = self.cast(self.dtype.opmath).reduce(dims, combine, keepdim)
        return found if found.shape == out.known_shape() else found.reshape(out.known_shape())

    return rule


lowering("argmax")(_argument_rule(Combine.ARG_MAXIMUM))
lowering("argmin")(_argument_rule(Combine.ARG_MINIMUM))


@lowering("var.correction")
def var(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Spec) -> Lowered:
    """In two passes over the row: the mean, then the squares of the deviations."""
    return _variance(self, dim, correction, keepdim, out)[0].cast(out.dtype)


def _variance(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Spec) -> tuple[Lowered, Lowered]:
    if 0 in self.shape or self.ndim == 0 or self.dtype.is_complex:
        raise NotRecordable("the variance of no elements or of complex numbers")
    compute = out.dtype.opmath
    dims = wrap_dims(dim, self.ndim)
    count = numel([self.shape[d] for d in dims])
    freedom = max(0.0, count - (1 if correction is None else float(correction)))
    if freedom == 0:
        raise NotRecordable("a variance without degrees of freedom")
    x = self.cast(compute)
    mean = _scaled(x.reduce(dims, Combine.SUM, True), float(count))
    square = x.map(lambda ops, v, m: ops.mul(ops.sub(v, m), ops.sub(v, m)), compute, mean.expand(x.shape))
    variance = _scaled(square.reduce(dims, Combine.SUM, keepdim), freedom)
    return variance, mean if keepdim else mean.reshape(variance.shape)


def _scaled(x: Lowered, divisor: float) -> Lowered:
    return x.map(lambda ops, v: ops.div(v, ops.constant(divisor, like=v)), x.dtype)


@lowering("var_mean.correction")
def var_mean(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Any) -> tuple[Lowered, Lowered]:
    variance, mean = _variance(self, dim, correction, keepdim, out[0])
    return variance.cast(out[0].dtype), mean.cast(out[1].dtype)


@lowering("std.correction")
def std(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Spec) -> Lowered:
    variance = _variance(self, dim, correction, keepdim, out)[0]
    return variance.map(lambda ops, v: ops.sqrt(v), variance.dtype).cast(out.dtype)


def _extreme(best: Combine, position: Combine) -> Any:
    """max and min along a dimension: the value and its first position."""
    def rule(self: Lowered, dim: int, keepdim: bool, out: Any) -> tuple[Lowered, Lowered]:
        if 0 in self.shape or self.ndim == 0 or self.dtype.name == "bool":
            raise NotRecordable("an extreme of no elements or of bools")
        dims = wrap_dims(dim, self.ndim)
        x = self.cast(self.dtype.opmath)
        return x.reduce(dims, best, keepdim).cast(out[0].dtype), x.reduce(dims, position, keepdim)

    return rule


lowering("max.dim")(_extreme(Combine.MAXIMUM, Combine.ARG_MAXIMUM))
lowering("min.dim")(_extreme(Combine.MINIMUM, Combine.ARG_MINIMUM))
lowering("max")(
    lambda self, out: folded(self, None, False, Combine.MAXIMUM, out.dtype.opmath).cast(out.dtype)
)
lowering("min")(
    lambda self, out: folded(self, None, False, Combine.MINIMUM, out.dtype.opmath).cast(out.dtype)
)

"""Reductions as loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.data_sizes import is_data, shorter
from ..core.dtypes import DTYPES, DType
from ..core.shapes import Spec, numel, reduced_shape, wrap_dims
from ..core.symbols import is_size
from ..loops.expr import NotRecordable
from ..loops.nest import Combine
from .declare import extern, lowering
from .lowered import Lowered, Lowerer
from .scatter import at_least_1d


def folded(self: Lowered, dim: Any, keepdim: bool, combine: Combine, compute: DType) -> Lowered:
    """`self` cast to `compute` and folded over `dim`."""
    dims = wrap_dims(dim, self.ndim)
    if self.ndim == 0:
        return self.cast(compute)
    if 0 in self.shape:
        shape = reduced_shape(self.shape, dims, keepdim)
        if 0 not in shape and combine not in NEUTRAL:
            raise NotRecordable("an extreme of no elements")
        return self.owner.full(shape, NEUTRAL.get(combine, 0), compute)
    return self.cast(compute).reduce(dims, combine, keepdim, compute)


NEUTRAL = {Combine.SUM: 0, Combine.PRODUCT: 1, Combine.ANY: 0, Combine.ALL: 1}


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
    return total.map(lambda ops, x: ops.div(x, ops.constant(as_float(count), like=x)), compute).cast(
        out.dtype
    )


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
        if dim == ():  # no dimension, unlike None and unlike the sums of no dimensions, which are of all
            return truth(self).cast(out.dtype)
        return folded(truth(self), dim, keepdim, combine, DTYPES["bool"]).cast(out.dtype)

    lowering(name)(lambda self, out: fold(self, None, False, out))
    lowering(f"{name}.dim", f"{name}.dims")(fold)


_declare_truth("any", Combine.ANY)
_declare_truth("all", Combine.ALL)


def _comparable(self: Lowered) -> Lowered:
    """In a dtype whose extremes can be found; a number as a row of one element."""
    return at_least_1d(self).cast(DTYPES["uint8"] if self.dtype.name == "bool" else self.dtype.opmath)


def _argument_rule(combine: Combine) -> Any:
    def rule(self: Lowered, dim: int | None, keepdim: bool, low: Lowerer, out: Spec) -> Lowered:
        if 0 in self.shape:
            return low.full(out.known_shape(), 0, out.dtype)
        rows = _comparable(self)
        dims = wrap_dims(dim, rows.ndim)
        return rows.reduce(dims, combine, keepdim).reshape(out.known_shape())

    return rule


lowering("argmax")(_argument_rule(Combine.ARG_MAXIMUM))
lowering("argmin")(_argument_rule(Combine.ARG_MINIMUM))


@lowering("var.correction")
def var(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Spec) -> Lowered:
    """In two passes over the row: the mean, then the squares of the deviations."""
    return _variance(self, dim, correction, keepdim, out)[0].cast(out.dtype)


def _variance(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Spec) -> tuple[Lowered, Lowered]:
    shape = out.known_shape()
    if self.dtype.is_complex:
        raise NotRecordable("the variance of complex numbers")
    if 0 in self.shape:
        missing = self.owner.full(shape, float("nan"), out.dtype.opmath)
        return missing, missing
    compute = out.dtype.opmath
    x = at_least_1d(self).cast(compute)
    dims = wrap_dims(dim, x.ndim)
    count = numel([x.shape[d] for d in dims])
    lost = 1 if correction is None else float(correction)
    left = count - (int(lost) if lost == int(lost) else lost)
    freedom = left if is_data(left) or left > 0 else 0
    mean = _scaled(x.reduce(dims, Combine.SUM, True), as_float(count))
    square = x.map(lambda ops, v, m: ops.mul(ops.sub(v, m), ops.sub(v, m)), compute, mean.expand(x.shape))
    variance = _scaled(square.reduce(dims, Combine.SUM, keepdim), as_float(freedom))
    return variance.reshape(shape), mean.reshape(shape)


def as_float(count: Any) -> Any:
    """A number of elements as a float; one that changes from call to call stays what it is."""
    return count if is_size(count) else float(count)


def _scaled(x: Lowered, divisor: float) -> Lowered:
    def scaled(ops: Any, v: Any) -> Any:
        number = ops.constant(divisor, like=v)
        if is_data(divisor):  # less than 0 is 0, as of a size that is known
            number = ops.maximum(number, ops.constant(0, like=v))
        return ops.div(v, number)

    return x.map(scaled, x.dtype)


@lowering("var_mean.correction")
def var_mean(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Any) -> tuple[Lowered, Lowered]:
    variance, mean = _variance(self, dim, correction, keepdim, out[0])
    return variance.cast(out[0].dtype), mean.cast(out[1].dtype)


@lowering("std.correction")
def std(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Spec) -> Lowered:
    variance = _variance(self, dim, correction, keepdim, out)[0]
    return variance.map(lambda ops, v: ops.sqrt(v), variance.dtype).cast(out.dtype)


@lowering("std_mean.correction")
def std_mean(self: Lowered, dim: Any, correction: Any, keepdim: bool, out: Any) -> tuple[Lowered, Lowered]:
    variance, mean = _variance(self, dim, correction, keepdim, out[0])
    deviation = variance.map(lambda ops, v: ops.sqrt(v), variance.dtype)
    return deviation.cast(out[0].dtype), mean.cast(out[1].dtype)


def _extreme(best: Combine, position: Combine) -> Any:
    """max and min along a dimension: the value and its first position."""

    def rule(self: Lowered, dim: int, keepdim: bool, low: Lowerer, out: Any) -> tuple[Lowered, Lowered]:
        shape = out[0].known_shape()
        if 0 in self.shape:
            return low.full(shape, 0, out[0].dtype), low.full(shape, 0, out[1].dtype)
        x = _comparable(self).cheap()
        dims = wrap_dims(dim, x.ndim)
        value = x.reduce(dims, best, keepdim).reshape(shape).cast(out[0].dtype)
        return value, x.reduce(dims, position, keepdim).reshape(shape)

    return rule


lowering("max.dim")(_extreme(Combine.MAXIMUM, Combine.ARG_MAXIMUM))
lowering("min.dim")(_extreme(Combine.MINIMUM, Combine.ARG_MINIMUM))
lowering("max")(
    lambda self, out: folded(self, None, False, Combine.MAXIMUM, out.dtype.opmath).cast(out.dtype)
)
lowering("min")(
    lambda self, out: folded(self, None, False, Combine.MINIMUM, out.dtype.opmath).cast(out.dtype)
)


@lowering("aminmax")
def aminmax(self: Lowered, dim: int | None, keepdim: bool, low: Lowerer, out: Any) -> tuple[Lowered, Lowered]:
    shape = out[0].known_shape()
    if 0 in self.shape:
        return low.full(shape, 0, out[0].dtype), low.full(shape, 0, out[1].dtype)
    x = _comparable(self).cheap()
    dims = wrap_dims(dim, x.ndim)
    least, most = (
        x.reduce(dims, combine, keepdim).reshape(shape).cast(out[0].dtype)
        for combine in (Combine.MINIMUM, Combine.MAXIMUM)
    )
    return least, most


# Counts and sums of some of the elements.


@lowering("nansum")
def nansum(self: Lowered, dim: Any, keepdim: bool, dtype: DType | None, out: Spec) -> Lowered:
    if self.dtype.is_floating_point:
        self = self.map(lambda ops, x: ops.where(ops.isnan(x), ops.number(0, x.dtype), x), self.dtype)
    return sum_dims(self, dim, keepdim, dtype, out)


lowering("count_nonzero", "count_nonzero.dim_IntList")(
    lambda self, dim, out: folded(truth(self).cast(out.dtype), dim, False, Combine.SUM, out.dtype)
)


@lowering("trace")
def trace(self: Lowered, out: Spec) -> Lowered:
    diagonal = self.reindex((shorter(*self.shape),), lambda index: (index[0], index[0]))
    return folded(diagonal, None, False, Combine.SUM, out.dtype.opmath).cast(out.dtype)


# Exponentials and norms.


@lowering("logsumexp")
def logsumexp(self: Lowered, dim: Any, keepdim: bool, low: Lowerer, out: Spec) -> Lowered:
    """The maximum is taken out, unless it is infinite."""
    if self.dtype.is_complex:
        raise NotRecordable("logsumexp of complex numbers")
    compute, shape = out.dtype.opmath, out.known_shape()
    if 0 in self.shape:
        return low.full(shape, -float("inf"), out.dtype)
    x = at_least_1d(self).cast(compute).cheap()
    dims = wrap_dims(dim, x.ndim)
    top = x.reduce(dims, Combine.MAXIMUM, True).map(
        lambda ops, m: ops.where(ops.isinf(m), ops.number(0, compute), m), compute
    )
    shifted = x.map(lambda ops, v, m: ops.exp(ops.sub(v, m)), compute, top.expand(x.shape))
    total = shifted.reduce(dims, Combine.SUM, True)
    result = total.map(lambda ops, s, m: ops.add(ops.log(s), m), compute, top)
    return result.reshape(shape).cast(out.dtype)


@lowering("linalg_vector_norm")
def vector_norm(self: Lowered, ord: Any, dim: Any, keepdim: bool, dtype: DType | None, out: Spec) -> Lowered:
    compute, order = out.dtype.opmath, float(ord)
    x = self if dtype is None else self.cast(dtype.opmath)
    x = x if x.dtype.is_complex else x.cast(compute)

    def sum_of(terms: Lowered) -> Lowered:
        return folded(terms, dim, keepdim, Combine.SUM, compute)

    if order == 2.0:
        total = sum_of(_squares(x, compute))
        return total.map(lambda ops, v: ops.sqrt(v), compute).cast(out.dtype)
    if order == 0.0:
        return sum_of(truth(x).cast(compute)).cast(out.dtype)
    size = x.map(lambda ops, v: ops.abs(v), compute)
    if order in (float("inf"), -float("inf")):
        combine = Combine.MAXIMUM if order > 0 else Combine.MINIMUM
        return folded(size, dim, keepdim, combine, compute).cast(out.dtype)
    if order == 1.0:
        return sum_of(size).cast(out.dtype)
    powers = size.map(lambda ops, v: ops.pow(v, ops.constant(order, like=v)), compute)
    return (
        sum_of(powers)
        .map(lambda ops, v: ops.pow(v, ops.constant(1.0 / order, like=v)), compute)
        .cast(out.dtype)
    )


def _squares(x: Lowered, compute: DType) -> Lowered:
    if not x.dtype.is_complex:
        return x.map(lambda ops, v: ops.mul(v, v), compute)
    return x.map(
        lambda ops, v: ops.add(ops.mul(ops.real(v), ops.real(v)), ops.mul(ops.imag(v), ops.imag(v))), compute
    )


extern(
    "values are compared with edges that depend on the data, step by step as NumPy rounds",
    "histogram.bin_ct",
    "histogram.bins_tensor",
    "_histogramdd_bin_edges",
    "_histogramdd_from_bin_cts",
    "_histogramdd_from_bin_tensors",
)
extern("the segments, and whether they are valid, are data", "segment_reduce", "_segment_reduce_backward")
extern("there is no reduction by exclusive or", "hash_tensor")
extern("which of equal elements is named depends on the library's own unstable sort", "mode")
extern("the shape of the result depends on data", "bincount")

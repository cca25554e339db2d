"""Derivatives of gather, scatter and index_* along one dimension, and of take and put.

Where several values are written to one place, all of them get its gradient: which of them stays is not a
matter of mathematics. Extremes share it equally among the values that attain them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.shapes import Shape
from ..core.tensor import Tensor
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative
from .helpers import conj

# Gather and scatter. A source may be larger than the index: only a corner of it is read.

def corner(src: Tensor, shape: Sequence[int]) -> Tensor:
    """The part of `src` that an index of this shape covers."""
    if 0 in shape:
        return src.new_zeros(shape)
    if src.ndim != len(shape):
        return src.reshape(shape)  # one of them is 0-d
    for dim, size in enumerate(shape):
        if src.shape[dim] != size:
            src = src.narrow(dim, 0, size)
    return src


def from_corner(part: Tensor, shape: Sequence[int]) -> Tensor:
    """`part` as the corner of a tensor of zeros: the transpose of `corner`."""
    if 0 in part.shape:
        return part.new_zeros(shape)
    if part.ndim != len(shape):
        return part.reshape(shape)
    pads = [n for size, wanted in zip(reversed(part.shape), reversed(shape), strict=True)
            for n in (0, wanted - size)]
    return run_name("constant_pad_nd", part, pads, 0) if any(pads) else part


def read(grad: Tensor, dim: int, index: Tensor, src_shape: Shape) -> Tensor:
    """The gradient of the source of a scatter."""
    return from_corner(grad.gather(dim, index), src_shape)


def gather_backward(grad: Tensor, self_shape: Shape, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    if sparse_grad:
        return run_name("_gather_sparse_backward", grad.new_zeros(()).expand(self_shape), dim, index, grad)
    return grad.new_zeros(self_shape).scatter_add(dim, index, grad)


derivative("gather", self=gather_backward, index=NOT_DIFFERENTIABLE, result=AUTO_LINEAR)
derivative("scatter.src", self=lambda grad, dim, index: grad.scatter(dim, index, 0), index=NOT_DIFFERENTIABLE,
           src=read, result=AUTO_LINEAR)
derivative("scatter.value", self=lambda grad, dim, index: grad.scatter(dim, index, 0),
           index=NOT_DIFFERENTIABLE, result=lambda self_t, dim, index: self_t.scatter(dim, index, 0))
derivative("scatter_add", self=lambda grad: grad, index=NOT_DIFFERENTIABLE, src=read, result=AUTO_LINEAR)


# Whole slices at the indices of one dimension.

def index_select_backward(grad: Tensor, self_shape: Shape, dim: int, index: Tensor) -> Tensor:
    return grad.new_zeros(self_shape).index_add(dim, index, grad)


def select(grad: Tensor, dim: int, index: Tensor, source_shape: Shape) -> Tensor:
    """The gradient of a source of slices."""
    return grad.index_select(dim, index).reshape(source_shape)


def under(grad: Tensor, dim: int, index: Tensor) -> Tensor:
    """`grad` of the slices at `index`, counted once, and zero elsewhere."""
    chosen = grad.new_zeros(grad.shape, dtype=DTYPES["bool"]).index_fill(dim, index, True)
    return grad.where(chosen, 0)


derivative("index_select", self=index_select_backward, index=NOT_DIFFERENTIABLE, result=AUTO_LINEAR)
derivative("index_add", self=lambda grad: grad, index=NOT_DIFFERENTIABLE,
           source=lambda grad, dim, index, source_shape, alpha:
               select(grad, dim, index, source_shape) * conj(alpha),
           result=AUTO_LINEAR)
derivative("index_copy", self=lambda grad, dim, index: grad.index_fill(dim, index, 0),
           index=NOT_DIFFERENTIABLE, source=select, result=AUTO_LINEAR)
derivative("index_fill.int_Scalar", self=lambda grad, dim, index: grad.index_fill(dim, index, 0),
           index=NOT_DIFFERENTIABLE, result=lambda self_t, dim, index: self_t.index_fill(dim, index, 0))
derivative("index_fill.int_Tensor", self=lambda grad, dim, index: grad.index_fill(dim, index, 0),
           index=NOT_DIFFERENTIABLE, value=lambda grad, dim, index: under(grad, dim, index).sum(),
           result=AUTO_LINEAR)


# Values combined with what is there.

class Places(NamedTuple):
    """Which place of a table each element of a source belongs to, as three ways to go between them."""

    read: Callable[[Tensor], Tensor]  # of a table: for each element of the source, what is at its place
    add: Callable[[Tensor, Tensor], Tensor]  # a table with the elements of a source added to it
    multiply: Callable[[Tensor, Tensor], Tensor]


def scatter_places(dim: int, index: Tensor) -> Places:
    return Places(lambda table: table.gather(dim, index),
                  lambda table, source: table.scatter_add(dim, index, source),
                  lambda table, source: run_name("scatter_reduce.two", table, dim, index, source, "prod",
                                                 True))


def slice_places(dim: int, index: Tensor, shape: Sequence[int]) -> Places:
    return Places(lambda table: select(table, dim, index, tuple(shape)),
                  lambda table, source: table.index_add(dim, index, source),
                  lambda table, source: run_name("index_reduce", table, dim, index, source, "prod", True))


def weights(self: Tensor, source: Tensor, result: Tensor, reduce: str, include_self: bool,
            places: Places) -> tuple[Tensor, Tensor]:
    """The derivative of the result at its place by each element of `self` and of `source`."""
    count = places.add(self.new_zeros(self.shape), source.new_ones(source.shape))
    takes_part = self.new_ones(self.shape, dtype=DTYPES["bool"]) if include_self else count == 0
    if reduce in ("sum", "add"):
        return takes_part.to(self.dtype), source.new_ones(source.shape)
    if reduce == "mean":
        share = 1 / (count + takes_part)
        return takes_part * share, places.read(share)
    rule = product_weights if reduce in ("prod", "multiply") else extreme_weights
    of_self, of_source = rule(self, source, result, takes_part, places)
    return of_self.where(takes_part, 0), of_source


def extreme_weights(self: Tensor, source: Tensor, result: Tensor, takes_part: Tensor,
                    places: Places) -> tuple[Tensor, Tensor]:
    """Equal shares of those that attain the extreme; NaN where none does, because it is NaN."""
    here = ((self == result) & takes_part).to(self.dtype)
    there = (source == places.read(result)).to(source.dtype)
    count = places.add(here, there)
    return here / count, there / places.read(count)


def product_weights(self: Tensor, source: Tensor, result: Tensor, takes_part: Tensor,
                    places: Places) -> tuple[Tensor, Tensor]:
    """The product of the other factors at the same place.

    It is the result divided by the factor, unless that is zero: then the other factors are those that are not
    zero (`rest`) times the other zeros. A single other zero is the sum of all zeros less the factor, which
    keeps the second derivative right; more of them matter from the third derivative on.
    """
    here, there = (self == 0) & takes_part, source == 0
    rest = places.multiply(self.masked_fill(here | takes_part.logical_not(), 1), source.masked_fill(there, 1))
    zeros = places.add(self.where(here, 0), source.where(there, 0))
    count = places.add(here.to(self.dtype), there.to(source.dtype))

    def others(factor: Tensor, result: Tensor, rest: Tensor, zeros: Tensor, count: Tensor) -> Tensor:
        null = factor == 0
        beside_zeros = rest.where(count == 1, (rest * (zeros - factor)).where(count == 2, 0))
        return beside_zeros.where(null, result / factor.masked_fill(null, 1))

    tables = (result, rest, zeros, count)
    return others(self, *tables), others(source, *(places.read(table) for table in tables))


def scatter_reduce_backward(grad: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str,
                            include_self: bool, result: Tensor) -> tuple[Tensor, Tensor]:
    places = scatter_places(dim, index)
    of_self, of_src = weights(self, corner(src, index.shape), result, reduce, include_self, places)
    return grad * conj(of_self), from_corner(places.read(grad) * conj(of_src), src.shape)


def scatter_reduce_tangent(self_t: Tensor, src_t: Tensor, self: Tensor, dim: int, index: Tensor, src: Tensor,
                           reduce: str, include_self: bool, result: Tensor) -> Tensor:
    places = scatter_places(dim, index)
    of_self, of_src = weights(self, corner(src, index.shape), result, reduce, include_self, places)
    return places.add(of_self * self_t, of_src * corner(src_t, index.shape))


def index_reduce_backward(grad: Tensor, self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str,
                          include_self: bool, result: Tensor) -> tuple[Tensor, Tensor]:
    places = slice_places(dim, index, source.shape)
    of_self, of_source = weights(self, source, result, reduce, include_self, places)
    return grad * conj(of_self), places.read(grad) * conj(of_source)


def index_reduce_tangent(self_t: Tensor, source_t: Tensor, self: Tensor, dim: int, index: Tensor,
                         source: Tensor, reduce: str, include_self: bool, result: Tensor) -> Tensor:
    places = slice_places(dim, index, source.shape)
    of_self, of_source = weights(self, source, result, reduce, include_self, places)
    return places.add(of_self * self_t, of_source * source_t)


def value_reduce(moved: Tensor, dim: int, index: Tensor, value: Any, reduce: str) -> Tensor:
    """A gradient or tangent times the number that each place was multiplied by."""
    if reduce == "add":
        return moved.clone()
    return run_name("scatter.value_reduce", moved, dim, index, value, reduce)


derivative("scatter_reduce.two", ("self", "src"), scatter_reduce_backward, index=NOT_DIFFERENTIABLE,
           result=scatter_reduce_tangent)
derivative("scatter.reduce", ("self", "src"),
           lambda grad, self, dim, index, src, reduce, result:
               scatter_reduce_backward(grad, self, dim, index, src, reduce, True, result),
           index=NOT_DIFFERENTIABLE,
           result=lambda self_t, src_t, self, dim, index, src, reduce, result:
               scatter_reduce_tangent(self_t, src_t, self, dim, index, src, reduce, True, result))
derivative("scatter.value_reduce", index=NOT_DIFFERENTIABLE,
           self=lambda grad, dim, index, value, reduce: value_reduce(grad, dim, index, conj(value), reduce),
           result=lambda self_t, dim, index, value, reduce: value_reduce(self_t, dim, index, value, reduce))
derivative("index_reduce", ("self", "source"), index_reduce_backward, index=NOT_DIFFERENTIABLE,
           result=index_reduce_tangent)


# Elements of the flattened tensor.

derivative("take", index=NOT_DIFFERENTIABLE, result=AUTO_LINEAR,
           self=lambda grad, self_shape, index: grad.new_zeros(self_shape).put(index, grad, True))
derivative("put", index=NOT_DIFFERENTIABLE, result=AUTO_LINEAR,
           self=lambda grad, index, accumulate:
               grad if accumulate else grad.put(index, grad.new_zeros(index.shape), False),
           source=lambda grad, index, source_shape: grad.take(index).reshape(source_shape))

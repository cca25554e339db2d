"""Derivatives of histograms, counts and reductions over segments.

A histogram is a function of its weights: points and edges are constants of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.dispatch import readable, run_name
from ..core.dtypes import DTYPES
from ..core.tensor import Tensor
from ..ops.reduction_counts import SEGMENT_REDUCTIONS
from .declare import AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative
from .scan import head, recurrence, tail

INT64 = DTYPES["int64"]


# Histograms.

def cells(points: Tensor, edges: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """(the number of the cell of each point, whether it is in one): the last edge of all is inside."""
    place = points.new_zeros(points.shape[:-1], dtype=INT64)
    inside = points.new_ones(points.shape[:-1], dtype=DTYPES["bool"])
    for column, edge in zip(points.unbind(-1), edges, strict=True):
        last = edge.shape[0] - 2
        inside = inside & (column >= edge[0]) & (column <= edge[-1])
        found = run_name("bucketize.Tensor", column.contiguous(), edge, False, True) - 1
        place = place * (last + 1) + found.clamp(0, last)
    return place, inside


def histogram_backward(grad: Tensor, points: Tensor, edges: Sequence[Tensor], weight: Tensor, density: bool,
                       hist: Tensor) -> Tensor:
    """The gradient of the weight of each point: that of the cell it is in."""
    place, inside = cells(points, edges)
    if density:  # hist = weight in the cell / (weight in all cells * size of the cell)
        size = grad.new_ones(())
        for edge in edges:
            size = size.unsqueeze(-1) * (tail(edge, 0) - head(edge, 0))
        grad = (grad / size - (grad * hist).sum()) / weight.where(inside, 0).sum()
    return grad.reshape(-1).index_select(0, place.reshape(-1)).reshape(place.shape).where(inside, 0)


derivative("histc", NOT_DIFFERENTIABLE)
derivative("histogram.bin_ct", self=NOT_DIFFERENTIABLE,
           weight=lambda grad, self, weight, density, hist, bin_edges:
               histogram_backward(grad, self.unsqueeze(-1), (bin_edges,), weight, density, hist),
           differentiable_outputs=(0,))
derivative("histogram.bins_tensor", self=NOT_DIFFERENTIABLE, bins=NOT_DIFFERENTIABLE,
           weight=lambda grad, self, weight, density, hist, bin_edges:
               histogram_backward(grad, self.unsqueeze(-1), (bin_edges,), weight, density, hist),
           differentiable_outputs=(0,))
derivative("_histogramdd_bin_edges", NOT_DIFFERENTIABLE)
derivative("_histogramdd_from_bin_cts", self=NOT_DIFFERENTIABLE,
           weight=lambda grad, self, bins, range, weight, density, result:
               histogram_backward(grad, self, run_name("_histogramdd_bin_edges", self, bins, range, None,
                                                       False), weight, density, result))
derivative("_histogramdd_from_bin_tensors", self=NOT_DIFFERENTIABLE, bins=NOT_DIFFERENTIABLE,
           weight=lambda grad, self, bins, weight, density, result:
               histogram_backward(grad, self, bins, weight, density, result))
derivative("bincount", self=NOT_DIFFERENTIABLE,
           weights=lambda grad, self: grad.index_select(0, self.to(INT64)), result=AUTO_LINEAR)


# Segments.

Bounds = Tensor | None


def segment_sum(data: Tensor, lengths: Bounds, offsets: Bounds, axis: int) -> Tensor:
    return run_name("segment_reduce", data, "sum", lengths, None, offsets, axis, True, None)


def segment_backward(grad: Tensor, result: Tensor, data: Tensor, reduce: str, lengths: Bounds,
                     offsets: Bounds, axis: int, initial: Any) -> Tensor:
    if SEGMENT_REDUCTIONS[reduce] != "prod":
        return run_name("_segment_reduce_backward", grad, result, data, reduce, lengths, offsets, axis,
                        initial)
    spread = segment_backward(grad, result, data, "sum", lengths, offsets, axis, None)
    others = products_in_segments(data, lengths, offsets, axis)
    return spread * others if initial is None else spread * others * initial


def segment_tangent(data_t: Tensor, result: Tensor, data: Tensor, reduce: str, lengths: Bounds,
                    offsets: Bounds, axis: int, initial: Any) -> Tensor:
    """Each element's tangent times the derivative of its result by it, summed over the segments."""
    ones = result.new_ones(result.shape)
    slope = segment_backward(ones, result, data, reduce, lengths, offsets, axis, initial)
    return segment_sum(data_t * slope, lengths, offsets, axis)


def products_in_segments(data: Tensor, lengths: Bounds, offsets: Bounds, axis: int) -> Tensor:
    """For each element the product of the others of its segment.

    From an element to its neighbour, the product of those passed gains a factor, or starts anew.
    """
    if data.shape[axis] <= 1:
        return data.new_ones(data.shape)
    finite = (data - data) == 0
    if readable(finite) and bool(finite.all()):
        return _finite_products(data, lengths, offsets, axis)
    # Starting anew multiplies by 0, which infinity and NaN survive: they are counted instead.
    known = _finite_products(data.where(finite, 1.0), lengths, offsets, axis)
    infinite = data.isinf()
    nowhere = _others(data.isnan(), data, lengths, offsets, axis)
    infinities = _others(infinite, data, lengths, offsets, axis)
    negative = _others(infinite & (data < 0), data, lengths, offsets, axis)
    signed = data.new_full((), math.inf).where(negative % 2 == 0, -math.inf)
    return (known * signed.where(infinities > 0, 1.0)).masked_fill(nowhere > 0, math.nan)


def _others(mask: Tensor, data: Tensor, lengths: Bounds, offsets: Bounds, axis: int) -> Tensor:
    """For each element how many others of its segment are marked."""
    marked = mask.to(data.dtype)
    total = segment_sum(marked, lengths, offsets, axis)
    return run_name("_segment_reduce_backward", total, total, marked, "sum", lengths, offsets, axis,
                    None) - marked


def _finite_products(data: Tensor, lengths: Bounds, offsets: Bounds, axis: int) -> Tensor:
    apart = boundaries(data, lengths, offsets, axis)
    anew = apart.to(data.dtype)
    edge = data.new_ones(data.narrow(axis, 0, 1).shape)
    before = recurrence(head(data, axis).masked_fill(apart, 0), run_name("cat", (edge, anew), axis), axis)
    after = recurrence(tail(data, axis).masked_fill(apart, 0), run_name("cat", (anew, edge), axis), axis,
                       reverse=True)
    return before * after


def boundaries(data: Tensor, lengths: Bounds, offsets: Bounds, axis: int) -> Tensor:
    """For each two neighbours along `axis`, whether a segment ends between them."""
    bounds = offsets if lengths is None else lengths.cumsum(-1)
    assert bounds is not None
    axis %= data.ndim
    size = data.shape[axis]
    marks = data.new_zeros((*data.shape[:axis], size + 1), dtype=DTYPES["bool"])
    marks = marks.scatter(-1, bounds.to(INT64).clamp(0, size), True).narrow(-1, 1, size - 1)
    marks = marks.reshape(tuple(marks.shape) + (1,) * (data.ndim - axis - 1))
    return marks.expand(head(data, axis).shape)


def only_of_products(grad: Tensor, reduce: str) -> None:
    """The derivatives by the data of other reductions than products are piecewise constant."""
    if SEGMENT_REDUCTIONS[reduce] == "prod":
        raise NotImplementedError("_segment_reduce_backward has no derivative by the data of a product; "
                                  "differentiate segment_reduce, which does not use it there")


derivative("segment_reduce", data=segment_backward, result=segment_tangent, lengths=NOT_DIFFERENTIABLE,
           indices=NOT_DIFFERENTIABLE, offsets=NOT_DIFFERENTIABLE)
derivative("_segment_reduce_backward",
           grad=lambda grad, output, data, reduce, lengths, offsets, axis, initial:
               segment_tangent(grad, output, data, reduce, lengths, offsets, axis, initial),
           data=only_of_products,
           output=NOT_DIFFERENTIABLE, lengths=NOT_DIFFERENTIABLE, offsets=NOT_DIFFERENTIABLE)

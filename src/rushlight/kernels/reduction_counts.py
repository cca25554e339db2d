"""Histograms, counts and reductions over segments on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import check
from ..core.registry import kernel
from ..core.shapes import Spec
from ..ops.reduction_counts import SEGMENT_REDUCTIONS
from .reduction import cast

# Histograms.


@kernel("histc")
def histc(self: np.ndarray, bins: int, min: Any, max: Any) -> np.ndarray:
    """Every step is rounded to the input's dtype, half included, to decide the bin of values near an edge."""
    number = self.dtype.type
    low, high = number(min), number(max)
    if low == high and self.size:
        low, high = self.min(), self.max()
    if low == high:
        low, high = number(low - number(1)), number(high + number(1))
    check(math.isfinite(low) and math.isfinite(high), f"histc: range of [{low}, {high}] is not finite")
    inside = self[(self >= low) & (self <= high)]
    place = ((inside - low) * number(bins) / (high - low)).astype(np.int64)
    return np.bincount(np.minimum(place, bins - 1), minlength=bins)


def data_range(x: np.ndarray, range: Sequence[float] | None, name: str) -> tuple[Any, Any]:
    """The outer edges of a histogram of `x`: as given, else the extremes; widened if they are equal."""
    number = x.dtype.type
    if range is not None:
        low, high = number(range[0]), number(range[1])
    elif x.size:
        low, high = x.min(), x.max()
    else:
        low, high = number(0), number(1)
    check(math.isfinite(low) and math.isfinite(high), f"{name}: the range [{low}, {high}] is not finite")
    return (low - number(0.5), high + number(0.5)) if low == high else (low, high)


def spaced_edges(low: Any, high: Any, bins: int, dtype: np.dtype) -> np.ndarray:
    """`bins` + 1 even edges, built from both ends by fused multiply-adds (hence the wider type)."""
    wide = np.float64 if dtype == np.float32 else np.longdouble
    step = wide((high - low) / dtype.type(bins))
    place = np.arange(bins + 1)
    edges = np.where(place < (bins + 1) // 2, wide(low) + step * place, wide(high) - step * (bins - place))
    return edges.astype(dtype)


def binned(
    points: np.ndarray, edges: Sequence[np.ndarray], weight: np.ndarray | None, density: bool
) -> np.ndarray:
    """The histogram of `points`, one a row, over the cells between `edges`; the last edge is inside."""
    inside = np.ones(len(points), np.bool_)
    places = []
    for column, edge in zip(points.T, edges, strict=True):
        inside &= (column >= edge[0]) & (column <= edge[-1])
        places.append(np.minimum(np.searchsorted(edge, column, side="right") - 1, len(edge) - 2))
    shape = tuple(len(edge) - 1 for edge in edges)
    flat = np.ravel_multi_index(tuple(place[inside] for place in places), shape)
    hist = _tally(flat, weight, inside, math.prod(shape), points.dtype).reshape(shape)
    if density:
        hist /= hist.sum()
        for axis, edge in enumerate(edges):
            hist /= np.diff(edge).reshape([-1 if d == axis else 1 for d in range(len(edges))])
    return hist


def _tally(
    places: np.ndarray, weight: np.ndarray | None, inside: np.ndarray, size: int, dtype: np.dtype
) -> np.ndarray:
    """How many points, or how much weight, fell into each place."""
    if weight is None:
        return np.bincount(places, minlength=size).astype(dtype)
    hist = np.zeros(size, dtype)
    np.add.at(hist, places, weight.reshape(-1)[inside])
    return hist


@kernel("histogram.bin_ct")
def histogram(
    self: np.ndarray, bins: int, range: Any, weight: np.ndarray | None, density: bool
) -> tuple[np.ndarray, np.ndarray]:
    edges = spaced_edges(*data_range(self, range, "histogram"), bins, self.dtype)
    return binned(self.reshape(-1, 1), (edges,), weight, density), edges


kernel(
    "histogram.bins_tensor",
    lambda self, bins, weight, density: (binned(self.reshape(-1, 1), (bins,), weight, density), bins.copy()),
)


@kernel("_histogramdd_bin_edges")
def histogramdd_bin_edges(self: np.ndarray, bins: Sequence[int], range: Any) -> tuple[np.ndarray, ...]:
    return tuple(
        spaced_edges(
            *data_range(self[..., d], range and range[2 * d : 2 * d + 2], "histogramdd"), number, self.dtype
        )
        for d, number in enumerate(bins)
    )


@kernel("_histogramdd_from_bin_cts")
def histogramdd_from_bin_cts(
    self: np.ndarray, bins: Sequence[int], range: Any, weight: np.ndarray | None, density: bool
) -> np.ndarray:
    return binned(self.reshape(-1, len(bins)), histogramdd_bin_edges(self, bins, range), weight, density)


kernel(
    "_histogramdd_from_bin_tensors",
    lambda self, bins, weight, density: binned(self.reshape(-1, len(bins)), bins, weight, density),
)


@kernel("bincount")
def bincount(self: np.ndarray, weights: np.ndarray | None, minlength: int) -> np.ndarray:
    check(
        self.size == 0 or self.min() >= 0,
        "bincount only supports 1-d non-negative integral inputs, but "
        f"the smallest is {self.min() if self.size else 0}",
    )
    values = None if weights is None else cast(weights, np.dtype(np.float64))
    return np.bincount(self.astype(np.int64, copy=False), values, minlength)


# Segments.

_IDENTITY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_UFUNC = {"sum": np.add, "mean": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


class Segments:
    """The segments of the axis `data` is cut along, with that axis and those before it flattened to rows."""

    def __init__(
        self,
        data: np.ndarray,
        lengths: np.ndarray | None,
        offsets: np.ndarray | None,
        axis: int,
        unsafe: bool = False,
    ) -> None:
        self.axis = axis % data.ndim
        size = data.shape[self.axis]
        if lengths is not None:
            check(lengths.size == 0 or lengths.min() >= 0, "segment_reduce(): lengths must not be negative")
            check(
                unsafe or bool((lengths.sum(-1) == size).all()),
                "segment_reduce(): Expected all rows of "
                f"lengths along axis to sum to {size}, the size of data along it",
            )
            stops = np.minimum(np.cumsum(lengths, -1, dtype=np.int64), size)
            starts = np.minimum(stops - lengths, size)
        else:
            assert offsets is not None
            starts, stops = offsets[..., :-1].astype(np.int64), offsets[..., 1:].astype(np.int64)
            check(
                offsets.size == 0
                or bool((starts >= 0).all() and (stops <= size).all() and (starts <= stops).all()),
                f"segment_reduce(): offsets must increase from 0 to at most {size}, the size of data along "
                "axis",
            )
        first = (np.arange(math.prod(starts.shape[:-1])) * size).reshape(*starts.shape[:-1], 1)
        self.starts, self.stops = (starts + first).reshape(-1), (stops + first).reshape(-1)
        self.lengths = self.stops - self.starts

    def rows(self, array: np.ndarray) -> np.ndarray:
        """`array` as (rows, the rest)."""
        cut = self.axis + 1
        return array.reshape(math.prod(array.shape[:cut]), math.prod(array.shape[cut:]))

    def reduce(self, rows: np.ndarray, kind: str, initial: Any = None) -> np.ndarray:
        """One row for each segment, reduced from `initial` (or the identity) on."""
        first = _IDENTITY[kind] if initial is None else initial
        blank = np.full((1, rows.shape[1]), first, rows.dtype)
        seeded = np.concatenate([np.insert(rows, self.starts, blank, axis=0), blank])
        if not len(self.starts):
            return seeded[:0]
        shift = np.arange(len(self.starts))
        bounds = np.stack([self.starts + shift, self.stops + shift + 1], 1).reshape(-1)
        return _UFUNC[kind].reduceat(seeded, bounds, axis=0)[::2]

    def spread(self, rows: np.ndarray, count: int) -> np.ndarray:
        """The row of its segment for each of `count` rows; zero for rows in no segment."""
        result = np.zeros((count, rows.shape[1]), rows.dtype)
        owner = np.repeat(np.arange(len(self.starts)), self.lengths)
        first = np.repeat(self.starts - (np.cumsum(self.lengths) - self.lengths), self.lengths)
        result[np.arange(len(owner)) + first] = rows[owner]
        return result


@kernel("segment_reduce")
def segment_reduce(
    data: np.ndarray,
    reduce: str,
    lengths: np.ndarray | None,
    offsets: np.ndarray | None,
    axis: int,
    unsafe: bool,
    initial: Any,
    out: Spec,
) -> np.ndarray:
    kind = SEGMENT_REDUCTIONS[reduce]
    segments = Segments(data, lengths, offsets, axis, unsafe)
    result = segments.reduce(segments.rows(data), kind, initial)
    if kind == "mean":
        number = segments.lengths[:, None]
        empty = math.nan if initial is None else initial
        result = np.where(number == 0, empty, result / np.maximum(number, 1))
    return result.reshape(out.known_shape())


@kernel("_segment_reduce_backward")
def segment_reduce_backward(
    grad: np.ndarray,
    output: np.ndarray,
    data: np.ndarray,
    reduce: str,
    lengths: np.ndarray | None,
    offsets: np.ndarray | None,
    axis: int,
    initial: Any,
) -> np.ndarray:
    kind = SEGMENT_REDUCTIONS[reduce]
    segments = Segments(data, lengths, offsets, axis, unsafe=True)
    rows, grads = segments.rows(data), segments.rows(grad)
    if kind == "mean":
        grads = grads / np.maximum(segments.lengths, 1)[:, None]
    elif kind in ("max", "min"):
        return _extreme_backward(segments, grads, segments.rows(output), rows).reshape(data.shape)
    result = segments.spread(grads.astype(data.dtype, copy=False), len(rows))
    if kind == "prod":
        result *= _product_of_others(segments, rows, 1.0 if initial is None else initial)
    return result.reshape(data.shape)


def _extreme_backward(
    segments: Segments, grads: np.ndarray, output: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """The gradient is shared equally by the elements that attain the extreme (and by the NaNs)."""
    attained = (rows == segments.spread(output, len(rows))) | np.isnan(rows)
    sharers = segments.reduce(attained.astype(rows.dtype), "sum")
    return attained * segments.spread(grads / np.maximum(sharers, 1), len(rows))


def _product_of_others(segments: Segments, rows: np.ndarray, initial: Any) -> np.ndarray:
    """For each element the product of the others in its segment, without dividing by zero."""
    if not np.isfinite(rows).all():
        others = np.zeros_like(rows)
        for start, stop in zip(segments.starts, segments.stops, strict=True):
            part = rows[start:stop]
            one = np.ones_like(part[:1])
            before = np.cumprod(np.concatenate([one, part[:-1]]), axis=0)
            after = np.cumprod(np.concatenate([one, part[:0:-1]]), axis=0)[::-1]
            others[start:stop] = (before * after * rows.dtype.type(initial))[: stop - start]
        return others
    zero = rows == 0
    rest = segments.reduce(np.where(zero, rows.dtype.type(1), rows), "prod") * rows.dtype.type(initial)
    zeros = segments.spread(segments.reduce(zero.astype(rows.dtype), "sum"), len(rows))
    product = segments.spread(rest, len(rows))
    alone = np.where(zeros == 1, product, rows.dtype.type(0))
    return np.where(zero, alone, np.where(zeros == 0, product / np.where(zero, 1, rows), rows.dtype.type(0)))

"""Histograms, counts and reductions over segments: what they take and return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dtypes import DTYPES, Category, DType
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, METHOD, define
from ..core.shapes import Spec, wrap_dim
from ..core.tensor import Tensor
from .reduction import EXACT, check_dtype, not_implemented

_HISTOGRAM_DTYPES = (DTYPES["float32"], DTYPES["float64"])


# Histograms.


def histc_rule(self: Tensor, bins: int, min: Any, max: Any) -> Spec:
    check_dtype(self, "histc", boolean=False, integer=False, complex=False)
    check(bins > 0, f"histc: bins must be > 0, but got {bins}")
    check(not isinstance(min, complex) and not isinstance(max, complex), "histc: min and max must be real")
    check(not min > max, f"histc: max must be larger than min, but got min {min} and max {max}")
    return Spec((bins,), self.dtype)


define(
    "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    shape=histc_rule,
    moves=True,
    api=EXACT,
)


def check_histogram(self: Tensor, weight: Tensor | None, name: str) -> None:
    """Input and weight of a histogram; in several variables, these run along the last dim of the input."""
    if self.dtype not in _HISTOGRAM_DTYPES:
        not_implemented(name, self.dtype)
    if weight is not None:
        check(
            weight.dtype is self.dtype,
            f"{name}: weight must have the dtype of the input, "
            f"{self.dtype.torch_name}, but has {weight.dtype.torch_name}",
        )
        points = tuple(self.shape) if name == "histogram" else tuple(self.shape[:-1])
        check(
            tuple(weight.shape) == points,
            f"{name}: weight must have one value for each point: it is "
            f"{tuple(weight.shape)}, the points are {points}",
        )


def check_range(range: Sequence[float] | None, rank: int, name: str) -> None:
    if range is None:
        return
    check(
        len(range) == 2 * rank,
        f"{name}: for a {rank}-dimensional histogram range should have {2 * rank} "
        f"elements, but got {len(range)}",
    )
    for d, (low, high) in enumerate(zip(range[::2], range[1::2], strict=True)):
        check(
            not low > high,
            f"{name}: min should not exceed max, but got min {low} max {high} for dimension {d}",
        )


def check_edges(self: Tensor, bins: Sequence[Tensor], name: str) -> None:
    for d, edges in enumerate(bins):
        check(
            edges.dtype is self.dtype,
            f"{name}: input tensor and bins tensors should have the same dtype, "
            f"but got {self.dtype.torch_name} and {edges.dtype.torch_name} for dimension {d}",
        )
        check(
            edges.ndim == 1,
            f"{name}: bins tensor should have one dimension, but got {edges.ndim} "
            f"dimensions for dimension {d}",
        )
        check(
            edges.numel() > 1,
            f"{name}: bins must be > 0, so a bins tensor needs at least two edges, but "
            f"got {edges.numel()} for dimension {d}",
        )


def check_bins(bins: Sequence[int], name: str) -> None:
    for d, number in enumerate(bins):
        check(number > 0, f"{name}: bins must be > 0, but got {number} for dimension {d}")


def histogram_rule(
    self: Tensor, bins: int, range: Sequence[float] | None, weight: Tensor | None
) -> tuple[Spec, Spec]:
    check_histogram(self, weight, "histogram")
    check_bins((bins,), "histogram")
    check_range(range, 1, "histogram")
    return Spec((bins,), self.dtype), Spec((bins + 1,), self.dtype)


def histogram_edges_rule(self: Tensor, bins: Tensor, weight: Tensor | None) -> tuple[Spec, Spec]:
    check_histogram(self, weight, "histogram")
    check_edges(self, (bins,), "histogram")
    return Spec((bins.numel() - 1,), self.dtype), Spec((bins.numel(),), self.dtype)


define(
    "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, "
    "bool density=False) -> (Tensor hist, Tensor bin_edges)",
    shape=histogram_rule,
    api=EXACT,
)
define(
    "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> "
    "(Tensor hist, Tensor bin_edges)",
    shape=histogram_edges_rule,
    api=EXACT,
)


def check_points(self: Tensor, bins: Sequence[Any], weight: Tensor | None) -> None:
    name = "histogramdd"
    check(self.ndim >= 2, f"{name}: input tensor should have at least 2 dimensions, but got {self.ndim}")
    check(
        len(bins) == self.shape[-1],
        f"{name}: the size of bins ({len(bins)}) must be equal to the "
        f"innermost dimension of the input ({self.shape[-1]})",
    )
    check_histogram(self, weight, name)


def bin_edges_rule(
    self: Tensor, bins: Sequence[int], range: Sequence[float] | None, weight: Tensor | None
) -> tuple[Spec, ...]:
    check_points(self, bins, weight)
    check_bins(bins, "histogramdd")
    check_range(range, len(bins), "histogramdd")
    return tuple(Spec((number + 1,), self.dtype) for number in bins)


def bin_counts_rule(
    self: Tensor, bins: Sequence[int], range: Sequence[float] | None, weight: Tensor | None
) -> Spec:
    bin_edges_rule(self, bins, range, weight)
    return Spec(tuple(bins), self.dtype)


def bin_tensors_rule(self: Tensor, bins: Sequence[Tensor], weight: Tensor | None) -> Spec:
    check_points(self, bins, weight)
    check_edges(self, bins, "histogramdd")
    return Spec(tuple(edges.numel() - 1 for edges in bins), self.dtype)


define(
    "_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, "
    "bool density=False) -> Tensor[]",
    shape=bin_edges_rule,
    api=FUNCTION,
)
define(
    "_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, "
    "bool density=False) -> Tensor",
    shape=bin_counts_rule,
    api=FUNCTION,
)
define(
    "_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, "
    "bool density=False) -> Tensor",
    shape=bin_tensors_rule,
    api=FUNCTION,
)


def bincount_rule(self: Tensor, weights: Tensor | None, minlength: int) -> Spec:
    if self.dtype.category is not Category.INTEGRAL:
        not_implemented("bincount", self.dtype)
    check(
        self.ndim == 1,
        f"bincount only supports 1-d non-negative integral inputs, but got {self.ndim} dimensions",
    )
    check(minlength >= 0, f"bincount: minlength should be >= 0, but got {minlength}")
    if self.numel() == 0:
        return Spec((minlength,), DTYPES["int64"])
    return Spec(None, DTYPES["int64"] if weights is None else bincount_dtype(self, weights))


def bincount_dtype(self: Tensor, weights: Tensor) -> DType:
    check(
        tuple(weights.shape) == tuple(self.shape),
        "bincount: weights should be 1-d and have the same "
        f"length as input: they are {tuple(weights.shape)}, the input is {tuple(self.shape)}",
    )
    return weights.dtype if weights.dtype is DTYPES["float32"] else DTYPES["float64"]


define(
    "bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor",
    shape=bincount_rule,
    api=FUNCTION | METHOD,
    data_dependent=True,
)


# Segments.

SEGMENT_REDUCTIONS = {
    "sum": "sum",
    "prod": "prod",
    "mean": "mean",
    "max": "max",
    "amax": "max",
    "min": "min",
    "amin": "min",
}


def segment_axis(data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int) -> tuple[int, int]:
    """(axis that is cut into segments, number of segments)."""
    bounds = lengths if lengths is not None else offsets
    kind = "lengths" if lengths is not None else "offsets"
    check(bounds is not None, "segment_reduce(): Either lengths or offsets must be defined.")
    assert bounds is not None
    if bounds.dtype not in (DTYPES["int32"], DTYPES["int64"]):
        not_implemented("segment_reduce", bounds.dtype)
    axis = wrap_dim(axis, data.ndim, name="segment_reduce")
    check(
        bounds.ndim >= 1 and axis == bounds.ndim - 1,
        "segment_reduce(): Expected axis to be the last "
        f"dimension of {kind}, which has {bounds.ndim} dimensions, but got {axis}.",
    )
    check(
        tuple(bounds.shape[:-1]) == tuple(data.shape[:axis]),
        f"segment_reduce(): {kind} must agree with "
        f"data in the dimensions before axis: it is {tuple(bounds.shape)}, data is {tuple(data.shape)}, "
        f"axis is {axis}",
    )
    check(
        lengths is not None or bounds.shape[-1] > 0,
        "segment_reduce(): offsets must have an element for "
        "the start of each segment and one for the end, so at least one",
    )
    return axis, bounds.shape[-1] - (lengths is None)


def segment_rule(
    data: Tensor,
    reduce: str,
    lengths: Tensor | None,
    indices: Tensor | None,
    offsets: Tensor | None,
    axis: int,
) -> Spec:
    check(indices is None, "segment_reduce(): indices are not supported yet; use lengths or offsets.")
    check(
        reduce in SEGMENT_REDUCTIONS,
        f"segment_reduce(): reduce argument must be either sum, prod, mean, amax or amin, got {reduce}",
    )
    check_dtype(data, "segment_reduce", boolean=False, integer=False, complex=False)
    axis, number = segment_axis(data, lengths, offsets, axis)
    return Spec((*data.shape[:axis], number, *data.shape[axis + 1 :]), data.dtype)


define(
    "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
    "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    shape=segment_rule,
    api=FUNCTION,
)
define(
    "_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, "
    "Tensor? lengths=None, Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor",
    api=INTERNAL,
    shape=lambda data: Spec(tuple(data.shape), data.dtype),
)

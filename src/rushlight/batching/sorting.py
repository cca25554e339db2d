"""Batching rules of sorting and searching."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import Along, batching, expand_batch, flat

batching(["sort.stable", "topk", "kthvalue"], Along("dim"))


@batching("searchsorted.Tensor", all_batched=True)
def searchsorted(
    sorted_sequence: Tensor,
    self: Tensor,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Any,
    sorted_sequence_ndim: int,
    self_ndim: int,
) -> Tensor:
    """A 1-d sequence serves all values of its element of the batch."""
    values = flat(self) if sorted_sequence_ndim == 1 else self
    found = run_name("searchsorted.Tensor", sorted_sequence, values, out_int32, right, side, sorter)
    return found.reshape(self.shape) if sorted_sequence_ndim == 1 else found


@batching("searchsorted.Scalar")
def searchsorted_scalar(
    sorted_sequence: Tensor,
    self: Any,
    out_int32: bool,
    right: bool,
    side: str | None,
    sorter: Any,
    sorter_batched: bool,
    batch: int,
) -> Tensor:
    value = sorted_sequence.new_full((batch, 1), self)
    if sorter is not None and not sorter_batched:
        sorter = expand_batch(sorter, batch)
    return run_name("searchsorted.Tensor", sorted_sequence, value, out_int32, right, side, sorter).squeeze(1)


@batching("bucketize.Tensor")
def bucketize(
    self: Tensor,
    boundaries: Tensor,
    out_int32: bool,
    right: bool,
    self_batched: bool,
    boundaries_batched: bool,
    batch: int,
) -> Tensor:
    if not boundaries_batched:
        return run_name("bucketize.Tensor", self, boundaries, out_int32, right)
    self = self if self_batched else expand_batch(self, batch)
    return run_name("searchsorted.Tensor", boundaries, flat(self), out_int32, right, None, None).reshape(
        self.shape
    )


@batching("bucketize.Scalar")
def bucketize_scalar(self: Any, boundaries: Tensor, out_int32: bool, right: bool, batch: int) -> Tensor:
    value = boundaries.new_full((batch, 1), self)
    return run_name("searchsorted.Tensor", boundaries, value, out_int32, right, None, None).squeeze(1)


@batching("isin.Tensor_Tensor")
def isin(
    elements: Tensor,
    test_elements: Tensor,
    assume_unique: bool,
    invert: bool,
    elements_batched: bool,
    test_elements_batched: bool,
    batch: int,
) -> Tensor:
    if not test_elements_batched:
        return run_name("isin.Tensor_Tensor", elements, test_elements, assume_unique, invert)
    elements = elements if elements_batched else expand_batch(elements, batch)
    tests = flat(test_elements)
    found = (elements.reshape(batch, -1, 1) == tests.unsqueeze(1)).any(-1).reshape(elements.shape)
    return ~found if invert else found


batching(
    "isin.Tensor_Scalar",
    lambda elements, test_element, assume_unique, invert: run_name(
        "isin.Tensor_Scalar", elements, test_element, assume_unique, invert
    ),
)


@batching("isin.Scalar_Tensor")
def isin_scalar(element: Any, test_elements: Tensor, invert: bool) -> Tensor:
    found = (flat(test_elements) == element).any(-1)
    return ~found if invert else found

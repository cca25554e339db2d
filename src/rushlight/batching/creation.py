"""Batching rules of like-factories, clones and fills."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.shapes import Shape, extent
from ..core.tensor import Tensor
from .declare import Sized, Whole, batching, pad_ndim

batching(["clone", "_to_copy", "empty_like", "zeros_like", "ones_like", "full_like", "zero", "fill.Scalar"],
         Whole())
batching(["new_empty", "new_zeros", "new_ones", "new_full"], Sized())


@batching("new_empty_strided")
def new_empty_strided(self: Tensor, size: Shape, stride: Shape, dtype: Any, device: Any,
                      batch: int) -> Tensor:
    span = max(extent(size, stride), 1)
    return self.new_empty_strided((batch, *size), (span, *stride), dtype=dtype, device=device)


@batching("copy", all_batched=True)
def copy(self: Tensor, src: Tensor, non_blocking: bool, self_ndim: int, src_ndim: int) -> Tensor:
    return run_name("copy", self, pad_ndim(src, src_ndim, self_ndim), non_blocking)


@batching("fill.Tensor", all_batched=True)
def fill(self: Tensor, value: Tensor, self_ndim: int) -> Tensor:
    return run_name("copy", self, pad_ndim(value, 0, self_ndim), False)

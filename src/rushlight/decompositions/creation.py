"""Tensors like others, clones and casts: operators in terms of simpler ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, METHOD, OUT, composite
from ..core.tensor import Tensor, is_whole
from ..core.tokens import contiguous_format, preserve_format
from ..core.tokens import memory_format as MemoryFormat


@composite(
    "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)", api=METHOD
)
def contiguous(self: Tensor, memory_format: MemoryFormat) -> Tensor:
    """The tensor itself where its memory already has that order."""
    if memory_format is contiguous_format and is_whole(self):
        return self
    if memory_format is preserve_format or self.is_contiguous(memory_format):
        return self
    return run_name("clone", self, memory_format)


@composite(
    "_efficientzerotensor(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    api=FUNCTION | OUT,
)
def efficient_zeros(size: Sequence[int], dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Tensor:
    """Zeros. PyTorch's have no memory until they are written to, which is not visible in results."""
    return run_name("zeros", size, dtype, layout, device, pin_memory)


@composite(
    "_new_zeros_with_same_feature_meta(Tensor self, Tensor other, *, int self_num_batch_dims=0) -> Tensor",
    api=INTERNAL,
)
def zeros_with_same_features(self: Tensor, other: Tensor, self_num_batch_dims: int) -> Tensor:
    """Zeros in storages like that of `other`, one after another for the leading dimensions of `self`."""
    batch = tuple(self.shape[:self_num_batch_dims])
    step = extent = other.untyped_storage().nbytes() // other.element_size()
    strides: list[int] = []
    for size in reversed(batch):
        strides.insert(0, step)
        step *= max(size, 1)
    return other.new_zeros(extent * math.prod(batch)).as_strided(
        (*batch, *other.shape), (*strides, *other.stride()), other.storage_offset()
    )


# Operators of PyTorch's own tests: clones whose derivatives are told apart (derivatives/creation.py).

composite("_test_warn_in_autograd(Tensor self) -> Tensor", api=INTERNAL)(lambda self: self.clone())
for _schema in (
    "_test_autograd_multiple_dispatch.fullcoverage(Tensor self) -> Tensor",
    "_test_autograd_multiple_dispatch.ntonly(Tensor self, bool b) -> Tensor",
):
    composite(_schema, api=FUNCTION)(lambda self: self.clone())
composite("_test_autograd_multiple_dispatch_view(Tensor(a) self) -> Tensor(a)", api=FUNCTION)(
    lambda self: self.view(-1)
)


# `to` by its overloads; the method of tensors is core/conversions.py.

_FLAGS = "bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None"


@composite(f"to.dtype(Tensor(a) self, ScalarType dtype, {_FLAGS}) -> Tensor(a)", api=INTERNAL)
def _to_dtype(self: Tensor, dtype: Any, non_blocking: bool, copy: bool, memory_format: Any) -> Tensor:
    return self.to(dtype, non_blocking, copy, memory_format=memory_format)


@composite(f"to.device(Tensor(a) self, Device device, ScalarType dtype, {_FLAGS}) -> Tensor(a)", api=INTERNAL)
def _to_device(
    self: Tensor, device: Any, dtype: Any, non_blocking: bool, copy: bool, memory_format: Any
) -> Tensor:
    return self.to(device, dtype, non_blocking, copy, memory_format=memory_format)


@composite(f"to.other(Tensor(a) self, Tensor other, {_FLAGS}) -> Tensor(a)", api=INTERNAL)
def _to_other(self: Tensor, other: Tensor, non_blocking: bool, copy: bool, memory_format: Any) -> Tensor:
    return self.to(other, non_blocking, copy, memory_format=memory_format)


@composite(
    "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    f"bool? pin_memory=None, {_FLAGS}) -> Tensor(a)",
    api=INTERNAL,
)
def _to_options(
    self: Tensor,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: Any,
    non_blocking: bool,
    copy: bool,
    memory_format: Any,
) -> Tensor:
    check(
        layout is None or layout is self.layout,
        f"to(options) doesn't support converting to a different layout, but got self.layout being {self.layout} "
        f"and options.layout set as {layout}",
    )
    return self.to(device, dtype, non_blocking, copy, memory_format=memory_format)

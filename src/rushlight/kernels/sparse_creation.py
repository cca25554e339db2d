"""Sparse tensors without elements: zeros and empty of a layout, and those like another tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.declare_layouts import attach_sparse, sparse_kernel
from ..core.dispatch import call, run_name
from ..core.dtypes import DType
from ..core.errors import check
from ..core.registry import REGISTRY, OpDef
from ..core.shapes import Shape
from ..core.sparse import BLOCKED, BY_ROWS, COMPRESSED, Compressed, Coo, make_sparse
from ..core.tensor import Tensor
from ..core.tokens import layout as Layout
from ..core.tokens import sparse_coo, strided
from ..ops.creation import check_size
from .sparse import empty_coo, index_tensor, put, settled, values_of
from .sparse_conversion import convert


def blank(size: Shape, dtype: DType | None, layout: Layout, name: str) -> Tensor:
    """A tensor of a sparse layout without elements; leading dimensions of a compressed one are a batch."""
    size = check_size(size, name)
    if layout is sparse_coo:
        return empty_coo(size, len(size), dtype)
    check(layout in COMPRESSED, f"{name}: layout {layout} is not supported here", NotImplementedError)
    check(
        layout not in BLOCKED,
        f"{name}: expected sparse_coo, sparse_csr or sparse_csc, but got {layout}, whose block size is not "
        "known; make a strided tensor and convert it",
    )
    check(
        len(size) >= 2,
        f"{name}: a tensor of layout {layout} has 2 dimensions or more, but size is {list(size)}",
    )
    batch, lines = size[:-2], size[-2] if layout in BY_ROWS else size[-1]
    return _compressed(layout, batch, lines, run_name("zeros", (*batch, 0), dtype, None, None, None), size)


def _compressed(layout: Layout, batch: Shape, lines: int, values: Tensor, size: Shape) -> Tensor:
    parts = Compressed(
        layout, index_tensor(np.zeros((*batch, lines + 1))), index_tensor(np.zeros((*batch, 0))), values
    )
    return make_sparse(parts, tuple(size))


def _emptied(like: Tensor, dtype: DType) -> Tensor:
    """A tensor of the layout of `like`, blocks and dense dimensions included, without elements."""
    parts, size = like._parts, tuple(like.shape)
    if isinstance(parts, Coo):
        return empty_coo(size, parts.sparse_dim, dtype)
    at = len(parts.batch)
    values = parts.values.shape
    nothing = run_name("zeros", (*values[:at], 0, *values[at + 1 :]), dtype, None, None, None)
    return _compressed(parts.layout, parts.batch, parts.compressed.shape[-1] - 1, nothing, size)


def _on_processor(device: Any) -> None:
    check(
        device is None or device.type == "cpu",
        "there are no sparse tensors on the meta device",
        NotImplementedError,
    )


def _maker(name: str) -> Any:
    def make(size: Shape, dtype: Any, layout: Any, device: Any) -> Tensor:
        _on_processor(device)
        return blank(size, dtype, layout, name)

    return make


sparse_kernel("zeros", makes=True)(_maker("zeros"))
sparse_kernel("empty.memory_format", makes=True)(_maker("empty"))


@sparse_kernel("zero")
def zero(self: Tensor) -> Tensor:
    return _emptied(self, self.dtype)


@sparse_kernel("zeros_like", makes=True)
def zeros_like(self: Tensor, dtype: Any, layout: Any, device: Any) -> Tensor:
    _on_processor(device)
    dtype = dtype or self.dtype
    if self._parts is None:
        return blank(tuple(self.shape), dtype, layout, "zeros_like")
    return _emptied(self, dtype) if layout in (None, self.layout) else _converted(self, dtype, layout)


@sparse_kernel("empty_like")
def empty_like(self: Tensor, dtype: Any, layout: Any, memory_format: Any) -> Tensor:
    dtype = dtype or self.dtype
    check(
        memory_format is None or layout is strided,
        "memory format option is only supported by strided tensors",
    )
    if layout not in (None, self.layout):
        return _converted(self, dtype, layout)
    if isinstance(self._parts, Coo):
        return _emptied(self, dtype)
    values = run_name("zeros", tuple(self._parts.values.shape), dtype, None, None, None)
    return make_sparse(self._parts.copy().with_values(values), tuple(self.shape))


def _converted(self: Tensor, dtype: DType, layout: Layout) -> Tensor:
    """Zeros of the shape of `self` in another layout."""
    zeros = run_name("zeros", tuple(self.shape), dtype, None, None, None)
    if layout is strided:
        return zeros
    return convert(zeros, layout, self._parts.dense_dim, self._parts.block if layout in BLOCKED else None)


def _new(name: str) -> Any:
    def make(self: Tensor, size: Shape, dtype: Any, layout: Any, device: Any) -> Tensor:
        _on_processor(device)
        dtype, wanted = dtype or self.dtype, self.layout if layout is None else layout
        if wanted is strided or (
            layout is None and (wanted in BLOCKED or len(size) < 2) and wanted is not sparse_coo
        ):
            return run_name("zeros", tuple(size), dtype, None, None, None)
        return blank(size, dtype, wanted, name)

    return make


sparse_kernel("new_zeros", makes=True)(_new("new_zeros"))
sparse_kernel("new_empty", makes=True)(_new("new_empty"))


def _filled(op: OpDef) -> Any:
    """The same places with other values."""

    def run(args: tuple[Any, ...]) -> Tensor:
        source = settled(args[0])
        return put(call(op, (values_of(source), *args[1:])), source)

    return run


for _name in ("randn_like", "rand_like", "ones_like", "full_like"):
    attach_sparse(REGISTRY[_name], _filled(REGISTRY[_name]), layouts=COMPRESSED)

"""Batching rules of views: the batch stays in front and dimension numbers are shifted past it."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.shapes import Shape, extent, infer_size, numel
from ..core.tensor import Tensor
from ..core.tokens import contiguous_format
from .declare import Along, Whole, batching, expand_batch, pad_ndim, shift

batching(["alias", "detach", "_conj", "_neg_view", "view_as_real"], Whole())
batching(
    [
        "squeeze.dim",
        "select.int",
        "slice.Tensor",
        "unbind.int",
        "split.Tensor",
        "split_with_sizes",
        "unsafe_split.Tensor",
        "unsafe_split_with_sizes",
    ],
    Along("dim"),
)
batching("squeeze.dims", Along("dim"))
batching("diagonal", Along("dim1", "dim2"))


@batching("view_as_complex")
def view_as_complex(self: Tensor) -> Tensor:
    """Pairs that the batch dimension pulled apart in memory, or out of step, are laid side by side first."""
    *outer, last = self.stride()
    aligned = (
        self._trace is None
        and last == 1
        and not self.storage_offset() % 2
        and not any(step % 2 for step in outer)
    )
    return run_name("view_as_complex", self if aligned else run_name("clone", self, contiguous_format))


@batching("unfold")
def unfold(self: Tensor, dimension: int, size: int, step: int, self_ndim: int) -> Tensor:
    if self_ndim == 0:
        return run_name("unfold", self.unsqueeze(1), 1, size, step).squeeze(1)
    return run_name("unfold", self, shift(dimension, self_ndim), size, step)


@batching("transpose.int")
def transpose(self: Tensor, dim0: int, dim1: int, self_ndim: int) -> Tensor:
    if self_ndim == 0:
        return run_name("alias", self)
    return run_name("transpose.int", self, shift(dim0, self_ndim), shift(dim1, self_ndim))


@batching("t")
def t(self: Tensor, self_ndim: int) -> Tensor:
    return run_name("transpose.int", self, 1, 2) if self_ndim == 2 else run_name("alias", self)


batching("permute", lambda self, dims, self_ndim: run_name("permute", self, (0, *shift(dims, self_ndim))))


@batching("squeeze")
def squeeze(self: Tensor) -> Tensor:
    ones = tuple(d for d, size in enumerate(self.shape) if d > 0 and size == 1)
    return run_name("squeeze.dims", self, ones)


@batching("unsqueeze")
def unsqueeze(self: Tensor, dim: int, self_ndim: int) -> Tensor:
    return run_name("unsqueeze", self, shift(dim, self_ndim + 1))


def sized(self: Tensor, size: Shape) -> Shape:
    return (self.shape[0], *infer_size(size, numel(self.shape[1:])))


batching("view", lambda self, size: run_name("view", self, sized(self, size)))
batching("_unsafe_view", lambda self, size: run_name("_unsafe_view", self, sized(self, size)))


@batching("expand")
def expand(self: Tensor, size: Shape, implicit: bool, self_ndim: int, batch: int) -> Tensor:
    lead = len(size) - self_ndim
    if lead < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(size)}) must be greater or equal to "
            f"the number of dimensions in the tensor ({self_ndim})"
        )
    return run_name("expand", pad_ndim(self, self_ndim, len(size)), (batch, *size), implicit)


@batching("_reshape_alias")
def reshape_alias(self: Tensor, size: Shape, stride: Shape) -> Tensor:
    return run_name("_reshape_alias", self, (self.shape[0], *size), (self.stride(0), *stride))


@batching("as_strided")
def as_strided(self: Tensor, size: Shape, stride: Shape, storage_offset: int | None) -> Tensor:
    """Geometry is that of one element of the batch, whose offset in the storage of the first is zero."""
    offset = self.storage_offset() + (0 if storage_offset is None else storage_offset)
    return run_name("as_strided", self, (self.shape[0], *size), (self.stride(0), *stride), offset)


@batching("view.dtype")
def view_dtype(self: Tensor, dtype: Any, self_ndim: int) -> Tensor:
    return run_name("view.dtype", self, dtype)


def apart(tensor: Tensor, batch: int) -> Tensor:
    """A copy of `tensor` for each element of the batch, of the same strides."""
    span = max(extent(tensor.shape, tensor.strides()), 1)
    copies = tensor.new_empty_strided((batch, *tensor.shape), (span, *tensor.strides()))
    return run_name("copy", copies, tensor, False)


# Writing into a view, functionally.


def scattered(name: str) -> Any:
    """The scatter operators take the tensor, what goes into the view, and the arguments of the view."""
    return Along(*name.split(), all_batched=True)


batching(["select_scatter", "slice_scatter"], scattered("dim"))
batching("diagonal_scatter", scattered("dim1 dim2"))


@batching("as_strided_scatter")
def as_strided_scatter(
    self: Tensor,
    src: Tensor,
    size: Shape,
    stride: Shape,
    storage_offset: int | None,
    self_batched: bool,
    src_batched: bool,
    batch: int,
) -> Tensor:
    if not self_batched:
        self = apart(self, batch)
    src = src if src_batched else expand_batch(src, batch)
    offset = self.storage_offset() + (0 if storage_offset is None else storage_offset)
    return run_name(
        "as_strided_scatter", self, src, (self.shape[0], *size), (self.stride(0), *stride), offset
    )

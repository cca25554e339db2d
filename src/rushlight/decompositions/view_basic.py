"""Writing where a view looks, in terms of where."""

from __future__ import annotations

from ..core.registry import decomposition
from ..core.shapes import slice_bounds, wrap_dim
from ..core.tensor import Tensor
from .creation_basic import counted
from .indexing_basic import picked


def along(mask: Tensor, dim: int, ndim: int) -> Tensor:
    """A row as a tensor of `ndim` dimensions that varies along `dim`."""
    return mask.reshape((-1, *[1] * (ndim - 1 - dim)))


@decomposition("select_scatter")
def select_scatter(self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    dim = wrap_dim(dim, self.ndim)
    size = self.shape[dim]
    chosen = along(counted(size, self.device) == index % size, dim, self.ndim)
    return src.to(self.dtype).unsqueeze(dim).where(chosen, self)


@decomposition("slice_scatter")
def slice_scatter(
    self: Tensor, src: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    dim = wrap_dim(dim, self.ndim)
    size = self.shape[dim]
    first, last = slice_bounds(start, end, size)
    places = counted(size, self.device) - first
    if last <= first:
        return self.clone()
    chosen = (places >= 0) & (places < last - first) & (places.remainder(step) == 0)
    length = (last - first + step - 1) // step
    source = picked(src.to(self.dtype), dim, places.floor_divide(step).clamp(0, length - 1))
    return source.where(along(chosen, dim, self.ndim), self)

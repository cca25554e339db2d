"""Which part of a tensor a process holds: boxes of a whole, and where two of them meet."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...core.tensor import Tensor
from ..tensor._api import DTensor
from ..tensor._layout import local_part

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """A box of a tensor of the shape `whole`: where it begins, and how large it is."""

    whole: Sizes
    offsets: Sizes
    sizes: Sizes

    def numel(self) -> int:
        return math.prod(self.sizes)

    def meets(self, other: Region) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
        """The common part, as indices into this box and into the other; None if there is none."""
        mine, theirs = [], []
        for start, size, other_start, other_size in zip(
            self.offsets, self.sizes, other.offsets, other.sizes, strict=True
        ):
            first, last = max(start, other_start), min(start + size, other_start + other_size)
            if first >= last:
                return None
            mine.append(slice(first - start, last - start))
            theirs.append(slice(first - other_start, last - other_start))
        return tuple(mine), tuple(theirs)


def held_part(tensor: Tensor) -> tuple[Region, Tensor]:
    """The region of `tensor` that is in this process, and the memory it is in."""
    shape = tuple(tensor.shape)
    if isinstance(tensor, DTensor):
        if any(placement.is_partial() for placement in tensor.placements):
            raise ValueError(
                "a DTensor that is Partial has no values to save or load: redistribute() it first"
            )
        sizes, offsets = local_part(shape, tensor.device_mesh, tensor.placements)
        return Region(shape, offsets, sizes), tensor._local_tensor
    return Region(shape, (0,) * len(shape), shape), tensor

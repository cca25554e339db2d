"""Where the pieces of a distributed tensor lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.shapes import Spec
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

Placements = tuple[Placement, ...]


@dataclass(frozen=True)
class TensorMeta:
    """What is known of a distributed tensor as a whole."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any

    @classmethod
    def of(cls, spec: Spec) -> TensorMeta:
        return cls(spec.known_shape(), spec.known_strides(), spec.dtype)


@dataclass(frozen=True)
class DTensorSpec:
    """A mesh, the placement on each of its dimensions, and the shape, strides and dtype of the whole."""

    mesh: Any
    placements: Placements
    tensor_meta: TensorMeta

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor_meta.shape

    @property
    def stride(self) -> tuple[int, ...]:
        return self.tensor_meta.stride

    @property
    def ndim(self) -> int:
        return len(self.tensor_meta.shape)

    @property
    def device_mesh(self) -> Any:
        return self.mesh

    def is_sharded(self) -> bool:
        return any(placement.is_shard() for placement in self.placements)


def piece(size: int, parts: int, index: int) -> tuple[int, int]:
    """Where piece `index` of a dimension begins, and how long it is, as `chunk` cuts it."""
    step = -(-size // parts)
    begin = min(index * step, size)
    return begin, min(step, size - begin)


def coordinate(mesh: Any) -> tuple[int, ...]:
    """Where this process is in the mesh. RuntimeError if it is not in it."""
    found = mesh.get_coordinate()
    if found is None:
        raise RuntimeError(f"this process is not in the mesh {mesh}, so that it has nothing of its tensors")
    return tuple(found)


def order_of_cuts(placements: Sequence[Placement]) -> list[int]:
    """The dimensions of the mesh that cut the tensor, in the order in which they do."""
    cuts = [dim for dim, placement in enumerate(placements) if isinstance(placement, Shard)]
    return sorted(cuts, key=lambda dim: isinstance(placements[dim], _StridedShard))


def local_part(
    shape: Sequence[int], mesh: Any, placements: Placements, at: Sequence[int] | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of what a process holds of a tensor of `shape`, and where in the whole that begins."""
    place = coordinate(mesh) if at is None else at
    sizes, offsets = list(shape), [0] * len(shape)
    for dim in order_of_cuts(placements):
        placement = placements[dim]
        assert isinstance(placement, Shard)
        begin, size = piece(sizes[placement.dim], mesh.size(dim), place[dim])
        sizes[placement.dim] = size
        offsets[placement.dim] += begin
    return tuple(sizes), tuple(offsets)


def normalized(placements: Sequence[Placement] | None, mesh: Any, ndim: int) -> Placements:
    """Placements with dimensions from 0 on; Replicate() for all if there are none."""
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: "
            f"{len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    found: list[Placement] = []
    for placement in placements:
        if isinstance(placement, Shard):
            dim = placement.dim + ndim if placement.dim < 0 else placement.dim
            if not 0 <= dim < ndim:
                raise IndexError(f"Shard({placement.dim}) of a tensor of {ndim} dimensions")
            placement = placement.along(dim)
        elif not isinstance(placement, Replicate | Partial):
            raise TypeError(f"a placement is Shard, Replicate or Partial, not {type(placement).__name__}")
        found.append(placement)
    return tuple(found)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def whole_of(local: Any, mesh: Any, placements: Placements) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of the whole of which each process has a piece like `local`."""
    shape, strides = list(local.shape), list(local.strides())
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard):
            size = mesh.size(dim)
            shape[placement.dim] *= size
            step = strides[placement.dim]
            for other in range(len(strides)):
                if other != placement.dim and strides[other] > step:
                    strides[other] *= size
    return tuple(shape), tuple(strides)

"""Buckets: gradients of several parameters side by side in one buffer, which one collective reduces.

Parameters are filled in in the order in which a backward pass is expected to reach them, so that a bucket is
full, and on its way, while the pass goes on. The first bucket is small: its reduction starts the sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.tensor import Tensor

FIRST_BYTES = 1 << 20  # of the first bucket, as in PyTorch
DEFAULT_MEGABYTES = 25
GRAPH_BUCKETS = 8  # of a captured step, if gradients have that many megabytes


@dataclass(eq=False)
class Bucket:
    """Parameters (their positions in the reducer's list) whose gradients travel together."""

    index: int
    positions: list[int]
    offsets: list[int]
    numel: int
    dtype: Any
    buffer: Tensor | None = None  # kept from step to step
    views: list[Tensor] = field(default_factory=list)  # of the buffer, one for each parameter


def make_buckets(parameters: Sequence[Tensor], order: Sequence[int], limit: int, first: int) -> list[Bucket]:
    """Buckets of at most `limit` bytes, the first of at most `first`, of parameters in the given order. A
    bucket has one dtype; a parameter is never divided."""
    open_buckets: dict[Any, list[int]] = {}
    sizes: dict[Any, int] = {}
    groups: list[tuple[int, list[int]]] = []  # by when the first parameter of a bucket is ready
    made: dict[Any, int] = {}
    for place, position in enumerate(order):
        parameter = parameters[position]
        kind = parameter.dtype
        group = open_buckets.get(kind)
        if group is None:
            group, sizes[kind] = [], 0
            open_buckets[kind] = group
            groups.append((place, group))
        group.append(position)
        sizes[kind] += parameter.numel() * kind.itemsize
        if sizes[kind] >= (limit if made.get(kind) else min(first, limit)):
            made[kind] = made.get(kind, 0) + 1
            del open_buckets[kind]
    buckets = []
    for index, (_, positions) in enumerate(groups):
        offsets, total = [], 0
        for position in positions:
            offsets.append(total)
            total += parameters[position].numel()
        buckets.append(Bucket(index, positions, offsets, total, parameters[positions[0]].dtype))
    return buckets


class GradBucket:
    """What a communication hook is given: the gradients of one bucket."""

    def __init__(self, bucket: Bucket, buffer: Tensor, parameters: Sequence[Tensor], last: bool) -> None:
        self._bucket, self._buffer, self._parameters, self._last = bucket, buffer, parameters, last

    def index(self) -> int:
        return self._bucket.index

    def buffer(self) -> Tensor:
        """All gradients, one after the other."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        self._buffer = tensor

    def gradients(self) -> list[Tensor]:
        """Views of the buffer in the shapes of the parameters."""
        return split(self._bucket, self._buffer, self._parameters)

    def parameters(self) -> list[Tensor]:
        return [self._parameters[position] for position in self._bucket.positions]

    def is_last(self) -> bool:
        return self._last


def split(bucket: Bucket, buffer: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    """The part of `buffer` that belongs to each parameter, in its shape."""
    found = []
    for position, offset in zip(bucket.positions, bucket.offsets, strict=True):
        parameter = parameters[position]
        found.append(buffer.narrow(0, offset, parameter.numel()).view(tuple(parameter.shape)))
    return found

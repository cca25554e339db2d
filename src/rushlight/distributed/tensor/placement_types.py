"""How a tensor lies on one dimension of a mesh of processes: cut into pieces, whole everywhere, or as terms of a
sum."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies on one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has one of the pieces of dimension `dim`, as `chunk` makes them: all of the same size, but for
    the last ones."""

    dim: int

    def along(self, dim: int) -> Shard:
        """The same cut of another dimension."""
        return Shard(dim)

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Shard):
    """A piece of dimension `dim` that later dimensions of the mesh cut before this one: parameters that were cut
    for tensor parallelism first, and by `fully_shard` then. `split_factor`: into how many pieces they cut it."""

    split_factor: int = field(kw_only=True)

    def along(self, dim: int) -> Shard:
        return _StridedShard(dim, split_factor=self.split_factor)

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """Each process has a tensor of the whole shape; `reduce_op` (sum, avg, product, min, max) makes the tensor of
    them."""

    reduce_op: str = "sum"

    def __post_init__(self) -> None:
        if self.reduce_op not in ("sum", "avg", "product", "min", "max"):
            raise ValueError(f"Partial: {self.reduce_op!r} is none of sum, avg, product, min, max")

    def __str__(self) -> str:
        return f"P({self.reduce_op})"

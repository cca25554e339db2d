"""Copies of an operand in the order in which a kernel walks through it, and how tasks share making them.

A slab holds, for every k, `width` units side by side: rows of the left operand, or columns of the right. It
has room for the depth rounded up to whole vectors, and a vector more: a store may reach beyond its units,
into what the next one writes or, at the end of the depth, nobody reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..loops.product import Matrix, ProductShape
from .cost import COPIED_BYTES, COPIED_DEPTH, TRANSPOSED_SLABS


@dataclass(frozen=True)
class PackPlan:
    """Units `first` to `last` of an operand are packed into slabs of `width` units."""

    side: str  # "left" or "right"
    first: int
    last: int
    width: int
    room: int  # bytes from slab to slab
    contiguous: bool  # the units of each k lie side by side: they are copied, else transposed
    groups: int  # of units, of `group_units` each, and parts of `part_depth` of the depth
    group_units: int
    parts: int
    part_depth: int
    matrices: int  # that differ
    offset: int  # bytes in the scratch memory of the product
    vectors: int = 0  # that a copy moves for each k, of `lanes` each
    lanes: int = 0

    @property
    def units(self) -> int:
        return self.last - self.first

    @property
    def slabs(self) -> int:
        return -(-self.units // self.width)

    @property
    def tasks(self) -> int:
        return self.groups * self.parts * self.matrices

    @property
    def size(self) -> int:
        """Bytes."""
        return self.matrices * self.slabs * self.room

    def __str__(self) -> str:
        how = "copied" if self.contiguous else "transposed"
        return f"{self.side} operand {how} into {self.slabs} slabs of {self.width} by {self.tasks} tasks"


def plan_pack(p: ProductShape, side: str, first: int, width: int, offset: int, lanes: int) -> PackPlan:
    """Pack an operand from unit `first` on into slabs of `width`, on a machine with vectors of `lanes`."""
    matrix, last = (p.left, p.rows) if side == "left" else (p.right, p.columns)
    unit = matrix.row if side == "left" else matrix.column
    units, size = last - first, p.dtype.itemsize
    # Narrow vectors for narrow slabs: stores that overlap and cross lines take long.
    narrow = min(lanes, 1 << (width - 1).bit_length())
    part = COPIED_DEPTH if unit == 1 else p.depth
    group = width * (max(1, COPIED_BYTES // (width * size)) if unit == 1 else TRANSPOSED_SLABS)
    groups = -(-units // group)
    group = -(-units // (groups * width)) * width  # of nearly equal size
    return PackPlan(
        side,
        first,
        last,
        width,
        slab_bytes(p.depth, width, lanes, size),
        unit == 1,
        -(-units // group),
        group,
        -(-p.depth // part),
        part,
        different(matrix, p),
        offset,
        -(-width // narrow),
        narrow,
    )


def different(matrix: Matrix, p: ProductShape) -> int:
    """How many different matrices an operand has."""
    return p.batch if matrix.batch else 1


def slab_bytes(depth: int, width: int, lanes: int, size: int) -> int:
    """Bytes from one slab to the next."""
    elements = -(-depth // lanes) * lanes * width + lanes
    return -(-elements * size // 64) * 64

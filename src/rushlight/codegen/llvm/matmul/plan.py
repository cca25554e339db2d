"""How a product runs: which kernel, in which tiles, what is packed, and how many tasks share the work.

In: a `ProductShape` and a `Target`. Out: a `Plan`. The plan depends on the shapes and the instruction set alone,
never on the number of threads, and no sum is split between tasks: results are the same for any number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....loops.product import ProductShape, Side
from ....runtime.target import Target
from .driver import EDGE_BYTES
from .pack import slab_bytes

TASK_FLOPS = 800_000  # the least that is worth handing to another thread
MOST_TASKS = 64
BLOCK = 1024  # of the depth: a panel of the right operand and rows of the left stay in the second cache level
WINDOWS_BLOCK = 576  # where rows of the left operand overlap, and are far from each other
ACROSS_BLOCK = 96  # where a tile uses little of a line: it is in the first level still for the next tile
CHUNK_ROWS = 96  # of the left operand, as deep as a block, to stay in the second level
TRIANGLE_TILES = 2  # of one depth, where rows of the left operand differ in it
ENOUGH_ROWS = 128  # that use a panel, for copying it to pay
FEW_PANELS = 4  # whose rows are near each other as they are
STEP = 2  # sums whose time a step of a kernel takes besides those of its tile
MANY_SUMS = 16  # of a tile, that take as long as it takes to fetch a line


@dataclass(frozen=True)
class Plan:
    """Tiles of `height` rows of the left operand, panels of `width` columns of the right, blocks of depth."""

    kernel: str  # "tile": vectors along columns; "dot": vectors along the depth
    height: int  # rows of a tile
    tiles: int
    width: int  # columns of a panel
    panels: int
    block: int  # depth of a block
    chunk: int  # tiles that meet a panel one after the other
    pack_left: bool
    direct: int  # panels that are read where they are; the others, up to the last one, are packed
    batch_tasks: int
    row_tasks: int
    column_tasks: int
    room_left: int = 0  # bytes of a slab
    room_right: int = 0

    @property
    def tasks(self) -> int:
        return self.batch_tasks * self.row_tasks * self.column_tasks

    def table_bytes(self, p: ProductShape) -> int:
        """The size of the table of where rows and runs of columns of the left operand start."""
        return 0 if p.windows is None else 8 * (self.tiles * self.height + p.windows.segments)

    @property
    def packed_panels(self) -> int:
        return self.panels - self.direct


def plan_product(p: ProductShape, target: Target) -> Plan:
    lanes = target.lanes(p.dtype.itemsize)
    if p.windows is None and p.right.column != 1 and _prefers_dot(p, lanes):
        return _dot_plan(p, target)
    height, vectors = _tile(p, target, lanes)
    width = lanes * vectors
    tiles, panels = -(-p.rows // height), -(-p.columns // width)
    pack_left = _left_gains(p, height * vectors)
    if p.right.column != 1 or (_right_gains(p) and panels > FEW_PANELS):
        direct = 0
    else:
        direct = p.columns // width  # kernels read whole panels
    block = _block(p)
    room_left, room_right = (slab_bytes(p.depth, n, lanes, p.dtype.itemsize) for n in (height, width))
    chunk = _chunk(height, width * p.dtype.itemsize)
    if p.triangle is not None and p.triangle.side in (Side.LEFT_LOWER, Side.LEFT_UPPER):
        chunk = min(chunk, TRIANGLE_TILES)
    return Plan(
        "tile",
        height,
        tiles,
        width,
        panels,
        block,
        chunk,
        pack_left,
        direct,
        *_grid(p, tiles, panels),
        room_left,
        room_right,
    )


def _tile(p: ProductShape, target: Target, lanes: int) -> tuple[int, int]:
    """Rows and vectors of a tile: as many sums as registers hold, beside a row of the panel and one element.

    Enough sums hide the latency of the multiplications. Where it pays for a kernel of its own, the tile is
    one that computes little in vain.
    """
    many, wide = target.vector_registers >= 32, -(-p.columns // lanes)
    if p.rows <= 3:
        rows, vectors = p.rows, 8 if p.rows == 1 or many else 4
    else:
        tiles = {(6, 4): 1.0, (8, 2): 1.0} if many else {(6, 2): 1.0, (4, 3): 1.06}

        def cost(tile: tuple[int, int]) -> float:
            rows, vectors = tile[0], min(tile[1], wide)
            return (
                tiles[tile]
                * (1 + STEP / (rows * vectors))
                * _rounded(p.rows, rows)
                * _computed(p, lanes * vectors)
            )

        rows, vectors = min(tiles, key=cost)
    return min(rows, p.rows), min(vectors, wide)


def _computed(p: ProductShape, width: int) -> int:
    """Columns that panels of `width` compute, on average over rows, in units that do not depend on it."""
    columns = _rounded(p.columns, width)
    if p.triangle is None or p.triangle.side in (Side.LEFT_LOWER, Side.LEFT_UPPER):
        return columns
    return columns + width  # half of the columns, and half of the panel on the diagonal


def _rounded(count: int, step: int) -> int:
    return -(-count // step) * step


def _block(p: ProductShape) -> int:
    """The depth of nearly equal blocks; of windows, a whole number of segments."""
    most = BLOCK
    if p.windows is not None:
        most = WINDOWS_BLOCK if p.left.column == 1 or p.rows < CHUNK_ROWS else ACROSS_BLOCK
    if p.depth <= most * 4 // 3:
        return p.depth
    blocks, segment = -(-p.depth // most), 1
    if p.windows is not None:
        segment = p.depth // p.windows.segments
    return min(p.depth, -(-p.depth // (blocks * segment)) * segment)


def _chunk(height: int, row_bytes: int) -> int:
    """Tiles that meet a panel one after the other."""
    return max(1, min(CHUNK_ROWS, EDGE_BYTES // row_bytes) // height)


# Packing.


def _right_gains(p: ProductShape) -> bool:
    """Whether to copy panels of a right operand whose rows are contiguous: they are read in order then."""
    return p.rows >= ENOUGH_ROWS and p.depth >= 64


def _left_gains(p: ProductShape, sums: int) -> bool:
    """Whether to copy tiles of a left operand with contiguous columns: a tile uses little of each line.

    Lines that are fetched while as many sums are computed as many registers hold come in time, unless they
    are used so often that even reading them in order pays.
    """
    enough = 64 if sums < MANY_SUMS else 1024
    return (
        p.windows is None
        and p.left.column != 1
        and p.left.row == 1
        and p.columns >= enough
        and p.rows >= 48
        and p.depth > 48
    )


def _prefers_dot(p: ProductShape, lanes: int) -> bool:
    """For a transposed right operand with few rows: packing it would cost more than the product."""
    return p.left.column == 1 and p.right.row == 1 and p.rows <= 64 and p.depth >= lanes


# Vectors along the depth.


def _dot_plan(p: ProductShape, target: Target) -> Plan:
    height = min(p.rows, 6 if target.vector_registers >= 32 else 3)
    width = 8 if p.rows == 1 else 4
    tiles, panels = -(-p.rows // height), -(-p.columns // width)
    chunk = _chunk(height, width * p.dtype.itemsize)
    return Plan("dot", height, tiles, width, panels, p.depth, chunk, False, panels, *_grid(p, tiles, panels))


# Tasks.


def _grid(p: ProductShape, tiles: int, panels: int) -> tuple[int, int, int]:
    """How many tasks along the batch, the rows and the columns.

    A task fetches its part of both operands: that weighs less the nearer its block is to a square. Too few
    tasks leave threads idle. Where all have as many panels, epilogues may run in wider vectors.
    """
    wanted = max(1, min(MOST_TASKS, 2 * p.size * p.depth // TASK_FLOPS))
    batch = min(p.batch, wanted)
    wanted //= batch
    best, least = (1, 1), math.inf
    for rows in range(1, min(tiles, wanted) + 1):
        most = {min(panels, wanted // rows), min(panels, -(-wanted // (2 * rows)))}
        for columns in {*most, *(1 << n.bit_length() - 1 for n in most)}:
            count = batch * rows * columns
            again = 2 * rows / p.rows + 2 * columns / p.columns
            cost = (1 + 1 / count if count > 1 else 4) * (1 + again) * (1.01 if panels % columns else 1)
            if cost < least:
                best, least = (rows, columns), cost
    return batch, *best

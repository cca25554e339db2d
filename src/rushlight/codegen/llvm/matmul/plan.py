"""How a product runs: which kernel, in which tiles, what is packed, and how many tasks share the work.

In: a `Product` and a `Target`. Out: a `Plan`. The plan depends on the shapes and the instruction set alone, never on the number of
threads, and no sum is split between tasks: results are the same for any number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....loops.product import Product
from ....runtime.target import Target

TASK_FLOPS = 1_500_000  # the least that is worth handing to another thread
MOST_TASKS = 64
PANEL_BYTES = 24 * 1024  # of the right operand, to stay in the first cache level beside a tile of the left one
BLOCK_BYTES = 128 * 1024  # of the left operand, to stay in the second level
PAGE_BYTES = 4096
ENOUGH_ROWS = 96  # that use a panel, for copying it to pay


@dataclass(frozen=True)
class Plan:
    """The left operand is cut into tiles of `height` rows, the right one into panels of `width` columns, the depth into blocks."""

    kernel: str  # "outer": vectors along columns; "dot": vectors along the depth
    height: int  # rows of a tile
    tiles: int
    width: int  # columns of a panel
    panels: int
    block: int  # depth of a block
    pack_left: bool
    pack_right: bool
    chunk: int  # tiles that are packed at a time
    batch_tasks: int
    row_tasks: int
    column_tasks: int

    @property
    def tasks(self) -> int:
        return self.batch_tasks * self.row_tasks * self.column_tasks

    def blocks(self, depth: int) -> int:
        return -(-depth // self.block)


def plan_product(p: Product, target: Target) -> Plan:
    lanes = target.lanes(p.dtype.itemsize)
    if p.right.column != 1 and _prefers_dot(p, lanes):
        return _dot_plan(p, target)
    rows, vectors = _outer_tile(p, target, lanes)
    width = lanes * vectors
    height, tiles = _cut(p, rows)
    panels = -(-p.columns // width)
    pack_right = p.right.column != 1 or _right_gains(p)
    pack_left = _left_gains(p)
    size = p.dtype.itemsize
    block = _block(p.depth, PANEL_BYTES // (width * size) if pack_right or pack_left else 0)
    grid = _grid(p, tiles, panels, (3.0 * pack_right + 5 * (p.right.column != 1) + 1, 8.0 if pack_left else 1.0))
    if p.right.column == 1 and p.rows < ENOUGH_ROWS * grid[1]:
        pack_right = False
    chunk = max(1, BLOCK_BYTES // (block * packed_rows(height, lanes) * size)) if pack_left else tiles
    return Plan("outer", height, tiles, width, panels, block, pack_left, pack_right, chunk, *grid)


def _cut(p: Product, most: int) -> tuple[int, int]:
    """The height of tiles and their number.

    Where it pays for another kernel, so that few rows are computed in vain; shorter tiles run less well.
    """
    heights = [min(p.rows, most)]
    if p.rows > most and p.size * p.depth > TASK_FLOPS:
        heights += range(max(1, most - 2), most)
    height = min(heights, key=lambda h: -(-p.rows // h) * h * (1 + 0.04 * (most - h)))
    return height, -(-p.rows // height)


def packed_rows(rows: int, lanes: int) -> int:
    """Rows of a packed tile: whole vectors."""
    return -(-rows // lanes) * lanes


def _outer_tile(p: Product, target: Target, lanes: int) -> tuple[int, int]:
    """Rows and vectors of a tile: as many sums as registers hold, beside a row of the panel and one element."""
    many = target.vector_registers >= 32
    if p.rows <= 3:
        rows, vectors = p.rows, 8 if p.rows == 1 or many else 4
    else:
        rows, vectors = 6, 4 if many else 2
    return rows, min(vectors, -(-p.columns // lanes))


def _block(depth: int, most: int) -> int:
    """Nearly equal blocks of at most about `most`; 0 for one block."""
    if most == 0 or depth <= most + most // 3:
        return depth
    return -(-depth // -(-depth // most))


# Packing.

def _right_gains(p: Product) -> bool:
    """Whether to copy panels of a right operand that is contiguous along its rows."""
    if p.rows < ENOUGH_ROWS:
        return False
    size = p.dtype.itemsize
    return p.right.row * size % (PAGE_BYTES // 4) == 0 or p.depth * p.columns * size > 1 << 20


def _left_gains(p: Product) -> bool:
    """Whether to copy tiles: rows that lie a page apart meet in one set of the cache, columns use little of a line."""
    if p.columns < 64 or p.depth <= 96 or p.rows < 128:
        return False
    if p.left.column != 1:
        return True
    return p.left.row * p.dtype.itemsize % PAGE_BYTES == 0


def _prefers_dot(p: Product, lanes: int) -> bool:
    """For a transposed right operand with few rows: packing it would cost more than the product."""
    return p.left.column == 1 and p.right.row == 1 and p.rows <= 64 and p.depth >= lanes


# Vectors along the depth.

def _dot_plan(p: Product, target: Target) -> Plan:
    rows = 6 if target.vector_registers >= 32 else 3
    width = 8 if p.rows == 1 else 4
    height, tiles = _cut(p, rows)
    panels = -(-p.columns // width)
    return Plan("dot", height, tiles, width, panels, p.depth, False, False, tiles, *_grid(p, tiles, panels, (1, 1)))


# Tasks.

def _grid(p: Product, tiles: int, panels: int, packs: tuple[float, float]) -> tuple[int, int, int]:
    """How many tasks along the batch, the rows and the columns.

    `packs` is what fetching or packing an operand for a task costs, in rows (of a panel) and columns (of a tile): what each
    task does again weighs less the larger its block is. Too few tasks leave threads idle.
    """
    wanted = max(1, min(MOST_TASKS, 2 * p.size * p.depth // TASK_FLOPS))
    batch = min(p.batch, wanted)
    wanted //= batch
    best, least = (1, 1), math.inf
    for rows in range(1, min(tiles, wanted) + 1):
        for columns in {min(panels, wanted // rows), min(panels, -(-wanted // (2 * rows)))}:
            count = batch * rows * columns
            cost = (1 + 2 / count if count > 1 else 4) * (1 + packs[0] * rows / p.rows + packs[1] * columns / p.columns)
            if cost < least:
                best, least = (rows, columns), cost
    return batch, *best

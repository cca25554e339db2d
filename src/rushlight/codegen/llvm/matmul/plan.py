"""How a product runs: which kernel, in which tiles, what is packed, and how many tasks share the work.

In: a `Product` and a `Target`. Out: a `Plan`. The plan depends on the shapes and the instruction set alone,
never on the number of threads, and no sum is split between tasks: results are the same for any number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....loops.product import Product
from ....runtime.target import Target

TASK_FLOPS = 800_000  # the least that is worth handing to another thread
MOST_TASKS = 64
PANEL_BYTES = 24 * 1024  # of the right operand, to stay in the first cache level beside a tile of the left
CHUNK_BYTES = 352 * 1024  # of the left operand, packed, to stay in the second level
ROWS_BYTES, MOST_DEPTH = 288 * 1024, 384  # of the left operand where it lies, to stay there
LARGE_BYTES = 1 << 20  # a right operand that does not
PAGE_BYTES = 4096
ENOUGH_ROWS = 64  # that use a panel, for copying it to pay


@dataclass(frozen=True)
class Plan:
    """Tiles of `height` rows of the left operand, panels of `width` columns of the right, blocks of depth."""

    kernel: str  # "outer": vectors along columns; "dot": vectors along the depth
    height: int  # rows of a tile
    tiles: int
    width: int  # columns of a panel
    panels: int
    block: int  # depth of a block
    pack_left: bool
    pack_right: bool
    chunk: int  # tiles that are packed at a time
    together: int  # panels that are packed at a time
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
    height, vectors = _outer_tile(p, target, lanes)
    width = lanes * vectors
    tiles, panels = -(-p.rows // height), -(-p.columns // width)
    size = p.dtype.itemsize
    pack_right, pack_left = p.right.column != 1 or _right_gains(p), _left_gains(p)
    panel_cost = 12 if p.right.column != 1 or pack_left else 8
    grid = _grid(p, tiles, panels, panel_cost if pack_right else 2, 24 if pack_left else 2)
    if p.right.column == 1 and p.rows < ENOUGH_ROWS * grid[1]:
        pack_right = False
    block = _block(p, pack_left, pack_right, width * size)
    chunk = max(1, CHUNK_BYTES // (block * packed_rows(height, lanes) * size)) if pack_left else tiles
    together = 4 if p.right.column == 1 else 1  # rows may be a page apart: read several lines of each
    return Plan("outer", height, tiles, width, panels, block, pack_left, pack_right, chunk, together, *grid)


def _outer_tile(p: Product, target: Target, lanes: int) -> tuple[int, int]:
    """Rows and vectors of a tile: as many sums as registers hold, beside a row of the panel and one element.

    Enough sums hide the latency of the multiplications. Where it pays for a kernel of its own, the tile is
    one that computes few rows in vain.
    """
    many = target.vector_registers >= 32
    if p.rows <= 3:
        rows, vectors = p.rows, 8 if p.rows == 1 or many else 4
    else:
        tiles = {(6, 2): 1.0, (5, 2): 1.03, (4, 3): 1.06}
        if many:
            tiles = {(rows, 2 * vectors): cost for (rows, vectors), cost in tiles.items()}
        if p.rows > 6 and p.size * p.depth < TASK_FLOPS:
            tiles = dict(list(tiles.items())[:1])
        rows, vectors = min(tiles, key=lambda tile: -(-p.rows // tile[0]) * tile[0] * tiles[tile])
    return min(rows, p.rows), min(vectors, -(-p.columns // lanes))


def _block(p: Product, pack_left: bool, pack_right: bool, row_bytes: int) -> int:
    """The depth of nearly equal blocks for which a panel stays in the first cache level."""
    if pack_left:
        most = PANEL_BYTES * 2 // 3
    elif p.left.column != 1:
        most = PANEL_BYTES // 3  # each k has a line of the left operand, too
    elif pack_right:
        most = PANEL_BYTES
    else:
        return p.depth
    most //= row_bytes
    return p.depth if p.depth <= most + most // 3 else -(-p.depth // -(-p.depth // most))


def packed_rows(rows: int, lanes: int) -> int:
    """Rows of a packed tile: whole vectors."""
    return -(-rows // lanes) * lanes


# Packing.

def _right_gains(p: Product) -> bool:
    """Whether to copy panels of a right operand whose rows are contiguous."""
    size = p.dtype.itemsize
    return p.rows >= ENOUGH_ROWS and (
        p.right.row * size % (PAGE_BYTES // 4) == 0 or p.depth * p.columns * size > LARGE_BYTES)


def _left_gains(p: Product) -> bool:
    """Whether to copy tiles of a left operand with contiguous columns: a tile uses little of each line."""
    return p.left.column != 1 and p.left.row == 1 and p.columns >= 64 and p.depth > 96 and p.rows >= 128


def _prefers_dot(p: Product, lanes: int) -> bool:
    """For a transposed right operand with few rows: packing it would cost more than the product."""
    return p.left.column == 1 and p.right.row == 1 and p.rows <= 64 and p.depth >= lanes


# Vectors along the depth.

def _dot_plan(p: Product, target: Target) -> Plan:
    height = min(p.rows, 6 if target.vector_registers >= 32 else 3)
    width = 8 if p.rows == 1 else 4
    tiles, panels = -(-p.rows // height), -(-p.columns // width)
    grid = _grid(p, tiles, panels, 2, 2)
    return Plan("dot", height, tiles, width, panels, p.depth, False, False, tiles, 1, *grid)


# Tasks.

def _grid(p: Product, tiles: int, panels: int, panel_cost: float, tile_cost: float) -> tuple[int, int, int]:
    """How many tasks along the batch, the rows and the columns.

    The costs are those of fetching or packing a panel, in rows that could be computed in that time, and a
    tile, in columns: what each task does again weighs less the larger its block is. Too few tasks leave
    threads idle.
    """
    wanted = max(1, min(MOST_TASKS, 2 * p.size * p.depth // TASK_FLOPS))
    batch = min(p.batch, wanted)
    wanted //= batch
    best, least = (1, 1), math.inf
    # The rows of a task, as deep as a block, should stay in the second cache level while panels pass by.
    fewest = -(-p.rows * min(p.depth, MOST_DEPTH) * p.dtype.itemsize // ROWS_BYTES)
    for rows in range(min(tiles, wanted, fewest), min(tiles, wanted) + 1):
        for columns in {min(panels, wanted // rows), min(panels, -(-wanted // (2 * rows)))}:
            count = batch * rows * columns
            again = panel_cost * rows / p.rows + tile_cost * columns / p.columns
            cost = (1 + 1 / count if count > 1 else 4) * (1 + again)
            if cost < least:
                best, least = (rows, columns), cost
    return batch, *best

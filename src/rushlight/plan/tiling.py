"""From a product to its plan: the tile, the blocks, the packing and the tasks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..core.symbols import hint, is_size
from ..loops.kernels import Product
from ..loops.product import Groups, ProductShape, Side, changes, hints_of
from ..runtime.target import Target
from .cost import (
    ACROSS_BLOCK,
    CHUNK_ROWS,
    DEPTH_BLOCK,
    DOT_ROWS,
    EDGE_BYTES,
    ENOUGH_DEPTH,
    ENOUGH_ROWS,
    FAR_BYTES,
    FAR_DEPTH,
    FAR_ROWS,
    FETCHED_STEPS,
    FEW_PANELS,
    FEW_ROWS,
    FEW_ROWS_VECTORS,
    LEFT_COLUMNS,
    LEFT_COLUMNS_MANY_SUMS,
    LEFT_DEPTH,
    LEFT_ROWS,
    MANY_REGISTERS,
    MANY_SUMS,
    MOST_PRODUCT_TASKS,
    ONE_ROW_VECTORS,
    SERIAL_COST,
    STEP_SUMS,
    TASK_FLOPS,
    TILES,
    TILES_MANY_REGISTERS,
    TRIANGLE_TILES,
    UNEVEN_PANELS,
    WINDOWS_BLOCK,
)
from .epilogue import plan_epilogue
from .packing import PackPlan, plan_pack, slab_bytes
from .product import Grid, ProductPlan, Tile, TileKernel


def plan_product(product: Product, target: Target, shares: int = 0) -> ProductPlan:
    """The plan of a product. `shares`: if not 0, each of so many matrices is multiplied by a task of its own,
    and packed by as many as any other, in order.

    Where sizes change from call to call, the tile and what is packed are those for the sizes of the call that
    was captured, and everything else is planned again for the sizes of each call (`fit_plan`)."""
    here = replace(product, shape=hints_of(product.shape))
    p = here.shape
    lanes = target.lanes(p.dtype.itemsize)
    if p.windows is None and p.right.column != 1 and _prefers_dot(p, lanes):
        plan = fit_plan(here, _dot_tile(p, target), target, hint(shares))
    else:
        plan = fit_plan(here, _column_tile(p, target), target, hint(shares))
    if changes(product.shape) or is_size(shares):
        plan = replace(plan, product=product, shares=shares, sized=True)
    return replace(plan, epilogue=plan_epilogue(plan, target))


def fit_plan(
    product: Product, tile: Tile, target: Target, shares: int = 0, packs_left: bool | None = None
) -> ProductPlan:
    """The plan of a product of known sizes with a given tile, but for its epilogue. `packs_left`: whether the
    left operand is packed, if that is not to be decided here."""
    p = product.shape
    size, (height, width) = p.dtype.itemsize, (tile.height, tile.width)
    tiles, panels = -(-p.rows // height), -(-p.columns // width)
    chunk = _chunk(height, width * size)
    grid = Grid(shares, 1, 1) if shares else _grid(p, tiles, panels)
    if tile.kernel is TileKernel.DEPTH:
        plan = ProductPlan(product, tile, tiles, panels, p.depth, chunk, grid, panels)
        packing: dict[str, Any] = {}
    else:
        plan = _column_plan(product, tile, target, chunk, grid)
        packing = _packing(plan, target.lanes(size), packs_left)
    return replace(plan, **packing, **_lead(plan, packing.get("left")), reach=p.columns)


def _column_plan(product: Product, tile: Tile, target: Target, chunk: int, grid: Grid) -> ProductPlan:
    """Vectors along the columns; nothing is packed yet."""
    p = product.shape
    lanes = target.lanes(p.dtype.itemsize)
    tiles, panels = -(-p.rows // tile.height), -(-p.columns // tile.width)
    if p.right.column != 1 or (_right_gains(p) and (panels > FEW_PANELS or _right_is_far(p))):
        direct = 0
    else:
        direct = p.columns // tile.width  # kernels read whole panels
    if p.triangle is not None and p.triangle.side in (Side.LEFT_LOWER, Side.LEFT_UPPER):
        chunk = min(chunk, TRIANGLE_TILES)
    return ProductPlan(
        product,
        tile,
        tiles,
        panels,
        _block(p),
        chunk,
        grid,
        direct,
        right_room=slab_bytes(p.depth, tile.width, lanes, p.dtype.itemsize),
    )


def _column_tile(p: ProductShape, target: Target) -> Tile:
    lanes = target.lanes(p.dtype.itemsize)
    height, vectors = _tile(p, target, lanes)
    return Tile(TileKernel.COLUMNS, height, lanes * vectors)


def _dot_tile(p: ProductShape, target: Target) -> Tile:
    """Vectors along the depth."""
    height = min(p.rows, 6 if target.vector_registers >= MANY_REGISTERS else 3)
    return Tile(TileKernel.DEPTH, height, 8 if p.rows == 1 else 4)


def _prefers_dot(p: ProductShape, lanes: int) -> bool:
    """For a transposed right operand with few rows: packing it would cost more than the product."""
    return p.left.column == 1 and p.right.row == 1 and p.rows <= DOT_ROWS and p.depth >= lanes


# Tiles.


def _tile(p: ProductShape, target: Target, lanes: int) -> tuple[int, int]:
    """Rows and vectors of a tile: as many sums as registers hold, beside a row of the panel and one element.

    Enough sums hide the latency of the multiplications. Where it pays for a kernel of its own, the tile is
    one that computes little in vain.
    """
    many, wide = target.vector_registers >= MANY_REGISTERS, -(-p.columns // lanes)
    if p.rows <= FEW_ROWS:
        rows, vectors = p.rows, ONE_ROW_VECTORS if p.rows == 1 or many else FEW_ROWS_VECTORS
    else:
        tiles = _tiles(target)

        def cost(tile: tuple[int, int]) -> float:
            rows, vectors = tile[0], min(tile[1], wide)
            return (
                tiles[tile]
                * (1 + STEP_SUMS / (rows * vectors))
                * _rounded(p.rows, rows)
                * _computed(p, lanes * vectors)
            )

        rows, vectors = min(tiles, key=cost)
    return min(rows, p.rows), min(vectors, wide)


def _tiles(target: Target) -> dict[tuple[int, int], float]:
    return TILES_MANY_REGISTERS if target.vector_registers >= MANY_REGISTERS else TILES


def usual_tiles(target: Target) -> list[tuple[int, int]]:
    """Rows and vectors of the tiles of products that are not small, the most frequent first."""
    return list(_tiles(target))


def _computed(p: ProductShape, width: int) -> int:
    """Columns that panels of `width` compute, on average over rows, in units that do not depend on it."""
    columns = _rounded(p.columns, width)
    if p.triangle is None or p.triangle.side in (Side.LEFT_LOWER, Side.LEFT_UPPER):
        return columns
    return columns + width  # half of the columns, and half of the panel on the diagonal


def _rounded(count: int, step: int) -> int:
    return -(-count // step) * step


# Blocks.


def _block(p: ProductShape) -> int:
    """The depth of nearly equal blocks; of windows, a whole number of segments."""
    most = DEPTH_BLOCK
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


def _packing(plan: ProductPlan, lanes: int, packs_left: bool | None = None) -> dict[str, Any]:
    """Fields of a plan: what is packed, in scratch memory: the left operand, then the right, then tables."""
    p, tile = plan.shape, plan.tile
    left = right = None
    end = 0
    if _left_gains(p, tile.height * tile.width // lanes) if packs_left is None else packs_left:
        left = plan_pack(p, "left", 0, tile.height, end, lanes)
        end += left.size
    if plan.direct < plan.panels:
        right = plan_pack(p, "right", plan.direct * tile.width, tile.width, end, lanes)
        end += right.size
    table = 0 if p.windows is None else 8 * (plan.tiles * tile.height + p.windows.segments)
    return {"left": left, "right": right, "table_offset": end, "table_bytes": table}


def _right_gains(p: ProductShape) -> bool:
    """Whether to copy panels of a right operand whose rows are contiguous: they are read in order then."""
    return p.rows >= ENOUGH_ROWS and p.depth >= ENOUGH_DEPTH


def _right_is_far(p: ProductShape) -> bool:
    """Whether the first level of cache holds little of a panel as it lies."""
    crowded = p.left.column != 1 or (p.depth >= FAR_DEPTH and p.rows >= FAR_ROWS)
    return crowded and p.right.row * p.dtype.itemsize >= FAR_BYTES


def _left_gains(p: ProductShape, sums: int) -> bool:
    """Whether to copy tiles of a left operand with contiguous columns: a tile uses little of each line.

    Lines that are fetched while as many sums are computed as many registers hold come in time, unless they
    are used so often that even reading them in order pays.
    """
    enough = LEFT_COLUMNS if sums < MANY_SUMS else LEFT_COLUMNS_MANY_SUMS
    return (
        p.windows is None
        and p.groups is not Groups.ROWS  # tiles begin where groups do
        and p.left.column != 1
        and p.left.row == 1
        and p.columns >= enough
        and p.rows >= LEFT_ROWS
        and p.depth > LEFT_DEPTH
    )


def _lead(plan: ProductPlan, left: PackPlan | None) -> dict[str, Any]:
    """Fields of a plan: what kernels fetch of the left operand.

    Of what lies tile after tile, be it rows or slabs, the next tile is fetched, which has as many elements;
    else what follows in the depth, where machines do not see it coming.
    """
    p, size = plan.shape, plan.shape.dtype.itemsize
    if p.left.column != 1 and left is None:
        step = p.left.column * size
        return {"lead": FETCHED_STEPS * step, "lead_step": step}
    ahead = left.room if left is not None else plan.tile.height * p.left.row * size
    return {"lead": 0 if p.windows is not None else ahead, "lead_step": plan.tile.height * size}


# Tasks.


def _grid(p: ProductShape, tiles: int, panels: int) -> Grid:
    """How many tasks along the batch, the rows and the columns.

    A task fetches its part of both operands: that weighs less the nearer its block is to a square. Too few
    tasks leave threads idle. Where all have as many panels, epilogues may run in wider vectors.
    """
    wanted = max(1, min(MOST_PRODUCT_TASKS, 2 * p.terms // TASK_FLOPS))
    batch = min(p.batch, wanted)
    wanted //= batch
    best, least = (1, 1), math.inf
    for rows in range(1, min(tiles, wanted) + 1):
        along = 1 + 2 * rows / p.rows
        if along >= least:
            break  # more rows cost more, whatever the columns are
        tried = 0
        for most in (min(panels, -(-wanted // (2 * rows))), min(panels, wanted // rows)):
            for columns in (1 << most.bit_length() - 1, most):
                if columns == tried:
                    continue
                tried = columns
                count = batch * rows * columns
                idle = 1 + 1 / count if count > 1 else SERIAL_COST
                cost = idle * (along + 2 * columns / p.columns) * (UNEVEN_PANELS if panels % columns else 1)
                if cost < least:
                    best, least = (rows, columns), cost
    return Grid(batch, *best)

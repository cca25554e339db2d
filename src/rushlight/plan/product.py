"""The plan of a matrix product: which kernel, in which tiles, what is packed, and how tasks share the work.

The plan depends on the shapes and the instruction set alone, never on the number of threads, and no sum is
split between tasks: results are the same for any number.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..core.errors import InternalError
from ..core.index import Index, as_index
from ..loops.kernels import Product
from ..loops.nest import Buffer
from ..loops.product import ProductShape, hints_of
from .cost import EDGE_BYTES, FEW_LINES, MOST_HEIGHT, MOST_LANES, MOST_OTHERS
from .nest import NestPlan
from .packing import PackPlan


def fetches_in_turn(height: int, row_lines: int) -> bool:
    """Whether a kernel asks for the cache lines of its tile one a step: what the sums need would wait behind
    many that are asked for at once."""
    return height * row_lines > FEW_LINES


class TileKernel(enum.Enum):
    """What the lanes of a tile's vectors run along."""

    COLUMNS = "tile"
    DEPTH = "dot"


class EpilogueMode(enum.IntEnum):
    """Where what follows a product is computed."""

    NONE = 0
    PER_TILE = 1  # on a chunk of tiles times a few panels, while they are in cache
    AT_END = 2  # on all that a task computes
    IN_REGISTERS = 3  # by the kernels, on their sums; edge tiles as PER_TILE


@dataclass(frozen=True)
class Tile:
    """Sums that a kernel keeps in registers: `height` rows of the left operand times `width` columns."""

    kernel: TileKernel
    height: int
    width: int

    def __str__(self) -> str:
        return f"{self.height}x{self.width} {self.kernel.value}"


@dataclass(frozen=True)
class Grid:
    """How many tasks share the batch, the tiles and the panels."""

    batch: int
    rows: int
    columns: int

    @property
    def tasks(self) -> int:
        return self.batch * self.rows * self.columns

    def __str__(self) -> str:
        return f"{self.batch}x{self.rows}x{self.columns} tasks"


@dataclass(frozen=True)
class FinishStep:
    """What a kernel does with its sums before it stores them: an instruction, and the row or matrix that it
    takes besides."""

    op: str  # "add" or "mul"
    operand: str  # "row" or "matrix"
    buffer: Buffer

    def __str__(self) -> str:
        return f"{self.op} {self.operand} {self.buffer}"


@dataclass(frozen=True)
class EpiloguePlan:
    """How the epilogue of a product runs; `nest` on ranges of the product's rows and columns."""

    mode: EpilogueMode = EpilogueMode.NONE
    nest: NestPlan | None = None
    finish: tuple[FinishStep, ...] = ()
    prefetched: tuple[Buffer, ...] = ()  # what it reads and writes at the elements of the product
    streamed: tuple[Buffer, ...] = ()  # what it stores past the caches

    def __str__(self) -> str:
        parts = [f"epilogue {self.mode.name.lower().replace('_', ' ')}"]
        if self.finish:
            parts.append(", ".join(map(str, self.finish)))
        elif self.nest is not None:
            parts.append(f"vectors of {self.nest.outer}")
        parts += [f"prefetch {', '.join(map(str, self.prefetched))}"] if self.prefetched else []
        parts += [f"stored past the caches {', '.join(map(str, self.streamed))}"] if self.streamed else []
        return "; ".join(parts)


@dataclass(frozen=True)
class ProductPlan:
    """A product and how it runs."""

    product: Product
    tile: Tile
    tiles: int
    panels: int
    block: int  # depth of a block
    chunk: int  # tiles that meet a panel one after the other
    grid: Grid
    direct: int  # panels that are read where they are; the others, up to the last one, are packed
    right_room: int = 0  # bytes of a slab of the right operand, where it is packed
    left: PackPlan | None = None
    right: PackPlan | None = None
    lead: int = 0  # bytes ahead in the left operand at which kernels fetch lines, and from one to the next
    lead_step: int = 0
    table_offset: int = 0  # of the table of rows and runs of columns in scratch, and its bytes
    table_bytes: int = 0
    epilogue: EpiloguePlan = EpiloguePlan()
    reach: int = 0  # columns beyond the triangle of its result that readers look at
    sized: bool = False  # sizes change from call to call: all but the tile, what is packed and the epilogue
    shares: int = 0  # matrices that have a task of their own each, if not 0

    @property
    def name(self) -> str:
        return self.product.name

    @property
    def shape(self) -> ProductShape:
        return self.product.shape

    @property
    def scratch_bytes(self) -> int:
        """Scratch memory for packed operands and tables, while the product runs."""
        used = sum(pack.size for pack in (self.left, self.right) if pack is not None) + self.table_bytes
        return -(-used // 64) * 64

    @property
    def scratch_size(self) -> Index:
        """No less than `scratch_bytes`, for all sizes."""
        if not self.sized:
            return as_index(self.scratch_bytes)
        p, width, room = self.shape, self.tile.width, as_index(64)
        rows, columns, depth, batch = map(as_index, (p.rows, p.columns, p.depth, p.batch))
        lanes = MOST_LANES
        for unit, count, packed in (
            (self.tile.height, rows, self.left is not None),
            (width, columns, self.tile.kernel is TileKernel.COLUMNS),
        ):
            slab = ((depth + lanes) * unit + lanes) * p.dtype.itemsize + 64
            room = room + batch * (count // unit + 1) * slab if packed else room
        if p.windows is not None:
            room = room + 8 * (rows + self.tile.height + as_index(p.windows.segments))
        return room

    def verify(self) -> None:
        """Raise InternalError if the plan breaks an invariant."""
        p, tile = hints_of(self.shape), self.tile
        row_bytes = tile.width * p.dtype.itemsize
        rules = {
            "tiles cover the rows": self.tiles * tile.height >= p.rows > (self.tiles - 1) * tile.height,
            "panels cover the columns": (
                self.panels * tile.width >= p.columns > (self.panels - 1) * tile.width
            ),
            "the driver has room for the rows of a tile": 0 < tile.height <= MOST_HEIGHT,
            "the driver has room for a chunk of edge tiles": (
                self.chunk == 1 or self.chunk * tile.height * row_bytes <= EDGE_BYTES
            ),
            "panels that are not whole are packed, unless vectors run along the depth": (
                tile.kernel is TileKernel.DEPTH or self.direct * tile.width <= p.columns
            ),
            "what is not read where it is is packed": (self.right is None) == (self.direct == self.panels),
            "no task is empty": (
                self.grid.batch <= p.batch
                and self.grid.rows <= self.tiles
                and self.grid.columns <= self.panels
            ),
            "blocks are not deeper than the product": 0 < self.block <= p.depth,
            "kernels fetch no more matrices than they can": len(self.epilogue.prefetched) <= MOST_OTHERS,
            "kernels finish only what they hold in registers": (
                bool(self.epilogue.finish) == (self.epilogue.mode is EpilogueMode.IN_REGISTERS)
            ),
        }
        for rule, holds in rules.items():
            if not holds:
                raise InternalError(f"plan of {self.name}: it does not hold that {rule}\n{self.summary()}")
        if self.epilogue.nest is not None:
            self.epilogue.nest.verify()

    def summary(self) -> str:
        """The plan in two or three lines."""
        p = self.shape
        packing = [str(pack) for pack in (self.left, self.right) if pack is not None] or ["nothing packed"]
        blocking = f"depth in blocks of {self.block}, {self.chunk} tiles a panel"
        lines = [
            f"{self.tiles} x {self.panels} tiles of {self.tile}; {self.grid}; {blocking}; {', '.join(packing)}"
        ]
        lines += [f"prefetch the left operand {self.lead} bytes ahead"]
        if p.triangle is not None:
            lines[-1] += f"; {self.reach} columns beyond the triangle"
        lines += [str(self.epilogue)] if self.epilogue.mode is not EpilogueMode.NONE else []
        return "\n  -- ".join(lines)

    def __str__(self) -> str:
        return f"{self.product}\n  -- {self.summary()}"

"""The loops around the kernels of a product, as a routine: one block of the result for each task.

    for each matrix of the batch
        for each block of the depth
            for each chunk of tiles of the left operand
                for each panel of the right operand
                    the kernel, on all tiles of the chunk
                    after the last block of the depth, and a few panels: the epilogue, unless kernels do it

Of a product with a triangle, tiles that nobody looks at are filled with zeros, and the depth of a chunk times
a panel is cut to where the triangle is.

All sizes, strides (in bytes) and addresses come from an array of fields and from the block.
"""

from __future__ import annotations

from typing import Any

from ....core.lazy import LazyModule
from ....loops.product import Side
from ....plan.cost import EDGE_BYTES, EPILOGUE_PANELS, MOST_HEIGHT, MOST_OTHERS
from ....plan.product import EpilogueMode
from ..emitter import Emitter
from .kernels import KERNEL, shifted
from .routines import callee, fields_of, routine

ir = LazyModule("llvmlite.ir")

FIELDS = (
    "batch",
    "rows",
    "columns",
    "depth",
    "height",
    "tiles",
    "width",
    "panels",
    "block",
    "chunk",
    "batch_tasks",
    "row_tasks",
    "column_tasks",
    "left",
    "left_offset",
    "left_batch",
    "left_tile",
    "left_row",
    "left_depth",
    "lead",
    "lead_step",  # what kernels fetch of it
    "right",
    "right_offset",
    "right_batch",
    "right_panel",
    "right_depth",
    "right_column",
    "direct",  # panels that are read where they are; the others are in a copy
    "copy",
    "copy_offset",
    "copy_batch",
    "copy_panel",
    "copy_depth",
    # where rows and runs of columns of the left operand start: 0, or the slot of a table
    "offsets",
    "offsets_offset",
    "segments_offset",
    "segment_depth",
    "out",
    "out_batch",
    "out_row",
    "size",
    "epilogue",  # an EpilogueMode
    "triangle",
    "diagonal",
    "reach",  # a Side, or 0; columns beyond that are looked at
    *(f"other{k}" for k in range(MOST_OTHERS)),  # slots of what goes with the result, as it lies
    "row",  # the slot of a row that goes with each of its rows
)
EPILOGUE = "pnnnnn"  # block; number of the matrix, first and last row, first and last column


@routine("product", "ppnpppp", quick=True)
def product(
    e: Emitter, fields: Any, block: Any, number: Any, kernel: Any, move: Any, clear: Any, epilogue: Any
) -> None:
    """Task `number` of a product."""
    callees = (
        callee(kernel, KERNEL),
        callee(move, "pnpnnn"),
        callee(clear, "pnnn"),
        callee(epilogue, EPILOGUE),
    )
    _Loops(e, fields, block, *callees).emit(number)


class _Loops:
    def __init__(
        self, e: Emitter, fields: Any, block: Any, kernel: Any, move: Any, clear: Any, epilogue: Any
    ) -> None:
        self.e, self.block = e, block
        self.kernel, self.move, self.clear, self.epilogue = kernel, move, clear, epilogue
        self.f = fields_of(e, fields, FIELDS)
        self.row_offsets = e.local(ir.ArrayType(e.i64, 2 * MOST_HEIGHT))
        self.edge = e.local(ir.ArrayType(e.i8, EDGE_BYTES))
        self.no_offset = e.local(e.i64)
        self.distances = e.local(ir.ArrayType(e.i64, MOST_OTHERS + 1))

    def _at(self, slot: str, offset: str | None = None) -> Any:
        e, f = self.e, self.f
        pointer = e.load(e.address(self.block, f[slot], e.i64), e.pointer)
        return pointer if offset is None else shifted(e, pointer, f[offset])

    def _share(self, number: Any, count: Any, total: Any) -> tuple[Any, Any]:
        """The range of `total` that belongs to number `number` of `count`."""
        e = self.e
        first, end = (e.builder.udiv(e.mul(n, total), count) for n in (number, e.add(number, 1)))
        return first, end

    def _offsets(self) -> None:
        """Where the rows of a tile are, then those of the last tile: its last row again and again."""
        e, f = self.e, self.f
        table = e.load(e.address(self.block, f["offsets"], e.i64), e.pointer)
        self.table = e.compare("!=", f["offsets"], 0)
        self.rows_table = shifted(e, table, f["offsets_offset"])
        self.segments_table = shifted(e, table, f["segments_offset"])
        e.store(e.i64(0), self.no_offset)
        last = e.sub(e.sub(f["rows"], e.mul(e.sub(f["tiles"], 1), f["height"])), 1)
        with e.loop(0, f["height"]) as i:
            e.store(e.mul(i, f["left_row"]), e.address(self.row_offsets, i, e.i64))
            e.store(
                e.mul(e.minimum(i, last), f["left_row"]),
                e.address(self.row_offsets, e.add(i, MOST_HEIGHT), e.i64),
            )

    def emit(self, number: Any) -> None:
        e, f = self.e, self.f
        self._offsets()
        left, right = self._at("left", "left_offset"), self._at("right", "right_offset")
        copy, out = self._at("copy", "copy_offset"), self._at("out")
        self.row = self._at("row")
        for k in range(MOST_OTHERS):
            distance = e.sub(*(e.builder.ptrtoint(at, e.i64) for at in (self._at(f"other{k}"), out)))
            e.store(distance, e.address(self.distances, k, e.i64))
        column = e.builder.urem(number, f["column_tasks"])
        number = e.builder.udiv(number, f["column_tasks"])
        row, batch = e.builder.urem(number, f["row_tasks"]), e.builder.udiv(number, f["row_tasks"])
        tiles = self._share(row, f["row_tasks"], f["tiles"])
        panels = self._share(column, f["column_tasks"], f["panels"])
        with e.loop(*self._share(batch, f["batch_tasks"], f["batch"])) as b:
            matrices = [
                shifted(e, pointer, e.mul(b, f[step]))
                for pointer, step in (
                    (left, "left_batch"),
                    (right, "right_batch"),
                    (copy, "copy_batch"),
                    (out, "out_batch"),
                )
            ]
            with e.loop(0, f["depth"], f["block"]) as k, e.loop(*tiles, f["chunk"]) as first:
                end = e.minimum(e.add(first, f["chunk"]), tiles[1])
                with e.loop(*panels) as panel:
                    self._panel(b, matrices, k, (first, end), panels, panel)
            with e.when(e.compare("==", f["epilogue"], EpilogueMode.AT_END)):
                self._epilogue(b, tiles, panels)

    def _panel(
        self, b: Any, matrices: list[Any], k: Any, tiles: tuple[Any, Any], panels: tuple[Any, Any], panel: Any
    ) -> None:
        e, f = self.e, self.f
        left, right, copy, out = matrices
        copied = e.sub(panel, f["direct"])
        direct = e.compare("<", copied, 0)
        right = e.select(
            direct,
            shifted(e, right, e.mul(panel, f["right_panel"])),
            shifted(e, copy, e.mul(copied, f["copy_panel"])),
        )
        right_depth = e.select(direct, f["right_depth"], f["copy_depth"])
        column = e.mul(panel, f["width"])
        columns = e.minimum(e.sub(f["columns"], column), f["width"])
        out = shifted(e, out, e.mul(column, f["size"]))
        chunk, tiles = tiles, (self._first_tile(tiles, column, columns, k, out), tiles[1])
        begin, end = self._depth_of(chunk, column, columns)
        block_end = e.minimum(e.add(k, f["block"]), f["depth"])
        here = e.maximum(k, begin)
        depth = e.sub(e.minimum(block_end, end), here)
        right = shifted(e, right, e.mul(here, right_depth))
        left = shifted(e, left, e.select(self.table, e.i64(0), e.mul(here, f["left_depth"])))
        last_block = e.compare("==", block_end, f["depth"])
        finish = e.and_(last_block, e.compare("==", f["epilogue"], EpilogueMode.IN_REGISTERS))
        e.store(shifted(e, self.row, e.mul(column, f["size"])), e.address(self.distances, MOST_OTHERS, e.i64))
        whole = e.builder.udiv(f["rows"], f["height"])  # the last tile may have fewer rows
        with e.loop(0, 2) as part:
            last = e.compare("==", part, 1)
            start = e.select(last, e.maximum(tiles[0], whole), tiles[0])
            end = e.select(last, tiles[1], e.minimum(tiles[1], whole))
            with e.when(e.and_(e.compare("<", start, end), e.compare(">", depth, 0))):
                row = e.mul(start, f["height"])
                rows = e.minimum(e.sub(f["rows"], row), e.mul(e.sub(end, start), f["height"]))
                partial = e.or_(last, e.compare("<", columns, f["width"]))
                self._tiles(
                    start,
                    e.sub(end, start),
                    shifted(e, left, e.mul(start, f["left_tile"])),
                    last,
                    right,
                    right_depth,
                    depth,
                    shifted(e, out, e.mul(row, f["out_row"])),
                    rows,
                    columns,
                    e.sub(here, begin),
                    partial,
                    finish,
                )
                with e.when(e.and_(finish, partial)):
                    e.call(
                        self.epilogue, [self.block, b, row, e.add(row, rows), column, e.add(column, columns)]
                    )
        number = e.builder.urem(e.sub(panel, panels[0]), e.i64(EPILOGUE_PANELS))
        following = e.add(panel, 1)
        enough = e.or_(e.compare("==", number, EPILOGUE_PANELS - 1), e.compare("==", following, panels[1]))
        with e.when(
            e.and_(e.and_(e.compare("==", f["epilogue"], EpilogueMode.PER_TILE), last_block), enough)
        ):
            self._epilogue(b, chunk, (e.sub(panel, number), following))

    # Triangles.

    def _beyond(self, at: Any) -> Any:
        """`at` less the diagonal, but not below 0."""
        return self.e.maximum(self.e.sub(at, self.f["diagonal"]), self.e.i64(0))

    def _first_tile(self, tiles: tuple[Any, Any], column: Any, columns: Any, k: Any, out: Any) -> Any:
        """The first tile of a chunk that has anything of use in a panel; what is above it, as far as anybody
        looks, becomes zero."""
        e, f = self.e, self.f
        first = e.builder.udiv(self._beyond(column), f["height"])
        first = e.minimum(e.maximum(first, tiles[0]), tiles[1])
        first = e.select(e.compare("==", f["triangle"], Side.RESULT), first, tiles[0])
        row = e.maximum(e.mul(tiles[0], f["height"]), e.sub(self._beyond(column), f["reach"]))
        rows = e.sub(e.minimum(e.mul(first, f["height"]), f["rows"]), row)
        with e.when(e.and_(e.compare(">", rows, 0), e.compare("==", k, 0))):
            words = e.shift_right(e.mul(columns, f["size"]), 2)
            e.call(self.clear, [shifted(e, out, e.mul(row, f["out_row"])), f["out_row"], rows, words])
        return first

    def _depth_of(self, tiles: tuple[Any, Any], column: Any, columns: Any) -> tuple[Any, Any]:
        """Where in the depth a chunk times a panel has terms that are not zero."""
        e, f = self.e, self.f
        side, begin, end = f["triangle"], e.i64(0), f["depth"]
        row, rows_end = e.mul(tiles[0], f["height"]), e.mul(tiles[1], f["height"])
        for upper, lower, first, last in (
            (Side.LEFT_UPPER, Side.LEFT_LOWER, row, rows_end),
            (Side.RIGHT_LOWER, Side.RIGHT_UPPER, column, e.add(column, columns)),
        ):
            begin = e.select(e.compare("==", side, upper), self._beyond(first), begin)
            end = e.select(
                e.compare("==", side, lower), e.minimum(e.add(last, f["diagonal"]), f["depth"]), end
            )
        return begin, end

    def _tiles(
        self,
        first: Any,
        tiles: Any,
        left: Any,
        last: Any,
        right: Any,
        right_depth: Any,
        depth: Any,
        out: Any,
        rows: Any,
        columns: Any,
        add: Any,
        partial: Any,
        finish: Any,
    ) -> None:
        """Run the kernel; tiles that are not whole are computed beside, and what is there of them copied."""
        e, f = self.e, self.f
        edge_row = e.mul(f["width"], f["size"])
        words = e.shift_right(e.mul(columns, f["size"]), 2)
        with e.when(e.and_(partial, e.compare("!=", add, 0))):
            e.call(self.move, [out, f["out_row"], self.edge, edge_row, rows, words])
        step = e.mul(f["height"], 8)
        offsets = e.select(
            self.table,
            shifted(e, self.rows_table, e.mul(first, step)),
            e.address(self.row_offsets, e.select(last, e.i64(MOST_HEIGHT), e.i64(0)), e.i64),
        )
        first_segment, segments = (e.builder.udiv(x, f["segment_depth"]) for x in (add, depth))
        segment_offsets = e.select(
            self.table, e.address(self.segments_table, first_segment, e.i64), self.no_offset
        )
        out_row = e.select(partial, edge_row, f["out_row"])
        e.call(
            self.kernel,
            [
                left,
                offsets,
                f["left_depth"],
                e.select(self.table, segments, e.i64(1)),
                segment_offsets,
                e.select(self.table, f["segment_depth"], depth),
                right,
                right_depth,
                f["right_column"],
                columns,
                e.select(partial, self.edge, out),
                out_row,
                add,
                tiles,
                f["left_tile"],
                e.select(self.table, step, e.i64(0)),
                e.mul(out_row, f["height"]),
                self.distances,
                e.select(e.and_(finish, e.not_(partial)), e.i64(1), e.i64(0)),
                f["lead"],
                f["lead_step"],
            ],
        )
        with e.when(partial):
            e.call(self.move, [self.edge, edge_row, out, f["out_row"], rows, words])

    def _epilogue(self, b: Any, tiles: tuple[Any, Any], panels: tuple[Any, Any]) -> None:
        e, f = self.e, self.f
        rows, columns = (
            [e.mul(first, f[step]), e.minimum(e.mul(end, f[step]), f[total])]
            for (first, end), step, total in ((tiles, "height", "rows"), (panels, "width", "columns"))
        )
        e.call(self.epilogue, [self.block, b, *rows, *columns])


TABLE_FIELDS = (
    "out",
    "rows_offset",
    "rows",
    "padded",
    "taps_offset",
    *(f"{kind}{d}_{what}" for kind in ("row", "tap") for d in range(4) for what in ("extent", "stride")),
)


@routine("table", "ppn", quick=True)
def table(e: Emitter, fields: Any, block: Any, number: Any) -> None:
    """Write where the rows of a left operand with windows start, the last one again and again up to whole
    tiles, and where its runs of columns start."""
    f = fields_of(e, fields, TABLE_FIELDS)
    out = e.load(e.address(block, f["out"], e.i64), e.pointer)
    next_place = e.local(e.pointer)
    last = e.local(e.i64)

    def write(kind: str, dim: int, base: Any) -> None:
        with e.loop(0, f[f"{kind}{dim}_extent"]) as point:
            offset = e.add(base, e.mul(point, f[f"{kind}{dim}_stride"]))
            if dim < 3:
                write(kind, dim + 1, offset)
            else:
                place = e.load(next_place, e.pointer)
                e.store(offset, place)
                e.store(offset, last)
                e.builder.store(e.address(place, 1, e.i64), next_place, align=8)

    for kind in ("row", "tap"):
        e.builder.store(shifted(e, out, f[f"{kind}s_offset"]), next_place, align=8)
        write(kind, 0, e.i64(0))
        if kind == "row":
            rows = shifted(e, out, f["rows_offset"])
            with e.loop(f["rows"], f["padded"]) as row:
                e.store(e.load(last, e.i64), e.address(rows, row, e.i64))

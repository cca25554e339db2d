"""The loops around the kernels of a product, as a routine: one block of the result for each task.

    for each matrix of the batch
        for each block of the depth
            for each chunk of tiles of the left operand
                for each panel of the right operand
                    the kernel, on all tiles of the chunk
                    after the last block of the depth, and a few panels: the epilogue, unless kernels do it

Of a product of groups, the matrices of a batch have rows of one left operand and of one result each, or parts of
the depth of both operands; where they end is read from memory, and what it says is held inside of the operands.

Of a product with a triangle, tiles that nobody looks at are filled with zeros, and the depth of a chunk times
a panel is cut to where the triangle is.

All sizes, strides (in bytes) and addresses come from `ProductFields` and from the block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....core.lazy import LazyModule
from ....loops.product import Groups, Side
from ....plan.cost import EDGE_BYTES, EPILOGUE_PANELS, MOST_HEIGHT, MOST_OTHERS
from ....plan.product import EpilogueMode
from ..emitter import Emitter
from ..routines import call_routine, routine
from .fields import EpilogueArgs, ProductArgs, ProductFields, TableFields, TaskArgs
from .kernels import RUN, ClearArgs, MoveArgs, TileArgs, shifted

ir = LazyModule("llvmlite.ir")

Span = tuple[Any, Any]  # the first, and the one after the last


@routine("product", ProductArgs, quick=True)
def product(e: Emitter, args: ProductArgs) -> None:
    """One task of a product."""
    _Loops(e, args).emit()


@dataclass(frozen=True)
class _Matrices:
    """Where the operands and the result of one matrix of the batch begin."""

    number: Any
    left: Any
    right: Any
    copy: Any
    out: Any


@dataclass(frozen=True)
class _Panel:
    """A panel of the right operand, at one block of the depth, and its columns of the result."""

    right: Any
    right_depth: Any
    column: Any
    columns: Any
    out: Any
    start: Any  # where in the depth it begins
    depth: Any
    begin: Any  # where the first term is that counts: beyond it, there are sums of earlier blocks
    finish: Any  # whether kernels finish their sums


@dataclass(frozen=True)
class _Run:
    """Tiles that one call of the kernel computes; `partial`: at the edge of the result."""

    first: Any
    tiles: Any
    left: Any
    last: Any  # whether it is the last tile, which may have fewer rows
    out: Any
    rows: Any
    partial: Any


class _Loops:
    def __init__(self, e: Emitter, args: ProductArgs) -> None:
        self.e, self.args = e, args
        self.f = self.whole = ProductFields.load(e, args.fields)
        self.row_offsets = e.local(ir.ArrayType(e.i64, 2 * MOST_HEIGHT))
        self.edge = e.local(ir.ArrayType(e.i8, EDGE_BYTES))
        self.no_offset = e.local(e.i64)
        self.group_first, self.group_end = e.local(e.i64), e.local(e.i64)
        self.distances = e.local(ir.ArrayType(e.i64, MOST_OTHERS + 1))

    def _at(self, slot: Any, offset: Any = None) -> Any:
        e = self.e
        pointer = e.load(e.address(self.args.block, slot, e.i64), e.pointer)
        return pointer if offset is None else shifted(e, pointer, offset)

    def _share(self, number: Any, count: Any, total: Any) -> Span:
        """The range of `total` that belongs to number `number` of `count`."""
        e = self.e
        first, end = (e.builder.udiv(e.mul(n, total), count) for n in (number, e.add(number, 1)))
        return first, end

    def _offsets(self) -> None:
        """Where the rows of a tile are, then those of the last tile: its last row again and again."""
        e, f = self.e, self.f
        table = e.load(e.address(self.args.block, f.offsets, e.i64), e.pointer)
        self.table = e.compare("!=", f.offsets, 0)
        self.rows_table = shifted(e, table, f.offsets_offset)
        self.segments_table = shifted(e, table, f.segments_offset)
        e.store(e.i64(0), self.no_offset)
        last = e.sub(e.sub(f.rows, e.mul(e.sub(f.tiles, 1), f.height)), 1)
        self._row_offsets(last)

    def _row_offsets(self, last: Any) -> None:
        e, f = self.e, self.f
        with e.loop(0, f.height) as i:
            e.store(e.mul(i, f.left_row), e.address(self.row_offsets, i, e.i64))
            e.store(
                e.mul(e.minimum(i, last), f.left_row),
                e.address(self.row_offsets, e.add(i, MOST_HEIGHT), e.i64),
            )

    def emit(self) -> None:
        e, f, number = self.e, self.f, self.args.number
        self._offsets()
        left, right = self._at(f.left, f.left_offset), self._at(f.right, f.right_offset)
        copy, out = self._at(f.copy, f.copy_offset), self._at(f.out)
        self.row = self._at(f.row)
        for k, slot in enumerate(f.others()):
            distance = e.sub(*(e.builder.ptrtoint(at, e.i64) for at in (self._at(slot), out)))
            e.store(distance, e.address(self.distances, k, e.i64))
        column = e.builder.urem(number, f.column_tasks)
        number = e.builder.udiv(number, f.column_tasks)
        row, batch = e.builder.urem(number, f.row_tasks), e.builder.udiv(number, f.row_tasks)
        panels = self._share(column, f.column_tasks, f.panels)
        steps = ((left, f.left_batch), (right, f.right_batch), (copy, f.copy_batch), (out, f.out_batch))
        with e.loop(*self._share(batch, f.batch_tasks, f.batch)) as b:
            left, right, copy, out = (shifted(e, at, e.mul(b, step)) for at, step in steps)
            self.group = self._group(b)
            first = e.select(e.compare("==", f.grouped, Groups.ROWS), self.group[0], e.i64(0))
            self._clear_rows(b, row, panels, out)
            left, out = shifted(e, left, e.mul(first, f.left_row)), shifted(e, out, e.mul(first, f.out_row))
            matrices = _Matrices(b, left, right, copy, out)
            tiles = self._share(row, f.row_tasks, self.f.tiles)
            with e.loop(0, f.depth, f.block) as k, e.loop(*tiles, f.chunk) as first:
                chunk = first, e.minimum(e.add(first, f.chunk), tiles[1])
                with e.loop(*panels) as panel:
                    self._chunk_times_panel(matrices, k, chunk, panels, panel)
            with e.when(e.compare("==", f.epilogue, EpilogueMode.AT_END)):
                self._epilogue(b, tiles, panels)

    # Groups.

    def _group(self, b: Any) -> Span:
        """Where the rows, or the depth, of a matrix begin and end; from here on, fields are those of its rows."""
        self.f = self.whole
        e, f = self.e, self.f
        by_rows = e.compare("==", f.grouped, Groups.ROWS)
        total = e.select(by_rows, f.rows, f.depth)
        e.store(e.i64(0), self.group_first)
        e.store(total, self.group_end)
        with e.when(e.compare("!=", f.grouped, 0)):
            ends = self._at(f.groups)
            with e.when(e.compare(">", b, 0)):
                before = e.load(e.address(ends, e.sub(b, 1), e.i64), e.i64)
                e.store(e.maximum(e.minimum(before, total), e.i64(0)), self.group_first)
            end = e.minimum(e.load(e.address(ends, b, e.i64), e.i64), total)
            e.store(e.maximum(end, e.load(self.group_first, e.i64)), self.group_end)
        first, end = (e.load(place, e.i64) for place in (self.group_first, self.group_end))
        rows = e.select(by_rows, e.sub(end, first), f.rows)
        tiles = e.builder.udiv(e.add(rows, e.sub(f.height, 1)), f.height)
        self.f = f.changed(rows=rows, tiles=tiles)
        with e.when(by_rows):
            self._row_offsets(e.sub(e.sub(rows, e.mul(e.sub(tiles, 1), f.height)), 1))
        return first, end

    def _clear_rows(self, b: Any, row: Any, panels: Span, out: Any) -> None:
        """Rows behind the last group are zero."""
        e, f = self.e, self.whole
        last = e.and_(e.compare("==", f.grouped, Groups.ROWS), e.compare("==", e.add(b, 1), f.batch))
        with e.when(e.and_(last, e.compare("==", row, 0))):
            column = e.mul(panels[0], f.width)
            columns = e.sub(e.minimum(e.mul(panels[1], f.width), f.columns), column)
            self._clear(out, self.group[1], e.sub(f.rows, self.group[1]), column, columns)

    def _clear_empty(self, tiles: Span, column: Any, columns: Any, k: Any, out: Any) -> None:
        """A group without depth gives zeros."""
        e, f = self.e, self.f
        empty = e.and_(e.compare("==", f.grouped, Groups.DEPTH), e.compare("==", *self.group))
        with e.when(e.and_(empty, e.compare("==", k, 0))):
            row = e.mul(tiles[0], f.height)
            rows = e.sub(e.minimum(e.mul(tiles[1], f.height), f.rows), row)
            self._clear(out, row, rows, e.i64(0), columns)

    def _clear(self, out: Any, row: Any, rows: Any, column: Any, columns: Any) -> None:
        """Rows and columns of the result that begins at `out` become zero."""
        e, f = self.e, self.whole
        target = shifted(e, out, e.add(e.mul(row, f.out_row), e.mul(column, f.size)))
        words = e.shift_right(e.mul(columns, f.size), 2)
        with e.when(e.compare(">", rows, 0)):
            cleared = ClearArgs(target=target, target_row=f.out_row, rows=rows, words=words)
            call_routine(e, self.args.clear, cleared)

    def _chunk_times_panel(self, matrices: _Matrices, k: Any, chunk: Span, panels: Span, number: Any) -> None:
        """The kernel on a chunk of tiles and a panel, at the block of the depth that begins at `k`."""
        e, f = self.e, self.f
        right, right_depth = self._panel_address(matrices, number)
        column = e.mul(number, f.width)
        columns = e.minimum(e.sub(f.columns, column), f.width)
        out = shifted(e, matrices.out, e.mul(column, f.size))
        tiles = self._first_tile(chunk, column, columns, k, out), chunk[1]
        self._clear_empty(tiles, column, columns, k, out)
        begin, end = self._depth_of(chunk, column, columns)
        block_end = e.minimum(e.add(k, f.block), f.depth)
        start = e.maximum(k, begin)
        depth = e.sub(e.minimum(block_end, end), start)
        right = shifted(e, right, e.mul(start, right_depth))
        left = shifted(e, matrices.left, e.select(self.table, e.i64(0), e.mul(start, f.left_depth)))
        last_block = e.compare("==", block_end, f.depth)
        finish = e.and_(last_block, e.compare("==", f.epilogue, EpilogueMode.IN_REGISTERS))
        row = shifted(e, self.row, e.mul(column, f.size))
        e.store(row, e.address(self.distances, MOST_OTHERS, e.i64))
        panel = _Panel(right, right_depth, column, columns, out, start, depth, begin, finish)
        self._tiles_of_chunk(matrices.number, left, tiles, panel)
        self._early_epilogue(matrices.number, chunk, panels, number, last_block)

    def _panel_address(self, matrices: _Matrices, number: Any) -> tuple[Any, Any]:
        """Where a panel of the right operand is, as it lies or packed, and from k to k + 1."""
        e, f = self.e, self.f
        copied = e.sub(number, f.direct)
        direct = e.compare("<", copied, 0)
        right = e.select(
            direct,
            shifted(e, matrices.right, e.mul(number, f.right_panel)),
            shifted(e, matrices.copy, e.mul(copied, f.copy_panel)),
        )
        return right, e.select(direct, f.right_depth, f.copy_depth)

    def _tiles_of_chunk(self, matrix: Any, left: Any, tiles: Span, panel: _Panel) -> None:
        """All whole tiles at once, then the last one, which may have fewer rows."""
        e, f = self.e, self.f
        whole = e.builder.udiv(f.rows, f.height)
        with e.loop(0, 2) as part:
            last = e.compare("==", part, 1)
            start = e.select(last, e.maximum(tiles[0], whole), tiles[0])
            end = e.select(last, tiles[1], e.minimum(tiles[1], whole))
            with e.when(e.and_(e.compare("<", start, end), e.compare(">", panel.depth, 0))):
                row = e.mul(start, f.height)
                rows = e.minimum(e.sub(f.rows, row), e.mul(e.sub(end, start), f.height))
                partial = e.or_(last, e.compare("<", panel.columns, f.width))
                count = e.sub(end, start)
                left_here = shifted(e, left, e.mul(start, f.left_tile))
                out = shifted(e, panel.out, e.mul(row, f.out_row))
                self._run_kernel(_Run(start, count, left_here, last, out, rows, partial), panel)
                with e.when(e.and_(panel.finish, partial)):
                    ends = e.add(row, rows), e.add(panel.column, panel.columns)
                    self._call_epilogue(matrix, (row, ends[0]), (panel.column, ends[1]))

    # Triangles.

    def _beyond(self, at: Any) -> Any:
        """`at` less the diagonal, but not below 0."""
        return self.e.maximum(self.e.sub(at, self.f.diagonal), self.e.i64(0))

    def _first_tile(self, tiles: Span, column: Any, columns: Any, k: Any, out: Any) -> Any:
        """The first tile of a chunk that has anything of use in a panel; what is above it, as far as anybody
        looks, becomes zero."""
        e, f = self.e, self.f
        first = e.builder.udiv(self._beyond(column), f.height)
        first = e.minimum(e.maximum(first, tiles[0]), tiles[1])
        first = e.select(e.compare("==", f.triangle, Side.RESULT), first, tiles[0])
        row = e.maximum(e.mul(tiles[0], f.height), e.sub(self._beyond(column), f.reach))
        rows = e.sub(e.minimum(e.mul(first, f.height), f.rows), row)
        with e.when(e.compare("==", k, 0)):
            self._clear(out, row, rows, e.i64(0), columns)
        return first

    def _depth_of(self, tiles: Span, column: Any, columns: Any) -> Span:
        """Where in the depth a chunk times a panel has terms that are not zero."""
        e, f = self.e, self.f
        by_depth = e.compare("==", f.grouped, Groups.DEPTH)
        side = f.triangle
        begin = e.select(by_depth, self.group[0], e.i64(0))
        end = e.select(by_depth, self.group[1], f.depth)
        row, rows_end = e.mul(tiles[0], f.height), e.mul(tiles[1], f.height)
        for upper, lower, first, last in (
            (Side.LEFT_UPPER, Side.LEFT_LOWER, row, rows_end),
            (Side.RIGHT_LOWER, Side.RIGHT_UPPER, column, e.add(column, columns)),
        ):
            begin = e.select(e.compare("==", side, upper), self._beyond(first), begin)
            end = e.select(e.compare("==", side, lower), e.minimum(e.add(last, f.diagonal), f.depth), end)
        return begin, end

    # The kernel.

    def _run_kernel(self, run: _Run, panel: _Panel) -> None:
        """Run the kernel. Edge tiles are computed in scratch at full size; only their valid part is copied
        out, and before that in, where sums of earlier blocks are there."""
        e, f = self.e, self.f
        add = e.sub(panel.start, panel.begin)
        edge_row = e.mul(f.width, f.size)
        words = e.shift_right(e.mul(panel.columns, f.size), 2)
        inside, edge = (run.out, f.out_row), (self.edge, edge_row)
        with e.when(e.and_(run.partial, e.compare("!=", add, 0))):
            self._move(inside, edge, run.rows, words)
        self._call_kernel(run, panel, add, edge_row)
        with e.when(run.partial):
            self._move(edge, inside, run.rows, words)

    def _move(self, source: Span, target: Span, rows: Any, words: Any) -> None:
        """Copy rows between two addresses, each with the bytes from row to row."""
        moved = MoveArgs(
            source=source[0],
            source_row=source[1],
            target=target[0],
            target_row=target[1],
            rows=rows,
            words=words,
        )
        call_routine(self.e, self.args.move, moved)

    def _call_kernel(self, run: _Run, panel: _Panel, add: Any, edge_row: Any) -> None:
        e, f = self.e, self.f
        step = e.mul(f.height, 8)
        offsets = e.select(
            self.table,
            shifted(e, self.rows_table, e.mul(run.first, step)),
            e.address(self.row_offsets, e.select(run.last, e.i64(MOST_HEIGHT), e.i64(0)), e.i64),
        )
        first_segment, segments = (e.builder.udiv(x, f.segment_depth) for x in (add, panel.depth))
        segment_offsets = e.select(
            self.table, e.address(self.segments_table, first_segment, e.i64), self.no_offset
        )
        out_row = e.select(run.partial, edge_row, f.out_row)
        given = TileArgs(
            left=run.left,
            row_offsets=offsets,
            left_depth=f.left_depth,
            segments=e.select(self.table, segments, e.i64(1)),
            segment_offsets=segment_offsets,
            depth=e.select(self.table, f.segment_depth, panel.depth),
            right=panel.right,
            right_depth=panel.right_depth,
            right_column=f.right_column,
            columns=panel.columns,
            out=e.select(run.partial, self.edge, run.out),
            out_row=out_row,
            add=add,
            tiles=run.tiles,
            left_tile=f.left_tile,
            offsets_tile=e.select(self.table, step, e.i64(0)),
            out_tile=e.mul(out_row, f.height),
            distances=self.distances,
            finish=e.select(e.and_(panel.finish, e.not_(run.partial)), e.i64(1), e.i64(0)),
            lead=f.lead,
            lead_step=f.lead_step,
            run=e.sub(e.i64(RUN), e.builder.urem(panel.start, e.i64(RUN))),
        )
        call_routine(e, self.args.kernel, given)

    # The epilogue.

    def _early_epilogue(self, matrix: Any, chunk: Span, panels: Span, panel: Any, last_block: Any) -> None:
        """After the last block of the depth, on a chunk and the last few panels."""
        e, f = self.e, self.f
        number = e.builder.urem(e.sub(panel, panels[0]), e.i64(EPILOGUE_PANELS))
        following = e.add(panel, 1)
        enough = e.or_(e.compare("==", number, EPILOGUE_PANELS - 1), e.compare("==", following, panels[1]))
        here = e.and_(e.compare("==", f.epilogue, EpilogueMode.PER_TILE), last_block)
        with e.when(e.and_(here, enough)):
            self._epilogue(matrix, chunk, (e.sub(panel, number), following))

    def _epilogue(self, matrix: Any, tiles: Span, panels: Span) -> None:
        e, f = self.e, self.f
        rows, columns = (
            (e.mul(first, step), e.minimum(e.mul(end, step), total))
            for (first, end), step, total in ((tiles, f.height, f.rows), (panels, f.width, f.columns))
        )
        self._call_epilogue(matrix, rows, columns)

    def _call_epilogue(self, matrix: Any, rows: Span, columns: Span) -> None:
        given = EpilogueArgs.of([self.args.slots, self.args.block, matrix, *rows, *columns])
        call_routine(self.e, self.args.epilogue, given)


@routine("table", TaskArgs, quick=True)
def table(e: Emitter, args: TaskArgs) -> None:
    """Write where the rows of a left operand with windows start, the last one again and again up to whole
    tiles, and where its runs of columns start."""
    f = TableFields.load(e, args.fields)
    out = e.load(e.address(args.block, f.out, e.i64), e.pointer)
    next_place = e.local(e.pointer)
    last = e.local(e.i64)

    def write(dimensions: list[tuple[Any, Any]], base: Any) -> None:
        (extent, stride), *inner = dimensions
        with e.loop(0, extent) as point:
            offset = e.add(base, e.mul(point, stride))
            if inner:
                write(inner, offset)
            else:
                place = e.load(next_place, e.pointer)
                e.store(offset, place)
                e.store(offset, last)
                e.builder.store(e.address(place, 1, e.i64), next_place, align=8)

    e.builder.store(shifted(e, out, f.row_offset), next_place, align=8)
    write(f.dimensions("row"), e.i64(0))
    rows = shifted(e, out, f.row_offset)
    with e.loop(f.rows, f.padded) as row:
        e.store(e.load(last, e.i64), e.address(rows, row, e.i64))
    e.builder.store(shifted(e, out, f.tap_offset), next_place, align=8)
    write(f.dimensions("tap"), e.i64(0))

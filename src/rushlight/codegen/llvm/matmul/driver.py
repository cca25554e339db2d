"""The loops around the kernels of a product.

`emit_product` adds to a module the task `name.task(block, number)`, which computes one block of the result:

    for each matrix of the batch
        for each block of the depth
            for each chunk of tiles of the left operand (packed, if the plan says so)
                for each panel of the right operand (packed, if the plan says so)
                    for each tile of the chunk: the kernel; after the last block of the depth, the epilogue

Packed copies lie on the stack of the thread that runs the task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ....core.lazy import LazyModule
from ....loops.nest import Buffer, Call
from ....loops.product import epilogue_of, product_of, result_of
from ....runtime.target import Target
from ..emitter import Emitter
from ..instructions import element_type
from ..nests import emit_tile
from ..types import vector
from .kernels import Tile, define, dot_kernel, outer_kernel
from .pack import copy_panels, transpose_panel
from .plan import packed_rows, plan_product

ir = LazyModule("llvmlite.ir")

Range = tuple[Any, Any]  # first and end, numbers or i64 values


def emit_product(module: Any, call: Call, target: Target, slots: dict[Buffer, int]) -> tuple[str, int]:
    """Add the code of a product to `module`; returns the name of its task and how many tasks there are."""
    name = f"{call.name}.task"
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), ir.IntType(64)])
    task = ir.Function(module, kind, name)
    task.linkage = "internal"
    task.attributes.add("nounwind")
    e = Emitter(ir.IRBuilder(task.append_basic_block("entry")), target)
    block, number = task.args
    driver = _Driver(module, e, call, block, slots)
    driver.emit(number)
    e.builder.ret_void()
    return name, driver.plan.tasks


@dataclass(frozen=True)
class _Part:
    """What is being computed: addresses of the operands at the first k, which tiles and panels of them."""

    batch: Any
    left: Any
    right: Any
    out: Any
    tiles: Range
    panels: Range
    depth: Any
    first_k: Any  # None if the depth is one block


class _Driver:
    """Emits the body of the task."""

    def __init__(self, module: Any, e: Emitter, call: Call, block: Any, slots: dict[Buffer, int]) -> None:
        self.module = module
        self.e = e
        self.call = call
        self.p = product_of(call)
        self.plan = plan_product(self.p, e.target)
        self.element = element_type(e, self.p.dtype)
        self.lanes = e.target.lanes(self.p.dtype.itemsize)
        self.step = packed_rows(self.plan.height, self.lanes)  # from k to k + 1 in a packed tile
        self.several = self.plan.blocks(self.p.depth) > 1
        buffers = dict.fromkeys([*call.inputs, *call.outputs, result_of(call)])
        self.pointers = {b: e.load(e.address(block, slots[b], e.i64), e.pointer) for b in buffers}
        self.left_copy = self._room(self.plan.chunk * self.step) if self.plan.pack_left else None
        self.right_copy = self._room(self.plan.width * self.plan.together) if self.plan.pack_right else None
        self.epilogue = self._epilogue()

    def _room(self, width: int) -> Any:
        """Space for `width` elements for each k of a block."""
        slot = self.e.builder.alloca(ir.ArrayType(self.element, width * self._whole_block()))
        slot.align = 64
        slot.type = self.e.pointer
        return slot

    def _whole_block(self) -> int:
        """The depth of a block, rounded up to whole vectors: packing may write so far."""
        return -(-self.plan.block // self.lanes) * self.lanes

    def _at(self, pointer: Any, *terms: tuple[Any, int]) -> Any:
        """The address of an element, `terms` being indices with their strides."""
        e = self.e
        for index, stride in terms:
            if isinstance(index, int):
                pointer = e.address(pointer, index * stride, self.element) if index * stride else pointer
            elif stride:
                pointer = e.address(pointer, e.mul(index, stride), self.element)
        return pointer

    def _loop(self, bounds: Range, step: int = 1) -> Any:
        return self.e.loop(bounds[0], bounds[1], step)

    # The epilogue: a function of its own, so that the kernels of all tile shapes share it.

    def _epilogue(self) -> Callable[..., None] | None:
        """run(batch, rows, columns): an index and two ranges, in elements of the product."""
        e, nest = self.e, epilogue_of(self.call)
        if nest is None:
            return None
        buffers = list(dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes())))
        narrow = self.plan.width % self.lanes != 0 and self.plan.column_tasks > 1
        ragged = narrow or self.p.columns % self.lanes != 0

        def body(inner: Emitter, *arguments: Any) -> None:
            batch, row, rows_end, column, columns_end = arguments[len(buffers):]
            ranges = [(batch, inner.add(batch, 1)), (row, rows_end), (column, columns_end)]
            emit_tile(inner, nest, dict(zip(buffers, arguments, strict=False)), ranges, ragged=ragged)

        types = [e.pointer] * len(buffers) + [e.i64] * 5
        function = define(self.module, nest.name, types, e.target, body)

        def run(batch: Any, rows: Range, columns: Range) -> None:
            numbers = [e.value(n, e.i64) for n in (batch, *rows, *columns)]
            e.call(function, [*[self.pointers[b] for b in buffers], *numbers])

        return run

    # Which part of the result a task has.

    def emit(self, number: Any) -> None:
        plan, p = self.plan, self.p
        column = self._digit(number, 1, plan.column_tasks)
        row = self._digit(number, plan.column_tasks, plan.row_tasks)
        batch = self._digit(number, plan.column_tasks * plan.row_tasks, plan.batch_tasks)
        tiles = self._share(row, plan.row_tasks, plan.tiles)
        panels = self._share(column, plan.column_tasks, plan.panels)
        left = self._at(self.pointers[self.call.inputs[0]], (1, p.left.offset))
        right = self._at(self.pointers[self.call.inputs[1]], (1, p.right.offset))
        out = self.pointers[result_of(self.call)]
        with self._loop(self._share(batch, plan.batch_tasks, p.batch)) as b:
            self._matrix(_Part(b, self._at(left, (b, p.left.batch)), self._at(right, (b, p.right.batch)),
                               self._at(out, (b, p.rows * p.columns)), tiles, panels, p.depth, None))

    def _digit(self, number: Any, step: int, count: int) -> Any:
        if count == 1:
            return 0
        quotient = self.e.builder.udiv(number, self.e.i64(step)) if step > 1 else number
        return self.e.builder.urem(quotient, self.e.i64(count))

    def _share(self, number: Any, count: int, total: int) -> Range:
        """The range of `total` that belongs to number `number` of `count`."""
        if count == 1:
            return 0, total
        e = self.e
        first, end = (e.builder.udiv(e.mul(n, total), e.i64(count)) for n in (number, e.add(number, 1)))
        return first, end

    # Loops over the depth and over chunks.

    def _matrix(self, part: _Part) -> None:
        e, p, plan = self.e, self.p, self.plan
        if not self.several:
            self._block(part)
        else:
            with e.loop(0, p.depth, plan.block) as k:
                self._block(replace(
                    part, left=self._at(part.left, (k, p.left.column)), first_k=k,
                    right=self._at(part.right, (k, p.right.row)),
                    depth=e.minimum(e.sub(p.depth, k), e.i64(plan.block))))
        if self.epilogue is not None and plan.kernel == "dot":
            # A dot tile is narrower than a vector; the whole part, which has few rows, is in cache still.
            self.epilogue(part.batch, self._rows(part.tiles), self._columns(part.panels))

    def _block(self, part: _Part) -> None:
        e, plan = self.e, self.plan
        if plan.chunk >= plan.tiles:
            self._chunk(part)
            return
        with self._loop(part.tiles, plan.chunk) as first:
            end = e.minimum(e.add(first, plan.chunk), e.value(part.tiles[1], e.i64))
            self._chunk(replace(part, tiles=(first, end)))

    def _chunk(self, part: _Part) -> None:
        plan, e = self.plan, self.e
        if plan.pack_left:
            self._pack_left(part)
        if not plan.pack_right:
            with self._loop(part.panels) as panel:
                self._tiles(part, panel, self._panel(part, panel), self.p.right.row)
            return
        room = plan.width * self._whole_block()
        with self._loop(part.panels, plan.together) as first:
            end = e.minimum(e.add(first, plan.together), e.value(part.panels[1], e.i64))
            self._pack_right(part, (first, end), room)
            with self._loop((first, end)) as panel:
                copy = self._at(self.right_copy, (e.sub(panel, first), room))
                self._tiles(part, panel, copy, plan.width)

    def _tiles(self, part: _Part, panel: Any, start: Any, step: int) -> None:
        with self._loop(part.tiles) as tile:
            self._tile(part, tile, panel, start, step)

    # Packing.

    def _pack_left(self, part: _Part) -> None:
        """Copy tiles of a matrix whose columns are contiguous: column by column, each through all tiles."""
        e, p = self.e, self.p
        kind = vector(self.element, self.lanes)
        with self._loop((0, part.depth)) as k, self._loop(part.tiles) as tile:
            row = e.mul(tile, self.plan.height)
            source = self._at(part.left, (k, p.left.column), (row, 1))
            out = self._at(self._left_tile(part, tile), (k, self.step))
            for start in range(0, self.step, self.lanes):
                # On into the next tile, as far as the matrix goes: that does no harm.
                mask = e.tail_mask(e.sub(p.rows - start, row), self.lanes)
                x = e.load_masked(self._at(source, (start, 1)), kind, mask)
                e.store(x, self._at(out, (start, 1)))

    def _left_tile(self, part: _Part, tile: Any) -> Any:
        """The packed copy of a tile."""
        number = self.e.sub(tile, self.e.value(part.tiles[0], self.e.i64))
        return self._at(self.left_copy, (number, self._whole_block() * self.step))

    def _panel(self, part: _Part, panel: Any) -> Any:
        """Where a panel starts in the matrix."""
        return self._at(part.right, (self.e.mul(panel, self.plan.width), self.p.right.column))

    def _pack_right(self, part: _Part, panels: Range, room: int) -> None:
        e, p, plan = self.e, self.p, self.plan
        first, end = self._columns(panels)
        if p.right.column == 1:
            pack = copy_panels(self.module, e.target, self.element, plan.width, p.columns % plan.width != 0)
            stride = p.right.row
        else:
            ragged = p.depth % self.lanes != 0 or plan.block % self.lanes != 0
            pack = transpose_panel(self.module, e.target, self.element, plan.width, ragged)
            stride = p.right.column
        source = [self._panel(part, panels[0]), e.i64(stride), e.sub(end, first)]
        e.call(pack, [*source, self.right_copy, e.i64(room), e.value(part.depth, e.i64)])

    # Tiles and panels in elements.

    def _rows(self, tiles: Range) -> Range:
        return self._elements(tiles, self.plan.height, self.p.rows)

    def _columns(self, panels: Range) -> Range:
        return self._elements(panels, self.plan.width, self.p.columns)

    def _elements(self, numbers: Range, length: int, total: int) -> Range:
        e = self.e
        first, end = (e.mul(e.value(n, e.i64), length) for n in numbers)
        return first, e.minimum(end, e.i64(total))

    # One tile.

    def _tile(self, part: _Part, tile: Any, panel: Any, panel_start: Any, panel_step: int) -> None:
        e, p, plan = self.e, self.p, self.plan
        rows, columns = self._rows((tile, e.add(tile, 1))), self._columns((panel, e.add(panel, 1)))
        if plan.pack_left:
            source, row_step, depth_step = self._left_tile(part, tile), 1, self.step
        else:
            source = self._at(part.left, (rows[0], p.left.row))
            row_step, depth_step = p.left.row, p.left.column
        out = self._at(part.out, (rows[0], p.columns), (columns[0], 1))
        count, depth = e.sub(rows[1], rows[0]), e.value(part.depth, e.i64)
        add = e.i64(0) if part.first_k is None else part.first_k  # not in the first block of the depth

        def run(width: int) -> None:
            shape = Tile(plan.height, width, self.several)
            left = [source, e.i64(row_step)]
            result = [out, e.i64(p.columns), count, depth]
            if plan.kernel == "dot":
                kernel = dot_kernel(self.module, e.target, self.element, shape, p.depth % self.lanes != 0)
                e.call(kernel, [*left, panel_start, e.i64(p.right.column), *result])
            else:
                kernel = outer_kernel(self.module, e.target, self.element, shape)
                e.call(kernel, [*left, e.i64(depth_step), panel_start, e.i64(panel_step), *result, add])

        self._by_width(panel, run)
        if self.epilogue is None or plan.kernel == "dot":
            return
        if part.first_k is None:
            self.epilogue(part.batch, rows, columns)
        else:
            with e.when(e.compare("==", e.add(part.first_k, depth), p.depth)):
                self.epilogue(part.batch, rows, columns)

    def _by_width(self, panel: Any, run: Callable[[int], None]) -> None:
        """`run(columns)` for the number of columns that a panel has: the last one may have fewer."""
        plan = self.plan
        rest = self.p.columns - (plan.panels - 1) * plan.width
        if rest == plan.width or plan.panels == 1:
            run(rest)
            return

        def chosen(width: int) -> Callable[[], list[Any]]:
            def emit() -> list[Any]:
                run(width)
                return []
            return emit

        self.e.branch(self.e.compare("<", panel, plan.panels - 1), chosen(plan.width), chosen(rest))

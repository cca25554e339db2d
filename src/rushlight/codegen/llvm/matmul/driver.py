"""The loops around the kernels of a product.

`emit_product` adds to a module the task `name.task(block, number)`, which computes one block of the result:

    for each matrix of the batch, each block of the depth, each chunk of the tiles (packed, if the plan says so), each panel
    (packed, if the plan says so), each tile of the chunk: the kernel, and after the last block of the depth the epilogue.

Packed copies lie on the stack of the thread that runs the task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.lazy import LazyModule
from ....loops.nest import Buffer, Call
from ....loops.product import Product, epilogue_of, product_of, result_of
from ....runtime.target import Target
from ..emitter import Emitter
from ..instructions import element_type
from ..nests import emit_tile
from ..types import vector
from .kernels import Tile, define, dot_kernel, outer_kernel
from .pack import packer
from .plan import Plan, packed_rows, plan_product

ir = LazyModule("llvmlite.ir")


def emit_product(module: Any, call: Call, target: Target, slots: dict[Buffer, int]) -> tuple[str, int]:
    """Add the code of a product to `module`; returns the name of its task and how many tasks there are."""
    product = product_of(call)
    plan = plan_product(product, target)
    name = f"{call.name}.task"
    task = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType(), ir.IntType(64)]), name)
    task.linkage = "internal"
    task.attributes.add("nounwind")
    e = Emitter(ir.IRBuilder(task.append_basic_block("entry")), target)
    _Driver(module, e, call, product, plan, task.args[0], slots).emit(task.args[1])
    e.builder.ret_void()
    return name, plan.tasks


class _Driver:
    """Emits the body of the task."""

    def __init__(self, module: Any, e: Emitter, call: Call, product: Product, plan: Plan, block: Any,
                 slots: dict[Buffer, int]) -> None:
        self.module = module
        self.e = e
        self.call = call
        self.p = product
        self.plan = plan
        self.element = element_type(e, product.dtype)
        self.lanes = e.target.lanes(product.dtype.itemsize)
        self.pointers = {buffer: e.load(e.address(block, slots[buffer], e.i64), e.pointer)
                         for buffer in dict.fromkeys([*call.inputs, *call.outputs, result_of(call)])}
        self.left_copy = self._room(plan.chunk * packed_rows(plan.height, self.lanes)) if plan.pack_left else None
        self.right_copy = self._room(plan.width) if plan.pack_right else None
        self.several = plan.blocks(product.depth) > 1
        self.epilogue = self._epilogue()

    def _room(self, width: int) -> Any:
        """Space for `width` elements for each k of a block, rounded up to whole vectors of k."""
        depth = -(-self.plan.block // self.lanes) * self.lanes
        slot = self.e.builder.alloca(ir.ArrayType(self.element, width * depth))
        slot.align = 64
        slot.type = self.e.pointer
        return slot

    def at(self, pointer: Any, *terms: tuple[Any, int]) -> Any:
        """The address of an element, `terms` being indices with their strides."""
        e = self.e
        for index, stride in terms:
            if stride and not (isinstance(index, int) and index == 0):
                pointer = e.address(pointer, index * stride if isinstance(index, int) else e.mul(index, stride),
                                    self.element)
        return pointer

    # The epilogue: a function of its own, so that the kernels of all tile shapes share it.

    def _epilogue(self) -> Callable[..., None] | None:
        """run(batch, rows, columns), each index or range in elements of the product."""
        e, nest = self.e, epilogue_of(self.call)
        if nest is None:
            return None
        buffers = list(dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes())))

        ragged = bool(self.p.columns % self.lanes or (self.plan.width % self.lanes and self.plan.column_tasks > 1))

        def body(inner: Emitter, *arguments: Any) -> None:
            batch, *bounds = arguments[len(buffers):]
            emit_tile(inner, nest, dict(zip(buffers, arguments, strict=False)), [
                (batch, inner.add(batch, 1)), (bounds[0], bounds[1]), (bounds[2], bounds[3])], ragged=ragged)

        function = define(self.module, nest.name, [e.pointer] * len(buffers) + [e.i64] * 5, e.target, body)

        def run(batch: Any, rows: tuple[Any, Any], columns: tuple[Any, Any]) -> None:
            numbers = [e.value(n, e.i64) for n in (batch, *rows, *columns)]
            e.call(function, [*[self.pointers[b] for b in buffers], *numbers])

        return run

    # Which block a task has.

    def emit(self, number: Any) -> None:
        e, plan, p = self.e, self.plan, self.p
        column = self._digit(number, 1, plan.column_tasks)
        row = self._digit(number, plan.column_tasks, plan.row_tasks)
        batch = self._digit(number, plan.column_tasks * plan.row_tasks, plan.batch_tasks)
        tiles = self._share(row, plan.row_tasks, plan.tiles)
        panels = self._share(column, plan.column_tasks, plan.panels)
        left = self.at(self.pointers[self.call.inputs[0]], (1, p.left.offset))
        right = self.at(self.pointers[self.call.inputs[1]], (1, p.right.offset))
        out = self.pointers[result_of(self.call)]
        with self._loop(self._share(batch, plan.batch_tasks, p.batch)) as b:
            self._matrix(self.at(left, (b, p.left.batch)), self.at(right, (b, p.right.batch)),
                         self.at(out, (b, p.rows * p.columns)), b, tiles, panels)
            if self.epilogue is not None and plan.kernel == "dot":
                # Its tiles are narrower than a vector; the whole block of a task, of few rows, is in cache still.
                self.epilogue(b, self._rows(tiles), self._columns(panels))

    def _digit(self, number: Any, step: int, count: int) -> Any:
        if count == 1:
            return 0
        quotient = self.e.builder.udiv(number, self.e.i64(step)) if step > 1 else number
        return self.e.builder.urem(quotient, self.e.i64(count))

    def _share(self, number: Any, count: int, total: int) -> tuple[Any, Any]:
        """The range of `total` that belongs to number `number` of `count`."""
        if count == 1:
            return 0, total
        e = self.e
        first = e.builder.udiv(e.mul(number, total), e.i64(count))
        last = e.builder.udiv(e.mul(e.add(number, 1), total), e.i64(count))
        return first, last

    def _loop(self, bounds: tuple[Any, Any], step: int = 1) -> Any:
        return self.e.loop(bounds[0], bounds[1], step)

    # One matrix of the batch.

    def _matrix(self, left: Any, right: Any, out: Any, batch: Any, tiles: tuple[Any, Any],
                panels: tuple[Any, Any]) -> None:
        plan, p, e = self.plan, self.p, self.e
        if not self.several:
            self._block(left, right, out, batch, tiles, panels, p.depth, None)
            return
        with e.loop(0, p.depth, plan.block) as k:
            depth = e.minimum(e.sub(p.depth, k), e.i64(plan.block))
            self._block(self.at(left, (k, p.left.column)), self.at(right, (k, p.right.row)), out, batch, tiles, panels,
                        depth, k)

    def _block(self, left: Any, right: Any, out: Any, batch: Any, tiles: tuple[Any, Any], panels: tuple[Any, Any],
               depth: Any, k: Any) -> None:
        e, plan = self.e, self.plan
        if not plan.pack_left or plan.chunk >= plan.tiles:
            self._chunk(left, right, out, batch, tiles, panels, depth, k)
            return
        with self._loop(tiles, plan.chunk) as first:
            last = e.minimum(e.add(first, plan.chunk), e.value(tiles[1], e.i64))
            self._chunk(left, right, out, batch, (first, last), panels, depth, k)

    def _chunk(self, left: Any, right: Any, out: Any, batch: Any, tiles: tuple[Any, Any], panels: tuple[Any, Any],
               depth: Any, k: Any) -> None:
        plan = self.plan
        if plan.pack_left:
            self._pack_left(left, tiles, depth)
        with self._loop(panels) as panel:
            column = self.e.mul(panel, plan.width)
            source, right_depth = self._panel(right, column, depth)
            with self._loop(tiles) as tile:
                self._tile(left, source, right_depth, out, batch, tile, tiles[0], panel, column, depth, k)

    # Packing.

    def _pack_left(self, left: Any, tiles: tuple[Any, Any], depth: Any) -> None:
        if self.p.left.column == 1:
            self._pack_left_across(left, tiles, depth)
        else:
            self._pack_left_along(left, tiles, depth)

    def _pack_left_across(self, left: Any, tiles: tuple[Any, Any], depth: Any) -> None:
        """Rows are contiguous: tile by tile, transposed."""
        e, p = self.e, self.p
        step = packed_rows(self.plan.height, self.lanes)
        pack = packer(self.module, e.target, self.element, True, True)
        with self._loop(tiles) as tile:
            row = self._first_row(tile)
            # Reading on into the next tile, as far as the matrix goes, does no harm.
            count = e.minimum(e.sub(p.rows, row), e.i64(step))
            e.call(pack, [self.at(left, (row, p.left.row)), e.i64(p.left.row), count, self._left_tile(tile, tiles[0]),
                          e.i64(step), e.value(depth, e.i64)])

    def _pack_left_along(self, left: Any, tiles: tuple[Any, Any], depth: Any) -> None:
        """Columns are contiguous: column by column, each through all tiles, as memory lies."""
        e, p = self.e, self.p
        step = packed_rows(self.plan.height, self.lanes)
        kind = vector(self.element, self.lanes)
        with self._loop((0, e.value(depth, e.i64))) as k, self._loop(tiles) as tile:
            row = self._first_row(tile)
            source = self.at(left, (k, p.left.column), (row, p.left.row))
            out = self.at(self._left_tile(tile, tiles[0]), (k, step))
            for start in range(0, step, self.lanes):
                mask = e.tail_mask(e.sub(p.rows - start, row), self.lanes)
                e.store(e.load_masked(self.at(source, (start, 1)), kind, mask), self.at(out, (start, 1)))

    def _left_tile(self, tile: Any, first: Any) -> Any:
        """The packed copy of a tile."""
        e = self.e
        number = e.sub(tile, e.value(first, e.i64))
        depth = -(-self.plan.block // self.lanes) * self.lanes
        return self.at(self.left_copy, (number, depth * packed_rows(self.plan.height, self.lanes)))

    def _panel(self, right: Any, column: Any, depth: Any) -> tuple[Any, int]:
        """Where a panel starts, and the distance of its rows."""
        e, p, plan = self.e, self.p, self.plan
        start = self.at(right, (column, p.right.column))
        if not plan.pack_right:
            return start, p.right.row if plan.kernel == "outer" else p.right.column
        across = p.right.column != 1
        ragged = p.columns % self.lanes != 0 or p.depth % self.lanes != 0 or plan.block % self.lanes != 0
        pack = packer(self.module, e.target, self.element, across, ragged)
        count = e.minimum(e.sub(p.columns, column), e.i64(plan.width))
        e.call(pack, [start, e.i64(p.right.column if across else p.right.row), count, self.right_copy, e.i64(plan.width),
                      e.value(depth, e.i64)])
        return self.right_copy, plan.width

    # Tiles and panels in elements.

    def _rows(self, tiles: tuple[Any, Any]) -> tuple[Any, Any]:
        e = self.e
        first, last = (self._first_row(e.value(t, e.i64)) for t in tiles)
        return first, e.minimum(last, e.i64(self.p.rows))

    def _columns(self, panels: tuple[Any, Any]) -> tuple[Any, Any]:
        e = self.e
        first, last = (e.mul(e.value(n, e.i64), self.plan.width) for n in panels)
        return first, e.minimum(last, e.i64(self.p.columns))

    def _first_row(self, tile: Any) -> Any:
        return self.e.mul(tile, self.plan.height)

    def _tile(self, left: Any, panel_start: Any, panel_step: int, out: Any, batch: Any, tile: Any, first: Any, panel: Any,
              column: Any, depth: Any, k: Any) -> None:
        e, p, plan = self.e, self.p, self.plan
        row = self._first_row(tile)
        target = self.at(out, (row, p.columns), (column, 1))
        if plan.pack_left:
            source = self._left_tile(tile, first)
            strides = 1, packed_rows(plan.height, self.lanes)
        else:
            source = self.at(left, (row, p.left.row))
            strides = p.left.row, p.left.column
        depth = e.value(depth, e.i64)
        rows = self._rows((tile, e.add(tile, 1)))
        count = e.sub(rows[1], rows[0])
        add = e.i64(0) if k is None else k

        def run(columns: int) -> None:
            shape = Tile(plan.height, columns, self.several)
            if plan.kernel == "dot":
                kernel = dot_kernel(self.module, e.target, self.element, shape, p.depth % self.lanes != 0)
                e.call(kernel, [source, e.i64(strides[0]), panel_start, e.i64(panel_step), target, e.i64(p.columns), count,
                                depth])
            else:
                kernel = outer_kernel(self.module, e.target, self.element, shape)
                e.call(kernel, [source, e.i64(strides[0]), e.i64(strides[1]), panel_start, e.i64(panel_step), target,
                                e.i64(p.columns), count, depth, add])

        self._by_columns(panel, run)
        if self.epilogue is not None and plan.kernel != "dot":
            columns = self._columns((panel, e.add(panel, 1)))
            if k is None:
                self.epilogue(batch, rows, columns)
            else:
                with e.when(e.compare("==", e.add(k, depth), p.depth)):
                    self.epilogue(batch, rows, columns)

    def _by_columns(self, panel: Any, run: Callable[[int], None]) -> None:
        """`run(columns)` for the columns that a panel has."""
        plan = self.plan
        rest = self.p.columns - (plan.panels - 1) * plan.width
        if rest == plan.width or plan.panels == 1:
            run(rest)
        else:
            self._either(self.e.compare("<", panel, plan.panels - 1), lambda: run(plan.width), lambda: run(rest))

    def _either(self, condition: Any, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        def without_value(emit: Callable[[], None]) -> Callable[[], list[Any]]:
            def run() -> list[Any]:
                emit()
                return []
            return run

        self.e.branch(condition, without_value(then), without_value(otherwise))

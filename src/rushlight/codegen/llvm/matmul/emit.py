"""The code of a product in a module: tasks that call the shared routines with the product's fields.

`emit_product` gives the phases of a product, in order: packing, where the plan asks for it, and the product
itself. Packed copies go to scratch memory, of which the caller says where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.lazy import LazyModule
from ....loops.nest import Buffer
from ....loops.product import Matrix, Windows
from ....plan.cost import MOST_OTHERS
from ....plan.nest import NestPlan
from ....plan.packing import PackPlan
from ....plan.product import ProductPlan, TileKernel
from ....plan.sharing import kernel_key
from ....runtime.target import Target
from ..constants import literal
from ..emitter import Emitter
from ..instructions import element_type
from ..launch import Task
from ..nests import emit_tile
from ..struct import Struct
from . import driver, pack  # noqa: F401  their routines are found by name
from .fields import EpilogueArgs, PackFields, ProductFields, TableFields
from .kernels import NOTHING
from .routines import declared

ir = LazyModule("llvmlite.ir")


@dataclass(frozen=True)
class Scratch:
    """Memory that belongs to one product while it runs: a slot of the block and an offset in bytes."""

    slot: int
    offset: int


def emit_product(
    module: Any, plan: ProductPlan, target: Target, slots: Mapping[Buffer, int], scratch: Scratch
) -> list[Task]:
    """Add the code of a product to `module`; gives the tasks of each phase."""
    return _ProductEmitter(module, plan, target, slots, scratch).phases()


class _ProductEmitter:
    def __init__(
        self, module: Any, plan: ProductPlan, target: Target, slots: Mapping[Buffer, int], scratch: Scratch
    ) -> None:
        self.module, self.plan, self.target, self.slots, self.scratch = module, plan, target, slots, scratch
        self.product, self.p = plan.product, plan.shape
        self.size = self.p.dtype.itemsize
        task = ir.Function(
            module, ir.FunctionType(ir.VoidType(), [ir.PointerType(), ir.IntType(64)]), f"{plan.name}.task"
        )
        self.e = Emitter(ir.IRBuilder(task.append_basic_block("entry")), target)
        self.task = task
        self.element = str(element_type(self.e, self.p.dtype))

    def phases(self) -> list[Task]:
        """The tasks that pack operands, then that of the product itself."""
        plan, tile = self.plan, self.plan.tile
        packs: list[Task] = []
        if plan.left is not None:
            packs.append(self._packing(plan.left, self.p.left, self.product.left))
        if plan.right is not None:
            packs.append(self._packing(plan.right, self.p.right, self.product.right))
        if self.p.windows is not None:
            packs.append(self._table(self.p.windows))
        if tile.kernel is TileKernel.DEPTH:
            kernel = self._routine("dot", tile.height, tile.width)
        else:
            vectors = tile.width // self.target.lanes(self.size)
            steps = "-".join(step.op + step.operand for step in plan.epilogue.finish) or NOTHING
            kernel = self._routine("tile", tile.height, vectors, len(plan.epilogue.prefetched), steps)
        helpers = [declared(self.module, self.target, kind) for kind in ("move", "clear")]
        self._task(self._fields(), "product", kernel, *helpers, self._epilogue())
        return [*packs, Task(self.task.name, plan.grid.tasks)]

    def _routine(self, kind: str, *details: Any) -> Any:
        return declared(self.module, self.target, kind, self.element, *details)

    def _task(self, fields: Struct, kind: str, *functions: Any) -> None:
        """The body of a task: a call of a routine with a constant array of fields."""
        e, function = self.e, self.e.builder.function
        table = fields.constant(e, f"{function.name}.fields")
        function.linkage = "internal"
        function.attributes.add("nounwind")
        run = declared(self.module, self.target, kind)
        e.call(run, [table, *function.args, *map(self._address, functions)])
        e.builder.ret_void()

    def _address(self, value: Any) -> Any:
        """A function as an opaque pointer."""
        e = self.e
        return e.zero(e.pointer) if value is None else literal(e.pointer, value.get_reference())

    # Fields.

    def _fields(self) -> ProductFields:
        p, plan, size = self.p, self.plan, self.size
        return ProductFields(
            batch=p.batch,
            rows=p.rows,
            columns=p.columns,
            depth=p.depth,
            height=plan.tile.height,
            tiles=plan.tiles,
            width=plan.tile.width,
            panels=plan.panels,
            block=plan.block,
            chunk=plan.chunk,
            batch_tasks=plan.grid.batch,
            row_tasks=plan.grid.rows,
            column_tasks=plan.grid.columns,
            lead=plan.lead,
            lead_step=plan.lead_step,
            out=self.slots[self.product.result],
            out_batch=p.rows * p.columns * size,
            out_row=p.columns * size,
            size=size,
            triangle=0 if p.triangle is None else p.triangle.side,
            diagonal=0 if p.triangle is None else p.triangle.diagonal,
            reach=plan.reach,
            **self._left_fields(),
            **self._right_fields(),
            **self._epilogue_fields(),
        )

    def _left_fields(self) -> dict[str, int]:
        """Where the left operand is, in its own memory or packed, and its tables."""
        p, plan, size = self.p, self.plan, self.size
        tables = {"offsets": 0, "offsets_offset": 0, "segments_offset": 0, "segment_depth": p.depth}
        if plan.left is not None:
            return {
                "left": self.scratch.slot,
                "left_offset": self.scratch.offset,
                "left_batch": plan.left.slabs * plan.left.room if p.left.batch else 0,
                "left_tile": plan.left.room,
                "left_row": size,
                "left_depth": plan.tile.height * size,
                **tables,
            }
        if p.windows is not None:
            rows, segments = self._tables()
            tables = {
                "offsets": self.scratch.slot,
                "offsets_offset": rows,
                "segments_offset": segments,
                "segment_depth": p.depth // p.windows.segments,
            }
        return {
            "left": self.slots[self.product.left],
            "left_offset": p.left.offset * size,
            "left_batch": p.left.batch * size,
            "left_tile": plan.tile.height * p.left.row * size if p.windows is None else 0,
            "left_row": p.left.row * size,
            "left_depth": p.left.column * size,
            **tables,
        }

    def _right_fields(self) -> dict[str, int]:
        """Where the right operand is, and the packed copy of some of its panels."""
        p, plan, size = self.p, self.plan, self.size
        copy = plan.table_offset if plan.right is None else plan.right.offset
        return {
            "right": self.slots[self.product.right],
            "right_offset": p.right.offset * size,
            "right_batch": p.right.batch * size,
            "right_panel": plan.tile.width * p.right.column * size,
            "right_depth": p.right.row * size,
            "right_column": p.right.column * size,
            "direct": plan.direct,
            "copy": self.scratch.slot,
            "copy_offset": self.scratch.offset + copy,
            "copy_batch": plan.right.slabs * plan.right.room if plan.right and p.right.batch else 0,
            "copy_panel": plan.right_room,
            "copy_depth": plan.tile.width * size,
        }

    def _epilogue_fields(self) -> dict[str, int]:
        epilogue = self.plan.epilogue
        others = [self.slots[buffer] for buffer in epilogue.prefetched]
        others += [0] * (MOST_OTHERS - len(others))
        rows = [step.buffer for step in epilogue.finish if step.operand == "row"]
        return {
            "epilogue": epilogue.mode,
            **{f"other{k}": slot for k, slot in enumerate(others)},
            "row": self.slots[rows[0]] if rows else 0,
        }

    # Packing.

    def _tables(self) -> tuple[int, int]:
        """Where in scratch memory the tables of rows and of runs of columns are."""
        rows = self.scratch.offset + self.plan.table_offset
        return rows, rows + 8 * self.plan.tiles * self.plan.tile.height

    def _table(self, windows: Windows) -> Task:
        """Add a task that writes the tables."""
        rows, segments = self._tables()
        dimensions: dict[str, int] = {}
        for kind, dims in (("row", windows.positions), ("tap", windows.taps)):
            for d, (extent, stride) in enumerate([(1, 0)] * (4 - len(dims)) + list(dims)):
                dimensions |= {f"{kind}{d}_extent": extent, f"{kind}{d}_stride": stride * self.size}
        fields = TableFields(
            out=self.scratch.slot,
            row_offset=rows,
            rows=self.p.rows,
            padded=self.plan.tiles * self.plan.tile.height,
            tap_offset=segments,
            **dimensions,
        )
        return Task(self._small_task("table", fields, "table"), 1)

    def _packing(self, plan: PackPlan, matrix: Matrix, source: Buffer) -> Task:
        """Add a task that packs units of an operand."""
        size = self.size
        unit, depth_step = (matrix.row, matrix.column) if plan.side == "left" else (matrix.column, matrix.row)
        fields = PackFields(
            source=self.slots[source],
            offset=(matrix.offset + plan.first * unit) * size,
            batch_step=matrix.batch * size,
            unit=unit * size,
            depth_step=depth_step * size,
            units=plan.units,
            depth=self.p.depth,
            out=self.scratch.slot,
            out_offset=self.scratch.offset + plan.offset,
            out_batch=plan.slabs * plan.room,
            width=plan.width,
            room=plan.room,
            groups=plan.groups,
            group_units=plan.group_units,
            parts=plan.parts,
            part_depth=plan.part_depth,
            size=size,
        )
        if plan.contiguous:
            move = self._routine("copy", plan.vectors, plan.lanes)
        else:
            move = self._routine("transpose")
        return Task(self._small_task(plan.side, fields, "packing", move), plan.tasks)

    def _small_task(self, name: str, fields: Struct, kind: str, *functions: Any) -> str:
        """A task beside that of the product; gives its name."""
        outer = self.e
        task = ir.Function(self.module, self.task.function_type, f"{self.plan.name}.{name}")
        self.e = Emitter(ir.IRBuilder(task.append_basic_block("entry")), self.target)
        self._task(fields, kind, *functions)
        self.e = outer
        return str(task.name)

    # The epilogue.

    def _epilogue(self) -> Any:
        """A function of the block, the number of the matrix, and the ranges of rows and columns."""
        plan = self.plan.epilogue.nest
        if plan is None:
            return None
        nest = plan.nest
        buffers = list(dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes())))
        inner = self._tile_function(plan, buffers)
        function = ir.Function(self.module, EpilogueArgs.function_type(), f"{nest.name}.block")
        function.linkage = "internal"
        e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), self.target)
        block, *numbers = function.args
        pointers = [e.load(e.address(block, self.slots[b], e.i64), e.pointer) for b in buffers]
        e.call(inner, [*pointers, *numbers])
        e.builder.ret_void()
        return function

    def _tile_function(self, plan: NestPlan, buffers: Sequence[Buffer]) -> Any:
        """The nest as a function of noalias pointers and ranges; products with equal ones share it."""
        shared: dict[Any, Any] = self.module.__dict__.setdefault("tile_functions", {})
        streamed = tuple(buffers.index(b) for b in self.plan.epilogue.streamed)
        key = (kernel_key(plan), plan.outer, streamed)
        if key not in shared:
            shared[key] = self._new_tile_function(plan, buffers)
        return shared[key]

    def _new_tile_function(self, plan: NestPlan, buffers: Sequence[Buffer]) -> Any:
        pointer, i64 = ir.PointerType(), ir.IntType(64)
        function = ir.Function(
            self.module, ir.FunctionType(ir.VoidType(), [pointer] * len(buffers) + [i64] * 5), plan.name
        )
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        for argument in function.args[: len(buffers)]:
            argument.add_attribute("noalias")
        e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), self.target)
        batch, row, rows_end, column, columns_end = function.args[len(buffers) :]
        emit_tile(
            e,
            plan,
            dict(zip(buffers, function.args, strict=False)),
            [(batch, e.add(batch, 1)), (row, rows_end), (column, columns_end)],
            self.plan.epilogue.streamed,
        )
        e.builder.ret_void()
        return function

"""The code of a product in a module: tasks that call the shared routines with the product's fields.

`emit_product` gives the phases of a product, in order: packing, where the plan asks for it, and the product
itself. Packed copies go to scratch memory, of which the caller says where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....core.lazy import LazyModule
from ....loops.index import as_index
from ....loops.kernels import Product
from ....loops.nest import Buffer, Nest, Store
from ....loops.plans import LoopPlan
from ....loops.product import Matrix, ProductShape
from ....runtime.target import Target
from ..constants import literal
from ..emitter import Emitter
from ..instructions import element_type
from ..nests import emit_tile, kernel_key
from . import driver, pack
from .kernels import MOST_OTHERS, NOTHING
from .plan import Plan, plan_product
from .routines import declared

ir = LazyModule("llvmlite.ir")

FAR = 32  # steps of a kernel, which take as long as it takes to fetch a line
EPILOGUE_BYTES = 128  # that an epilogue computes side by side; with more its numbers do not stay in registers


@dataclass(frozen=True)
class Scratch:
    """Memory that belongs to one product while it runs: a slot of the block and an offset in bytes."""

    slot: int
    offset: int


def place_scratch(
    stages: Sequence[Sequence[Product]], tops: Sequence[int], target: Target
) -> tuple[dict[str, int], int]:
    """An offset for the scratch memory of each product, by its name, and where the last of it ends.

    `stages` are products that may run at the same time, `tops` where the memory begins that nobody uses then;
    those of different stages share memory.
    """
    offsets: dict[str, int] = {}
    size = 0
    for calls, top in zip(stages, tops, strict=True):
        end = -(-top // 64) * 64
        for call in calls:
            needed = scratch_bytes(call, target)
            offsets[call.name] = end
            end += needed
            size = max(size, end) if needed else size
    return offsets, size


def scratch_bytes(product: Product, target: Target) -> int:
    """How much scratch memory a product needs."""
    p, plan = product.shape, plan_product(product.shape, target)
    packed = _copies(p.left, p) * plan.room_left * plan.tiles * plan.pack_left
    packed += _copies(p.right, p) * plan.room_right * plan.packed_panels
    return -(-(packed + plan.table_bytes(p)) // 64) * 64


def _copies(matrix: Matrix, p: ProductShape) -> int:
    """How many different matrices an operand has."""
    return p.batch if matrix.batch else 1


def emit_product(
    module: Any,
    product: Product,
    target: Target,
    slots: dict[Buffer, int],
    scratch: Scratch,
    reach: int | None,
    shares: int,
) -> list[tuple[str, int]]:
    """Add the code of a product to `module`; gives the name and number of the tasks of each phase.

    `reach`: how far beyond the triangle of its result readers look, if not everywhere. `shares`: if not 0,
    each of so many matrices is multiplied by a task of its own, and packed by as many as any other, in order.
    """
    return _Product(module, product, target, slots, scratch, reach, shares).phases()


class _Product:
    def __init__(
        self,
        module: Any,
        product: Product,
        target: Target,
        slots: dict[Buffer, int],
        scratch: Scratch,
        reach: int | None,
        shares: int,
    ) -> None:
        self.module, self.target, self.slots, self.scratch = module, target, slots, scratch
        self.product, self.p = product, product.shape
        self.reach = self.p.columns if reach is None else reach
        self.plan: Plan = plan_product(self.p, target)
        if shares:
            self.plan = replace(self.plan, batch_tasks=shares, row_tasks=1, column_tasks=1)
        self.size = self.p.dtype.itemsize
        self.streamed = self._streamed()
        self.finish = self._finish()
        self.others = self._others()
        task = ir.Function(
            module, ir.FunctionType(ir.VoidType(), [ir.PointerType(), ir.IntType(64)]), f"{product.name}.task"
        )
        self.e = Emitter(ir.IRBuilder(task.append_basic_block("entry")), target)
        self.task = task
        self.element = str(element_type(self.e, self.p.dtype))

    def phases(self) -> list[tuple[str, int]]:
        p, plan = self.p, self.plan
        packs: list[tuple[str, int]] = []
        left_copy = _copies(p.left, p) * plan.tiles * plan.room_left if plan.pack_left else 0
        if plan.pack_left:
            packs.append(
                self._packing(
                    "left",
                    p.left.row,
                    p.left.column,
                    p.left,
                    (0, p.rows),
                    plan.height,
                    plan.room_left,
                    self.scratch.offset,
                    self.product.left,
                )
            )
        if plan.packed_panels:
            packs.append(
                self._packing(
                    "right",
                    p.right.column,
                    p.right.row,
                    p.right,
                    (plan.direct * plan.width, p.columns),
                    plan.width,
                    plan.room_right,
                    self.scratch.offset + left_copy,
                    self.product.right,
                )
            )
        if p.windows is not None:
            packs.append(self._table())
        if plan.kernel == "dot":
            kernel = self._routine("dot", plan.height, plan.width)
        else:
            vectors = plan.width // self.target.lanes(self.size)
            steps = "-".join(op + kind for op, kind, _ in self.finish) or NOTHING
            kernel = self._routine("tile", plan.height, vectors, len(self.others), steps)
        self._task(
            driver.FIELDS,
            self._fields(left_copy),
            "product",
            kernel,
            *(declared(self.module, self.target, kind) for kind in ("move", "clear")),
            self._epilogue(),
        )
        return [*packs, (self.task.name, plan.tasks)]

    def _routine(self, kind: str, *details: Any) -> Any:
        return declared(self.module, self.target, kind, self.element, *details)

    def _task(self, names: Sequence[str], fields: dict[str, int], kind: str, *functions: Any) -> None:
        """The body of a task: a call of a routine with a constant array of fields."""
        e, function = self.e, self.e.builder.function
        kind_of_fields = ir.ArrayType(e.i64, len(names))
        table = ir.GlobalVariable(self.module, kind_of_fields, f"{function.name}.fields")
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(kind_of_fields, [fields[name] for name in names])
        function.linkage = "internal"
        function.attributes.add("nounwind")
        run = declared(self.module, self.target, kind)
        e.call(run, [self._address(table), *function.args, *map(self._address, functions)])
        e.builder.ret_void()

    def _address(self, value: Any) -> Any:
        """A global as an opaque pointer."""
        e = self.e
        return e.zero(e.pointer) if value is None else literal(e.pointer, value.get_reference())

    # Fields.

    def _fields(self, left_copy: int) -> dict[str, int]:
        p, plan, size = self.p, self.plan, self.size
        left_slot, right_slot = (self.slots[b] for b in (self.product.left, self.product.right))
        fields = {
            "batch": p.batch,
            "rows": p.rows,
            "columns": p.columns,
            "depth": p.depth,
            "height": plan.height,
            "tiles": plan.tiles,
            "width": plan.width,
            "panels": plan.panels,
            "block": plan.block,
            "chunk": plan.chunk,
            "batch_tasks": plan.batch_tasks,
            "row_tasks": plan.row_tasks,
            "column_tasks": plan.column_tasks,
            "left": left_slot,
            "left_offset": p.left.offset * size,
            "left_batch": p.left.batch * size,
            "left_tile": plan.height * p.left.row * size,
            "left_row": p.left.row * size,
            "left_depth": p.left.column * size,
            "right": right_slot,
            "right_offset": p.right.offset * size,
            "right_batch": p.right.batch * size,
            "right_panel": plan.width * p.right.column * size,
            "right_depth": p.right.row * size,
            "right_column": p.right.column * size,
            "direct": plan.direct,
            "copy": self.scratch.slot,
            "copy_offset": self.scratch.offset + left_copy,
            "copy_batch": plan.packed_panels * plan.room_right if p.right.batch else 0,
            "copy_panel": plan.room_right,
            "copy_depth": plan.width * size,
            "offsets": 0,
            "offsets_offset": 0,
            "segments_offset": 0,
            "segment_depth": p.depth,
            "out": self.slots[self.product.result],
            "out_batch": p.rows * p.columns * size,
            "out_row": p.columns * size,
            "size": size,
            "epilogue": self._when(),
            "triangle": 0 if p.triangle is None else p.triangle.side,
            "diagonal": 0 if p.triangle is None else p.triangle.diagonal,
            "reach": self.reach,
            **{
                f"other{k}": slot
                for k, slot in enumerate(self.others + [0] * (MOST_OTHERS - len(self.others)))
            },
            "row": next((self.slots[buffer] for _, kind, buffer in self.finish if kind == "row"), 0),
        }
        if plan.pack_left:
            fields |= {
                "left": self.scratch.slot,
                "left_offset": self.scratch.offset,
                "left_batch": plan.tiles * plan.room_left if p.left.batch else 0,
                "left_tile": plan.room_left,
                "left_row": size,
                "left_depth": plan.height * size,
            }
        if p.windows is not None:
            rows, segments = self._tables()
            fields |= {
                "offsets": self.scratch.slot,
                "offsets_offset": rows,
                "segments_offset": segments,
                "segment_depth": p.depth // p.windows.segments,
                "left_tile": 0,
            }
        # Of what lies tile after tile, be it rows or slabs, the next tile is fetched, which has as many
        # elements; else what follows in the depth, where machines do not see it coming.
        across = p.left.column != 1 and not plan.pack_left
        step = fields["left_depth"]
        return fields | (
            {"lead": FAR * step, "lead_step": step}
            if across
            else {"lead": fields["left_tile"], "lead_step": plan.height * size}
        )

    def _finish(self) -> list[tuple[str, str, Buffer]]:
        """The epilogue as steps that kernels do in registers: an instruction, and the row or matrix that it
        takes besides the sums. Empty if there are others, for which they are in the way."""
        nest, result = self.product.epilogue, self.product.result
        if nest is None or self.plan.kernel != "tile" or self.p.triangle is not None:
            return []
        statements = nest.phases[0].statements
        store = statements[0]
        if len(statements) > 1 or not isinstance(store, Store) or store.access.buffer is not result:
            return []
        kinds = {store.access.index: "matrix", as_index(nest.outer[-1]): "row"}
        found: list[tuple[str, str, Buffer]] = []
        value = store.value
        while not (value.op == "load" and value.data == store.access):
            sides = [side for side in value.args if side.op == "load" and side.data != store.access]
            if value.op not in ("add", "mul") or not sides or value.dtype is not self.p.dtype:
                return []
            access = sides[0].data
            if (
                access.indirect
                or access.buffer is result
                or access.buffer.dtype is not self.p.dtype
                or (access.index not in kinds)
            ):
                return []
            found.insert(0, (value.op, kinds[access.index], access.buffer))
            value = value.args[1 - value.args.index(sides[0])]
        counts = Counter(kind for _, kind, _ in found)
        return found if counts["row"] <= 1 and counts["matrix"] <= MOST_OTHERS else []

    def _others(self) -> list[int]:
        """Slots of what the epilogue reads and writes at the elements of the product."""
        if self.finish:
            return [self.slots[buffer] for _, kind, buffer in self.finish if kind == "matrix"]
        nest, result = self.product.epilogue, self.product.result
        accesses = [] if nest is None else [*nest.reads(), *nest.writes()]
        here = {a.index for a in accesses if a.buffer is result}
        found = dict.fromkeys(
            a.buffer
            for a in accesses
            if a.buffer is not result
            and a.index in here
            and a.buffer.dtype.itemsize == self.size
            and a.buffer not in self.streamed
        )
        return [self.slots[buffer] for buffer in found][:MOST_OTHERS]

    def _streamed(self) -> list[Buffer]:
        """What the epilogue stores past the caches: where its vectors are whole, and begin where registers of
        memory do."""
        nest = self.product.epilogue
        if nest is None or self._ragged():
            return []
        here = {a.index for a in (*nest.reads(), *nest.writes()) if a.buffer is self.product.result}
        return [
            a.buffer
            for a in nest.writes()
            if a.buffer in self.product.nontemporal and a.index in here and a.buffer.dtype is self.p.dtype
        ]

    def _ragged(self) -> bool:
        """Whether a range of columns may begin or end inside of a vector."""
        lanes = self.target.lanes(self.size)
        return self.p.columns % lanes != 0 or (self.plan.width % lanes != 0 and self.plan.column_tasks > 1)

    def _tables(self) -> tuple[int, int]:
        """Where in scratch memory the tables of rows and of runs of columns are."""
        plan = self.plan
        rows = self.scratch.offset + _copies(self.p.right, self.p) * plan.packed_panels * plan.room_right
        return rows, rows + 8 * plan.tiles * plan.height

    def _table(self) -> tuple[str, int]:
        """Add a task that writes the tables."""
        p, plan, windows = self.p, self.plan, self.p.windows
        assert windows is not None
        rows, segments = self._tables()
        fields = {
            "out": self.scratch.slot,
            "rows_offset": rows,
            "rows": p.rows,
            "padded": plan.tiles * plan.height,
            "taps_offset": segments,
        }
        for kind, dims in (("row", windows.positions), ("tap", windows.taps)):
            for d, (extent, stride) in enumerate([(1, 0)] * (4 - len(dims)) + list(dims)):
                fields |= {f"{kind}{d}_extent": extent, f"{kind}{d}_stride": stride * self.size}
        return self._small_task("table", driver.TABLE_FIELDS, fields, "table"), 1

    def _when(self) -> int:
        if self.product.epilogue is None:
            return driver.NONE
        if self.finish:
            return driver.BY_KERNELS
        # A dot tile is narrower than a vector; what a task computes has few rows and is in cache still.
        return driver.LATE if self.plan.kernel == "dot" else driver.EARLY

    def _packing(
        self,
        name: str,
        unit: int,
        depth_step: int,
        matrix: Matrix,
        units: tuple[int, int],
        width: int,
        room: int,
        offset: int,
        source: Buffer,
    ) -> tuple[str, int]:
        """Add a task that packs units of an operand, from the first to the last of `units`."""
        p, size = self.p, self.size
        count = units[1] - units[0]
        copies = unit == 1
        lanes = self.target.lanes(size)
        groups, group, parts, part = pack.shares(count, p.depth, width, size, copies=copies)
        slabs = -(-count // width)
        fields = dict(
            zip(
                pack.PACK_FIELDS,
                (
                    self.slots[source],
                    (matrix.offset + units[0] * unit) * size,
                    matrix.batch * size,
                    unit * size,
                    depth_step * size,
                    count,
                    p.depth,
                    self.scratch.slot,
                    offset,
                    slabs * room,
                    width,
                    room,
                    groups,
                    group,
                    parts,
                    part,
                    size,
                ),
                strict=True,
            )
        )
        task = self._small_task(
            name,
            pack.PACK_FIELDS,
            fields,
            "packing",
            self._routine("copy", *pack.copied_vectors(width, lanes))
            if copies
            else self._routine("transpose"),
        )
        return task, groups * parts * _copies(matrix, p)

    def _small_task(
        self, name: str, names: Sequence[str], fields: dict[str, int], kind: str, *functions: Any
    ) -> str:
        """A task beside that of the product; gives its name."""
        outer = self.e
        task = ir.Function(self.module, self.task.function_type, f"{self.product.name}.{name}")
        self.e = Emitter(ir.IRBuilder(task.append_basic_block("entry")), self.target)
        self._task(names, fields, kind, *functions)
        self.e = outer
        return str(task.name)

    # The epilogue.

    def _epilogue(self) -> Any:
        """A function of the block, the number of the matrix, and the ranges of rows and columns."""
        nest = self.product.epilogue
        if nest is None:
            return None
        buffers = list(dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes())))
        inner = self._tile_function(nest, buffers)
        function = ir.Function(
            self.module,
            ir.FunctionType(ir.VoidType(), [ir.PointerType(), *[ir.IntType(64)] * 5]),
            f"{nest.name}.block",
        )
        function.linkage = "internal"
        e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), self.target)
        block, *numbers = function.args
        pointers = [e.load(e.address(block, self.slots[b], e.i64), e.pointer) for b in buffers]
        e.call(inner, [*pointers, *numbers])
        e.builder.ret_void()
        return function

    def _tile_function(self, nest: Nest, buffers: Sequence[Buffer]) -> Any:
        """The nest as a function of noalias pointers and ranges; products with equal ones share it."""
        ragged = self._ragged()
        shared: dict[Any, Any] = self.module.__dict__.setdefault("tile_functions", {})
        wide = self._divides(2), self._divides(4)
        streamed = tuple(buffers.index(b) for b in self.streamed)
        key = (kernel_key(LoopPlan(nest, True, 1, 0), self.target), ragged, wide, streamed)
        if key not in shared:
            shared[key] = self._new_tile_function(nest, buffers, ragged)
        return shared[key]

    def _divides(self, registers: int) -> bool:
        """Whether every range of columns is a whole number of so many registers."""
        width, plan = registers * self.target.lanes(self.size), self.plan
        share, rest = divmod(plan.panels, plan.column_tasks)
        panels = 1 if self.finish else driver.EPILOGUE_PANELS
        steps = (share * plan.width, panels * plan.width)  # between where ranges begin
        return self.p.columns % width == 0 and (
            plan.width % width == 0 or (rest == 0 and all(step % width == 0 for step in steps))
        )

    def _new_tile_function(self, nest: Nest, buffers: Sequence[Buffer], ragged: bool) -> Any:
        pointer, i64 = ir.PointerType(), ir.IntType(64)
        function = ir.Function(
            self.module, ir.FunctionType(ir.VoidType(), [pointer] * len(buffers) + [i64] * 5), nest.name
        )
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        for argument in function.args[: len(buffers)]:
            argument.add_attribute("noalias")
        e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), self.target)
        batch, row, rows_end, column, columns_end = function.args[len(buffers) :]
        registers = 1
        while (
            not ragged
            and 2 * registers * self.target.vector_bytes <= EPILOGUE_BYTES
            and self._divides(2 * registers)
        ):
            registers *= 2
        emit_tile(
            e,
            nest,
            dict(zip(buffers, function.args, strict=False)),
            [(batch, e.add(batch, 1)), (row, rows_end), (column, columns_end)],
            ragged=ragged,
            registers=registers,
            streamed=self.streamed,
        )
        e.builder.ret_void()
        return function

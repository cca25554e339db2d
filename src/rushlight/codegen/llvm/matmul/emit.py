"""The code of a product in a module: tasks that call the shared routines with the product's fields, which are in
the records of the tasks.

`emit_product` gives the phases of a product, in order: packing, where the plan asks for it, and the product
itself. Packed copies go to scratch memory, of which the caller says where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....core.lazy import LazyModule
from ....loops.nest import SIZES, Buffer
from ....plan.nest import NestPlan
from ....plan.packing import PackPlan
from ....plan.product import ProductPlan, TileKernel
from ....plan.sharing import kernel_key
from ..emitter import Emitter
from ..launch import Kernels, Task
from ..nests import emit_tile
from ..records import Number, Position, Reader
from ..routines import declared
from ..struct import Struct
from .fields import EpilogueArgs, ProductFields
from .kernels import NOTHING
from .tables import (
    PARTS,
    ProductSlots,
    count_of_numbers,
    pack_fields,
    pack_template,
    product_fields,
    table_fields,
    template_of,
)

ir = LazyModule("llvmlite.ir")


@dataclass(frozen=True)
class Scratch:
    """Memory that belongs to one product while it runs: a slot of the block and an offset in bytes."""

    slot: int
    offset: int


def emit_product(kernels: Kernels, plan: ProductPlan, scratch: Scratch) -> list[Task]:
    """Add the code of a product to the module of `kernels`; gives the tasks of each phase."""
    return _ProductEmitter(kernels, plan, scratch).phases()


class _ProductEmitter:
    def __init__(self, kernels: Kernels, plan: ProductPlan, scratch: Scratch) -> None:
        self.kernels, self.module, self.plan, self.slots = kernels, kernels.module, plan, kernels.slots
        self.target = kernels.program.target
        self.product, self.p = plan.product, plan.shape
        self.size = self.p.dtype.itemsize
        self.places = self._slots(scratch)
        # where the numbers of a product whose sizes change are in the table of sizes
        self.start = 0
        if plan.sized:
            self.start = kernels.table.product(
                template_of(plan, self.places), count_of_numbers(self.p.windows)
            )
        self.element = {4: "float", 8: "double"}[self.size]

    def _slots(self, scratch: Scratch) -> ProductSlots:
        """Where in the block of addresses everything is that the product touches."""
        epilogue, slots = self.plan.epilogue, self.slots
        rows = [step.buffer for step in epilogue.finish if step.operand == "row"]
        return ProductSlots(
            slots[self.product.result],
            slots[self.product.left],
            slots[self.product.right],
            scratch.slot,
            scratch.offset,
            tuple(slots[buffer] for buffer in epilogue.prefetched),
            slots[rows[0]] if rows else 0,
            0 if self.product.groups is None else slots[self.product.groups],
        )

    def phases(self) -> list[Task]:
        """The tasks that pack operands, then that of the product itself."""
        plan, tile = self.plan, self.plan.tile
        packs: list[Task] = []
        if plan.left is not None:
            packs.append(self._packing(plan.left))
        if plan.sized and tile.kernel is TileKernel.COLUMNS:
            packs.append(self._packing(pack_template(plan, self.target)))
        elif plan.right is not None:
            packs.append(self._packing(plan.right))
        if self.p.windows is not None:
            table = self._sized_part("table") if plan.sized else table_fields(plan, self.places)
            packs.append(self._task("table", table, 1))
        if tile.kernel is TileKernel.DEPTH:
            kernel = self._routine("dot", tile.height, tile.width)
        else:
            vectors = tile.width // self.target.lanes(self.size)
            steps = "-".join(step.op + step.operand for step in plan.epilogue.finish) or NOTHING
            kernel = self._routine("tile", tile.height, vectors, len(plan.epilogue.prefetched), steps)
        helpers = [declared(self.module, self.target, kind) for kind in ("move", "clear")]
        fields = self._sized_part("product") if plan.sized else product_fields(plan, self.places)
        if plan.name not in self.kernels.epilogues:  # a plan may serve many layers
            self.kernels.epilogues[plan.name] = self._epilogue()
        epilogue, buffers = self.kernels.epilogues[plan.name]
        count = self._count("product", plan.grid.tasks)
        return [*packs, self._task("product", fields, count, [kernel, *helpers, epilogue], buffers)]

    def _routine(self, kind: str, *details: Any) -> Any:
        return declared(self.module, self.target, kind, self.element, *details)

    def _task(
        self,
        kind: str,
        fields: Struct | int,
        count: Number,
        functions: Sequence[Any] = (),
        others: Sequence[Buffer] | None = None,
        name: str = "",
    ) -> Task:
        """A task: a call of a routine. Its record has the functions that the routine is given, the fields and the
        slots of other buffers, if it takes any. Fields given as a position are in the table of sizes there."""
        slots = [] if others is None else [self.slots[b] for b in others]
        sized, before = not isinstance(fields, Struct), len(functions)

        def emit(e: Emitter, number: Any, record: Reader) -> None:
            given = [record.pointer(n) for n in range(before)]
            own = record.sizes_from(before) if sized else record.at(before).address
            if others is not None:
                given.append(record.at(before + (1 if sized else len(ProductFields.FIELDS))).address)
            e.call(declared(self.module, self.target, kind), [own, record.block, number, *given])

        records = self.kernels.records
        addresses = (0 if f is None else records.function(f.name) for f in functions)
        values = fields.values() if isinstance(fields, Struct) else [fields]
        record = records.record([*addresses, *map(int, values), *slots])
        shared = records.shared(f"run.{kind}{'.sized' * sized}", emit)
        used = self.kernels.uses.setdefault(self.plan.name, {})
        used.update((f.name, None) for f in functions if f is not None)
        used[shared] = None
        return Task(shared, count, record, f"{self.plan.name}{'.' * bool(name)}{name}")

    # Sizes that change.

    def _sized_part(self, part: str) -> int:
        """Where in the table of sizes the fields of a task are."""
        return self.start + PARTS[part].fields

    def _count(self, part: str, count: int) -> Number:
        """How many tasks there are."""
        return Position(self.start + PARTS[part].tasks) if self.plan.sized else count

    # Packing.

    def _packing(self, pack: PackPlan) -> Task:
        """Add a task that packs units of an operand."""
        fields: Struct | int = self._sized_part(pack.side)
        if not self.plan.sized:
            fields = pack_fields(self.plan, pack, self.places)
        if pack.contiguous:
            move = self._routine("copy", pack.vectors, pack.lanes)
        else:
            move = self._routine("transpose")
        count = self._count(pack.side, pack.tasks)
        return self._task("packing", fields, count, [move], name=pack.side)

    # The epilogue.

    def _epilogue(self) -> tuple[Any, list[Buffer]]:
        """A function of slots, the block, the number of the matrix, and the ranges of rows and columns; and the
        buffers of the slots."""
        plan = self.plan.epilogue.nest
        if plan is None:
            return None, []
        nest = plan.nest
        buffers = list(dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes())))
        if SIZES in self.slots:
            buffers.append(SIZES)
        inner = self._tile_function(plan, buffers)
        name = f"{inner.name}.block"
        function = self.module.globals.get(name)
        if function is None:
            function = ir.Function(self.module, EpilogueArgs.function_type(), name)
            function.linkage = "internal"
            e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), self.target)
            slots, block, *numbers = function.args
            reader = Reader(e, block, slots, sized=self.kernels.records.sized)
            e.call(inner, [*(reader.buffer(n) for n in range(len(buffers))), *numbers])
            e.builder.ret_void()
        return function, buffers

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

"""A loop nest as an LLVM function.

`emit_nest` adds to a module the function `name(buffers..., begin, end, extent)`, which runs the nest for a
range of its outermost loop. Where that is its only outer loop, the code does not depend on its extent but for
the width of the vectors, so that kernels that differ in nothing else can share it. How the loops run is in the
`NestPlan`. Buffers come as `noalias` pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...core.index import Index, Var
from ...core.lazy import LazyModule
from ...loops.expr import Expr, walk
from ...loops.instructions import CHECKS
from ...loops.nest import ERRORS, SIZES, Buffer, MemoryKind, Nest, Phase, Reduce, Store
from ...plan.interleave import steps_of
from ...plan.nest import NestPlan
from ...plan.sharing import Instructions
from ...runtime import redzones
from ...runtime.target import Target
from .emitter import Emitter
from .phases import PhaseEmitter, all_accesses
from .values import Reports, ValueEmitter

__all__ = ["NestEmitter", "Reports", "emit_nest", "emit_tile", "outside_buffers"]

ir = LazyModule("llvmlite.ir")

NO_SHARED: Instructions = frozenset()


def outside_buffers(nest: Nest, *, sized: bool = False) -> list[Buffer]:
    """The buffers that the function of a nest takes, in order; `sized`: sizes of the program may change."""
    found = dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes()))
    buffers = [b for b in found if b.memory is not MemoryKind.ROW]
    nodes = (node for phase in nest.phases for value in phase.values() for node in walk(value))
    if any(node.op in CHECKS for node in nodes) or (redzones.enabled() and len(buffers) < len(found)):
        buffers.append(ERRORS)
    return [*buffers, SIZES] if sized else buffers


def row_bytes(buffer: Buffer) -> Index:
    """The size of a row temporary."""
    return buffer.size * buffer.dtype.itemsize


def nest_type(buffers: int) -> Any:
    """The type of the function of a nest that takes so many buffers."""
    return ir.FunctionType(ir.VoidType(), [ir.PointerType()] * buffers + [ir.IntType(64)] * 3)


def emit_nest(
    module: Any,
    plan: NestPlan,
    target: Target,
    buffers: Sequence[Buffer],
    reports: Reports,
    shared: Instructions = NO_SHARED,
    emitter: Callable[[ValueEmitter, Any], NestEmitter] | None = None,
) -> Any:
    """Add the function of a nest to `module`, which takes `buffers`; templates have emitters of their own."""
    function = ir.Function(module, nest_type(len(buffers)), plan.name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    for argument in function.args[: len(buffers)]:
        argument.add_attribute("noalias")
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
    values = ValueEmitter(e, dict(zip(buffers, function.args, strict=False)), reports, shared)
    begin, end, total = function.args[-3:]
    loops = (emitter or NestEmitter)(values, plan)
    loops.total = total if plan.shares_extent else None
    loops.emit(begin, end)
    e.builder.ret_void()
    return function


def emit_tile(
    e: Emitter,
    plan: NestPlan,
    pointers: dict[Buffer, Any],
    ranges: Sequence[tuple[Any, Any]],
    streamed: Collection[Buffer] = (),
) -> None:
    """The code of a nest for a range of each outer loop; `streamed` is stored past the caches."""
    first, *inner = ranges
    emitter = NestEmitter(ValueEmitter(e, pointers, Reports()), plan)
    emitter.values.streamed = streamed
    emitter.emit(*first, *inner)


class NestEmitter(PhaseEmitter):
    """Emits the loops and statements of one nest."""

    def __init__(self, values: ValueEmitter, plan: NestPlan) -> None:
        super().__init__(values, plan)
        self.ranges: dict[Var, tuple[Any, Any]] = {}
        self.total: Any = None  # the extent of a single outer loop, as the caller gives it
        self.group = plan.interleaved_rows

    def emit(self, begin: Any, end: Any, *inner: tuple[Any, Any]) -> None:
        """The loops, for a range of the outermost one, and of the next ones where `inner` gives it."""
        self.ranges = dict(zip(self.nest.outer[1:], inner, strict=False))
        rows = list(dict.fromkeys(a.buffer for a in self.nest.writes() if a.buffer.memory is MemoryKind.ROW))
        for buffer in rows:
            self._allocate_row(buffer)
        if self.nest.outer:
            self._outer_loop(0, begin, end)
        else:
            self._row()
        if redzones.enabled():
            for buffer in rows:
                self._check_row(buffer)

    # Row temporaries.

    def _allocate_row(self, buffer: Buffer) -> None:
        """Memory on the stack; in guard mode between two zones."""
        e, zone = self.e, redzones.ROW_ZONE * redzones.enabled()
        size = self._row_bytes(buffer)
        if isinstance(size, int):
            slot = e.builder.alloca(ir.ArrayType(e.i8, self.group * size + 2 * zone))
        else:  # a guard says that it is not too large (schedule/nests.py, plan/loops.py)
            slot = e.builder.alloca(e.i8, e.add(e.mul(size, self.group), 2 * zone))
        slot.align = 64
        slot.type = e.pointer  # opaque, as every other pointer
        self.values.pointers[buffer] = e.address(slot, zone, e.i8) if zone else slot
        if zone:
            for place in self._row_zones(buffer):
                e.store(e.constant(redzones.PATTERN, ir.VectorType(e.i8, zone)), place)

    def _row_bytes(self, buffer: Buffer) -> Any:
        """The size of a row temporary."""
        return self.values.size(row_bytes(buffer))

    def _row_zones(self, buffer: Buffer) -> list[Any]:
        e, start, size = self.e, self.values.pointers[buffer], self._row_bytes(buffer)
        behind = self.group * size if isinstance(size, int) else e.mul(size, self.group)
        return [e.address(start, at, e.i8) for at in (-redzones.ROW_ZONE, behind)]

    def _check_row(self, buffer: Buffer) -> None:
        """Report an error if anything was written beside a row temporary."""
        e = self.e
        number = self.values.reports.number_of(SystemError, f"{self.nest.name} wrote outside of row {buffer}")
        for place in self._row_zones(buffer):
            found = e.load(place, ir.VectorType(e.i8, redzones.ROW_ZONE))
            self.values.report(e.compare("!=", found, redzones.PATTERN), number)

    # Outer loops.

    def _outer_loop(self, depth: int, begin: Any, end: Any) -> None:
        outer = self.nest.outer
        if depth == len(outer) - 1:
            self._last_outer(begin, end)
        elif self.plan.block and depth == len(outer) - 2:
            if self.plan.squares:
                self._in_squares(outer[depth], begin, end)
            else:
                self._blocked(outer[depth], begin, end)
        else:
            with self.e.loop(begin, end, 1) as index:
                self.values.env[outer[depth]] = index
                self._outer_loop(depth + 1, *self._range(outer[depth + 1]))

    def _range(self, var: Var) -> tuple[Any, Any]:
        return self.ranges.get(var, (0, self._extent(var)))

    def _last_outer(self, begin: Any, end: Any) -> None:
        var, loop = self.nest.outer[-1], self.plan.outer
        if loop is None:
            self._rows(var, begin, end)
            return
        statements = [s for phase in self.nest.phases for s in phase.statements]
        inner = any(phase.inner for phase in self.nest.phases)
        self.fixed = {}
        if not inner and not any(isinstance(s, Reduce) for s in statements):
            self.fixed = self._hoisted(Phase((var,), tuple(statements)), loop.width)
        if inner:
            self._in_vectors(var, (begin, end), loop, self._row, total=self.total)
        else:
            with self.values.along(var, all_accesses(statements)):
                self._in_vectors(var, (begin, end), loop, self._row, total=self.total)

    def _blocked(self, var: Var, begin: Any, end: Any) -> None:
        """The last two loops, block by block of the last one, so that what lies across is read while it is in
        cache."""
        e, last = self.e, self.nest.outer[-1]
        extent = self._extent(last)
        with e.loop(0, extent, self.plan.block) as first:
            stop = e.minimum(e.add(first, self.plan.block), e.value(extent, e.i64))
            with e.loop(begin, end, 1) as index:
                self.values.env[var] = index
                self._last_outer(first, stop)

    def _in_squares(self, near: Var, begin: Any, end: Any) -> None:
        """The last two loops in squares of a vector's size, which are transposed in registers; point by point
        in calls where a loop is shorter."""
        last = self.nest.outer[-1]

        def by_points() -> None:
            with self.e.loop(begin, end, 1) as row, self.e.loop(0, self._extent(last), 1) as column:
                self.values.env[near] = row
                self.values.place(last, column, 1)
                self._row()
            self.values.leave()

        extents = {var: self._extent(var) for var in (near, last)}
        self._if_long(extents, self.lanes, lambda: self._squares(near, begin, end), by_points)

    def _squares(self, near: Var, begin: Any, end: Any) -> None:
        """Squares are visited in groups that fill whole cache lines on both sides."""
        e, last, lanes = self.e, self.nest.outer[-1], self.lanes
        extent, group = self._extent(last), self.plan.square_group
        far, down = (e.sub(e.value(self._extent(var), e.i64), lanes) for var in (last, near))
        with e.loop(0, extent, self.plan.block) as first:
            stop = e.minimum(e.add(first, self.plan.block), e.value(extent, e.i64))
            with e.loop(begin, end, group) as row, e.loop(first, stop, group) as column:
                column_end = e.minimum(e.add(column, group), stop)
                row_end = e.minimum(e.add(row, group), e.value(end, e.i64))
                with e.loop(column, column_end, lanes) as c, e.loop(row, row_end, lanes) as r:
                    self._square(near, e.minimum(r, down), e.minimum(c, far))

    def _square(self, near: Var, row: Any, column: Any) -> None:
        e, values, last, lanes = self.e, self.values, self.nest.outer[-1], self.lanes
        transposed: dict[Expr, list[Any]] = {}
        for node in self.plan.squares:
            vectors = []
            for k in range(lanes):
                values.env[last] = e.add(column, k) if k else column
                values.place(near, row, lanes)
                vectors.append(values.evaluate(node, {}))
            transposed[node] = e.transpose(vectors)
        for k in range(lanes):
            values.env[near] = e.add(row, k) if k else row
            values.place(last, column, lanes)
            memo = {node: vectors[k] for node, vectors in transposed.items()}
            for phase in self.nest.phases:
                for statement in phase.statements:
                    assert isinstance(statement, Store)
                    values.store(statement, values.evaluate(statement.value, memo), memo)
        values.leave()

    # Rows.

    def _rows(self, var: Var, begin: Any, end: Any) -> None:
        """Row by row, or some rows at a time, step by step (plan/interleave.py)."""
        e, values = self.e, self.values
        if self.group == 1:
            with e.loop(begin, end, 1) as index:
                values.env[var] = index
                self._row()
            return
        temporaries = {b: p for b, p in values.pointers.items() if b.memory is MemoryKind.ROW}
        results: dict[str, Any] = {}  # of each row, in memory
        with e.loop(begin, end, self.group) as first:
            stop = e.minimum(e.add(first, self.group), e.value(end, e.i64))
            for step in steps_of(self.nest):
                with e.loop(first, stop, 1, certain=True) as index:
                    values.env[var] = index
                    row = e.sub(index, first)
                    for buffer, pointer in temporaries.items():
                        values.pointers[buffer] = e.address(
                            pointer, e.mul(row, self._row_bytes(buffer)), e.i8
                        )
                    self._interleaved_step(step, row, results)
        values.pointers.update(temporaries)

    def _interleaved_step(self, step: Sequence[Phase], row: Any, results: dict[str, Any]) -> None:
        """One step of one of the rows that run together; `results` of reductions pass through memory."""
        e, values = self.e, self.values
        values.reduced = {}
        for name in reductions_read(self.plan, step):
            if name in results:
                slot, kind = results[name]
                values.reduced[name] = e.load(e.address(slot, row, kind), kind)
        self.end = self._row_end()
        for phase in step:
            self._phase(phase)
        for name, value in values.reduced.items():
            if name in results:
                continue
            slot = e.local(ir.ArrayType(e.in_memory(value.type), self.group))
            results[name] = slot, value.type
            e.store(value, e.address(slot, row, value.type))


def reductions_read(plan: NestPlan, step: Sequence[Phase]) -> list[str]:
    """The reductions whose results the phases of a step use, or what they store beyond a limit."""
    values = [value for phase in step for value in phase.values()]
    values += [rest.store.value for phase in step for rest in plan.phase(phase).rest]
    return list(dict.fromkeys(node.data for value in values for node in walk(value) if node.op == "reduced"))

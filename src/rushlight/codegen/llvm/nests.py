"""A loop nest as an LLVM function.

`emit_nest` adds to a module the function `name(buffers..., begin, end, extent)`, which runs the nest for a
range of its outermost loop. Where that is its only outer loop, the code does not depend on its extent but for
the width of the vectors, so that kernels that differ in nothing else can share it (see keys.py). Loops run in
vectors along the loop that the plan names, several registers wide where there is enough to do, so that the
latency of one instruction is hidden behind the next. What is left over at the end is computed by a last
vector that overlaps the one before it, or by a masked one where a point must not be computed twice. Buffers
come as `noalias` pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...core.dtypes import DType
from ...core.lazy import LazyModule
from ...loops.expr import Expr, cost, loads_in, walk
from ...loops.index import Index, Var
from ...loops.instructions import CHECKS
from ...loops.nest import ERRORS, Buffer, MemoryKind, Nest, Phase, Reduce, Statement, Store, extents
from ...loops.plans import LoopPlan
from ...loops.varying import varying
from ...runtime import redzones
from ...runtime.target import Target
from .emitter import Emitter
from .interleave import reductions_read, rows_together, steps_of
from .keys import LIMITED, NOTHING, extent_of, kernel_key, loop_width, machine_lanes, row_unit
from .prefetch import to_fetch
from .reductions import ARGUMENTS, Accumulator
from .types import is_bool, lanes_of
from .values import Memo, Reports, Values, compares_places

__all__ = ["NestEmitter", "Reports", "emit_nest", "emit_tile", "kernel_key", "outside_buffers"]

ir = LazyModule("llvmlite.ir")

Shared = frozenset[tuple[str, DType]]

LONG_BODY = 12  # instructions beyond which a second copy of a loop's body costs more than a mask
SQUARE_BODY = 32  # and beyond which a copy for every lane costs more than gathering
NO_SHARED: Shared = frozenset()


def outside_buffers(nest: Nest) -> list[Buffer]:
    """The buffers that the function of a nest takes, in order."""
    found = dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes()))
    buffers = [b for b in found if b.memory is not MemoryKind.ROW]
    nodes = (node for phase in nest.phases for value in phase.values() for node in walk(value))
    if any(node.op in CHECKS for node in nodes) or (redzones.enabled() and len(buffers) < len(found)):
        buffers.append(ERRORS)
    return buffers


def row_bytes(buffer: Buffer) -> int:
    """The size of a row temporary."""
    return (buffer.size.constant_value() or 1) * buffer.dtype.itemsize


def emit_nest(
    module: Any,
    plan: LoopPlan,
    target: Target,
    name: str,
    buffers: Sequence[Buffer],
    reports: Reports,
    shared: Shared = NO_SHARED,
    emitter: Callable[[Values, LoopPlan], NestEmitter] | None = None,
    reaches: Mapping[Buffer, int] = NOTHING,
) -> Any:
    """Add the function of a nest to `module`, which takes `buffers`; templates have emitters of their own."""
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [pointer] * len(buffers) + [i64] * 3)
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    for argument in function.args[: len(buffers)]:
        argument.add_attribute("noalias")
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
    values = Values(e, dict(zip(buffers, function.args, strict=False)), reports, shared)
    begin, end, total = function.args[-3:]
    loops = (emitter or NestEmitter)(values, plan)
    loops.total, loops.reaches = total, reaches
    loops.emit(begin, end)
    e.builder.ret_void()
    return function


def emit_tile(
    e: Emitter,
    nest: Nest,
    pointers: dict[Buffer, Any],
    ranges: Sequence[tuple[Any, Any]],
    *,
    ragged: bool,
    registers: int = 1,
    streamed: Collection[Buffer] = (),
) -> None:
    """The code of a nest for a range of each outer loop, in vectors along the last one.

    `ragged`: the range of the last loop is not always a whole number of vectors. `registers`: if it is, how
    many of them a vector may have; `streamed`: and what is stored past the caches.
    """
    first, *inner = ranges
    emitter = NestEmitter(Values(e, pointers, Reports()), LoopPlan(nest, True, 1, 0))
    emitter.tile = True
    emitter.ragged = ragged
    emitter.registers = registers
    emitter.values.streamed = streamed
    emitter.emit(*first, *inner)


class NestEmitter:
    """Emits the loops and statements of one nest."""

    def __init__(self, values: Values, plan: LoopPlan) -> None:
        self.e = values.e
        self.values = values
        self.plan = plan
        self.nest = plan.nest
        self.lanes = machine_lanes(self.nest, values.e.target)
        self.ranges: dict[Var, tuple[Any, Any]] = {}
        self.total: Any = None  # the extent of a single outer loop, as the caller gives it
        self.fixed: Memo = {}  # values that do not change along the last outer loop, where it runs in vectors
        self.tile = False  # a part of the loops, whose ends are not where the loops end
        self.ragged = False
        self.registers = 1
        self.end: Any = None  # of the rows, where they have a limit
        self.group = 1 if plan.vector_outer else rows_together(plan.nest)
        self.reaches: Mapping[Buffer, int] = {}  # how far after it readers look, if not to the end of the row

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

    def _allocate_row(self, buffer: Buffer) -> None:
        """Memory on the stack; in guard mode between two zones."""
        e, zone = self.e, redzones.ROW_ZONE * redzones.enabled()
        slot = e.builder.alloca(ir.ArrayType(e.i8, self.group * row_bytes(buffer) + 2 * zone))
        slot.align = 64
        slot.type = e.pointer  # opaque, as every other pointer
        self.values.pointers[buffer] = e.address(slot, zone, e.i8) if zone else slot
        if zone:
            for place in self._row_zones(buffer):
                e.store(e.constant(redzones.PATTERN, ir.VectorType(e.i8, zone)), place)

    def _row_zones(self, buffer: Buffer) -> list[Any]:
        start = self.values.pointers[buffer]
        return [
            self.e.address(start, at, self.e.i8)
            for at in (-redzones.ROW_ZONE, self.group * row_bytes(buffer))
        ]

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
            across = self._across(outer[depth])
            if across:
                self._in_squares(outer[depth], begin, end, across)
            else:
                self._blocked(outer[depth], begin, end)
        else:
            with self.e.loop(begin, end, 1) as index:
                self.values.env[outer[depth]] = index
                self._outer_loop(depth + 1, *self._range(outer[depth + 1]))

    def _range(self, var: Var) -> tuple[Any, Any]:
        return self.ranges.get(var, (0, var.extent.constant_value()))

    def _last_outer(self, begin: Any, end: Any) -> None:
        var = self.nest.outer[-1]
        if not self.plan.vector_outer:
            self._rows(var, begin, end)
            return
        statements = [s for phase in self.nest.phases for s in phase.statements]
        width = self._width(statements, var)
        if self.tile:
            width = min(width, self.lanes * self.registers)
        single = len(self.nest.outer) == 1 and not self.tile
        whole = (
            not self.ragged
            if self.tile
            else (not single and extent_of(var) % width == 0 and self.plan.block % width == 0)
        )
        self.fixed = {}
        if not any(phase.inner for phase in self.nest.phases) and not any(
            isinstance(s, Reduce) for s in statements
        ):
            every = Phase((var,), tuple(statements))
            self.fixed = self._hoisted(every, width)

        def run() -> None:
            self._in_vectors(
                var,
                begin,
                end,
                width,
                self._row,
                whole=whole,
                repeatable=not self.tile and _repeatable(statements),
                statements=statements,
                total=self.total if single else None,
            )

        if any(phase.inner for phase in self.nest.phases):
            run()
        else:
            with self.values.along(var, _all_accesses(statements)):
                run()

    def _blocked(self, var: Var, begin: Any, end: Any) -> None:
        """The last two loops, block by block of the last one, so that what lies across is read while it is in
        cache."""
        e, last = self.e, self.nest.outer[-1]
        extent = extent_of(last)
        with e.loop(0, extent, self.plan.block) as first:
            stop = e.minimum(e.add(first, self.plan.block), e.i64(extent))
            with e.loop(begin, end, 1) as index:
                self.values.env[var] = index
                self._last_outer(first, stop)

    def _across(self, near: Var) -> list[Expr]:
        """Loads that are contiguous along `near`, but not along the last loop, if all that is not contiguous
        along the last loop is of this kind, and the statements are so short that they may be written out for
        every lane."""
        last, lanes = self.nest.outer[-1], self.lanes
        statements = [s for phase in self.nest.phases for s in phase.statements]
        found: dict[Expr, None] = {}
        for statement in statements:
            for node in walk(statement.value):
                index = node.data.index if node.op == "load" else node.data if node.op == "index" else None
                if node.op in CHECKS or (node.op == "load" and node.data.indirect):
                    return []
                if index is not None and index.stride(last) not in (0, 1):
                    if node.op == "index" or index.stride(last) is None or index.stride(near) != 1:
                        return []
                    found[node] = None
            if not isinstance(statement, Store) or statement.access.index.stride(last) != 1:
                return []
        short = sum(cost(s.value) for s in statements) <= SQUARE_BODY
        large = lanes > 1 and extent_of(near) >= lanes and extent_of(last) >= lanes
        return list(found) if short and large and _repeatable(statements) else []

    def _in_squares(self, near: Var, begin: Any, end: Any, across: Sequence[Expr]) -> None:
        """The last two loops in squares of a vector's size, which are transposed in registers.

        Squares are visited in groups that fill whole cache lines on both sides.
        """
        e, last, lanes = self.e, self.nest.outer[-1], self.lanes
        extent, group = extent_of(last), 2 * lanes
        with e.loop(0, extent, self.plan.block) as first:
            stop = e.minimum(e.add(first, self.plan.block), e.i64(extent))
            with e.loop(begin, end, group) as row, e.loop(first, stop, group) as column:
                column_end = e.minimum(e.add(column, group), stop)
                row_end = e.minimum(e.add(row, group), e.value(end, e.i64))
                with e.loop(column, column_end, lanes) as c, e.loop(row, row_end, lanes) as r:
                    self._square(
                        near, e.minimum(r, extent_of(near) - lanes), e.minimum(c, extent - lanes), across
                    )

    def _square(self, near: Var, row: Any, column: Any, across: Sequence[Expr]) -> None:
        e, values, last, lanes = self.e, self.values, self.nest.outer[-1], self.lanes
        turned: dict[Expr, list[Any]] = {}
        for node in across:
            vectors = []
            for k in range(lanes):
                values.env[last] = e.add(column, k) if k else column
                values.place(near, row, lanes)
                vectors.append(values.evaluate(node, {}))
            turned[node] = e.transpose(vectors)
        for k in range(lanes):
            values.env[near] = e.add(row, k) if k else row
            values.place(last, column, lanes)
            memo = {node: vectors[k] for node, vectors in turned.items()}
            for phase in self.nest.phases:
                for statement in phase.statements:
                    assert isinstance(statement, Store)
                    values.store(statement, values.evaluate(statement.value, memo), memo)
        values.leave()

    # Loops in vectors.

    def _width(self, statements: Sequence[Statement], var: Var) -> int:
        return loop_width(statements, var, self.lanes)

    def _maskable(self, statements: Sequence[Statement], var: Var) -> bool:
        """Whether the machine has masked loads and stores for all that differs from lane to lane."""
        sizes = {
            access.buffer.dtype.itemsize
            for s in statements
            for access in _accesses(s)
            if access.indirect or access.index.depends_on(var)
        }
        return self.e.target.has_masked_memory and sizes <= {4, 8}

    def _in_vectors(
        self,
        var: Var,
        begin: Any,
        end: Any,
        width: int,
        body: Callable[[], None],
        *,
        whole: bool,
        repeatable: bool,
        statements: Sequence[Statement],
        total: Any = None,
        certain: bool = False,
    ) -> None:
        """Run `body` along `var` in vectors of `width` lanes.

        `whole`: there is nothing left over. `repeatable`: a point may be computed twice. `total`: the extent
        of `var`, if it is not to be written into the code. `certain`: there is at least one point.
        """
        e, extent = self.e, extent_of(var)
        if whole or (repeatable and extent >= width):
            with e.loop(begin, end, width, certain=certain) as index:
                last = extent - width if total is None else e.sub(total, width)
                at = index if whole else e.minimum(index, last)
                self.values.place(var, at, width)
                body()
            self.values.leave()
            return
        stop = begin
        if extent >= width:
            stop = _whole_end(e, begin, end, width)
            with e.loop(begin, stop, width) as index:
                self.values.place(var, index, width)
                body()
        lanes = self.lanes if self._maskable(statements, var) else 1
        with e.loop(stop, end, lanes) as index:
            mask = e.tail_mask(e.sub(e.value(end, e.i64), index), lanes) if lanes > 1 else None
            self.values.place(var, index, lanes, mask)
            body()
        self.values.leave()

    def _vector_loop(self, var: Var, begin: Any, end: Any, body: Callable[[], None], *, ragged: bool) -> None:
        """Run `body` along `var` in vectors of one register, then lane by lane; no point runs twice."""
        lanes = self.lanes if extent_of(var) >= self.lanes else 1
        stop = _whole_end(self.e, begin, end, lanes)
        for first, last, width in ((begin, stop, lanes), (stop, end, 1)):
            if width > 1 or lanes == 1 or ragged or extent_of(var) % lanes:
                with self.e.loop(first, last, width) as index:
                    self._at(var, index, width, body)

    def _at(self, var: Var, index: Any, lanes: int, body: Callable[[], None]) -> None:
        self.values.place(var, index, lanes)
        body()
        self.values.leave()

    # Rows: the phases in order.

    def _row(self) -> None:
        self.values.reduced = {}
        self.end = self._row_end()
        for phase in self.nest.phases:
            self._phase(phase)

    def _rows(self, var: Var, begin: Any, end: Any) -> None:
        """Row by row, or some rows at a time, step by step (see rows.py)."""
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
                        values.pointers[buffer] = e.address(pointer, e.mul(row, row_bytes(buffer)), e.i8)
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
        values.pointers.update(temporaries)

    def _row_end(self) -> Any:
        """Where the loops along a row with a limit end: all of them at one whole vector, of any width, since
        later ones read what the ones before them have stored."""
        e, limit = self.e, self.plan.limit
        phases = [phase for phase in self.nest.phases if phase.inner]
        if limit is None or row_unit(self.plan, e.target) is None:
            return None
        unit = max(self._phase_width(phase) for phase in phases)
        return e.and_(e.add(self.values.index(limit), unit - 1), -unit)

    def _end(self, var: Var) -> tuple[Any, bool]:
        """Where a loop along a row ends, and whether it surely runs."""
        if self.end is None or self.plan.limit is None:
            return extent_of(var), False
        low, high = self.plan.limit.bounds()
        end = self.end if high <= extent_of(var) else self.e.minimum(self.end, extent_of(var))
        return end, low > 0

    def _phase(self, phase: Phase) -> None:
        if not phase.inner:
            self._single_point(phase)
        elif self.plan.vector_outer:
            self._phase_in_lanes(phase)
        else:
            self._phase_in_vectors(phase)

    def _single_point(self, phase: Phase) -> None:
        """A phase without loops: what is folded is one value."""
        memo = self._for_lanes(self.fixed)
        for statement in phase.statements:
            value = self.values.evaluate(statement.value, memo)
            if isinstance(statement, Store):
                self.values.store(statement, value, memo)
            else:
                only = self.e.constant(0, self.e.i64) if statement.combine in ARGUMENTS else value
                self.values.reduced[statement.name] = only

    def _hoisted(self, phase: Phase, lanes: int) -> Memo:
        """Values that do not change in the inner loops, computed before them and spread over `lanes`; but for
        conditions, of which LLVM keeps a byte, and makes lanes again wherever they are used, and numbers that
        places are compared with."""
        moving = varying(phase.values(), phase.inner)
        operands = {a for node in moving if not compares_places(node) for a in node.args}
        operands.update(phase.values())
        memo: Memo = {}
        for value in phase.values():
            for node in walk(value):
                if node.op != "constant" and node not in moving:
                    self.values.evaluate(node, memo)
        if lanes > 1:
            for node, value in memo.items():
                if (
                    node in operands
                    and node.op != "constant"
                    and lanes_of(value.type) == 1
                    and not is_bool(value.type)
                ):
                    memo[node] = self.e.splat(value, lanes)
        return memo

    def _for_lanes(self, memo: Memo) -> Memo:
        """Values that were spread over a vector, for as many lanes as there are now."""
        e, lanes = self.e, self.values.lanes
        return {
            node: value if lanes_of(value.type) in (1, lanes) else e.shuffle(value, range(lanes))
            for node, value in memo.items()
        }

    def _statements(
        self, phase: Phase, memo: Memo, accumulators: dict[str, Accumulator], mask: Any = None
    ) -> None:
        values = self.values
        for statement in phase.statements:
            value = values.evaluate(statement.value, memo)
            if isinstance(statement, Store):
                values.store(statement, value, memo)
            else:
                accumulator = accumulators[statement.name]
                position = None
                if statement.combine in ARGUMENTS:
                    kind = accumulator.position_type
                    position = values.spread(self.e.cast(values.index_lanes(_position(phase)), kind))
                accumulator.fold(values.spread(value), position, mask)

    def _accumulators(self, phase: Phase, lanes: int, *, rows: bool = False) -> dict[str, Accumulator]:
        few = (extents(phase.inner).constant_value() or 0) < 1 << 31
        return {
            s.name: Accumulator(self.e, s, lanes, 32 if few else 64, rows=rows)
            for s in phase.statements
            if isinstance(s, Reduce)
        }

    def _phase_in_lanes(self, phase: Phase) -> None:
        """Inner loops one by one, every lane a row of its own."""
        memo = self._hoisted(phase, 1)
        accumulators = self._accumulators(phase, self.values.lanes, rows=True)

        def along() -> None:
            var = phase.inner[-1]
            with self.values.along(var, _all_accesses(phase.statements)):
                self._inner_loops((var,), lambda: self._statements(phase, dict(memo), accumulators))

        self._inner_loops(phase.inner[:-1], along)
        self.values.reduced.update((name, a.lanewise()) for name, a in accumulators.items())

    def _inner_loops(self, variables: Sequence[Var], body: Callable[[], None]) -> None:
        if not variables:
            body()
            return
        var = variables[0]
        with self.e.loop(0, extent_of(var), 1) as index:
            self.values.env[var] = index
            self._inner_loops(variables[1:], body)

    def _phase_in_vectors(self, phase: Phase) -> None:
        """The last inner loop in vectors; partial results of the lanes are combined at the end."""
        var = phase.inner[-1]
        folds = any(isinstance(s, Reduce) for s in phase.statements)
        repeatable = _repeatable(phase.statements)
        width = self._phase_width(phase)
        whole = extent_of(var) % width == 0
        memo = self._hoisted(phase, width)
        accumulators = self._accumulators(phase, width)
        if folds and not whole and repeatable and extent_of(var) >= width:
            self._inner_loops(phase.inner[:-1], lambda: self._overlapping(phase, width, memo, accumulators))
        else:
            fetched = to_fetch(self.nest, phase, self.group)

            def run() -> None:
                for access, write in fetched:
                    self.values.fetch(access, width, write=write)
                self._statements(phase, self._for_lanes(memo), accumulators, self.values.mask)

            end, certain = self._end(var)

            def along() -> None:
                accesses = _all_accesses(phase.statements) + [a for a, _ in fetched]
                with self.values.along(var, accesses):
                    self._in_vectors(
                        var,
                        0,
                        end,
                        width,
                        run,
                        whole=whole or width == 1,
                        repeatable=repeatable and not folds,
                        statements=phase.statements,
                        certain=certain,
                    )

            self._inner_loops(phase.inner[:-1], along)
            if self.end is not None:
                self._rest(phase, end)
        self.values.reduced.update((name, a.finish()) for name, a in accumulators.items())

    def _phase_width(self, phase: Phase) -> int:
        """Lanes of the last inner loop."""
        var = phase.inner[-1]
        folds = any(isinstance(s, Reduce) for s in phase.statements)
        repeatable = _repeatable(phase.statements)
        width = self._width(phase.statements, var)
        if folds and not repeatable:
            width = self.lanes  # as wide as the masked vector at the end
        if self.plan.limit is not None:
            width = min(width, LIMITED * self.lanes)
        if (
            extent_of(var) % width
            and not (repeatable and extent_of(var) >= width)
            and not self._maskable(phase.statements, var)
        ):
            width = 1 if folds else width
        return width

    def _rest(self, phase: Phase, begin: Any) -> None:
        """What a phase stores where it does not run: one value for the rest of the row."""
        stores = self.plan.rest[self.nest.phases.index(phase)]
        if stores:
            var = phase.inner[-1]
            memo: Memo = {}
            for store in stores:
                self.values.evaluate(store.value, memo)
            for store in stores:
                reach = self.reaches.get(store.access.buffer, extent_of(var))
                end = self.e.minimum(self.e.add(begin, reach), extent_of(var))
                with self.e.loop(begin, end, self.lanes) as index:
                    self.values.place(var, index, self.lanes)
                    self.values.store(store, memo[store.value], memo)
            self.values.leave()

    def _overlapping(
        self, phase: Phase, width: int, memo: Memo, accumulators: dict[str, Accumulator]
    ) -> None:
        """A folding loop whose last vector overlaps the one before it; lanes seen before do not count again.

        A short body is written out a second time for that vector, a long one has the mask in every turn.
        """
        e, var = self.e, phase.inner[-1]
        extent = extent_of(var)
        lane = e.iota(ir.VectorType(e.i32, width))
        if sum(cost(s.value) for s in phase.statements) >= LONG_BODY:
            with e.loop(0, extent, width) as index:
                at = e.minimum(index, extent - width)
                self.values.place(var, at, width)
                seen = e.splat(e.cast(e.sub(index, at), e.i32), width)
                self._statements(phase, dict(memo), accumulators, e.compare(">=", lane, seen))
        else:
            done = extent // width * width
            with e.loop(0, done, width) as index:
                self.values.place(var, index, width)
                self._statements(phase, dict(memo), accumulators)
            self.values.place(var, extent - width, width)
            seen = e.constant(done - (extent - width), lane.type)
            self._statements(phase, dict(memo), accumulators, e.compare(">=", lane, seen))
        self.values.leave()


def _whole_end(e: Emitter, begin: Any, end: Any, width: int) -> Any:
    """The largest begin + k * width that is at most `end`."""
    if isinstance(begin, int) and isinstance(end, int):
        return begin + (end - begin) // width * width
    length = e.sub(end, begin)
    return e.add(begin, e.sub(length, e.builder.srem(length, e.i64(width))))


def _accesses(statement: Statement) -> list[Any]:
    found = loads_in(statement.value)
    return [*found, statement.access] if isinstance(statement, Store) else found


def _all_accesses(statements: Sequence[Statement]) -> list[Any]:
    return [access for statement in statements for access in _accesses(statement)]


def _repeatable(statements: Sequence[Statement]) -> bool:
    """Whether a point that is computed a second time gives the same: nothing is read that is written here."""
    written = {s.access.buffer for s in statements if isinstance(s, Store)}
    return not any(isinstance(s, Store) and s.mode is not None for s in statements) and not any(
        access.buffer in written for s in statements for access in loads_in(s.value)
    )


def _position(phase: Phase) -> Index:
    """The row-major position in the inner loops."""
    index = Index({})
    for var in phase.inner:
        index = index * var.extent + var
    return index

"""A loop nest as an LLVM function.

`emit_nest` adds to a module the function `name(buffers..., begin, end)`, which runs the nest for a range of
its outermost loop, and `name.task(block, task)`, which takes the buffers' addresses from a block and works
out the range of one task. Loops run in
vectors along the loop that the plan names, with one lane for what is left over. Buffers come as `noalias`
pointers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...core.dtypes import Category, DType
from ...core.lazy import LazyModule
from ...loops.expr import Access, Expr, cost, walk
from ...loops.index import Dim, Index, Indirect, Quotient, Remainder, Var
from ...loops.nest import ERRORS, Buffer, Combine, Nest, Phase, Place, Reduce, Store
from ...runtime.target import Target
from ...schedule.loops import LoopPlan
from .emitter import REDUCTION_FLAGS, Emitter
from .instructions import constant, element_type, emit_instruction, signed
from .types import lanes_of, vector

ir = LazyModule("llvmlite.ir")

ACCUMULATORS = 4  # independent partial results of a cheap reduction, to hide the latency of an addition
CHEAP_BODY = 16


class Reports:
    """Errors that generated code may find, by number; 0 stands for none."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def number(self, place: str) -> int:
        if place not in self.places:
            self.places.append(place)
        return self.places.index(place) + 1


def emit_nest(module: Any, plan: LoopPlan, target: Target, slots: dict[Buffer, int], reports: Reports) -> str:
    """Add the functions of a nest to `module`; `slots` are the buffers' positions in the block.

    Returns the task's name.
    """
    nest = plan.nest
    buffers = [
        b
        for b in dict.fromkeys(a.buffer for a in (*nest.reads(), *nest.writes()))
        if b.place is not Place.ROW
    ]
    if any(
        node.op == "checked_index"
        for phase in nest.phases
        for value in phase.values()
        for node in walk(value)
    ):
        buffers.append(ERRORS)
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [pointer] * len(buffers) + [i64, i64])
    function = ir.Function(module, kind, nest.name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    for argument in function.args[:len(buffers)]:
        argument.add_attribute("noalias")
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
    emitter = _NestEmitter(e, plan, dict(zip(buffers, function.args, strict=False)))
    emitter.reports = reports
    emitter.emit(*function.args[-2:])
    e.builder.ret_void()
    return _emit_task(module, plan, target, function, [slots[b] for b in buffers])


def emit_tile(e: Emitter, nest: Nest, pointers: dict[Buffer, Any], ranges: Sequence[tuple[Any, Any]], *,
              ragged: bool) -> None:
    """The code of a nest for a range of each outer loop, in vectors along the last one.

    `ragged`: the range of the last loop is not always a whole number of vectors.
    """
    first, *inner = ranges
    emitter = _NestEmitter(e, LoopPlan(nest, True, 1, 0), pointers)
    emitter.ragged = ragged
    emitter.emit(*first, *inner)


def _emit_task(module: Any, plan: LoopPlan, target: Target, function: Any, slots: Sequence[int]) -> str:
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    name = f"{plan.nest.name}.task"
    task = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, i64]), name)
    task.linkage = "internal"
    e = Emitter(ir.IRBuilder(task.append_basic_block("entry")), target)
    block, number = task.args
    pointers = [e.load(e.address(block, slot, e.i64), e.pointer) for slot in slots]
    extent = plan.nest.outer[0].extent.constant_value() if plan.nest.outer else 1
    if plan.tasks == 1:
        begin, end = e.i64(0), e.i64(extent)
    else:
        begin = e.mul(number, plan.rows_per_task)
        end = e.minimum(e.add(begin, plan.rows_per_task), e.i64(extent))
    e.call(function, [*pointers, begin, end])
    e.builder.ret_void()
    return name


class _NestEmitter:
    """Emits the loops and statements of one nest."""

    def __init__(self, e: Emitter, plan: LoopPlan, pointers: dict[Buffer, Any]) -> None:
        self.e = e
        self.plan = plan
        self.nest = plan.nest
        self.pointers = pointers
        self.lanes = self._lanes()
        self.ranges: dict[Var, tuple[Any, Any]] = {}
        self.ragged = False
        self.env: dict[Any, Any] = {}
        self.vector_var: Var | None = None
        self.vector_lanes = 1
        self.reduced: dict[str, Any] = {}
        self.reports = Reports()
        self._depends: dict[tuple[Expr, Var], bool] = {}

    def _lanes(self) -> int:
        """Lanes that fill a register with the widest type that is computed with (64-bit indices do not
        count).
        """
        sizes = [
            node.dtype.itemsize
            for phase in self.nest.phases
            for value in phase.values()
            for node in walk(value)
            if node.op not in ("constant", "index")
        ] or [4]
        widest = max(sizes)
        return self.e.target.lanes(max(4, widest))

    def emit(self, begin: Any, end: Any, *inner: tuple[Any, Any]) -> None:
        """The loops, for a range of the outermost one, and of the next ones where `inner` gives it."""
        self.ranges = dict(zip(self.nest.outer[1:], inner, strict=False))
        for buffer in {a.buffer for a in self.nest.writes() if a.buffer.place is Place.ROW}:
            self._allocate_row(buffer)
        outer = self.nest.outer
        if not outer:
            self._row()
            return
        self._outer_loop(0, begin, end)

    def _allocate_row(self, buffer: Buffer) -> None:
        count = buffer.size.constant_value() or 1
        kind = ir.ArrayType(self.e.in_memory(element_type(self.e, buffer.dtype)), count)
        slot = self.e.builder.alloca(kind)
        slot.align = 64
        slot.type = self.e.pointer  # opaque, as every other pointer
        self.pointers[buffer] = slot

    # Outer loops.

    def _outer_loop(self, depth: int, begin: Any, end: Any) -> None:
        var = self.nest.outer[depth]
        last = depth == len(self.nest.outer) - 1
        if last and self.plan.vector_outer:
            whole = self.ragged or (
                depth == 0 and self.plan.tasks > 1 and self.plan.rows_per_task % self.lanes != 0)
            self._vector_loop(var, begin, end, lambda: self._row(), ragged=whole)
            return
        with self.e.loop(begin, end, 1) as index:
            self.env[var] = index
            if last:
                self._row()
            else:
                following = self.nest.outer[depth + 1]
                self._outer_loop(
                    depth + 1, *self.ranges.get(following, (0, following.extent.constant_value()))
                )

    def _vector_loop(self, var: Var, begin: Any, end: Any, body: Callable[[], None], *, ragged: bool = False,
                     step: int = 1) -> None:
        """Run `body` along `var` in vectors (of `step` vectors a turn), then lane by lane for the rest."""
        e, lanes = self.e, self.lanes
        extent = var.extent.constant_value() or 0
        width = lanes * step
        if extent >= width:
            stop = self._vector_end(begin, end, width, extent)
            with e.loop(begin, stop, width) as index:
                self._at(var, index, lanes, body)
            begin = stop
        if extent % width or ragged:
            with e.loop(begin, end, 1) as index:
                self._at(var, index, 1, body)

    def _vector_end(self, begin: Any, end: Any, width: int, extent: int) -> Any:
        """The largest begin + k * width that is at most `end`."""
        if isinstance(begin, int) and isinstance(end, int):
            return begin + (end - begin) // width * width
        e = self.e
        length = e.sub(end, begin)
        return e.add(begin, e.sub(length, e.builder.srem(length, e.i64(width))))

    def _at(self, var: Var, index: Any, lanes: int, body: Callable[[], None]) -> None:
        self.env[var] = index
        self.vector_var, self.vector_lanes = var, lanes
        body()
        self.vector_var, self.vector_lanes = None, 1

    # One row: the phases in order.

    def _row(self) -> None:
        self.reduced = {}
        for phase in self.nest.phases:
            self._phase(phase)

    def _phase(self, phase: Phase) -> None:
        memo = self._hoisted(phase)
        if not phase.inner:
            self._single_point(phase, memo)
            return
        if self.plan.vector_outer:
            self._phase_in_lanes(phase, memo)
        else:
            self._phase_in_vectors(phase, memo)

    def _single_point(self, phase: Phase, memo: dict[Expr, Any]) -> None:
        """A phase without loops: what is folded is one value."""
        for statement in phase.statements:
            value = self._evaluate(statement.value, memo)
            if isinstance(statement, Store):
                self._store(statement, value, memo)
            else:
                only = self.e.constant(0, self.e.i64) if statement.combine in ARGUMENTS else value
                self.reduced[statement.name] = only

    def _hoisted(self, phase: Phase) -> dict[Expr, Any]:
        """Values that do not change in the inner loops, computed before them."""
        memo: dict[Expr, Any] = {}
        if not phase.inner:
            return memo
        fixed: list[Expr] = []
        for value in phase.values():
            for node in walk(value):
                if node.op != "constant" and not any(self._varies(node, v) for v in phase.inner):
                    fixed.append(node)
        for node in fixed:
            self._evaluate(node, memo)
        return memo

    def _varies(self, expr: Expr, var: Var) -> bool:
        key = (expr, var)
        known = self._depends.get(key)
        if known is None:
            known = any(
                (node.op == "load" and node.data.index.depends_on(var)) or
                (node.op == "index" and node.data.depends_on(var)) for node in walk(expr))
            self._depends[key] = known
        return known

    def _phase_in_lanes(self, phase: Phase, memo: dict[Expr, Any]) -> None:
        """Inner loops one by one, every lane a row of its own."""
        slots = self._accumulators(phase, self.vector_lanes, 1)
        self._inner_loops(phase.inner, lambda: self._statements(phase, dict(memo), slots, 0))
        for statement in phase.statements:
            if isinstance(statement, Reduce):
                self.reduced[statement.name] = self._finish(statement, slots[statement.name], across=False)

    def _inner_loops(self, variables: Sequence[Var], body: Callable[[], None]) -> None:
        if not variables:
            body()
            return
        var = variables[0]
        with self.e.loop(0, var.extent.constant_value() or 0, 1) as index:
            self.env[var] = index
            self._inner_loops(variables[1:], body)

    def _phase_in_vectors(self, phase: Phase, memo: dict[Expr, Any]) -> None:
        """The last inner loop in vectors; partial results of the lanes are combined at the end."""
        var = phase.inner[-1]
        extent = var.extent.constant_value() or 0
        reduces = [s for s in phase.statements if isinstance(s, Reduce)]
        cheap = reduces and sum(cost(s.value) for s in phase.statements) <= CHEAP_BODY
        copies = ACCUMULATORS if cheap and extent >= ACCUMULATORS * self.lanes else 1
        slots = self._accumulators(phase, self.lanes, copies)

        def along() -> None:
            done = extent // (self.lanes * copies) * self.lanes * copies
            if done:
                with self.e.loop(0, done, self.lanes * copies) as index:
                    for copy in range(copies):
                        at = self.e.add(index, copy * self.lanes) if copy else index
                        self._at(
                            var, at, self.lanes, partial(self._statements, phase, dict(memo), slots, copy)
                        )
            rest = extent // self.lanes * self.lanes
            if rest > done:
                with self.e.loop(done, rest, self.lanes) as index:
                    self._at(var, index, self.lanes, lambda: self._statements(phase, dict(memo), slots, 0))
            if extent > rest:
                with self.e.loop(rest, extent, 1) as index:
                    self._at(var, index, 1, lambda: self._statements(phase, dict(memo), slots, -1))

        self._inner_loops(phase.inner[:-1], along)
        for statement in reduces:
            self.reduced[statement.name] = self._finish(statement, slots[statement.name], across=True)

    # Accumulators: one slot per copy, and a scalar one (the last) for what is left over.

    def _accumulators(self, phase: Phase, lanes: int, copies: int) -> dict[str, list[Any]]:
        slots: dict[str, list[Any]] = {}
        for statement in phase.statements:
            if isinstance(statement, Reduce):
                widths = [lanes] * copies + [1]
                slots[statement.name] = [self._slot(statement, width) for width in widths]
        return slots

    def _slot(self, statement: Reduce, lanes: int) -> Any:
        e = self.e
        dtype = statement.value.dtype
        neutral = e.splat(constant(e, neutral_value(statement.combine, dtype), dtype), lanes)
        entry = [self._alloca(neutral.type)]
        e.builder.store(neutral, entry[0])
        if statement.combine in ARGUMENTS:
            position = e.splat(e.i64(-1), lanes)
            entry.append(self._alloca(position.type))
            e.builder.store(position, entry[1])
        return entry

    def _alloca(self, kind: Any) -> Any:
        """A stack slot in the entry block, which becomes a register."""
        with self.e.builder.goto_entry_block():
            return self.e.builder.alloca(kind)

    def _accumulate(self, statement: Reduce, value: Any, slot: list[Any], phase: Phase) -> None:
        e = self.e
        dtype = statement.value.dtype
        old = e.builder.load(slot[0], typ=value.type)
        if statement.combine not in ARGUMENTS:
            e.builder.store(combined(e, statement.combine, dtype, old, value), slot[0])
            return
        position = self._position(phase)
        old_position = e.builder.load(slot[1], typ=position.type)
        better = e.or_(self._beats(statement.combine, dtype, value, old), e.compare("==", old_position, -1))
        e.builder.store(e.select(better, value, old), slot[0])
        e.builder.store(e.select(better, position, old_position), slot[1])

    def _position(self, phase: Phase) -> Any:
        """The row-major position in the inner loops, in every lane."""
        index = Index({})
        for var in phase.inner:
            index = index * var.extent + var
        return self._index_lanes(index)

    def _beats(self, combine: Combine, dtype: DType, new: Any, old: Any) -> Any:
        e = self.e
        sign = ">" if combine is Combine.ARG_MAXIMUM else "<"
        better = e.compare(sign, new, old, signed=signed(dtype))
        if dtype.is_floating_point:
            better = e.or_(better, e.and_(e.is_nan(new), e.not_(e.is_nan(old))))
        return better

    def _finish(self, statement: Reduce, slots: list[list[Any]], *, across: bool) -> Any:
        """The final value of an accumulator: copies, then lanes, then what was left over."""
        e = self.e
        dtype = statement.value.dtype
        if statement.combine in ARGUMENTS:
            return self._finish_argument(statement, slots, across=across)
        parts = [e.builder.load(slot[0], typ=self._slot_type(slot[0])) for slot in slots]
        total = parts[0]
        for part in parts[1:-1]:
            total = combined(e, statement.combine, dtype, total, part)
        if not across:
            return total
        total = e.reduce(total, lambda a, b: combined(e, statement.combine, dtype, a, b))
        return combined(e, statement.combine, dtype, total, parts[-1])

    def _slot_type(self, slot: Any) -> Any:
        return slot.allocated_type

    def _finish_argument(self, statement: Reduce, slots: list[list[Any]], *, across: bool) -> Any:
        e = self.e
        pairs: list[tuple[Any, Any]] = []
        for slot in slots if across else slots[:1]:
            value = e.builder.load(slot[0], typ=self._slot_type(slot[0]))
            position = e.builder.load(slot[1], typ=self._slot_type(slot[1]))
            if not across:
                return position
            pairs.extend((e.extract(value, i), e.extract(position, i)) for i in range(lanes_of(value.type)))
        best, where = pairs[0]
        for value, position in pairs[1:]:
            beats = self._beats(statement.combine, statement.value.dtype, value, best)
            loses = self._beats(statement.combine, statement.value.dtype, best, value)
            first = e.and_(e.not_(loses), e.compare("<", position, where, signed=False))
            better = e.and_(
                e.compare("!=", position, -1), e.or_(e.or_(beats, first), e.compare("==", where, -1))
            )
            best, where = e.select(better, value, best), e.select(better, position, where)
        return where

    # Statements and values.

    def _statements(
        self, phase: Phase, memo: dict[Expr, Any], slots: dict[str, list[Any]], copy: int = 0
    ) -> None:
        for statement in phase.statements:
            value = self._evaluate(statement.value, memo)
            if isinstance(statement, Store):
                self._store(statement, value, memo)
            else:
                self._accumulate(statement, self._spread(value), slots[statement.name][copy], phase)

    def _spread(self, value: Any) -> Any:
        """`value` in every lane of the loop that runs in vectors."""
        return value if lanes_of(value.type) > 1 else self.e.splat(value, self.vector_lanes)

    def _evaluate(self, expr: Expr, memo: dict[Expr, Any]) -> Any:
        if expr in memo:
            return memo[expr]
        for node in walk(expr):
            if node not in memo:
                memo[node] = self._emit(node, memo)
        return memo[expr]

    def _emit(self, node: Expr, memo: dict[Expr, Any]) -> Any:
        e = self.e
        if node.op == "constant":
            return constant(e, node.data[1], node.dtype)
        if node.op == "load":
            return self._load(node.data, node.dtype, memo)
        if node.op == "index":
            value = (
                self._index_lanes(node.data)
                if self.vector_var and node.data.depends_on(self.vector_var)
                else self._index(node.data)
            )
            return e.cast(value, element_type(e, node.dtype))
        if node.op == "reduced":
            return self.reduced[node.data]
        if node.op == "checked_index":
            return self._checked(memo[node.args[0]], *node.data)
        values = [memo[a] for a in node.args]
        lanes = max(lanes_of(v.type) for v in values)
        return emit_instruction(
            e, node, [v if lanes_of(v.type) == lanes else e.splat(v, lanes) for v in values]
        )

    # Memory.

    def _stride(self, index: Index) -> int | None:
        """Elements between lanes: 0 for one lane, None if it is not the same everywhere."""
        if self.vector_var is None or self.vector_lanes == 1:
            return 0
        step = index.stride(self.vector_var)
        return None if step is None else step.constant_value()

    def _load(self, access: Access, dtype: DType, memo: dict[Expr, Any]) -> Any:
        e = self.e
        pointer, element = self.pointers[access.buffer], element_type(e, dtype)
        for atom, expr in access.indirect:
            self.env[atom] = memo[expr]
        stride = self._stride(access.index)
        if any(lanes_of(memo[expr].type) > 1 for _, expr in access.indirect):
            stride = None
        if stride is None:
            return e.gather(pointer, self._index_lanes(access.index), element)
        address = e.address(pointer, self._index(access.index), element)
        if stride == 0:
            return e.load(address, element)
        return e.load_strided(address, stride, vector(element, self.vector_lanes))

    def _store(self, statement: Store, value: Any, memo: dict[Expr, Any]) -> None:
        e = self.e
        access = statement.access
        pointer = self.pointers[access.buffer]
        element = element_type(e, access.buffer.dtype)
        stride = self._stride(access.index)
        if stride == 0:
            e.store(e.extract(value, 0), e.address(pointer, self._index(access.index), element))
            return
        value = self._spread(value)
        if stride is None:
            e.scatter(value, pointer, self._index_lanes(access.index))
        else:
            e.store_strided(value, e.address(pointer, self._index(access.index), element), stride)

    def _checked(self, value: Any, extent: int, place: str) -> Any:
        """An index brought into 0..extent-1.

        One that was outside of it is reported, and 0 is used in its place.
        """
        e = self.e
        wrapped = e.select(e.compare("<", value, 0), e.add(value, extent), value)
        inside = e.compare("<", wrapped, extent, signed=False)
        with e.when(e.not_(e.all(inside))):
            e.store(e.constant(self.reports.number(place), e.i64), self.pointers[ERRORS])
        return e.select(inside, wrapped, 0)

    # Index arithmetic.

    def _index(self, index: Index) -> Any:
        """An index at the first lane, as an i64."""
        return self._polynomial(index, lambda atom: self._atom(atom))

    def _atom(self, atom: Any) -> Any:
        e = self.e
        if isinstance(atom, Quotient):
            return _floor_divided(e, self._index(atom.value), self._index(atom.divisor), atom.value)
        if isinstance(atom, Remainder):
            return _remainder(e, self._index(atom.value), self._index(atom.divisor), atom.value)
        if isinstance(atom, Dim):
            raise NotImplementedError("extents known only at call time")
        return e.value(self.env[atom], e.i64)

    def _index_lanes(self, index: Index) -> Any:
        """An index in each lane, as a vector of i64."""
        e, lanes = self.e, self.vector_lanes
        if lanes == 1:
            return self._index(index)
        stride = self._stride(index)
        if stride is not None and not self._loaded_in_lanes(index):
            first = e.splat(self._index(index), lanes)
            return first if stride == 0 else e.add(first, e.mul(e.iota(vector(e.i64, lanes)), stride))
        return self._polynomial(index, self._atom_lanes, lanes)

    def _loaded_in_lanes(self, index: Index) -> bool:
        """Whether an index that was loaded differs from lane to lane."""
        return any(isinstance(atom, Indirect) and lanes_of(self.env[atom].type) > 1 for atom in index.atoms())

    def _atom_lanes(self, atom: Any) -> Any:
        e, lanes = self.e, self.vector_lanes
        if isinstance(atom, Quotient):
            return _floor_divided(
                e, self._index_lanes(atom.value), self._index_lanes(atom.divisor), atom.value
            )
        if isinstance(atom, Remainder):
            return _remainder(e, self._index_lanes(atom.value), self._index_lanes(atom.divisor), atom.value)
        value = e.value(self.env[atom], e.i64)
        if lanes_of(value.type) > 1:
            return value
        value = e.splat(value, lanes)
        return (
            e.add(value, e.iota(vector(e.i64, lanes)))
            if atom is self.vector_var or atom == self.vector_var
            else value
        )

    def _polynomial(self, index: Index, atom_value: Callable[[Any], Any], lanes: int = 1) -> Any:
        e = self.e
        total: Any = None
        for monomial, coefficient in index.terms.items():
            if not monomial:
                continue
            term: Any = None
            for atom in monomial:
                value = atom_value(atom)
                term = value if term is None else e.mul(term, value)
            if coefficient != 1:
                term = e.mul(term, coefficient)
            total = term if total is None else e.add(total, term)
        if total is None:
            return e.constant(index.constant, vector(e.i64, lanes))
        return e.add(total, index.constant) if index.constant else total


def _floor_divided(e: Emitter, value: Any, divisor: Any, source: Index) -> Any:
    if source.bounds()[0] >= 0:
        return e.builder.udiv(value, divisor)
    quotient = e.builder.sdiv(value, divisor)
    rest = e.builder.srem(value, divisor)
    return e.sub(quotient, e.cast(e.compare("<", rest, 0), e.i64, signed_from=False))


def _remainder(e: Emitter, value: Any, divisor: Any, source: Index) -> Any:
    rest = e.builder.urem(value, divisor) if source.bounds()[0] >= 0 else e.builder.srem(value, divisor)
    if source.bounds()[0] >= 0:
        return rest
    return e.select(e.compare("<", rest, 0), e.add(rest, divisor), rest)


# Reductions.

ARGUMENTS = (Combine.ARG_MAXIMUM, Combine.ARG_MINIMUM)


def neutral_value(combine: Combine, dtype: DType) -> Any:
    """What folding starts from."""
    if combine in (Combine.SUM, Combine.ANY):
        return 0
    if combine in (Combine.PRODUCT, Combine.ALL):
        return 1
    low = combine in (Combine.MAXIMUM, Combine.ARG_MAXIMUM)
    if dtype.is_floating_point:
        return float("-inf") if low else float("inf")
    if dtype.category is Category.BOOL:
        return 0 if low else 1
    bits = 8 * dtype.itemsize
    if dtype.is_signed:
        return -(1 << (bits - 1)) if low else (1 << (bits - 1)) - 1
    return 0 if low else (1 << bits) - 1


def combined(e: Emitter, combine: Combine, dtype: DType, a: Any, b: Any) -> Any:
    """Two partial results folded into one."""
    boolean = dtype.category is Category.BOOL
    flags = REDUCTION_FLAGS if dtype.is_floating_point else ()
    if combine is Combine.ANY or (boolean and combine in (Combine.SUM, Combine.MAXIMUM)):
        return e.or_(a, b)
    if combine is Combine.ALL or (boolean and combine in (Combine.PRODUCT, Combine.MINIMUM)):
        return e.and_(a, b)
    if combine is Combine.SUM:
        return e.add(a, b, flags)
    if combine is Combine.PRODUCT:
        return e.mul(a, b, flags)
    if combine is Combine.MAXIMUM:
        return e.maximum(a, b, signed=signed(dtype))
    return e.minimum(a, b, signed=signed(dtype))

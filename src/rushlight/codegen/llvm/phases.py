"""The phases of a nest at one point, or one vector, of its outer loops.

`PhaseEmitter` runs phases as their plans say: the last inner loop in vectors of a given width with a given
tail, or every lane a row of its own. What is left over at the end of a loop is computed by a last vector that
overlaps the one before it, by a masked one, or point by point.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...core.index import Index, Var
from ...core.lazy import LazyModule
from ...core.proofs import always_nonnegative
from ...core.symbols import size_of
from ...loops.expr import walk
from ...loops.extents import extents
from ...loops.nest import Phase, Reduce, Statement, Store
from ...loops.varying import varying
from ...plan.nest import NestPlan
from ...plan.vectors import ARGUMENTS, Tail, VectorLoop, accesses_of
from .emitter import Emitter
from .reductions import Accumulator
from .types import is_bool, lanes_of
from .values import Memo, ValueEmitter, compares_places

ir = LazyModule("llvmlite.ir")

Accumulators = dict[str, Accumulator]


class PhaseEmitter:
    """Emits the statements of one nest, and the loops around them inside of a row."""

    def __init__(self, values: ValueEmitter, plan: NestPlan) -> None:
        self.e = values.e
        self.values = values
        self.plan = plan
        self.nest = plan.nest
        self.lanes = plan.lanes
        self.fixed: Memo = {}  # values that do not change along the last outer loop, where it runs in vectors
        self.end: Any = None  # of the rows, where they have a limit

    # Loops in vectors.

    def _in_vectors(
        self,
        var: Var,
        span: tuple[Any, Any],
        loop: VectorLoop,
        body: Callable[[], None],
        *,
        total: Any = None,
        certain: bool = False,
    ) -> None:
        """Run `body` along `var` in vectors, from the first to the last of `span`.

        `total`: the extent of `var`, if it is not to be written into the code. `certain`: there is at least
        one point.
        """
        e, width, (begin, end) = self.e, loop.width, span
        extent = self._extent(var)
        if loop.tail is Tail.OVERLAP:
            self._overlapping(var, span, width, body, total, certain=certain)
            return
        if loop.tail is Tail.NONE:
            with e.loop(begin, end, width, certain=certain) as index:
                self.values.place(var, index, width)
                body()
            self.values.leave()
            return
        stop = begin
        if not isinstance(extent, int) or extent >= width:
            stop = whole_end(e, begin, end, width)
            with e.loop(begin, stop, width) as index:
                self.values.place(var, index, width)
                body()
        lanes = {Tail.MASKED: self.lanes, Tail.MASKED_WIDE: width}.get(loop.tail, 1)
        with e.loop(stop, end, lanes) as index:
            mask = e.tail_mask(e.sub(e.value(end, e.i64), index), lanes) if lanes > 1 else None
            self.values.place(var, index, lanes, mask)
            body()
        self.values.leave()

    def _overlapping(
        self,
        var: Var,
        span: tuple[Any, Any],
        width: int,
        body: Callable[[], None],
        total: Any,
        *,
        certain: bool,
    ) -> None:
        """As `_in_vectors`, where the last vector overlaps the one before it."""
        e, (begin, end) = self.e, span
        extent = self._extent(var) if total is None else total

        def in_vectors() -> None:
            with e.loop(begin, end, width, certain=certain) as index:
                self.values.place(var, e.minimum(index, _less(e, extent, width)), width)
                body()

        def by_points() -> None:
            with e.loop(begin, end, 1, certain=certain) as index:
                self.values.place(var, index, 1)
                body()

        self._if_long({var: extent}, width, in_vectors, by_points)
        self.values.leave()

    def _if_long(
        self, loops: dict[Var, Any], width: int, long: Callable[[], None], short: Callable[[], None]
    ) -> None:
        """`long` where loops, given with their extents, have at least `width` points each; if these change
        from call to call, the code looks."""
        e, condition = self.e, None
        for var, extent in loops.items():
            if not isinstance(extent, int) and not always_nonnegative(var.extent - width):
                enough = e.compare(">=", extent, width)
                condition = enough if condition is None else e.and_(condition, enough)
        if condition is None:
            long()
            return

        def run(code: Callable[[], None]) -> Callable[[], Sequence[Any]]:
            def emit() -> Sequence[Any]:
                code()
                return ()

            return emit

        e.branch(condition, run(long), run(short), likely=True)

    def _at(self, var: Var, index: Any, lanes: int, body: Callable[[], None]) -> None:
        self.values.place(var, index, lanes)
        body()
        self.values.leave()

    def _extent(self, var: Var) -> Any:
        """The extent of a loop: a Python number, or an i64 where it changes from call to call."""
        return self.values.size(var.extent)

    def _inner_loops(self, variables: Sequence[Var], body: Callable[[], None]) -> None:
        if not variables:
            body()
            return
        var = variables[0]
        with self.e.loop(0, self._extent(var), 1) as index:
            self.values.env[var] = index
            self._inner_loops(variables[1:], body)

    # Rows: the phases in order.

    def _row(self) -> None:
        self.values.reduced = {}
        self.end = self._row_end()
        for phase in self.nest.phases:
            self._phase(phase)

    def _row_end(self) -> Any:
        """Where the loops along a row with a limit end: all of them at one whole vector, of any width, since
        later ones read what the ones before them have stored."""
        e, limit, unit = self.e, self.plan.limit, self.plan.limit_unit
        if limit is None or unit is None:
            return None
        return e.and_(e.add(self.values.index(limit), unit - 1), -unit)

    def _end(self, var: Var) -> tuple[Any, bool]:
        """Where a loop along a row ends, and whether it surely runs."""
        extent = self._extent(var)
        if self.end is None or self.plan.limit is None:
            return extent, False
        low, high = self.plan.limit.bounds()
        fits = isinstance(extent, int) and high <= extent
        return self.end if fits else self.e.minimum(self.end, extent), low > 0

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

    def _phase_in_lanes(self, phase: Phase) -> None:
        """Inner loops one by one, every lane a row of its own."""
        memo = self._hoisted(phase, 1)
        accumulators = self._accumulators(phase, self.values.lanes, rows=True)

        def along() -> None:
            var = phase.inner[-1]
            with self.values.along(var, all_accesses(phase.statements)):
                self._inner_loops((var,), lambda: self._statements(phase, dict(memo), accumulators))

        self._inner_loops(phase.inner[:-1], along)
        self.values.reduced.update((name, a.lanewise()) for name, a in accumulators.items())

    def _phase_in_vectors(self, phase: Phase) -> None:
        """The last inner loop in vectors; partial results of the lanes are combined at the end."""
        loop = self.plan.phase(phase).loop
        assert loop is not None
        memo = self._hoisted(phase, loop.width)
        accumulators = self._accumulators(phase, loop.width)
        overlapping = {
            Tail.OVERLAP_MASKED: self._overlap_masked,
            Tail.OVERLAP_COPIED: self._overlap_copied,
        }.get(loop.tail)
        if overlapping is not None:
            var = phase.inner[-1]

            def along() -> None:
                self._if_long(
                    {var: self._extent(var)},
                    loop.width,
                    lambda: overlapping(phase, loop.width, memo, accumulators),
                    lambda: self._by_points(phase, memo, accumulators),
                )

            self._inner_loops(phase.inner[:-1], along)
            self.values.leave()
        else:
            self._plain_loop(phase, loop, memo, accumulators)
        self.values.reduced.update((name, a.finish()) for name, a in accumulators.items())

    def _plain_loop(self, phase: Phase, loop: VectorLoop, memo: Memo, accumulators: Accumulators) -> None:
        """A loop no point of which runs twice, or in which that changes nothing."""
        plan, var = self.plan.phase(phase), phase.inner[-1]

        def run() -> None:
            for prefetch in plan.prefetch:
                self.values.fetch(prefetch.access, loop.width, write=prefetch.write)
            self._statements(phase, self._for_lanes(memo), accumulators, self.values.mask)

        end, certain = self._end(var)

        def along() -> None:
            accesses = all_accesses(phase.statements) + [p.access for p in plan.prefetch]
            with self.values.along(var, accesses):
                self._in_vectors(var, (0, end), loop, run, certain=certain)

        self._inner_loops(phase.inner[:-1], along)
        if self.end is not None:
            self._rest(phase, end)

    def _rest(self, phase: Phase, begin: Any) -> None:
        """What a phase stores where it does not run: one value for the rest of the row."""
        var, rests = phase.inner[-1], self.plan.phase(phase).rest
        memo: Memo = {}
        extent = self._extent(var)
        loop = VectorLoop(self.lanes, Tail.NONE if isinstance(extent, int) else Tail.MASKED)
        for rest in rests:
            self.values.evaluate(rest.store.value, memo)
        for rest in rests:
            value, reach = memo[rest.store.value], extent if rest.reach is None else rest.reach
            store = functools.partial(self.values.store, rest.store, value, memo)
            self._in_vectors(var, (begin, self.e.minimum(self.e.add(begin, reach), extent)), loop, store)

    # Folding loops whose last vector overlaps the one before it; lanes seen before do not count again.

    def _overlap_masked(self, phase: Phase, width: int, memo: Memo, accumulators: Accumulators) -> None:
        """The mask is in every turn."""
        e, var = self.e, phase.inner[-1]
        extent = self._extent(var)
        lane = e.iota(ir.VectorType(e.i32, width))
        with e.loop(0, extent, width) as index:
            at = e.minimum(index, _less(e, extent, width))
            self.values.place(var, at, width)
            seen = e.splat(e.cast(e.sub(index, at), e.i32), width)
            self._statements(phase, dict(memo), accumulators, e.compare(">=", lane, seen))

    def _overlap_copied(self, phase: Phase, width: int, memo: Memo, accumulators: Accumulators) -> None:
        """The body is written out a second time for the last vector."""
        e, var = self.e, phase.inner[-1]
        extent = self._extent(var)
        lane = e.iota(ir.VectorType(e.i32, width))
        done, last = whole_end(e, 0, extent, width), _less(e, extent, width)
        with e.loop(0, done, width) as index:
            self.values.place(var, index, width)
            self._statements(phase, dict(memo), accumulators)
        self.values.place(var, last, width)
        if isinstance(extent, int):
            seen = e.constant(done - last, lane.type)
        else:
            seen = e.splat(e.cast(e.sub(done, last), e.i32), width)
        self._statements(phase, dict(memo), accumulators, e.compare(">=", lane, seen))

    def _by_points(self, phase: Phase, memo: Memo, accumulators: Accumulators) -> None:
        """The same of a loop that is shorter than a vector: every point goes to the first lane."""
        e, var = self.e, phase.inner[-1]
        with e.loop(0, self._extent(var), 1) as index:
            self.values.place(var, index, 1)
            self._statements(phase, self._for_lanes(memo), accumulators)

    # Statements.

    def _statements(self, phase: Phase, memo: Memo, accumulators: Accumulators, mask: Any = None) -> None:
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

    def _accumulators(self, phase: Phase, lanes: int, *, rows: bool = False) -> Accumulators:
        folds = [s for s in phase.statements if isinstance(s, Reduce)]
        places = any(s.combine in ARGUMENTS for s in folds)
        bits = 32 if places and size_of(extents(phase.inner)) < 1 << 31 else 64
        return {s.name: Accumulator(self.e, s, lanes, bits, rows=rows) for s in folds}

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


def _less(e: Emitter, value: Any, by: int) -> Any:
    """A number, or an i64, less another."""
    return value - by if isinstance(value, int) else e.sub(value, by)


def whole_end(e: Emitter, begin: Any, end: Any, width: int) -> Any:
    """The largest begin + k * width that is at most `end`."""
    if isinstance(begin, int) and isinstance(end, int):
        return begin + (end - begin) // width * width
    length = e.sub(e.value(end, e.i64), begin)
    return e.add(begin, e.sub(length, e.builder.srem(length, e.i64(width))))


def all_accesses(statements: Sequence[Statement]) -> list[Any]:
    return [access for statement in statements for access in accesses_of(statement)]


def _position(phase: Phase) -> Index:
    """The row-major position in the inner loops."""
    index = Index({})
    for var in phase.inner:
        index = index * var.extent + var
    return index

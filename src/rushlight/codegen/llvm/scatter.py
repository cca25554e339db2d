"""Scatters: stores at positions that are data.

Points run in the order that the plan gives, in vectors where neighbouring points go to neighbouring
positions. A position is checked like every index from memory: nothing is written outside of the buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.index import Var
from ...core.lazy import LazyModule
from ...loops.expr import Expr
from ...loops.nest import Phase, Store
from ...plan.scatter import ScatterPlan
from ...plan.vectors import Tail, VectorLoop
from .instructions import element_type
from .nests import NestEmitter
from .phases import whole_end
from .reductions import combined
from .types import lanes_of, vector
from .values import ValueEmitter

ir = LazyModule("llvmlite.ir")


class ScatterEmitter(NestEmitter):
    """A nest of one store."""

    def __init__(self, values: ValueEmitter, plan: ScatterPlan) -> None:
        super().__init__(values, plan)
        self.order, self.loop = plan.order, plan.loop

    def emit(self, begin: Any, end: Any, *inner: tuple[Any, Any]) -> None:
        """The loops, for a range of the first one."""
        first = self.nest.outer[:1]
        self.ranges = dict.fromkeys(first, (begin, end))
        self._loops(0)

    def _loops(self, depth: int) -> None:
        if depth == len(self.order):
            self._point({})
            return
        var = self.order[depth]
        begin, end = self._range(var)
        if depth == len(self.order) - 1:
            memo = self._hoisted(Phase((var,), self.nest.phases[0].statements), 1)
            if self.loop is not None:
                self._vector_loop(var, begin, end, self.loop, lambda: self._point(dict(memo)))
            else:
                with self.e.loop(begin, end, 1) as index:
                    self._at(var, index, 1, lambda: self._point(dict(memo)))
            return
        with self.e.loop(begin, end, 1) as index:
            self.values.env[var] = index
            self._loops(depth + 1)

    def _vector_loop(
        self, var: Var, begin: Any, end: Any, loop: VectorLoop, body: Callable[[], None]
    ) -> None:
        """Run `body` along `var` in vectors of one register, then point by point; no point runs twice."""
        stop = whole_end(self.e, begin, end, loop.width)
        with self.e.loop(begin, stop, loop.width) as index:
            self._at(var, index, loop.width, body)
        if loop.tail is Tail.SCALAR:
            with self.e.loop(stop, end, 1) as index:
                self._at(var, index, 1, body)

    def _point(self, memo: dict[Expr, Any]) -> None:
        (store,) = self.nest.phases[0].statements
        assert isinstance(store, Store)
        condition = None if store.condition is None else self.values.evaluate(store.condition, memo)
        if condition is not None and lanes_of(condition.type) == 1:
            with self.e.when(condition):
                self._write(store, dict(memo), None)
        else:
            self._write(store, memo, condition)

    def _write(self, store: Store, memo: dict[Expr, Any], mask: Any) -> None:
        e = self.e
        for atom, expr in store.access.indirect:
            self.values.env[atom] = self.values.evaluate(expr, memo)
        value = self.values.spread(self.values.evaluate(store.value, memo))
        element = element_type(e, store.access.buffer.dtype)
        pointer = self.values.pointers[store.access.buffer]
        address = e.address(pointer, self.values.index(store.access.index), element)
        kind = vector(element, lanes_of(value.type))
        if store.mode is not None:
            old = e.load(address, kind)
            value = combined(e, store.mode, store.value.dtype, old, value)
        if mask is None:
            e.store(value, address)
        else:
            e.store_masked(value, address, mask)

"""Scans: loops along which a value is carried from one element to the next.

Where the rows lie side by side each lane runs a row of its own. Along a row a vector of elements is folded to
running values in as many steps as doubling takes, and then joined with what was carried so far.
"""

from __future__ import annotations

from typing import Any

from ...core.lazy import LazyModule
from ...loops.expr import Expr
from ...loops.kernels import Fold
from ...loops.nest import Phase, Store
from ...plan.scan import ScanPlan
from . import packed
from .instructions import constant
from .nests import NestEmitter
from .phases import whole_end
from .types import lanes_of
from .values import ValueEmitter

ir = LazyModule("llvmlite.ir")


class ScanEmitter(NestEmitter):
    """A nest of one phase whose reductions are running ones."""

    def __init__(self, values: ValueEmitter, plan: ScanPlan) -> None:
        super().__init__(values, plan)
        self.folds: dict[str, Fold] = dict(plan.folds)

    def _phase(self, phase: Phase) -> None:
        memo = self._hoisted(phase, 1)
        lanes = self.values.lanes if self.plan.vector_outer else 1
        carried = {name: self._carried(fold, lanes) for name, fold in self.folds.items()}
        loop = self.plan.phase(phase).loop
        if loop is None:
            self._inner_loops(phase.inner, lambda: self._points(phase, dict(memo), carried))
            return
        (var,) = phase.inner
        extent = self._extent(var)
        whole = whole_end(self.e, 0, extent, loop.width)
        for begin, end, width in ((0, whole, loop.width), (whole, extent, 1)):
            if not isinstance(end, int) or begin < end:
                with self.e.loop(begin, end, width) as index:
                    self._at(var, index, width, lambda: self._points(phase, dict(memo), carried))

    def _carried(self, fold: Fold, lanes: int) -> Any:
        """A stack slot with the running value of the row, or of each lane's row."""
        e = self.e
        neutral = e.splat(constant(e, fold.neutral, fold.running.dtype), lanes)
        with e.builder.goto_entry_block():
            slot = e.builder.alloca(neutral.type)
        e.builder.store(neutral, slot)
        return slot

    def _points(self, phase: Phase, memo: dict[Expr, Any], carried: dict[str, Any]) -> None:
        for statement in phase.statements:
            value = self.values.evaluate(statement.value, memo)
            if isinstance(statement, Store):
                self.values.store(statement, value, memo)
            else:
                fold = self.folds[statement.name]
                memo[fold.running] = self._advanced(fold, self.values.spread(value), carried[statement.name])

    def _advanced(self, fold: Fold, value: Any, slot: Any) -> Any:
        """The running values of a vector of elements; what is carried on goes to `slot`."""
        e = self.e
        before = e.builder.load(slot, typ=slot.allocated_type)
        lanes = lanes_of(value.type)
        if lanes == lanes_of(before.type):  # one element of each row
            after = self._step(fold, before, value)
            e.builder.store(after, slot)
            return after
        prefixes = self._prefixes(fold, value)
        # what is carried on waits for one step, not for lanes to be moved as well
        e.builder.store(self._step(fold, before, e.extract(prefixes, lanes - 1)), slot)
        return self._step(fold, e.splat(before, lanes), prefixes)

    def _prefixes(self, fold: Fold, value: Any) -> Any:
        """The fold of the lanes up to each lane. Lanes without one before them keep what they have: shifting
        neutral values in would take an instruction that is slow where they are zeros."""
        e, lanes = self.e, lanes_of(value.type)
        distance = 1
        while distance < lanes:
            before = e.shuffle(value, [(lane - distance) % lanes for lane in range(lanes)])
            first = ir.Constant(ir.VectorType(e.i1, lanes), [lane < distance for lane in range(lanes)])
            value = packed.select(e, first, value, self._step(fold, before, value), fold.running.dtype)
            distance *= 2
        return value

    def _step(self, fold: Fold, old: Any, new: Any) -> Any:
        return self.values.evaluate(fold.step, {fold.old: old, fold.new: new})

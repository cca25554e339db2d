"""Folding values: what an accumulator starts from, how values go into it, and how it ends.

An accumulator is as wide as the vectors that are folded into it, one partial result a lane. `finish` combines
the lanes in an order that is the same on every machine.
"""

from __future__ import annotations

from typing import Any

from ...core.dtypes import Category, DType
from ...core.lazy import LazyModule
from ...loops.nest import Combine, Reduce
from ...plan.vectors import ARGUMENTS
from .emitter import REDUCTION_FLAGS, Emitter
from .instructions import constant, signed
from .packed import emit_complex, select
from .types import bits_of, lanes_of, vector

ir = LazyModule("llvmlite.ir")

EXTREMES = (Combine.MAXIMUM, Combine.MINIMUM)


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
    if dtype.is_complex:
        return emit_complex(e, "add" if combine is Combine.SUM else "mul", dtype, (a, b))
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


class Accumulator:
    """The partial results of one `Reduce`, in stack slots that become registers.

    Beside the value there may be a second slot: of the first position of the best value (ARG_ reductions), or
    of a mark where NaN was met (MAXIMUM and MINIMUM of floats: the plain comparison forgets NaN, but it is
    one instruction). `rows`: every lane is a row of its own.
    """

    def __init__(
        self, e: Emitter, statement: Reduce, lanes: int, position_bits: int = 64, *, rows: bool = False
    ) -> None:
        self.e = e
        self.combine = statement.combine
        self.dtype = statement.value.dtype
        self.lanes = lanes
        neutral = e.splat(constant(e, neutral_value(self.combine, self.dtype), self.dtype), lanes)
        self.value = self._slot(neutral)
        self.second: Any = None
        if self.combine in ARGUMENTS:
            self.position_type = ir.IntType(position_bits)
            self.second = self._slot(e.constant(-1, vector(self.position_type, lanes)))
        elif self.combine in EXTREMES and self.dtype.is_floating_point:
            # One comparison looks at two registers: where lanes need not be told apart, two share a mark.
            bits = bits_of(neutral.type)
            share = not rows and lanes >= 2 * e.target.lanes(bits // 8)
            self.second = self._slot(e.zero(vector(ir.IntType(bits), lanes // 2 if share else lanes)))

    def _slot(self, initial: Any) -> Any:
        with self.e.builder.goto_entry_block():
            slot = self.e.builder.alloca(initial.type)
        self.e.builder.store(initial, slot)
        return slot

    def _load(self, slot: Any) -> Any:
        return self.e.builder.load(slot, typ=slot.allocated_type)

    def fold(self, value: Any, position: Any = None, mask: Any = None) -> None:
        """Take in a vector of values; lanes where `mask` is false do not count. A single value goes to the
        first lane."""
        e = self.e
        if lanes_of(value.type) < self.lanes:
            value = e.splat(value, self.lanes)
            position = None if position is None else e.splat(position, self.lanes)
            mask = e.compare("==", e.iota(ir.VectorType(e.i32, self.lanes)), 0)
        if mask is not None and self.combine not in ARGUMENTS:
            neutral = e.splat(constant(e, neutral_value(self.combine, self.dtype), self.dtype), self.lanes)
            value = (
                select(e, mask, value, neutral, self.dtype)
                if self.dtype.is_complex
                else e.select(mask, value, neutral)
            )
        old = self._load(self.value)
        if self.combine in ARGUMENTS:
            self._fold_position(old, value, position, mask)
        elif self.second is not None:
            op = ">" if self.combine is Combine.MAXIMUM else "<"
            e.builder.store(e.select(e.compare(op, old, value), old, value), self.value)
            marks = self._load(self.second)
            half = lanes_of(marks.type)
            first, last = (
                (value, value)
                if half == self.lanes
                else (e.shuffle(value, range(half)), e.shuffle(value, range(half, self.lanes)))
            )
            is_nan = e.builder.sext(e.unordered(first, last), marks.type)
            e.builder.store(e.or_(marks, is_nan), self.second)
        else:
            e.builder.store(combined(e, self.combine, self.dtype, old, value), self.value)

    def _fold_position(self, old: Any, value: Any, position: Any, mask: Any) -> None:
        e = self.e
        where = self._load(self.second)
        better = e.or_(beats(e, self.combine, self.dtype, value, old), e.compare("==", where, -1))
        if mask is not None:
            better = e.and_(better, mask)
        e.builder.store(e.select(better, value, old), self.value)
        e.builder.store(e.select(better, position, where), self.second)

    def lanewise(self) -> Any:
        """The result of every lane."""
        e = self.e
        if self.combine in ARGUMENTS:
            return e.cast(self._load(self.second), e.i64)
        total = self._load(self.value)
        if self.second is None:
            return total
        not_a_number = e.splat(constant(e, float("nan"), self.dtype), self.lanes)
        return e.select(e.compare("!=", self._load(self.second), 0), not_a_number, total)

    def finish(self) -> Any:
        """The result of all lanes together."""
        if self.combine in ARGUMENTS:
            return self._first_best()
        if self.second is not None:
            return self._extreme()
        return self.e.reduce(self.lanewise(), lambda a, b: combined(self.e, self.combine, self.dtype, a, b))

    def _extreme(self) -> Any:
        """The plain extreme of all lanes, or NaN if any lane met one."""
        e = self.e
        op = ">" if self.combine is Combine.MAXIMUM else "<"
        best = e.reduce(self._load(self.value), lambda a, b: e.select(e.compare(op, a, b), a, b))
        met = e.any(e.compare("!=", self._load(self.second), 0))
        return e.select(met, constant(e, float("nan"), self.dtype), best)

    def _first_best(self) -> Any:
        """The first position among the best values of the lanes, halving the vectors each time."""
        e = self.e
        best, where = self._load(self.value), self._load(self.second)
        while (lanes := lanes_of(best.type)) > 1:
            half = lanes // 2
            low, high = range(half), range(half, lanes)
            value, position = e.shuffle(best, high), e.shuffle(where, high)
            best, where = e.shuffle(best, low), e.shuffle(where, low)
            better = beats(e, self.combine, self.dtype, value, best)
            worse = beats(e, self.combine, self.dtype, best, value)
            # A position of -1 is the greatest unsigned one: a lane that met no value comes last.
            earlier = e.compare("<", position, where, signed=False)
            better = e.or_(e.and_(better, e.compare("!=", position, -1)), e.and_(e.not_(worse), earlier))
            better = e.or_(better, e.compare("==", where, -1))
            best, where = e.select(better, value, best), e.select(better, position, where)
        return e.cast(where, e.i64)


def beats(e: Emitter, combine: Combine, dtype: DType, new: Any, old: Any) -> Any:
    """Whether `new` is strictly better; NaN beats every number."""
    sign = ">" if combine is Combine.ARG_MAXIMUM else "<"
    better = e.compare(sign, new, old, signed=signed(dtype))
    if dtype.is_floating_point:
        better = e.or_(better, e.and_(e.is_nan(new), e.not_(e.is_nan(old))))
    return better

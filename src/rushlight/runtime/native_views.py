"""Tables of operators, and what those of views know: where views of sources that were met before lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..codegen.llvm.native_checks import Fix
from ..codegen.llvm.native_dispatch import OpTable
from ..codegen.llvm.native_views import (
    DIMS_AT,
    HASH,
    HASH_SHIFT,
    MISSING,
    MOST_DIMS,
    MOST_WORDS,
    SIGNATURE_AT,
    SLOT_WORDS,
    SLOTS_OF_VIEWS,
    STEPS_AT,
    ViewSlot,
)
from ..core import resolve
from ..core.dispatch import Arguments
from ..core.registry import Kind, OpDef
from ..core.tensor import Tensor
from ..core.views import Geometry, geometry_of, place_in_storage, run_view

FIXES = {
    resolve.as_long: Fix.LONG,
    resolve.as_one_long: Fix.ONE_LONG,
    resolve.as_longs: Fix.LONGS,
    resolve.as_longs_or_none: Fix.LONGS_OR_NONE,
    resolve.as_tensors: Fix.TENSORS,
}
Fixes = Sequence[tuple[int, Any]]
MOST_MISSES = 4096  # of a table whose views are looked for: then they are not any more


@dataclass(frozen=True)
class Form:
    """How arguments are given: as in `OpTable`."""

    given: int
    tensors: int
    lead: int
    rest: Arguments
    fixes: Fixes
    device: int = -1

    def fix_words(self) -> list[int]:
        words = [int(Fix.NONE)] * self.given
        for i, fix in self.fixes:
            words[i] = int(FIXES[fix])
        for i in range(self.lead, self.given) if self.lead >= 0 else ():
            words[i] = int(Fix.LONG)
        return words

    def sequences(self) -> int:
        """Bits of the arguments that are lists or tuples."""
        return sum(1 << i for i, fix in self.fixes if FIXES[fix] >= Fix.LONGS)

    def plain(self, i: int) -> bool:
        """Whether an argument is just what is given in its place."""
        single = self.given if self.lead < 0 else self.lead
        return i < single and self.fix_words()[i] in (Fix.NONE, Fix.LONG, Fix.LONGS, Fix.LONGS_OR_NONE)

    def as_given(self, values: Arguments) -> Iterator[Any]:
        """What was given, of all arguments."""
        if self.lead >= 0:
            yield from values[: self.lead]
            yield from values[self.lead]
            return
        for value, fix in zip(values, self.fix_words(), strict=False):
            yield value[0] if fix == Fix.ONE_LONG else value


class Table(np.ndarray):
    """The words of a table; `kept` is what they are addresses of."""

    kept: Any = None
    form: Any = None
    slots: Any = None
    held: Any = None  # by slot: what its words are addresses of
    misses: int = 0


def has_slots(op: OpDef) -> bool:
    """Whether the geometry of its views may be known."""
    returns = op.schema.returns
    return op.kind is Kind.VIEW and len(returns) == 1 and returns[0].type.is_tensor


def new_slots() -> np.ndarray:
    return np.zeros((SLOTS_OF_VIEWS, SLOT_WORDS), np.int64)


def meet_view(op: OpDef, values: Arguments, table: Table) -> Any:
    """Make a view, and keep where it lies."""
    made = (op.run or run_view)(op, values)
    known = geometry_of(op, values)
    table.misses += 1
    if table.misses > MOST_MISSES:
        table[OpTable.offset_of("view_slots") // 8] = 0
    elif type(known) is Geometry and known.has_elements and len(known.shape) <= MOST_DIMS:
        _fill(op, table, values, known)
    return made


def _fill(op: OpDef, table: Table, values: Arguments, known: Geometry) -> None:
    source: Tensor = values[0]
    array = source._array
    if array is None or not array.size:
        return
    words = [id(array.dtype), array.ndim]
    for size, step in zip(array.shape, array.strides, strict=True):
        words += (size, step)
    place: tuple[int, ...] = ()
    if op.reaches_storage:
        offset, size = place_in_storage(source)
        place = offset * array.itemsize, size
    for value in (source._strides, *list(table.form.as_given(values))[1:], *place):
        if type(value) is tuple:
            words += (len(value), *value)
        else:
            words.append(MISSING if value is None else value)
    if len(words) > MOST_WORDS or array.ndim > MOST_DIMS or any(type(word) is not int for word in words):
        return
    mixed = 0
    for word in words:
        mixed = (mixed ^ (word % 2**64)) * HASH % 2**64
    number = mixed >> HASH_SHIFT & SLOTS_OF_VIEWS - 1
    if table.held is None:
        table.held = [None] * SLOTS_OF_VIEWS
    if table.held[number] is not None and (table.held[number ^ 1] is None or table.misses % 2):
        number ^= 1
    slot = ViewSlot.words(
        count=len(words),
        rank=len(known.shape),
        strides=id(known.strides),
        offset=id(known.offset),
        offset_bytes=known.offset * array.itemsize,
        counted=known.counted,
        tracked=known.tracked,
        differentiable=source.dtype.is_differentiable,
    )
    row = np.zeros(SLOT_WORDS, np.int64)
    row[: len(slot)] = slot
    row[DIMS_AT : DIMS_AT + len(known.shape)] = known.shape
    row[STEPS_AT : STEPS_AT + len(known.steps)] = known.steps
    row[SIGNATURE_AT : SIGNATURE_AT + len(words)] = words
    before = table.held[number]  # until the words are replaced
    table.slots[number] = row
    table.held[number] = (array.dtype, known)
    del before

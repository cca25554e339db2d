"""Definitions with the loop over rows made explicit.

A map of N elements with P rows computes N/P elements a row; a reduction folds one row to one element.
"""

from __future__ import annotations

from ..core.index import Var, as_index
from ..core.symbols import divisible, hint, is_size, size_of
from ..loops.definitions import Map, Reduction, Structured, points
from ..loops.expr import Access, Recorder, loads_in, reindex
from ..loops.extents import extents, flatten, unflatten
from ..loops.nest import Buffer


class Forms:
    """Definitions under numbers of rows, worked out once."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._known: dict[tuple[Buffer, int], Structured | None] = {}

    def get(self, definition: Map | Reduction, rows: int) -> Structured | None:
        key = (definition.buffer, rows)
        if key not in self._known:
            self._known[key] = structured(self.recorder, definition, rows)
        return self._known[key]


def structured(recorder: Recorder, definition: Map | Reduction, rows: int) -> Structured | None:
    """`definition` as one loop over `rows` rows, then its inner loops, whose variables have the same names in
    every definition.

    None if its shape does not allow it.
    """
    row = Var("row", rows)
    position = as_index(row)
    if isinstance(definition, Reduction):
        if as_index(points(definition)) != as_index(rows):
            return None
        outer, inside = definition.outer, definition.inner
        inner = _columns(inside)
    else:
        total = points(definition)
        if hint(rows) == 0 or not divisible(total, rows):
            return None
        lead = _leading(definition.variables, rows)
        if lead is None and (is_size(total) or is_size(rows)):
            return None  # rows that begin in the middle of a dimension: every index would be divided
        if lead is None:
            inner = (Var("c0", total // rows),)
            flat = position * (total // rows) + inner[0]
            moved = dict(zip(definition.variables, unflatten(flat, definition.variables), strict=True))
            return Structured(definition, row, inner, reindex(recorder, definition.value, moved), flat)
        outer, inside = definition.variables[:lead], definition.variables[lead:]
        inner = _columns(inside)
        position = position * (total // rows) + flatten(inner)
    moved = dict(zip(outer, unflatten(as_index(row), outer), strict=True))
    moved.update(zip(inside, map(as_index, inner), strict=True))
    return Structured(definition, row, inner, reindex(recorder, definition.value, moved), position)


def _columns(variables: tuple[Var, ...]) -> tuple[Var, ...]:
    return tuple(Var(f"c{d}", var.extent) for d, var in enumerate(variables))


def _leading(variables: tuple[Var, ...], rows: int) -> int | None:
    """How many leading loops have `rows` points together."""
    product = 1
    for count in range(len(variables) + 1):
        same = as_index(product) == as_index(rows)
        if same and (count == len(variables) or as_index(rows) != 1 or count == 0):
            return count
        if count < len(variables):
            product *= size_of(variables[count].extent)
    return None


def direction(form: Structured) -> int:
    """1 if what it reads and writes is mostly contiguous inside of a row, -1 if from row to row, else 0."""
    if extents(form.inner) == 1:
        return 0
    definition = form.definition
    if isinstance(definition, Reduction) and len(definition.outer) > 1:  # rows are several loops in one
        read_at = [access.index for access in loads_in(definition.value)]
        inside, across = (
            sum(index.stride(var) == 1 for index in read_at)
            for var in (definition.inner[-1], definition.outer[-1])
        )
        return (inside > across) - (across > inside)
    indices = [access.index for access in loads_in(form.value)]
    if isinstance(form.definition, Map):
        indices.append(form.position)
    inside, across = (sum(index.stride(var) == 1 for index in indices) for var in (form.inner[-1], form.row))
    return (inside > across) - (across > inside)


def in_own_row(access: Access, row: Var, width: int) -> bool:
    """Whether the element read lies in the row that the reader is in."""
    return not access.indirect and access.index // width == as_index(row)

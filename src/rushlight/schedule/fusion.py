"""Fusion: which definitions run in one kernel.

A group is a list of definitions that share their outer loop, the rows. A map of N elements with P rows
computes N/P elements a row; a reduction folds one row to one element. A definition may join a group if
everything it reads from the group lies
in its own row (then it can run right after it, while the row is in cache), nothing it needs is computed after
the group, and joining saves memory traffic. Groups of maps alone have no rows yet: they run element by
element, and take on rows when a
reduction joins.

Every decision is recorded as text, so that `explain` can tell what was fused and why not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..loops.definitions import Definition, Map, Reduction, read, written
from ..loops.expr import Access, Expr, Recorder, loads_in, reindex
from ..loops.extents import constant, extents, flatten, points_of, unflatten
from ..loops.index import Index, Var, as_index
from ..loops.kernels import Routine
from ..loops.nest import Buffer


class Group:
    """Definitions of one kernel.

    `rows` is the extent of the outer loop; None while only elements of one count run.
    """

    def __init__(self, first: Definition, rows: int | None) -> None:
        self.members: list[Definition] = []
        self.rows = rows
        self.notes: list[str] = []
        self._writes: set[Buffer] = set()
        self._reads: set[Buffer] = set()
        self.checked: int | None = None  # for how many rows the members are known to go together
        self.widths: dict[Buffer, int] = {}  # elements a row of what they write
        self.add(first)

    def add(self, definition: Definition) -> None:
        self.members.append(definition)
        self._writes.update(written(definition))
        self._reads.update(read(definition))

    def writes(self) -> set[Buffer]:
        return self._writes

    def reads(self) -> set[Buffer]:
        return self._reads

    def touches(self, buffers: set[Buffer]) -> set[Buffer]:
        return buffers & (self._writes | self._reads)


def points(definition: Map | Reduction) -> int:
    """How many elements it writes."""
    variables = definition.variables if isinstance(definition, Map) else definition.outer
    return points_of(variables)


# One definition under a given number of rows.

FEW = 16  # elements
MANY_READERS = 8  # of a few numbers, beyond which they say nothing about who belongs together
SLIGHT = 1024  # times more elements in a map than in what it shares
FEW_ROWS, SHORT_ROW, LARGE = 64, 16, 1 << 16  # maps of so many elements want more rows, and longer ones


@dataclass(frozen=True)
class Structured:
    """A definition with the loop over rows made explicit."""

    definition: Map | Reduction
    row: Var
    inner: tuple[Var, ...]
    value: Expr
    position: Index  # where it writes, in elements of its buffer


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
        if points(definition) != rows:
            return None
        outer, inside = definition.outer, definition.inner
        inner = _columns(inside)
    else:
        total = points(definition)
        if rows == 0 or total % rows:
            return None
        lead = _leading(definition.variables, rows)
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
        if product == rows and (count == len(variables) or rows != 1 or count == 0):
            return count
        if count < len(variables):
            product *= constant(variables[count].extent)
    return None


def small_first(definitions: Sequence[Definition]) -> list[Definition]:
    """The definitions, led by the few numbers that need nothing but the caller's memory (the scale factors of
    an optimizer, for example), so that what reads them besides may join what was computed before."""
    early: list[Definition] = []
    others: list[Definition] = []
    late: set[Buffer] = set()
    for definition in definitions:
        if (
            isinstance(definition, Routine)
            or points(definition) > FEW
            or not late.isdisjoint(read(definition))
        ):
            others.append(definition)
            late.update(written(definition))
        else:
            early.append(definition)
    return early + others


# Joining.


class Fuser:
    """Forms groups from definitions in order."""

    def __init__(
        self, recorder: Recorder, epilogue_obstacle: Callable[[Routine, set[Buffer], Definition], str]
    ) -> None:
        self.forms = Forms(recorder)
        self.epilogue_obstacle = epilogue_obstacle  # why a definition cannot run on the tiles of a call
        self.groups: list[Group] = []
        self.home: dict[Buffer, int] = {}
        self._directions: dict[tuple[Buffer, int], int] = {}
        self.common: set[Buffer] = set()  # a few numbers that many read, such as hyperparameters

    def run(self, definitions: list[Definition]) -> list[Group]:
        readers = Counter(buffer for definition in definitions for buffer in read(definition))
        self.common = {
            buffer
            for buffer, count in readers.items()
            if count > MANY_READERS and constant(buffer.size) <= FEW
        }
        for definition in definitions:
            self._place(definition)
        return self.groups

    def _place(self, definition: Definition) -> None:
        at = None
        if isinstance(definition, Map | Reduction):
            at = self._join(definition)
        if at is None:
            self.groups.append(Group(definition, self._own_rows(definition)))
            at = len(self.groups) - 1
        for buffer in written(definition):
            self.home[buffer] = at

    def _own_rows(self, definition: Definition) -> int | None:
        return points(definition) if isinstance(definition, Reduction) else None

    def _join(self, definition: Map | Reduction) -> int | None:
        """Add `definition` to the latest group that it may join and gains from.

        Returns that group's number.
        """
        reads = set(read(definition))
        earliest = max((self.home[buffer] for buffer in reads if buffer in self.home), default=0)
        if self._joins_product(definition, earliest):
            return earliest
        for at in range(len(self.groups) - 1, earliest - 1, -1):
            group = self.groups[at]
            if any(isinstance(member, Routine) for member in group.members):
                continue
            shared = group.touches(reads - self.common)
            if not shared or self._is_slight(shared, group, definition):
                continue
            rows, reason = self._common_rows(group, definition)
            if reason:
                group.notes.append(f"{definition.buffer} stays apart: {reason}")
                continue
            group.add(definition)
            group.rows = rows
            group.notes.append(f"{definition.buffer} joined: shares {', '.join(sorted(map(str, shared)))}")
            return at
        return None

    def _is_slight(self, shared: set[Buffer], group: Group, definition: Map | Reduction) -> bool:
        """Whether what is shared (a number for each channel, for example) is next to nothing beside what one
        of the maps computes."""
        if isinstance(definition, Map) and points(definition) == group.rows:
            return False  # a number for each row
        most = max(
            points(member) for member in (*group.members, definition) if isinstance(member, Map | Reduction)
        )
        return most >= LARGE and SLIGHT * sum(constant(buffer.size) for buffer in shared) <= most

    def _joins_product(self, definition: Map | Reduction, at: int) -> bool:
        """Add `definition` to the product that the last of what it reads comes from, if there is one and it
        can.
        """
        group = self.groups[at] if self.groups else None
        call = group.members[0] if group else None
        if group is None or not isinstance(call, Routine) or not group.writes() & set(read(definition)):
            return False
        reason = self.epilogue_obstacle(call, group.writes(), definition)
        group.notes.append(
            f"{definition.buffer} stays apart: {reason}"
            if reason
            else f"{definition.buffer} joined: runs on the tiles of {call.name}"
        )
        if not reason:
            group.add(definition)
        return not reason

    def _common_rows(self, group: Group, definition: Map | Reduction) -> tuple[int | None, str]:
        """The rows of the group with `definition` in it, or why it cannot be in it."""
        candidates = self._row_candidates(group, definition)
        reason = "there would be too few rows, or too short ones"
        for rows in candidates:
            reason = self._obstacle(group, definition, rows if rows is not None else points(definition))
            if not reason:
                return rows, ""
        return None, reason

    def _row_candidates(self, group: Group, definition: Map | Reduction) -> list[int | None]:
        if group.rows is not None:
            return [group.rows]
        if isinstance(definition, Reduction):
            return [points(definition)]
        counts = {points(member) for member in group.members if isinstance(member, Map | Reduction)} | {
            points(definition)
        }
        if len(counts) == 1:
            return [None]
        few, many = min(counts), max(counts)
        return [] if many >= LARGE and (few < FEW_ROWS or many < SHORT_ROW * few) else [few]

    def _obstacle(self, group: Group, definition: Map | Reduction, rows: int) -> str:
        """Why the members and `definition` cannot all run row by row; empty if they can."""
        if group.checked != rows:
            widths: dict[Buffer, int] = {}
            for member in group.members:
                if isinstance(member, Map | Reduction):
                    reason = self._apart(member, rows, widths)
                    if reason:
                        return reason
            group.checked, group.widths = rows, widths
        return self._apart(definition, rows, group.widths)

    def _apart(self, definition: Map | Reduction, rows: int, widths: dict[Buffer, int]) -> str:
        """Why a definition cannot run in the rows of those in `widths`; if it can, it is added to them."""
        form = self.forms.get(definition, rows)
        if form is None:
            return f"{definition.buffer} does not divide into {rows} rows"
        for access in loads_in(form.value):
            if access.buffer in widths and not in_own_row(access, form.row, widths[access.buffer]):
                return f"{definition.buffer} reads {access.buffer} outside of its own row"
        along = direction(form)
        if along and any(self._directions[buffer, rows] == -along for buffer in widths):
            return f"{definition.buffer} is contiguous along other loops than the group"
        self._directions[definition.buffer, rows] = along
        widths[definition.buffer] = points(definition) // rows if rows else 0
        return ""


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

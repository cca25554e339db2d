"""Fusion: which definitions run in one kernel.

A group is a list of definitions that share their outer loop, the rows (schedule/rows.py). A definition may
join a group if everything it reads from the group lies in its own row (then it can run right after it, while
the row is in cache), nothing it needs is computed after the group, and joining saves memory traffic. Groups of
maps alone have no rows yet: they run element by element, and take on rows when a reduction joins. Maps of the
result of a product, or of a scan, join that.

Every decision is recorded as text, so that `explain` can tell what was fused and why not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..core.errors import InternalError
from ..core.index import as_index
from ..core.symbols import hint, hint_of
from ..loops.definitions import Definition, Map, Reduction, Structured, points, read, written
from ..loops.expr import Recorder, loads_in
from ..loops.kernels import Product, Routine, Scan
from ..loops.nest import Buffer
from ..loops.program import Group, Program
from .cost import FEW_NUMBERS, FEW_ROWS, LARGE_MAP, MANY_READERS, SHORT_ROW, SLIGHT
from .products import epilogue_obstacle
from .rows import Forms, direction, in_own_row
from .templates import scan_obstacle


def fuse(program: Program) -> Program:
    """Form the groups of definitions that run in one kernel."""
    return replace(program, groups=_Fuser(program.recorder).run(program.definitions))


def small_first(program: Program) -> Program:
    """Lead with the few numbers that need nothing but the caller's memory (the scale factors of an optimizer,
    for example), so that what reads them besides may join what was computed before."""
    early: list[Definition] = []
    others: list[Definition] = []
    late: set[Buffer] = set()
    for definition in program.definitions:
        few = isinstance(definition, Map | Reduction) and hint(points(definition)) <= FEW_NUMBERS
        if few and late.isdisjoint(read(definition)):
            early.append(definition)
        else:
            others.append(definition)
            late.update(written(definition))
    return replace(program, definitions=(*early, *others))


class _GrowingGroup:
    """Definitions of one kernel, so far.

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
        self.is_call = isinstance(first, Routine)  # a product with what runs on its tiles, for example
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
        return {buffer for buffer in buffers if buffer in self._writes or buffer in self._reads}


# Joining.


class _Fuser:
    """Forms groups from definitions in order."""

    def __init__(self, recorder: Recorder) -> None:
        self.forms = Forms(recorder)
        self.groups: list[_GrowingGroup] = []
        self.home: dict[Buffer, int] = {}
        self._touching: dict[Buffer, set[int]] = {}  # groups that read or write a buffer
        self._directions: dict[tuple[Buffer, int], int] = {}
        self.common: set[Buffer] = set()  # a few numbers that many read, such as hyperparameters

    def run(self, definitions: Sequence[Definition]) -> tuple[Group, ...]:
        readers = Counter(buffer for definition in definitions for buffer in read(definition))
        self.common = {
            buffer
            for buffer, count in readers.items()
            if count > MANY_READERS and hint_of(buffer.size) <= FEW_NUMBERS
        }
        for definition in definitions:
            self._place(definition)
        return tuple(map(self._finished, self.groups))

    def _finished(self, group: _GrowingGroup) -> Group:
        forms: list[Structured] = []
        if group.rows is not None:
            for member in group.members:
                assert isinstance(member, Map | Reduction)
                form = self.forms.get(member, group.rows)
                if form is None:
                    raise InternalError(f"{member.buffer} does not divide into {group.rows} rows")
                forms.append(form)
        return Group(tuple(group.members), group.rows, tuple(forms), tuple(group.notes))

    def _place(self, definition: Definition) -> None:
        at = None
        if isinstance(definition, Map | Reduction):
            at = self._join(definition)
        if at is None:
            self.groups.append(_GrowingGroup(definition, self._own_rows(definition)))
            at = len(self.groups) - 1
        for buffer in written(definition):
            self.home[buffer] = at
        for buffer in (*written(definition), *read(definition)):
            self._touching.setdefault(buffer, set()).add(at)

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
        worth = reads - self.common
        near = {at for buffer in worth for at in self._touching.get(buffer, ()) if at >= earliest}
        for at in sorted(near, reverse=True):
            group = self.groups[at]
            if group.is_call:
                continue
            shared = group.touches(worth)
            if self._is_slight(shared, group, definition):
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

    def _is_slight(self, shared: set[Buffer], group: _GrowingGroup, definition: Map | Reduction) -> bool:
        """Whether what is shared (a number for each channel, for example) is next to nothing beside what one
        of the maps computes."""
        whole = isinstance(definition, Map) and group.rows is not None
        if whole and as_index(points(definition)) == as_index(group.rows or 0):
            return False  # a number for each row
        most = max(
            hint(points(member))
            for member in (*group.members, definition)
            if isinstance(member, Map | Reduction)
        )
        return most >= LARGE_MAP and SLIGHT * sum(hint_of(buffer.size) for buffer in shared) <= most

    def _joins_product(self, definition: Map | Reduction, at: int) -> bool:
        """Add `definition` to the product that the last of what it reads comes from, if there is one and it
        can.
        """
        group = self.groups[at] if self.groups else None
        call = group.members[0] if group else None
        if group is None or not isinstance(call, Routine) or not group.writes() & set(read(definition)):
            return False
        reason = _obstacle_of(call, group.writes(), definition)
        group.notes.append(
            f"{definition.buffer} stays apart: {reason}"
            if reason
            else f"{definition.buffer} joined: runs on the tiles of {call.name}"
        )
        if not reason:
            group.add(definition)
        return not reason

    def _common_rows(self, group: _GrowingGroup, definition: Map | Reduction) -> tuple[int | None, str]:
        """The rows of the group with `definition` in it, or why it cannot be in it."""
        candidates = self._row_candidates(group, definition)
        reason = "there would be too few rows, or too short ones"
        for rows in candidates:
            reason = self._obstacle(group, definition, rows if rows is not None else points(definition))
            if not reason:
                return rows, ""
        return None, reason

    def _row_candidates(self, group: _GrowingGroup, definition: Map | Reduction) -> list[int | None]:
        if group.rows is not None:
            return [group.rows]
        if isinstance(definition, Reduction):
            return [points(definition)]
        counts = {points(member) for member in group.members if isinstance(member, Map | Reduction)} | {
            points(definition)
        }
        if len(counts) == 1:
            return [None]
        rows = min(counts, key=hint)
        few, many = hint(rows), max(map(hint, counts))
        return [] if many >= LARGE_MAP and (few < FEW_ROWS or many < SHORT_ROW * few) else [rows]

    def _obstacle(self, group: _GrowingGroup, definition: Map | Reduction, rows: int) -> str:
        """Why the members and `definition` cannot all run row by row; empty if they can."""
        if group.checked is None or as_index(group.checked) != as_index(rows):
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
        widths[definition.buffer] = points(definition) // rows if hint(rows) else 0
        return ""


def _obstacle_of(kernel: Routine, written: set[Buffer], definition: Definition) -> str:
    """Why `definition` cannot run together with `kernel`; empty if it can."""
    if isinstance(kernel, Scan):
        return scan_obstacle(kernel, written, definition)
    if isinstance(kernel, Product):
        return epilogue_obstacle(kernel, written, definition)
    return f"{type(kernel).__name__.lower()} is a call"

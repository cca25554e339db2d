"""From a group of definitions to a loop nest.

Each definition becomes a phase of the nest; definitions with the same inner loops share a phase where no
value has to be finished first. Inside a phase a value goes from statement to statement in registers;
between phases a reduced value is
an accumulator, and a row that only this nest reads is a row temporary. What nobody reads is not stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..core.errors import InternalError
from ..core.index import Index, Var, as_index
from ..loops.definitions import Map, Reduction, Structured, points
from ..loops.expr import Access, Expr, Recorder, loads_in, reindex, substitute
from ..loops.extents import extents, flatten, unflatten
from ..loops.nest import Buffer, Combine, MemoryKind, Nest, Phase, Reduce, Store
from ..loops.program import Group
from ..loops.rewrite import rewrite_statements
from ..loops.varying import moving_cost
from .cost import CHEAP_ROW, ROW_BYTES


@dataclass
class _Draft:
    """A phase in the making."""

    inner: tuple[Var, ...]
    statements: list[Store | Reduce] = field(default_factory=list)
    stored: dict[Buffer, tuple[Index, Expr]] = field(default_factory=dict)
    folds: set[Buffer] = field(default_factory=set)


def build_nest(recorder: Recorder, group: Group, name: str, needed: Callable[[Buffer], bool]) -> Nest:
    """The nest that runs `group`.

    `needed(buffer)` tells whether anything outside of the group reads a buffer.
    """
    if group.rows is None:
        members = [member for member in group.members if isinstance(member, Map | Reduction)]
        return _flat_nest(recorder, members, name, needed)
    return _RowNest(recorder, group.rows, name, needed).build(group.forms)


# Element by element.


def _flat_nest(
    recorder: Recorder, members: Sequence[Map | Reduction], name: str, needed: Callable[[Buffer], bool]
) -> Nest:
    """Maps of as many points each, in the loops of the first one; or, where it is not seen in these that they
    read their own elements, in a single loop, in which fusion has seen it."""
    first = members[0]
    if not isinstance(first, Map):
        raise InternalError(f"{name}: a nest without rows holds maps only")
    together = first.variables, (Var("i", extents(first.variables)),)
    for outer in together:
        statements, problem = _flat_statements(recorder, members, outer, needed)
        if not problem:
            return Nest(name, outer, (Phase((), tuple(statements)),))
    raise InternalError(f"{name}: {problem}")


def _flat_statements(
    recorder: Recorder,
    members: Sequence[Map | Reduction],
    outer: tuple[Var, ...],
    needed: Callable[[Buffer], bool],
) -> tuple[list[Store | Reduce], str]:
    """What maps do at a point of the loops; and why they cannot, if they cannot."""
    draft = _Draft(())
    position = flatten(outer)
    for member in members:
        assert isinstance(member, Map)
        moved = dict(
            zip(
                member.variables,
                outer
                if _extents(member.variables) == _extents(outer)
                else unflatten(position, member.variables),
                strict=True,
            )
        )
        value = forwarded(recorder, reindex(recorder, member.value, moved), draft.stored)
        for access in loads_in(value):
            if access.buffer in draft.stored and not needed(access.buffer):
                return [], f"{member.buffer} reads {access} of the same nest, not stored"
        draft.stored[member.buffer] = (position, value)
        if needed(member.buffer):
            draft.statements.append(Store(Access(member.buffer, position), value))
    return draft.statements, ""


def _extents(variables: tuple[Var, ...]) -> list[Index]:
    return [var.extent for var in variables]


def forwarded(recorder: Recorder, value: Expr, stored: dict[Buffer, tuple[Index, Expr]]) -> Expr:
    """`value` with loads of elements that were just computed replaced by their expressions."""

    def forward(node: Expr) -> Expr | None:
        if node.op == "load" and node.data.buffer in stored and not node.data.indirect:
            position, expr = stored[node.data.buffer]
            if node.data.index == position:
                return expr
        return None

    return substitute(recorder, value, forward)


# Row by row.


class _RowNest:
    def __init__(self, recorder: Recorder, rows: int, name: str, needed: Callable[[Buffer], bool]) -> None:
        self.recorder = recorder
        self.row = Var("row", rows)
        self.rows = rows
        self.name = name
        self.needed = needed
        self.drafts: list[_Draft] = []
        self.reduced: dict[Buffer, str] = {}
        self.largest: dict[str, Expr] = {}  # by accumulator, what it holds the maximum of
        self.home: dict[Buffer, int] = {}
        self.repeated: dict[Buffer, tuple[Index, Expr]] = {}  # what later phases compute again
        self.row_bytes = 0  # of the row temporaries

    def build(self, forms: Sequence[Structured]) -> Nest:
        members = [form.definition for form in forms]
        for form in forms:
            self._add(form)
        self._store_reduced(members)
        self._drop_unread(members)
        phases = tuple(Phase(d.inner, tuple(d.statements)) for d in self.drafts if d.statements)
        return Nest(self.name, (self.row,), phases)

    def _add(self, form: Structured) -> None:
        """Put a definition into the first phase in which it can run."""
        at, draft = self._phase_for(form)
        value = self._local(form.value, draft)
        definition = form.definition
        self.home[definition.buffer] = at
        if isinstance(definition, Reduction):
            draft.folds.add(definition.buffer)
            same = [
                s.name
                for s in draft.statements
                if isinstance(s, Reduce) and s.combine is definition.combine and s.value == value
            ]
            accumulator = same[0] if same else f"acc_{definition.buffer.name}"
            self.reduced[definition.buffer] = accumulator
            if definition.combine is Combine.MAXIMUM:
                self.largest[accumulator] = value
            if not same:
                draft.statements.append(Reduce(accumulator, definition.combine, value))
        else:
            draft.stored[definition.buffer] = (form.position, value)
            draft.statements.append(Store(Access(definition.buffer, form.position), value))
            instructions, loads = moving_cost(value, form.inner)
            if not self.needed(definition.buffer) and instructions <= CHEAP_ROW and loads <= 1:
                self.repeated[definition.buffer] = (form.position, value)

    def _phase_for(self, form: Structured) -> tuple[int, _Draft]:
        for at in range(self._earliest(form), len(self.drafts)):
            draft = self.drafts[at]
            if draft.inner == form.inner and self._elementwise(form, draft, at):
                return at, draft
        draft = _Draft(form.inner)
        self.drafts.append(draft)
        return len(self.drafts) - 1, draft

    def _earliest(self, form: Structured) -> int:
        """The first phase after all reductions that the definition reads have ended."""
        after = 0
        for access in loads_in(form.value):
            home = self.home.get(access.buffer)
            if home is not None:
                after = max(after, home + 1 if access.buffer in self.reduced else home)
        return after

    def _elementwise(self, form: Structured, draft: _Draft, at: int) -> bool:
        """Whether what the definition reads from phase `at` is the element that was just computed."""
        return all(
            access.index == draft.stored[access.buffer][0]
            for access in loads_in(form.value)
            if self.home.get(access.buffer) == at
        )

    def _local(self, value: Expr, draft: _Draft) -> Expr:
        """Reads of what this nest computed, as registers or accumulators where possible."""
        value = forwarded(self.recorder, value, draft.stored | self.repeated)

        def accumulate(node: Expr) -> Expr | None:
            if (
                node.op == "load"
                and node.data.buffer in self.reduced
                and node.data.index == as_index(self.row)
            ):
                return self.recorder.make("reduced", (), node.dtype, self.reduced[node.data.buffer])
            if node.op == "exp" and self._is_nonpositive(node.args[0]):
                return self.recorder.make("exp_nonpositive", node.args, node.dtype)
            return None

        return substitute(self.recorder, value, accumulate)

    def _is_nonpositive(self, value: Expr) -> bool:
        """Whether it is an element less the maximum of all (or NaN, if that is): softmax and its kin."""
        if value.op != "sub" or value.args[1].op != "reduced" or not value.dtype.is_floating_point:
            return False
        element = value.args[0]
        if element.op == "load":  # of a row that an earlier phase has stored
            stored = (draft.stored.get(element.data.buffer) for draft in self.drafts)
            element = next(
                (known for place, known in filter(None, stored) if place == element.data.index), element
            )
        return self.largest.get(value.args[1].data) == element

    def _store_reduced(self, members: list[Map | Reduction]) -> None:
        """Write the reductions that somebody outside reads, in a phase of their own at the end."""
        final = _Draft(())
        for member in members:
            if isinstance(member, Reduction) and self.needed(member.buffer):
                value = self.recorder.make("reduced", (), member.buffer.dtype, self.reduced[member.buffer])
                final.statements.append(Store(Access(member.buffer, as_index(self.row)), value))
        if final.statements:
            self.drafts.append(final)

    def _drop_unread(self, members: list[Map | Reduction]) -> None:
        """Remove stores that no later phase and nobody outside reads.

        Others that stay inside become row temporaries, as long as these are small.
        """
        for member in members:
            buffer = member.buffer
            if not isinstance(member, Map) or self.needed(buffer):
                continue
            read_inside = any(
                access.buffer is buffer
                for draft in self.drafts
                for s in draft.statements
                for access in loads_in(s.value)
            )
            if not read_inside:
                for draft in self.drafts:
                    draft.statements = [
                        s
                        for s in draft.statements
                        if not (isinstance(s, Store) and s.access.buffer is buffer)
                    ]
                continue
            width = points(member) // self.rows
            size = width * buffer.dtype.itemsize
            if self.row_bytes + size <= ROW_BYTES:
                self.row_bytes += size
                self._make_row_temporary(buffer, width)

    def _make_row_temporary(self, buffer: Buffer, width: int) -> None:
        """Keep one row of `buffer` per task instead of all of it."""
        own = replace(buffer, memory=MemoryKind.ROW, size=as_index(width))
        start = as_index(self.row) * width

        def local(node: Expr) -> Expr | None:
            if node.op == "load" and node.data.buffer is buffer:
                return self.recorder.load(Access(own, node.data.index - start), node.dtype)
            return None

        def target(access: Access) -> Access:
            return Access(own, access.index - start) if access.buffer is buffer else access

        for draft in self.drafts:
            statements = rewrite_statements(
                draft.statements, lambda value: substitute(self.recorder, value, local), target
            )
            draft.statements = list(statements)

"""Temporaries that are written where others are read for the last time.

A step that alone reads a temporary, each element before it writes the one with the same number of its own
result, may write that result to the temporary's memory: it is in cache already, and no other is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..loops.expr import Access, Expr, Recorder, loads_in, substitute
from ..loops.nest import Buffer, Call, Nest, Phase, Place, Statement, Store
from ..loops.product import MATMUL, epilogue_of, result_of
from .loops import LoopPlan
from .memory import LARGE, bytes_of
from .stages import Step, reads_writes
from .update_in_place import Pair

Names = Mapping[Buffer, Buffer]


def reuse_memory(recorder: Recorder, steps: list[Step]) -> list[Pair]:
    """Change `steps` so; gives the pairs of a result and what it takes the place of."""
    readers: dict[Buffer, list[Step]] = {}
    writers: dict[Buffer, list[Step]] = {}
    for step in steps:
        for users, buffers in zip((readers, writers), reads_writes(step), strict=True):
            for buffer in dict.fromkeys(buffers):
                users.setdefault(buffer, []).append(step)
    names: dict[Buffer, Buffer] = {}

    def free(new: Buffer, old: Buffer) -> bool:
        """Whether one step alone reads `old` and writes `new`, and all who read `new` can read another."""
        return len(readers[old]) == len(writers[new]) == 1 == len(writers.get(old, ())) and all(
            isinstance(s, LoopPlan) or s.routine == MATMUL for s in readers.get(new, ())
        )

    for at, step in enumerate(steps):
        if isinstance(step, LoopPlan) and not step.part:
            taken: set[Buffer] = set()
            for new in dict.fromkeys(reads_writes(step)[1]):
                old = next(
                    (
                        old
                        for old in dict.fromkeys(reads_writes(step)[0])
                        if old not in taken
                        and _alike(new, old)
                        and free(new, old)
                        and _reads_first(step.nest, new, old)
                    ),
                    None,
                )
                if old is not None:
                    taken.add(old)
                    names[new] = names.get(old, old)
        if names.keys() & {b for buffers in reads_writes(step) for b in buffers}:
            steps[at] = _renamed(recorder, step, names)
    return list(names.items())


def _alike(new: Buffer, old: Buffer) -> bool:
    return (
        new is not old
        and new.place is old.place is Place.TEMPORARY
        and new.dtype is old.dtype
        and new.size == old.size
        and bytes_of(new) >= LARGE
    )


def _reads_first(nest: Nest, new: Buffer, old: Buffer) -> bool:
    """Whether each element of `old` is read only before that of `new` is written, which happens once."""
    statements = [(phase, s) for phase in nest.phases for s in phase.statements]
    places = [at for at, (_, s) in enumerate(statements) if isinstance(s, Store) and s.access.buffer is new]
    if len(places) != 1 or any(access.buffer is new for access in nest.reads()):
        return False
    here, store = statements[places[0]]
    assert isinstance(store, Store)
    if store.mode is not None or store.condition is not None or store.access.indirect:
        return False
    for at, (phase, s) in enumerate(statements):
        for access in (a for value in Phase((), [s]).values() for a in loads_in(value) if a.buffer is old):
            if at > places[0] or phase.inner != here.inner or access != Access(old, store.access.index):
                return False
    # No other turn of the loops may read what was written.
    return all(var.extent == 1 or store.access.index.depends_on(var) for var in (*nest.outer, *here.inner))


# Other names.


def _renamed(recorder: Recorder, step: Step, names: Names) -> Step:
    """The step with other buffers in the place of those that `names` has."""
    if isinstance(step, LoopPlan):
        rest = tuple(tuple(_store(recorder, s, names) for s in stores) for stores in step.rest)
        near = frozenset(names.get(b, b) for b in step.near)
        return replace(step, nest=_nest(recorder, step.nest, names), rest=rest, near=near)
    attributes = dict(step.attributes)
    nest = epilogue_of(step)
    if nest is not None:
        attributes["epilogue"] = _nest(recorder, nest, names)
    if "result" in attributes:
        attributes["result"] = names.get(result_of(step), result_of(step))
    inputs, outputs = ([names.get(b, b) for b in buffers] for buffers in (step.inputs, step.outputs))
    return Call(step.name, step.routine, inputs, outputs, attributes)


def _nest(recorder: Recorder, nest: Nest, names: Names) -> Nest:
    return Nest(
        nest.name,
        nest.outer,
        [Phase(phase.inner, _statements(recorder, phase.statements, names)) for phase in nest.phases],
    )


def _statements(recorder: Recorder, statements: Sequence[Statement], names: Names) -> list[Statement]:
    return [
        _store(recorder, s, names)
        if isinstance(s, Store)
        else replace(s, value=_value(recorder, s.value, names))
        for s in statements
    ]


def _store(recorder: Recorder, store: Store, names: Names) -> Store:
    condition = None if store.condition is None else _value(recorder, store.condition, names)
    return replace(
        store,
        access=_access(recorder, store.access, names),
        value=_value(recorder, store.value, names),
        condition=condition,
    )


def _access(recorder: Recorder, access: Access, names: Names) -> Access:
    return Access(
        names.get(access.buffer, access.buffer),
        access.index,
        tuple((atom, _value(recorder, e, names)) for atom, e in access.indirect),
    )


def _value(recorder: Recorder, value: Expr, names: Names) -> Expr:
    def moved(node: Expr) -> Expr | None:
        if node.op == "load" and node.data.buffer in names:
            access = node.data
            return recorder.load(Access(names[access.buffer], access.index, access.indirect), node.dtype)
        return None

    return substitute(recorder, value, moved)

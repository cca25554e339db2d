"""How the loops of a nest run: merged where they can be, in vectors along one of them, split into tasks.

`plan_loops(nest, target lanes)` rewrites the nest with fewer, longer loops and says which variable runs in
vectors and how many rows a task takes. Nothing here depends on the CPU but the number of lanes; the number
of tasks depends on the work alone, so
results do not depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

from ..core.index import Index, Quotient, Remainder, Var, as_index
from ..core.symbols import divisible, hint, is_size, size_of
from ..loops.expr import Recorder, cost, loads_in, walk
from ..loops.extents import points_hint, points_of
from ..loops.nest import MemoryKind, Nest, Phase, Statement, Store
from ..loops.plans import LoopPlan, Split
from ..loops.rewrite import move_loops
from .cost import FAR_STRIDE, LINE_ROWS, TRANSPOSE_BLOCK, TRANSPOSE_ROWS, TRANSPOSE_SQUARE, VECTOR_ROWS


def plan_loops(recorder: Recorder, nest: Nest) -> LoopPlan:
    nest = merge_loops(recorder, nest)
    nest, block = _blocked(nest)
    vector_outer = _prefers_outer(nest)
    work = _work(nest)
    extent = size_of(nest.outer[0].extent) if nest.outer else 1
    unit = VECTOR_ROWS if vector_outer and len(nest.outer) == 1 else 1
    split = Split(extent, work, unit, LINE_ROWS if block and len(nest.outer) == 2 else 1)
    return LoopPlan(nest, vector_outer, *split.tasks_and_rows(), block, work, split=split)


# Merging.


def merge_loops(recorder: Recorder, nest: Nest) -> Nest:
    """Merge neighbouring loops that every access walks through as through one, and drop loops of one
    iteration.
    """
    nest = _drop_single(recorder, nest)
    nest = unmerged(recorder, nest)
    nest = _merge_outer(recorder, nest)
    return Nest(nest.name, nest.outer, tuple(_merge_inner(recorder, phase) for phase in nest.phases))


def _drop_single(recorder: Recorder, nest: Nest) -> Nest:
    gone = {var: 0 for var in (*nest.outer, *(v for p in nest.phases for v in p.inner)) if var.extent == 1}
    if not gone:
        return nest
    outer = tuple(v for v in nest.outer if v not in gone)
    phases = tuple(
        Phase(tuple(v for v in p.inner if v not in gone), move_loops(recorder, p.statements, gone))
        for p in nest.phases
    )
    return Nest(nest.name, outer, phases)


def unmerged(recorder: Recorder, nest: Nest) -> Nest:
    """Outer loops over several dimensions at once, told apart by division, as loops of their own."""
    for at, var in enumerate(nest.outer):
        extent = size_of(var.extent)
        divisors = {
            d
            for phase in nest.phases
            for s in phase.statements
            for index in _indices(s)
            for d in _divisors(index, var)
            if 1 < hint(d) < hint(extent) and divisible(extent, d)
        }
        if divisors:
            step = min(divisors, key=hint)
            high, low = Var(f"{var.name}_", extent // step), Var(f"{var.name}{step}", step)
            values = {var: as_index(high) * step + low}
            phases = tuple(Phase(p.inner, move_loops(recorder, p.statements, values)) for p in nest.phases)
            outer = (*nest.outer[:at], high, low, *nest.outer[at + 1 :])
            return unmerged(recorder, Nest(nest.name, outer, phases))
    return nest


def _divisors(index: Index, var: Var) -> list[int]:
    """What `var` itself is divided by somewhere in an index."""
    return [
        size_of(atom.divisor)
        for atom in index.atoms()
        if isinstance(atom, Quotient | Remainder) and atom.value == as_index(var)
    ]


def _merge_outer(recorder: Recorder, nest: Nest) -> Nest:
    outer = list(nest.outer)
    phases = nest.phases
    at = len(outer) - 2
    while at >= 0:
        merged, values = _merged(outer[at], outer[at + 1])
        moved = tuple(Phase(p.inner, move_loops(recorder, p.statements, values)) for p in phases)
        if all(_affine(s, merged) for p in moved for s in p.statements):
            phases = moved
            outer[at : at + 2] = [merged]
        at -= 1
    return Nest(nest.name, tuple(outer), phases)


def _merge_inner(recorder: Recorder, phase: Phase) -> Phase:
    inner = list(phase.inner)
    statements = phase.statements
    at = len(inner) - 2
    while at >= 0:
        merged, values = _merged(inner[at], inner[at + 1])
        moved = move_loops(recorder, statements, values)
        if all(_affine(s, merged) for s in moved):
            statements = moved
            inner[at : at + 2] = [merged]
        at -= 1
    return Phase(tuple(inner), statements)


def _merged(outer: Var, inner: Var) -> tuple[Var, dict[Any, Any]]:
    merged = Var(f"{outer.name}.{inner.name}", outer.extent * inner.extent)
    return merged, {outer: as_index(merged) // inner.extent, inner: as_index(merged) % inner.extent}


def _indices(statement: Statement) -> list[Index]:
    first, *others = statement.values()
    indices = [access.index for access in loads_in(first)]
    indices.extend(node.data for node in walk(first) if node.op == "index")
    if isinstance(statement, Store):
        indices.append(statement.access.index)
        indices.extend(access.index for e in others for access in loads_in(e))
        indices.extend(node.data for e in others for node in walk(e) if node.op == "index")
    return indices


def _affine(statement: Statement, var: Var) -> bool:
    return all(index.stride(var) is not None for index in _indices(statement))


# The loop that runs in vectors.


def _prefers_outer(nest: Nest) -> bool:
    """Whether vectors should run along the last outer loop rather than along the last inner one."""
    if not nest.outer:
        return False
    if not any(phase.inner for phase in nest.phases):
        return True
    if any(access.buffer.memory is MemoryKind.ROW for access in nest.writes()):
        return False
    outer = inner = 0
    for phase in nest.phases:
        turns = points_hint(phase.inner)  # what runs often counts most
        outer += turns * sum(_score(s, nest.outer[-1]) for s in phase.statements)
        inner += turns * sum(_score(s, phase.inner[-1]) for s in phase.statements) if phase.inner else 0
    return outer > inner


def _score(statement: Statement, var: Var) -> int:
    total = 0
    for index in _indices(statement):
        stride = index.stride(var)
        total += -2 if stride is None else 2 if stride == 1 else 1 if stride == 0 else -2
    return total


# Transposes.


def _blocked(nest: Nest) -> tuple[Nest, int]:
    """The nest with its outer loops in an order in which what is read across lies in cache when it is read
    again, and how many points of the last loop a block has; 0 if nothing is read across."""
    if len(nest.outer) < 2 or any(phase.inner for phase in nest.phases):
        return nest, 0
    last = nest.outer[-1]
    indices = [index for phase in nest.phases for s in phase.statements for index in _indices(s)]
    if _is_short(last, TRANSPOSE_SQUARE) or not any(_is_far(index, last) for index in indices):
        return nest, 0
    near = [
        var
        for var in nest.outer[:-1]
        if not _is_short(var, TRANSPOSE_ROWS)
        and any(index.stride(var) == 1 and _is_far(index, last) for index in indices)
    ]
    if not near:
        return nest, 0
    others = [var for var in nest.outer[:-1] if var is not near[-1]]
    return Nest(nest.name, (*others, near[-1], last), nest.phases), TRANSPOSE_BLOCK


def _is_short(var: Var, least: int) -> bool:
    """Whether a loop has less than so many points in every call."""
    extent = var.extent.constant_value()
    return extent is not None and extent < least


def _is_far(index: Index, var: Var) -> bool:
    step = index.stride(var)
    if step is None:
        return False
    number = step.constant_value()
    return number is None or abs(number) >= FAR_STRIDE  # one that changes may be far


# Work.


def _work(nest: Nest) -> int:
    per_row = 0
    for phase in nest.phases:
        per_row += points_of(phase.inner) * sum(
            1 + cost(s.value) + 2 * len(loads_in(s.value)) for s in phase.statements
        )
    return points_of(nest.outer) * (per_row + 1 if is_size(per_row) else max(1, per_row))

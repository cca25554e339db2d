"""From the loops of a nest, as they are scheduled, to the plan of a nest for a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.index import Var
from ..core.symbols import divisible, is_size, size_of
from ..loops.expr import Expr, cost, walk
from ..loops.instructions import CHECKS
from ..loops.nest import MemoryKind, Nest, Phase, Reduce, Statement, Store
from ..loops.plans import LoopPlan
from ..runtime.target import Target
from .cost import LIMITED_REGISTERS, LONG_BODY, SQUARE_BODY, STACK_BYTES
from .interleave import rows_together
from .nest import NestPlan, PhasePlan, RestStore
from .prefetch import prefetched
from .vectors import (
    Tail,
    VectorLoop,
    extent_of,
    is_long,
    loop_width,
    machine_lanes,
    maskable,
    repeatable,
    tail_of,
)


def plan_nest(loops: LoopPlan, target: Target) -> NestPlan:
    """The plan of a nest, but for how far beyond a limit its readers look (causal_bounds.py)."""
    plan = outer_plan(loops, target)
    if loops.vector_outer:
        return plan
    nest, rest = loops.nest, loops.rest or ((),) * len(loops.nest.phases)
    unit = _limit_unit(loops, plan.lanes, target)
    widths = {id(p): _phase_width(p, plan, target) for p in nest.phases if p.inner}
    phases = tuple(
        PhasePlan(
            None if not p.inner else _inner_loop(p, widths[id(p)], plan.lanes, target),
            rest=tuple(map(RestStore, stores)),
        )
        for p, stores in zip(nest.phases, rest, strict=True)
    )
    plan = replace(
        plan,
        interleaved_rows=_interleaved(nest),
        limit_unit=None if unit is None else max(widths.values()),
        phases=phases,
    )
    return replace(plan, phases=tuple(_with_prefetch(plan, p) for p in nest.phases))


def _interleaved(nest: Nest) -> int:
    """Rows that take each step together: their temporaries, of sizes that may change, are on the stack."""
    count = rows_together(nest)
    rows = {access.buffer for access in nest.writes() if access.buffer.memory is MemoryKind.ROW}
    size = sum(size_of(buffer.size) * buffer.dtype.itemsize for buffer in rows)
    return count if count * size <= STACK_BYTES else 1


def outer_plan(loops: LoopPlan, target: Target) -> NestPlan:
    """The plan of a nest whose inner loops run point by point."""
    nest = loops.nest
    plan = NestPlan(
        nest,
        machine_lanes(nest, target),
        loops.vector_outer,
        loops.tasks,
        loops.rows_per_task,
        (PhasePlan(),) * len(nest.phases),
        block=loops.block,
        limit=loops.limit,
        split=loops.split,
    )
    if loops.vector_outer:
        plan = replace(plan, outer=_outer_loop(nest, plan, target))
    if loops.block:
        plan = replace(plan, squares=_across(nest, plan.lanes))
    return plan


# Vectors along the last outer loop.


def _outer_loop(nest: Nest, plan: NestPlan, target: Target) -> VectorLoop:
    statements, var = _statements(nest), nest.outer[-1]
    width = loop_width(statements, var, plan.lanes)
    extent = extent_of(var)
    if not plan.shares_extent and divisible(extent, width) and plan.block % width == 0:
        return VectorLoop(width, Tail.NONE)
    tail = tail_of(statements, var, plan.lanes, target)
    if is_size(extent) and tail is Tail.MASKED:  # which is right for any size
        return VectorLoop(width, tail)
    if repeatable(statements) and is_long(var, width):
        return VectorLoop(width, Tail.OVERLAP)
    return VectorLoop(width, tail)


def plan_tile(nest: Nest, target: Target, registers: int, *, ragged: bool) -> NestPlan:
    """The plan of a nest of which parts of each outer loop run, in vectors along the last one.

    `ragged`: the range of the last loop is not always a whole number of vectors. `registers`: if it is, how
    many of them a vector may have.
    """
    statements, var = _statements(nest), nest.outer[-1]
    lanes = machine_lanes(nest, target)
    width = min(loop_width(statements, var, lanes), lanes * registers)
    tail = tail_of(statements, var, lanes, target) if ragged else Tail.NONE
    rows = extent_of(nest.outer[0])
    phases = (PhasePlan(),) * len(nest.phases)
    return NestPlan(nest, lanes, True, 1, rows, phases, outer=VectorLoop(width, tail))


def _across(nest: Nest, lanes: int) -> tuple[Expr, ...]:
    """Loads that are contiguous along the loop before the last, but not along the last loop, if all that is
    not contiguous along the last loop is of this kind, and the statements are so short that they may be
    written out for every lane."""
    near, last = nest.outer[-2:]
    statements = _statements(nest)
    found: dict[Expr, None] = {}
    for statement in statements:
        for node in walk(statement.value):
            index = node.data.index if node.op == "load" else node.data if node.op == "index" else None
            if node.op in CHECKS or (node.op == "load" and node.data.indirect):
                return ()
            if index is not None and index.stride(last) not in (0, 1):
                if node.op == "index" or index.stride(last) is None or index.stride(near) != 1:
                    return ()
                found[node] = None
        if not isinstance(statement, Store) or statement.access.index.stride(last) != 1:
            return ()
    if not found or lanes == 1 or sum(cost(s.value) for s in statements) > SQUARE_BODY:
        return ()
    large = all(is_long(var, lanes) for var in (near, last))
    return tuple(found) if large and repeatable(statements) else ()


def _statements(nest: Nest) -> list[Statement]:
    return [s for phase in nest.phases for s in phase.statements]


# Vectors along the last inner loop of each phase.


def _phase_width(phase: Phase, plan: NestPlan, target: Target) -> int:
    """Lanes of the last inner loop."""
    var, statements = phase.inner[-1], phase.statements
    folds, again = _folds(statements), repeatable(statements)
    width = loop_width(statements, var, plan.lanes)
    masked = _masked_wide(phase, target)
    if folds and not masked and not again:
        width = plan.lanes  # as wide as the masked vector at the end
    if plan.limit is not None:
        width = min(width, LIMITED_REGISTERS * plan.lanes)
    if folds and not masked and _has_tail(var, width, again=again) and not maskable(statements, var, target):
        return 1
    return width


def _has_tail(var: Var, width: int, *, again: bool) -> bool:
    """Whether points are left over that no overlapping vector computes."""
    return not divisible(extent_of(var), width) and not (again and is_long(var, width))


def _inner_loop(phase: Phase, width: int, lanes: int, target: Target) -> VectorLoop:
    var, statements = phase.inner[-1], phase.statements
    if width == 1 or divisible(extent_of(var), width):
        return VectorLoop(width, Tail.NONE)
    if _masked_wide(phase, target):
        return VectorLoop(width, Tail.MASKED_WIDE)
    if repeatable(statements) and is_long(var, width):
        if not _folds(statements):
            return VectorLoop(width, Tail.OVERLAP)
        long = sum(cost(s.value) for s in statements) >= LONG_BODY
        return VectorLoop(width, Tail.OVERLAP_MASKED if long else Tail.OVERLAP_COPIED)
    return VectorLoop(width, tail_of(statements, var, lanes, target))


def _masked_wide(phase: Phase, target: Target) -> bool:
    """Whether the last vector of a loop is masked: if its size may be any, also less than one vector."""
    var = phase.inner[-1]
    return is_size(extent_of(var)) and maskable(phase.statements, var, target)


def _folds(statements: Sequence[Statement]) -> bool:
    return any(isinstance(s, Reduce) for s in statements)


def _limit_unit(loops: LoopPlan, lanes: int, target: Target) -> int | None:
    """Lanes of the widest vectors of rows that end early; None if they run to their end all the same."""
    if loops.limit is None:
        return None
    unit = LIMITED_REGISTERS * lanes
    whole = all(
        divisible(extent_of(phase.inner[-1]), unit) or _masked_wide(phase, target)
        for phase in loops.nest.phases
        if phase.inner
    )
    return unit if whole else None


def _with_prefetch(plan: NestPlan, phase: Phase) -> PhasePlan:
    found = plan.phase(phase)
    if found.loop is None or found.loop.tail in (Tail.OVERLAP_MASKED, Tail.OVERLAP_COPIED):
        return found
    return replace(found, prefetch=prefetched(plan.nest, phase, plan.interleaved_rows))

"""Templates in the schedule: what is fused with a scan, and how the loops of scans and scatters run.

A map may join a scan if it computes one element for each of the scan and reads what the scan and the maps
that joined before compute only at its own element: it then runs right after the running value, in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..core.dtypes import DTYPES
from ..loops.definitions import Definition, Map
from ..loops.expr import Access, Expr, Recorder, cost, loads_in, reindex, walk
from ..loops.extents import constant, points_of, unflatten
from ..loops.index import Index, Var, as_index
from ..loops.kernels import Scan, Scatter, Sort
from ..loops.nest import Buffer, MemoryKind, Nest, Phase, Statement, Store
from ..loops.plans import NETWORK, RADIX, SELECT, LoopPlan, ScatterPlan, SortPlan
from .fusion import points
from .loops import MOST_TASKS, SERIAL_WORK, TASK_WORK, merge_loops, plan_loops
from .nests import forwarded


def scan_obstacle(scan: Scan, written: set[Buffer], definition: Definition) -> str:
    """Why `definition` cannot run with the scan; empty if it can."""
    if not isinstance(definition, Map):
        return "a reduction does not run inside of a scan"
    position, nest = _position(scan), scan.nest
    if points(definition) != points_of((*nest.outer, *nest.phases[0].inner)):
        return f"{definition.buffer} has not one element for each of the scan"
    moved = dict(zip(definition.variables, unflatten(position, definition.variables), strict=True))
    for access in loads_in(definition.value):
        if access.buffer in written and (access.indirect or access.index.substitute(moved) != position):
            return f"{definition.buffer} reads {access.buffer} at another element than its own"
    return ""


def _position(scan: Scan) -> Index:
    """Where the scan writes at a point: the same in all of its buffers."""
    return scan.nest.writes()[0].index


def with_maps(recorder: Recorder, scan: Scan, maps: Sequence[Map], needed: Callable[[Buffer], bool]) -> Scan:
    """The scan with `maps` after it; what nobody reads is not stored."""
    nest, position = scan.nest, _position(scan)
    phase = nest.phases[0]
    stored = {s.access.buffer: (position, s.value) for s in phase.statements if isinstance(s, Store)}
    statements: list[Statement] = [
        s for s in phase.statements if not isinstance(s, Store) or needed(s.access.buffer)
    ]
    for member in maps:
        moved = dict(zip(member.variables, unflatten(position, member.variables), strict=True))
        value = forwarded(recorder, reindex(recorder, member.value, moved), stored)
        stored[member.buffer] = (position, value)
        if needed(member.buffer):
            statements.append(Store(Access(member.buffer, position), value))
    return replace(scan, nest=Nest(nest.name, nest.outer, (Phase(phase.inner, tuple(statements)),)))


def plan_scan(recorder: Recorder, scan: Scan) -> LoopPlan:
    """Where a step is long, each lane runs a row of its own, wherever the rows lie: it then takes one step an
    element, while a vector along the row takes as many as doubling does."""
    plan = plan_loops(recorder, scan.nest)
    long = any(cost(fold.step) >= LONG_STEP for fold in scan.folds.values())
    if long and plan.nest.outer and constant(plan.nest.outer[-1].extent) >= MANY_ROWS:
        return replace(plan, vector_outer=True)
    return plan


LONG_STEP = 12  # instructions
MANY_ROWS = 16


# Scatters.


def plan_scatter(recorder: Recorder, scatter: Scatter) -> ScatterPlan:
    """Loops in row-major order; only a loop whose points never meet is split, or runs in vectors."""
    nest = merge_loops(recorder, scatter.nest)
    (store,) = nest.phases[0].statements
    assert isinstance(store, Store)
    order = nest.outer
    apart = [var for var in order if var in _separate(store.access.index)]
    loaded = (e for _, e in store.access.indirect)
    vector = (
        bool(order)
        and order[-1] in apart
        and store.access.index.stride(order[-1]) == 1
        and not any(varies(e, order[-1]) for e in loaded)
    )
    work = sum(POINT_WORK + cost(value) for value in nest.phases[0].values())
    work *= points_of(order)
    wanted = 1 if work < SERIAL_WORK else max(1, min(work // TASK_WORK, MOST_TASKS))
    split = next((var for var in apart if constant(var.extent) >= wanted), None) or max(
        apart, key=lambda var: constant(var.extent), default=None
    )
    if split is None or wanted == 1:
        return ScatterPlan(nest, vector_outer=vector, tasks=1, rows_per_task=1, order=order)
    extent = constant(split.extent)
    rows = -(-extent // min(wanted, extent))
    if vector and split is order[-1]:
        rows = -(-rows // 64) * 64
    outer = (split, *[var for var in order if var is not split])
    return ScatterPlan(
        Nest(nest.name, outer, nest.phases),
        vector_outer=vector,
        tasks=-(-extent // rows),
        rows_per_task=rows,
        order=order,
    )


POINT_WORK = 4  # of a point, apart from what it computes


def _separate(position: Index) -> set[Any]:
    """The atoms of a position that are digits of it, so that other values of them are other positions."""
    terms = sorted(((c, m) for m, c in position.terms.items() if m), key=lambda term: term[0])
    reach = 0
    for coefficient, monomial in terms:
        if len(monomial) != 1 or coefficient <= reach:
            return set()
        reach += coefficient * int(monomial[0].bounds()[1])
    return {monomial[0] for _, monomial in terms}


def varies(expr: Expr, var: Var) -> bool:
    """Whether a value changes along a loop."""
    return any(
        (node.op == "load" and node.data.index.depends_on(var))
        or (node.op == "index" and node.data.depends_on(var))
        for node in walk(expr)
    )


# Sorts.


def plan_sort(kernel: Sort, needed: Callable[[Buffer], bool]) -> Sort:
    """The sort with its method, tasks and scratch memory chosen; results that nobody reads are left out."""
    sort = kernel.shape
    rows, n = math.prod(sort.rows), sort.length
    pair = 2 if sort.dtype.itemsize > 4 else 1
    batch = 1
    if sort.count <= MOST_SELECTED and 8 * sort.count <= n:
        method, words, work = SELECT, 2 * sort.count, n
    elif n <= MOST_IN_NETWORK and (rows >= 4 or n <= 64):
        method, words, work, batch = NETWORK, 8 * n * pair, 16 * n, 8
    else:
        method, words, work = RADIX, 4 * pair * 256 + 2 * n * pair, 32 * n
    wanted = 1 if rows * work < SERIAL_WORK else min(rows * work // TASK_WORK, 8 if n > 65536 else 32)
    per_task = -(-rows // max(1, min(wanted, rows)))
    per_task = -(-per_task // batch) * batch
    tasks = -(-rows // per_task)
    words = -(-words // 8) * 8
    scratch = Buffer(f"{kernel.name}_scratch", DTYPES["int64"], as_index(tasks * words), MemoryKind.TEMPORARY)
    values, positions = (
        buffer if buffer is not None and needed(buffer) else None
        for buffer in (kernel.values, kernel.positions)
    )
    plan = SortPlan(method, rows, tasks, per_task, words, scratch)
    return replace(kernel, values=values, positions=positions, plan=plan)


MOST_SELECTED = 64
MOST_IN_NETWORK = 1024

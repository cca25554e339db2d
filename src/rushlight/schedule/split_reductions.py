"""Large reductions with few results, in two steps: parts of the loop are folded side by side, then the parts.

How a loop is cut depends on its length alone, so the result does not depend on the number of threads. What is
left over by equal parts is folded on its own. A loop whose length changes from call to call has parts of the
length that suited the call that was captured, as many as there are; one that was too short to be cut has a guard
that it stays short, for a long sum in one part is slow and loses precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..core.dtypes import DTYPES
from ..core.index import Var, as_index
from ..core.symbols import hint_of, is_size, symbols_in
from ..loops.definitions import Definition, Map, Reduction, read
from ..loops.expr import Expr, Recorder, loads_in, reindex
from ..loops.extents import extents, flatten, points_hint, points_of, unflatten
from ..loops.nest import Buffer, Combine, MemoryKind
from ..loops.program import Program
from .cost import (
    BAND,
    FEW_RESULTS,
    HIGH,
    LARGE_PARTS,
    MOST_PARTS,
    MOST_ROWS,
    MOST_TALL,
    NARROW,
    PART,
    SHORTEST_LOOP,
    TALL,
    VECTOR_PART,
)

# The instruction that folds two values, and the reductions of the steps of an ARG_ reduction.
INSTRUCTION = {
    Combine.SUM: "add",
    Combine.PRODUCT: "mul",
    Combine.MAXIMUM: "maximum",
    Combine.MINIMUM: "minimum",
    Combine.ANY: "logical_or",
    Combine.ALL: "logical_and",
}
EXTREME = {Combine.ARG_MAXIMUM: Combine.MAXIMUM, Combine.ARG_MINIMUM: Combine.MINIMUM}


def split_reductions(program: Program) -> Program:
    """The program with reductions that are worth it in two steps."""
    return replace(program, definitions=tuple(_all_split(program.recorder, program.definitions)))


def _all_split(recorder: Recorder, definitions: Sequence[Definition]) -> list[Definition]:
    found: list[Definition] = []
    for definition in definitions:
        if isinstance(definition, Reduction) and _is_large(definition):
            for step in _plain(recorder, definition):
                found.extend(_split(recorder, step))
        elif (
            isinstance(definition, Reduction)
            and _is_tall(flat := _flat(recorder, definition))
            and (_is_narrow(flat) or _stands_alone(definition, definitions))
        ):
            steps = _split(recorder, flat) if len(flat.inner) == 1 else _split_between(recorder, flat)
            found.extend(_all_split(recorder, steps))
        else:
            if isinstance(definition, Reduction):
                _keep_short(definition)
            found.append(definition)
    return found


def _keep_short(reduction: Reduction) -> None:
    """Let a guard say that a sum which is not cut has few terms, if that may change: other reductions round
    nothing."""
    if reduction.combine not in (Combine.SUM, Combine.PRODUCT):
        return
    if _results(reduction) < FEW_RESULTS:
        _keep_below(reduction.inner, LARGE_PARTS * PART)
    elif reduction.outer and _reads_rows(reduction):
        _keep_below((*reduction.outer, *reduction.inner), MOST_TALL)
        _keep_below(reduction.inner, MOST_ROWS)


def _keep_below(loops: Sequence[Var], most: int) -> None:
    points: Any = points_of(loops)
    if is_size(points) and not symbols_in(points) & points.symbols.data.keys() and points_hint(loops) < most:
        bool(points < most)


def _is_large(reduction: Reduction) -> bool:
    longest = max((hint_of(var.extent) for var in reduction.inner), default=0)
    total = points_hint(reduction.inner)
    return _results(reduction) < FEW_RESULTS and total >= LARGE_PARTS * PART and longest >= SHORTEST_LOOP


def _results(reduction: Reduction) -> int:
    return points_hint(reduction.outer)


def _flat(recorder: Recorder, reduction: Reduction) -> Reduction:
    """The reduction with one inner loop instead of several, if everything is read in steps of one size then."""
    if len(reduction.inner) < 2:
        return reduction
    along = Var(".".join(var.name for var in reduction.inner), extents(reduction.inner))
    moved = dict(zip(reduction.inner, unflatten(as_index(along), reduction.inner), strict=True))
    value = reindex(recorder, reduction.value, moved)
    if any(access.index.stride(along) is None for access in loads_in(value)):
        return reduction
    return replace(reduction, inner=(along,), value=value)


def _is_tall(reduction: Reduction) -> bool:
    """Whether rows of a large matrix are folded into one row: it is better read in bands of rows than in
    columns."""
    if not reduction.outer or reduction.combine in EXTREME or not _trailing(reduction):
        return False
    height = _height(reduction)
    return _results(reduction) * height >= TALL and height >= 4 * BAND and _reads_rows(reduction)


def _reads_rows(reduction: Reduction) -> bool:
    """Whether the last loop of the results is the one along which memory is contiguous."""
    accesses = [
        access
        for access in loads_in(reduction.value)
        if any(access.index.depends_on(var) for var in reduction.inner)
    ]
    return all(not access.indirect and access.index.stride(reduction.outer[-1]) == 1 for access in accesses)


def _height(reduction: Reduction) -> int:
    return points_hint(reduction.inner)


def _trailing(reduction: Reduction) -> int:
    """How many of the last inner loops make a band, if not all of them are needed for that, or 1 loop is
    all there is; else 0."""
    rows = 1
    for count in range(1, len(reduction.inner)):
        rows *= hint_of(reduction.inner[-count].extent)
        if rows >= BAND:
            return count
    return int(len(reduction.inner) == 1)


def _is_narrow(reduction: Reduction) -> bool:
    """Whether a matrix has few columns and so many rows that its columns would not stay in cache."""
    return _results(reduction) <= NARROW and _height(reduction) >= HIGH


def _stands_alone(reduction: Reduction, definitions: Sequence[Definition]) -> bool:
    """Whether nothing that reads the result reads again what was folded, and would share its loops."""
    sources = set(read(reduction))
    return not any(reduction.buffer in read(d) and not sources.isdisjoint(read(d)) for d in definitions)


def _plain(recorder: Recorder, reduction: Reduction) -> list[Reduction]:
    """Where the best value is found first, then the first position that has it."""
    if reduction.combine not in EXTREME:
        return [reduction]
    value = reduction.value
    int64 = DTYPES["int64"]
    best = Buffer(f"{reduction.buffer.name}_best", value.dtype, reduction.buffer.size, MemoryKind.TEMPORARY)
    found = recorder.load_at(best, flatten(reduction.outer), value.dtype)
    there = recorder.eq(value, found)
    if value.dtype.is_floating_point:
        there = recorder.logical_or(there, recorder.isnan(value))
    position = recorder.index(flatten(reduction.inner), int64)
    far = recorder.number((1 << 63) - 1, int64)
    return [
        replace(reduction, buffer=best, combine=EXTREME[reduction.combine]),
        replace(reduction, combine=Combine.MINIMUM, value=recorder.where(there, position, far)),
    ]


def _split(recorder: Recorder, reduction: Reduction) -> list[Definition]:
    longest = max(reduction.inner, key=lambda var: hint_of(var.extent))
    total, extent = points_hint(reduction.inner), hint_of(longest.extent)
    few = _results(reduction) < FEW_RESULTS
    worth = max(2, total * max(_results(reduction), 1) // PART)
    count = min(MOST_PARTS, worth, extent) if few else max(2, extent // BAND)
    length = extent // count
    if few and length >= VECTOR_PART:
        length -= length % VECTOR_PART
    parts = longest.extent // length
    rest = longest.extent % length
    name, dtype = reduction.buffer.name, reduction.value.dtype
    chunk, along = Var(f"{name}_part", parts), Var(f"{longest.name}_in", length)
    partial = Buffer(f"{name}_parts", dtype, reduction.buffer.size * parts, MemoryKind.TEMPORARY)
    steps: list[Definition] = [
        Reduction(
            partial,
            (chunk, *reduction.outer),
            _exchanged(reduction.inner, longest, along),
            reduction.combine,
            reindex(recorder, reduction.value, {longest: as_index(chunk) * length + along}),
        )
    ]
    parted = recorder.load_at(partial, flatten((chunk, *reduction.outer)), dtype)
    if rest == 0:
        return [*steps, Reduction(reduction.buffer, reduction.outer, (chunk,), reduction.combine, parted)]
    whole, left = (
        Buffer(f"{name}_{part}", dtype, reduction.buffer.size, MemoryKind.TEMPORARY)
        for part in ("whole", "rest")
    )
    beyond = Var(f"{longest.name}_rest", rest)
    steps.append(Reduction(whole, reduction.outer, (chunk,), reduction.combine, parted))
    steps.append(
        Reduction(
            left,
            reduction.outer,
            _exchanged(reduction.inner, longest, beyond),
            reduction.combine,
            reindex(recorder, reduction.value, {longest: as_index(beyond) + parts * length}),
        )
    )
    here = flatten(reduction.outer)
    both = [recorder.load_at(buffer, here, dtype) for buffer in (whole, left)]
    steps.append(Map(reduction.buffer, reduction.outer, _folded(recorder, reduction.combine, *both)))
    return steps


def _split_between(recorder: Recorder, reduction: Reduction) -> list[Definition]:
    """The last inner loops first, for each point of the others."""
    count = _trailing(reduction)
    lead, band = reduction.inner[:-count], reduction.inner[-count:]
    dtype, size = reduction.value.dtype, reduction.buffer.size * extents(lead)
    partial = Buffer(f"{reduction.buffer.name}_parts", dtype, size, MemoryKind.TEMPORARY)
    parted = recorder.load_at(partial, flatten((*lead, *reduction.outer)), dtype)
    return [
        Reduction(partial, (*lead, *reduction.outer), band, reduction.combine, reduction.value),
        Reduction(reduction.buffer, reduction.outer, lead, reduction.combine, parted),
    ]


def _folded(recorder: Recorder, combine: Combine, a: Expr, b: Expr) -> Expr:
    folded: Expr = getattr(recorder, INSTRUCTION[combine])(a, b)
    return folded


def _exchanged(variables: tuple[Var, ...], old: Var, new: Var) -> tuple[Var, ...]:
    return tuple(new if var is old else var for var in variables)

"""Rows that end where nothing follows: which kernels need not run along whole rows, and how far they must.

What is known beyond a diagonal goes from kernel to kernel: from masks, which compare indices, to the scores
that they are added to, to the weights, and to the gradients of all these (see loops/causal_bounds.py). Results of
products with a triangle, of which nobody looks at the rest, count as zero there.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.index import Index, as_index
from ..core.symbols import hint_of
from ..loops.causal_bounds import Beyond, Known, as_number, columns_of, extents_in, fact_of, limits, rest_of
from ..loops.expr import Recorder, loads_in
from ..loops.kernels import Product
from ..loops.nest import Buffer, MemoryKind, Nest, Store
from ..loops.plans import LoopPlan
from ..loops.product import Side
from ..loops.program import Program, Step
from .cost import SHORT_ROWS_END

Rest = tuple[tuple[Store, ...], ...]


def limit_rows(program: Program) -> Program:
    """Give plans the limits that can be shown."""
    recorder, steps = program.recorder, list(program.steps)
    facts: dict[Buffer, Beyond] = {}
    for at, step in enumerate(steps):
        found, steps[at] = _learn(recorder, step, facts)
        facts.update((b, fact) for b, fact in found.items() if program.writer(b) is not None)
    readers: dict[Buffer, list[Step]] = {}  # of those that come later, with their limits
    notes = []
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        if isinstance(step, LoopPlan) and step.limit is not None:
            step = _simplified(recorder, step, facts, readers)
            notes.append(f"{step.nest.name}: rows end at {step.limit}")
        elif (
            isinstance(step, Product)
            and _shows_a_triangle(step)
            and _ends_unread(step.result, facts, readers)
        ):
            step = replace(step, near_diagonal=True)
        steps[at] = step
        for buffer in set(step.inputs) if facts else ():
            readers.setdefault(buffer, []).append(step)
    return replace(program, steps=tuple(steps)).note(*notes[::-1])


def _learn(recorder: Recorder, step: Step, facts: dict[Buffer, Beyond]) -> tuple[dict[Buffer, Beyond], Step]:
    """What is known of what a step writes, and the step, with a limit if there is one."""
    if isinstance(step, LoopPlan):
        found, limit, rest = _of_nest(recorder, step.nest, facts)
        limited = limit is not None and not step.vector_outer
        return found, replace(step, limit=limit, rest=rest) if limited else step
    if not isinstance(step, Product):
        return {}, step
    shape, nest = step.shape, step.epilogue
    if shape.triangle is not None and _shows_a_triangle(step):  # which has no epilogue
        rows, columns = as_index(shape.rows), as_index(shape.columns)
        return {step.result: Beyond(rows, columns, shape.triangle.diagonal, Known(0.0))}, step
    return {} if nest is None else _of_nest(recorder, nest, facts)[0], step


def _shows_a_triangle(product: Product) -> bool:
    """Whether of the result of a product only a triangle is looked at."""
    triangle = product.shape.triangle
    return triangle is not None and triangle.side is Side.RESULT


def _of_nest(
    recorder: Recorder, nest: Nest, facts: dict[Buffer, Beyond]
) -> tuple[dict[Buffer, Beyond], Index | None, Rest]:
    """What is known of what a nest writes, where its rows may end, and what its phases store after that."""
    for limit in limits(nest, facts):
        proof = rest_of(nest, limit, facts, recorder)
        if proof is None:
            continue
        rest, known = proof
        heights = {fact.rows for fact in facts.values()} | extents_in(limit)
        found = {}
        for phase, column in columns_of(nest):
            for s in phase.statements:
                if isinstance(s, Store) and s.access.buffer.memory is not MemoryKind.ROW:
                    fact = fact_of(s.access, column, limit, known[s.access], heights)
                    found.update({} if fact is None else {s.access.buffer: fact})
        long = hint_of(columns_of(nest)[0][1].extent) > SHORT_ROWS_END
        return found, limit if long else None, tuple(tuple(stores) for stores in rest)
    return {}, None, ()


# What nobody looks at.


def _simplified(
    recorder: Recorder, plan: LoopPlan, facts: dict[Buffer, Beyond], readers: dict[Buffer, list[Step]]
) -> LoopPlan:
    """The plan, storing mere numbers, and those near the limit only, where none of the readers looks."""
    near = frozenset(
        store.access.buffer
        for stores in plan.rest
        for store in stores
        if _ends_unread(store.access.buffer, facts, readers)
    )

    def stored(store: Store) -> Store:
        buffer = store.access.buffer
        return (
            store
            if buffer not in near
            else replace(store, value=as_number(recorder, facts[buffer].value, buffer.dtype))
        )

    return replace(plan, rest=tuple(tuple(map(stored, stores)) for stores in plan.rest), near=near)


def _ends_unread(buffer: Buffer, facts: dict[Buffer, Beyond], readers: dict[Buffer, list[Step]]) -> bool:
    """Whether none of the readers of a buffer looks beyond the diagonal."""
    return (
        buffer in facts
        and buffer.memory is MemoryKind.TEMPORARY
        and all(_ends_there(step, buffer, facts[buffer]) for step in readers.get(buffer, ()))
    )


def _ends_there(step: Step, buffer: Buffer, fact: Beyond) -> bool:
    """Whether a step that reads a buffer skips what is beyond the diagonal, up to whole tiles or vectors."""
    if isinstance(step, LoopPlan):
        along = columns_of(step.nest)
        found = [
            fact.limit_at(access.index, column) == step.limit
            for phase, column in along
            for value in phase.values()
            for access in loads_in(value)
            if access.buffer is buffer
        ]
        plain = all(store.value.op == "constant" for stores in step.rest for store in stores)
        return step.limit is not None and plain and all(found) and len(along) == len(step.nest.phases)
    return isinstance(step, Product) and _skips(step, buffer)


def _skips(product: Product, buffer: Buffer) -> bool:
    """Whether a product has the triangle of a buffer that is one of its operands."""
    triangle = product.shape.triangle
    if triangle is None or triangle.side is Side.RESULT or buffer in product.inputs[2:]:
        return False
    triangular, other = product.left, product.right
    if triangle.side in (Side.RIGHT_LOWER, Side.RIGHT_UPPER):
        triangular, other = other, triangular
    return triangular is buffer and other is not buffer

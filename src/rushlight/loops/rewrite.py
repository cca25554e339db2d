"""Rewriting kernels: the one place that takes statements, nests, kernels and definitions apart and puts them
together again.

A rewrite is given by a function of values (`value`: what is computed, positions and conditions included) and
one of accesses (`target`: where stores go). Everything else stays as it is; nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from .definitions import Definition, Map, Reduction, read, written
from .expr import Access, Expr, Recorder, buffers_in, reindex, substitute
from .kernels import Extern, Product, Routine, Scan, Sort
from .nest import Buffer, Nest, Phase, Reduce, Statement, Store
from .plans import LoopPlan

Value = Callable[[Expr], Expr]
Target = Callable[[Access], Access]
Names = Mapping[Buffer, Buffer]


def rewrite_store(store: Store, value: Value, target: Target | None = None) -> Store:
    access = store.access if target is None else target(store.access)
    if access.indirect:
        indirect = tuple((atom, value(e)) for atom, e in access.indirect)
        access = Access(access.buffer, access.index, indirect)
    condition = None if store.condition is None else value(store.condition)
    return Store(access, value(store.value), store.mode, condition)


def rewrite_statements(
    statements: Iterable[Statement], value: Value, target: Target | None = None
) -> tuple[Statement, ...]:
    return tuple(
        rewrite_store(s, value, target) if isinstance(s, Store) else Reduce(s.name, s.combine, value(s.value))
        for s in statements
    )


def rewrite_nest(nest: Nest, value: Value, target: Target | None = None) -> Nest:
    phases = tuple(Phase(p.inner, rewrite_statements(p.statements, value, target)) for p in nest.phases)
    return Nest(nest.name, nest.outer, phases)


# Loop variables.


def move_loops(
    recorder: Recorder, statements: Iterable[Statement], values: Mapping[Any, Any]
) -> tuple[Statement, ...]:
    """The statements with loop variables replaced in every index."""
    return rewrite_statements(
        statements,
        lambda value: reindex(recorder, value, values),
        lambda access: Access(access.buffer, access.index.substitute(values), access.indirect),
    )


# Buffers.


def rename_value(recorder: Recorder, value: Expr, names: Names) -> Expr:
    """`value`, reading other buffers in place of those that `names` has."""
    if names.keys().isdisjoint(buffers_in(value)):
        return value

    def moved(node: Expr) -> Expr | None:
        if node.op == "load" and node.data.buffer in names:
            access = node.data
            return recorder.load(Access(names[access.buffer], access.index, access.indirect), node.dtype)
        return None

    return substitute(recorder, value, moved)


def _renaming(recorder: Recorder, names: Names) -> tuple[Value, Target]:
    return (
        lambda value: rename_value(recorder, value, names),
        lambda access: Access(names.get(access.buffer, access.buffer), access.index, access.indirect),
    )


def rename_nest(recorder: Recorder, nest: Nest, names: Names) -> Nest:
    return rewrite_nest(nest, *_renaming(recorder, names))


def rename_plan(recorder: Recorder, plan: LoopPlan, names: Names) -> LoopPlan:
    """The plan with other buffers in place of those that `names` has."""
    maps = _renaming(recorder, names)
    rest = tuple(tuple(rewrite_store(s, *maps) for s in stores) for stores in plan.rest)
    near = frozenset(names.get(b, b) for b in plan.near)
    return replace(plan, nest=rewrite_nest(plan.nest, *maps), rest=rest, near=near)


def rename_routine(recorder: Recorder, kernel: Routine, names: Names) -> Routine:
    """The kernel with other buffers in place of those that `names` has."""

    def named(buffer: Buffer) -> Buffer:
        return names.get(buffer, buffer)

    if isinstance(kernel, Product):
        nest = None if kernel.epilogue is None else rename_nest(recorder, kernel.epilogue, names)
        left, right, result = map(named, (kernel.left, kernel.right, kernel.result))
        nontemporal = tuple(map(named, kernel.nontemporal))
        groups = None if kernel.groups is None else named(kernel.groups)
        return replace(
            kernel,
            left=left,
            right=right,
            result=result,
            epilogue=nest,
            nontemporal=nontemporal,
            groups=groups,
        )
    if isinstance(kernel, Extern):
        inputs, outputs = (tuple(map(named, buffers)) for buffers in (kernel.inputs, kernel.outputs))
        return replace(kernel, inputs=inputs, outputs=outputs)
    if isinstance(kernel, Sort):
        values, positions = (None if b is None else named(b) for b in (kernel.values, kernel.positions))
        return replace(kernel, source=named(kernel.source), values=values, positions=positions)
    nest = rename_nest(recorder, kernel.nest, names)
    if isinstance(kernel, Scan) and kernel.plan is not None:
        return replace(kernel, nest=nest, plan=rename_plan(recorder, kernel.plan, names))
    return replace(kernel, nest=nest)


def rename_definition(recorder: Recorder, definition: Definition, names: Names) -> Definition:
    if names.keys().isdisjoint((*read(definition), *written(definition))):
        return definition
    if isinstance(definition, Map | Reduction):
        buffer = names.get(definition.buffer, definition.buffer)
        return replace(definition, buffer=buffer, value=rename_value(recorder, definition.value, names))
    return rename_routine(recorder, definition, names)

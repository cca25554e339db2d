"""Cheap maps of a product's result are computed again by each of their readers, instead of being stored,
where the result itself is stored in any case: they would have to be written and read beside it.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.index import Index, Quotient, Remainder
from ..core.symbols import hint, hint_of
from ..loops.definitions import Definition, Map, Reduction, points, read, written
from ..loops.expr import Expr, Recorder, cost, loads_in, reindex, substitute, walk
from ..loops.extents import flatten, unflatten
from ..loops.kernels import Product
from ..loops.nest import Buffer, MemoryKind
from ..loops.program import Program, Step
from .cost import CHEAP_AGAIN, SMALL_BESIDE


def rematerialize(program: Program) -> Program:
    """The program without maps of this kind."""
    products = {definition.result for definition in program.definitions if isinstance(definition, Product)}
    gone: dict[Buffer, Map] = {}
    for definition in program.definitions:
        if isinstance(definition, Map) and definition.buffer.memory is MemoryKind.TEMPORARY:
            users = program.readers(definition.buffer)
            source = _source(definition)
            if (
                source is not None
                and program.writer(definition.buffer) is definition  # else others overwrite parts of it
                and source in products
                and len(program.readers(source)) > 1
                and users
                and all(_can_compute(user, definition) for user in users)
            ):
                gone[definition.buffer] = definition
    kept = (d for d in program.definitions if gone.keys().isdisjoint(written(d)))
    return replace(program, definitions=tuple(_with(program.recorder, d, gone) for d in kept))


def _source(definition: Map) -> Buffer | None:
    """The one large buffer of which a map is a cheap function, element by element."""
    if cost(definition.value) > CHEAP_AGAIN or any(node.op == "index" for node in walk(definition.value)):
        return None
    here, elements = flatten(definition.variables), points(definition)
    accesses = loads_in(definition.value)
    large = [a for a in accesses if SMALL_BESIDE * hint_of(a.buffer.size) > hint(elements)]
    if len(large) != 1 or any(a.indirect for a in accesses) or large[0].index != here:
        return None
    return large[0].buffer


def _can_compute(user: Definition | Step, definition: Map) -> bool:
    """Whether a reader of a map can compute what it reads of it, without divisions of indices."""
    if not isinstance(user, Map | Reduction):
        return False
    accesses = [access for access in loads_in(user.value) if access.buffer is definition.buffer]
    return not any(
        access.indirect or isinstance(atom, Quotient | Remainder)
        for access in accesses
        for index in unflatten(access.index, definition.variables)
        for atom in index.atoms()
    )


def _value_at(recorder: Recorder, definition: Map, position: Index) -> Expr:
    indices = unflatten(position, definition.variables)
    return reindex(recorder, definition.value, dict(zip(definition.variables, indices, strict=True)))


def _with(recorder: Recorder, definition: Definition, gone: dict[Buffer, Map]) -> Definition:
    """The definition with the values of maps in place of what it reads of them."""
    if not isinstance(definition, Map | Reduction) or not gone.keys() & set(read(definition)):
        return definition

    def moved(node: Expr) -> Expr | None:
        if node.op == "load" and node.data.buffer in gone:
            return _value_at(recorder, gone[node.data.buffer], node.data.index)
        return None

    return replace(definition, value=substitute(recorder, definition.value, moved))

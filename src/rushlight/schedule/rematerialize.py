"""Cheap maps of a product's result are computed again by each of their readers, instead of being stored,
where the result itself is stored in any case: they would have to be written and read beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..loops.definitions import Definition, Map, Reduction, read, written
from ..loops.expr import Expr, Recorder, cost, loads_in, reindex, substitute, walk
from ..loops.extents import constant, flatten, unflatten
from ..loops.index import Index, Quotient, Remainder
from ..loops.kernels import Product
from ..loops.nest import Buffer, MemoryKind
from .fusion import points

CHEAP = 2  # instructions
SMALL = 8  # times smaller than the result is what else may be read


def compute_again(recorder: Recorder, definitions: Sequence[Definition]) -> list[Definition]:
    """The definitions without maps of this kind."""
    products = {definition.result for definition in definitions if isinstance(definition, Product)}
    readers: dict[Buffer, list[Definition]] = {}
    for definition in definitions:
        for buffer in set(read(definition)):
            readers.setdefault(buffer, []).append(definition)
    gone: dict[Buffer, Map] = {}
    for definition in definitions:
        if isinstance(definition, Map) and definition.buffer.memory is MemoryKind.TEMPORARY:
            users = readers.get(definition.buffer, [])
            source = _source(definition)
            if (
                source is not None
                and source in products
                and len(readers[source]) > 1
                and users
                and all(_can_compute(user, definition) for user in users)
            ):
                gone[definition.buffer] = definition
    return [
        _with(recorder, definition, gone)
        for definition in definitions
        if not gone.keys() & set(written(definition))
    ]


def _source(definition: Map) -> Buffer | None:
    """The one large buffer of which a map is a cheap function, element by element."""
    if cost(definition.value) > CHEAP or any(node.op == "index" for node in walk(definition.value)):
        return None
    here, elements = flatten(definition.variables), points(definition)
    accesses = loads_in(definition.value)
    large = [a for a in accesses if SMALL * constant(a.buffer.size) > elements]
    if len(large) != 1 or any(a.indirect for a in accesses) or large[0].index != here:
        return None
    return large[0].buffer


def _can_compute(user: Definition, definition: Map) -> bool:
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

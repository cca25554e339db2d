"""Loop nests: the unit that becomes one native kernel.

A `Nest` runs its phases one after the other for every point of its outer loops. A `Phase` runs its inner
loops (possibly none) and, at each point, its statements in order: `Store` writes an element of a buffer,
`Reduce` folds a value into an
accumulator, which later phases of the same outer point read by name, and so do later statements of the nest
after the phase. A buffer that only this nest uses, row by row, is a row temporary: it lives in the cache
of the core that runs the row.

Invariants, checked by `verify`: extents are positive; an accumulator is read only in later phases; a
statement reads a buffer that the nest writes only at the same outer point, in a later phase or, at the
very same element, in a later statement.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.dtypes import DTYPES, DType
from ..core.errors import InternalError
from .expr import Access, Expr, loads_in, walk
from .index import Index, Var, as_index


class Place(enum.Enum):
    """Where a buffer lives."""

    INPUT = "input"  # memory of the caller, read
    OUTPUT = "output"  # memory of the caller, written
    UPDATED = "updated"  # memory of the caller, read and then written
    TEMPORARY = "temporary"  # workspace
    ROW = "row"  # workspace of one task, valid during one outer point
    CONSTANT = "constant"  # memory of a tensor that belongs to the compiled function


class Buffer:
    """A run of elements in memory. `size` counts elements; accesses index it flat."""

    __slots__ = ("dtype", "name", "place", "size")

    def __init__(self, name: str, dtype: DType, size: Index, place: Place) -> None:
        self.name = name
        self.dtype = dtype
        self.size = size
        self.place = place

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


# One number that generated code sets when it finds an error: which one, see codegen.
ERRORS = Buffer("errors", DTYPES["int64"], as_index(1), Place.OUTPUT)


class Combine(enum.Enum):
    """How a reduction folds values.

    ARG_* fold a (value, position) pair and keep the first position among equals.
    """

    SUM = "sum"
    PRODUCT = "product"
    MAXIMUM = "maximum"  # NaN wins
    MINIMUM = "minimum"
    ANY = "any"
    ALL = "all"
    ARG_MAXIMUM = "arg_maximum"
    ARG_MINIMUM = "arg_minimum"


@dataclass(frozen=True)
class Store:
    """buffer[index] = value, or combined with what is there by `mode`; only where `condition` holds."""

    access: Access
    value: Expr
    mode: Combine | None = None
    condition: Expr | None = None

    def __str__(self) -> str:
        sign = "=" if self.mode is None else f"{self.mode.value}="
        when = "" if self.condition is None else f" if {self.condition}"
        return f"{self.access} {sign} {self.value}{when}"


@dataclass(frozen=True)
class Reduce:
    """Fold `value` into the accumulator `name`."""

    name: str
    combine: Combine
    value: Expr

    def __str__(self) -> str:
        return f"{self.name} <- {self.combine.value} {self.value}"


Statement = Store | Reduce


@dataclass
class Phase:
    """Statements under inner loops."""

    inner: tuple[Var, ...]
    statements: list[Statement] = field(default_factory=list)

    def values(self) -> Iterator[Expr]:
        """What is computed: values, and of stores the positions that are data and the conditions."""
        for statement in self.statements:
            yield statement.value
            if isinstance(statement, Store):
                yield from (e for _, e in statement.access.indirect)
                if statement.condition is not None:
                    yield statement.condition


@dataclass
class Nest:
    """A kernel: phases under outer loops."""

    name: str
    outer: tuple[Var, ...]
    phases: list[Phase]

    def reads(self) -> list[Access]:
        found: dict[Access, None] = {}
        for phase in self.phases:
            for value in phase.values():
                found.update(dict.fromkeys(loads_in(value)))
        return list(found)

    def writes(self) -> list[Access]:
        return [s.access for phase in self.phases for s in phase.statements if isinstance(s, Store)]

    def __str__(self) -> str:
        return print_nest(self)


@dataclass
class Call:
    """A kernel that is not a loop nest: a template (matmul, sort) or a library routine, on whole buffers."""

    name: str
    routine: str
    inputs: list[Any]
    outputs: list[Any]
    attributes: dict[str, Any]

    def __str__(self) -> str:
        given = ", ".join(f"{k}={v}" for k, v in self.attributes.items() if k not in ("nest", "plan"))
        inputs, outputs = (", ".join(map(str, buffers)) for buffers in (self.inputs, self.outputs))
        nest = self.attributes.get("nest")
        return f"{outputs} = {self.routine}({inputs}; {given})" + (f"\n{nest}" if nest else "")


Kernel = Nest | Call


def print_nest(nest: Nest) -> str:
    lines = [f"kernel {nest.name}:"]
    depth = 1
    for var in nest.outer:
        lines.append(f"{'  ' * depth}for {var} in {var.extent}:")
        depth += 1
    for phase in nest.phases:
        inner = depth
        for var in phase.inner:
            lines.append(f"{'  ' * inner}for {var} in {var.extent}:")
            inner += 1
        lines.extend(f"{'  ' * inner}{statement}" for statement in phase.statements)
    return "\n".join(lines)


def verify(nest: Nest) -> None:
    """Raise InternalError if the nest breaks an invariant."""
    finished: set[str] = set()
    written: dict[Any, list[tuple[Phase, Access]]] = {}
    for phase in nest.phases:
        loops = {*nest.outer, *phase.inner}
        open_now: set[str] = set()
        for statement in phase.statements:
            for node in walk(statement.value):
                _verify_leaf(nest, node, loops, finished)
            if isinstance(statement, Reduce):
                if statement.name in finished | open_now:
                    raise InternalError(f"{nest.name}: accumulator {statement.name} is folded twice")
                open_now.add(statement.name)
            else:
                _verify_store(nest, statement, loops, written, phase)
        finished |= open_now


def _verify_leaf(nest: Nest, node: Expr, loops: set[Var], finished: set[str]) -> None:
    if node.op == "reduced" and node.data not in finished:
        raise InternalError(f"{nest.name}: {node.data} is read before its phase has ended")
    index = node.data.index if node.op == "load" else node.data if node.op == "index" else None
    if index is not None:
        unknown = [atom for atom in index.atoms() if isinstance(atom, Var) and atom not in loops]
        if unknown:
            raise InternalError(f"{nest.name}: {node} uses loop variables that do not run here: {unknown}")


def _verify_store(
    nest: Nest, store: Store, loops: set[Var], written: dict[Any, list[tuple[Phase, Access]]], phase: Phase
) -> None:
    if store.access.buffer.place in (Place.INPUT, Place.CONSTANT):
        raise InternalError(f"{nest.name}: {store.access} is not to be written")
    unknown = [a for a in store.access.index.atoms() if isinstance(a, Var) and a not in loops]
    if unknown:
        raise InternalError(
            f"{nest.name}: {store.access} uses loop variables that do not run here: {unknown}"
        )
    written.setdefault(store.access.buffer, []).append((phase, store.access))


def extents(variables: Sequence[Var]) -> Index:
    """The product of the extents: how many points the loops have."""
    total: Index = Index({(): 1})
    for var in variables:
        total = total * var.extent
    return total

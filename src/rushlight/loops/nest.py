"""Loop nests: the unit that becomes one native kernel.

A `Nest` runs its phases one after the other for every point of its outer loops. A `Phase` runs its inner
loops (possibly none) and, at each point, its statements in order: `Store` writes an element of a buffer,
`Reduce` folds a value into an
accumulator, which later phases of the same outer point read by name, and so do later statements of the nest
after the phase. A buffer that only this nest uses, row by row, is a row temporary: it lives in the cache
of the core that runs the row.

Invariants, checked by loops/spec.py: no extent is negative; an accumulator is read only in later phases; a
statement reads a buffer that the nest writes only at the same outer point or at the very same element.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from ..core.dtypes import DTYPES, DType
from ..core.index import Index, Var, as_index
from .expr import Access, Expr, loads_in


class MemoryKind(enum.Enum):
    """Whose memory a buffer is, and how long it lives."""

    INPUT = "input"  # memory of the caller, read; updated in place where the schedule says so
    OUTPUT = "output"  # memory of the caller, written
    TEMPORARY = "temporary"  # workspace
    ROW = "row"  # workspace of one task, valid during one outer point
    CONSTANT = "constant"  # memory of a tensor that belongs to the compiled function


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Buffer:
    """A run of elements in memory. `size` counts elements; accesses index it flat."""

    name: str
    dtype: DType
    size: Index
    memory: MemoryKind

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


# One number that generated code sets when it finds an error: which one, see codegen.
ERRORS = Buffer("errors", DTYPES["int64"], as_index(1), MemoryKind.OUTPUT)


# The sizes that change from call to call, in the order of their symbols.
SIZES = Buffer("sizes", DTYPES["int64"], as_index(0), MemoryKind.INPUT)


# What the program calls besides its own code: collectives (compiler/collective_calls.py).
CALLS = Buffer("calls", DTYPES["int64"], as_index(0), MemoryKind.INPUT)


class Combine(enum.Enum):
    """How a reduction folds values.

    ARG_* fold a (value, position) pair and keep the first position among equals.

    >>> rl.library.Combine.SUM.name
    'SUM'
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

    def values(self) -> tuple[Expr, ...]:
        """What is computed: the value, the positions that are data, and the condition."""
        condition = () if self.condition is None else (self.condition,)
        return (self.value, *(e for _, e in self.access.indirect), *condition)

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

    def values(self) -> tuple[Expr, ...]:
        return (self.value,)

    def __str__(self) -> str:
        return f"{self.name} <- {self.combine.value} {self.value}"


Statement = Store | Reduce


@dataclass(frozen=True, eq=False)
class Phase:
    """Statements under inner loops."""

    inner: tuple[Var, ...]
    statements: tuple[Statement, ...] = ()

    def values(self) -> Iterator[Expr]:
        """What is computed: values, and of stores the positions that are data and the conditions."""
        for statement in self.statements:
            yield from statement.values()

    def stores(self) -> Iterator[Store]:
        return (s for s in self.statements if isinstance(s, Store))


@dataclass(frozen=True, eq=False)
class Nest:
    """A kernel: phases under outer loops."""

    name: str
    outer: tuple[Var, ...]
    phases: tuple[Phase, ...]

    @functools.cached_property
    def _reads(self) -> tuple[Access, ...]:
        found: dict[Access, None] = {}
        for phase in self.phases:
            for value in phase.values():
                found.update(dict.fromkeys(loads_in(value)))
        return tuple(found)

    @functools.cached_property
    def _writes(self) -> tuple[Access, ...]:
        return tuple(store.access for phase in self.phases for store in phase.stores())

    def reads(self) -> tuple[Access, ...]:
        return self._reads

    def writes(self) -> tuple[Access, ...]:
        return self._writes

    @functools.cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        """What is read, in the order of the first reads."""
        return tuple(dict.fromkeys(access.buffer for access in self._reads))

    @functools.cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(dict.fromkeys(access.buffer for access in self._writes))

    def __str__(self) -> str:
        return print_nest(self)


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

"""How many lanes the vectors of a loop have, and how what is left over at its end is computed."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.index import Index, Var
from ..core.symbols import hint, size_of
from ..loops.expr import Access, Expr, cost, loads_in, walk
from ..loops.nest import Combine, Nest, Reduce, Statement, Store
from ..loops.varying import varying
from ..runtime.target import Target
from .cost import FEW_STREAMS, LONG_FOLD, LONG_FOLD_REGISTERS, MANY_STREAMS, MOST_REGISTERS, WASTE

ARGUMENTS = (Combine.ARG_MAXIMUM, Combine.ARG_MINIMUM)


class Tail(enum.Enum):
    """How the points after the last whole vector of a loop are computed."""

    NONE = "no tail"  # the loop is a whole number of vectors
    OVERLAP = "the last vector overlaps"  # the one before it: a point may be computed twice
    # as OVERLAP, of a loop that folds: lanes seen before do not count, in every turn or in a copy of the body
    OVERLAP_MASKED = "the last vector overlaps, masked in every turn"
    OVERLAP_COPIED = "the last vector overlaps, in a copy of the body"
    MASKED = "a masked vector"  # one register wide
    MASKED_WIDE = "a masked vector as wide as the others"  # for any number of points, however few
    SCALAR = "point by point"


@dataclass(frozen=True)
class VectorLoop:
    """A loop in vectors of `width` lanes."""

    width: int
    tail: Tail

    def __str__(self) -> str:
        return f"{self.width} lanes, {self.tail.value}"


def extent_of(var: Var) -> int:
    """The extent of a loop; one that changes from call to call is a size (core/symbols.py)."""
    size: int = size_of(var.extent)
    return size


def is_long(var: Var, width: int) -> bool:
    """Whether a loop has at least `width` points. Of an extent that changes it is so in the call that is
    captured: generated code looks at the extent."""
    return hint(extent_of(var)) >= width


def machine_lanes(nest: Nest, target: Target) -> int:
    """Lanes that fill a register with the widest type that is computed with (64-bit indices do not count, nor
    what is the same everywhere, such as the numbers of an optimizer)."""
    variables = [*nest.outer, *(var for phase in nest.phases for var in phase.inner)]
    moving = varying((value for phase in nest.phases for value in phase.values()), variables)
    return target.lanes(max([4, *(node.dtype.itemsize for node in moving if node.op != "index")]))


def folds_long(statement: Statement) -> bool:
    """Whether what is folded takes long to compute."""
    return isinstance(statement, Reduce) and cost(statement.value) >= LONG_FOLD


def loop_width(statements: Sequence[Statement], var: Var, lanes: int) -> int:
    """Lanes of a loop: as many registers as can be had without waste, up to four.

    Where lanes are gathered or many values are alive, one register has to do; where what is folded takes long
    to compute, two.
    """
    extent = hint(extent_of(var))
    most = LONG_FOLD_REGISTERS if any(folds_long(s) for s in statements) else MOST_REGISTERS
    streams = _streams(statements, var)
    if streams is None:
        return lanes
    most = min(most, 4 if streams <= FEW_STREAMS else 2 if streams <= MANY_STREAMS else 1)
    for registers in (4, 2):
        width = registers * lanes
        if registers <= most and extent >= width and -extent % width <= extent // WASTE:
            return width
    return lanes


def _streams(statements: Sequence[Statement], var: Var) -> int | None:
    """How many addresses and accumulators move along a loop; None if lanes are gathered or tell positions."""
    streams: set[Any] = set()
    for statement in statements:
        if any(access.indirect for access in loads_in(statement.value)):
            return None
        for index, key in _indices(statement):
            stride = index.stride(var)
            if stride is None or stride not in (0, 1):
                return None
            if stride == 1:
                streams.add(key)
        if isinstance(statement, Reduce):
            if statement.combine in ARGUMENTS:
                return None
            streams.add(statement.name)
    return len(streams)


def _indices(statement: Statement) -> Iterator[tuple[Index, Access | Expr]]:
    """The indices of a statement, each with what is read or written there."""
    for node in walk(statement.value):
        if node.op == "load":
            yield node.data.index, node.data
        elif node.op == "index":
            yield node.data, node
    if isinstance(statement, Store):
        yield statement.access.index, statement.access


# Tails.


def tail_of(statements: Sequence[Statement], var: Var, lanes: int, target: Target) -> Tail:
    """The tail of a loop of which no point may be computed twice."""
    return Tail.MASKED if lanes > 1 and maskable(statements, var, target) else Tail.SCALAR


def maskable(statements: Sequence[Statement], var: Var, target: Target) -> bool:
    """Whether the machine has masked loads and stores for all that differs from lane to lane."""
    sizes = {
        access.buffer.dtype.itemsize
        for s in statements
        for access in accesses_of(s)
        if access.indirect or access.index.depends_on(var)
    }
    return target.has_masked_memory and sizes <= {4, 8}


def repeatable(statements: Sequence[Statement]) -> bool:
    """Whether a point that is computed a second time gives the same: nothing is read that is written here."""
    written = {s.access.buffer for s in statements if isinstance(s, Store)}
    return not any(isinstance(s, Store) and s.mode is not None for s in statements) and not any(
        access.buffer in written for s in statements for access in loads_in(s.value)
    )


def accesses_of(statement: Statement) -> Sequence[Access]:
    found = loads_in(statement.value)
    return [*found, statement.access] if isinstance(statement, Store) else found

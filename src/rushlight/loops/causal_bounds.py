"""What is known beyond a diagonal, and where the columns of a row may therefore end.

A row of causal attention is minus infinity from some column on, which moves with the row, and its weights are
zero there. `ValuesBeyond` tells what expressions are from such a limit on: schedule/triangles.py asks it about
definitions, to find triangular operands of products, and schedule/causal_bounds.py about nests. A nest that
computes such rows need not go that far: `rest_of` proves from its statements that from a limit on, an index of
the outer loops, every reduction folds its neutral element and every store writes one number, and gives these
stores.

The proof is about numbers that a mask decides. What is the same for the whole row counts as finite: a weight
of zero stays zero times that, and minus infinity stays what it is less that, the maximum of the row for
example. Where it is not finite, reductions meet NaN among what the mask shows, and the rest of the row is NaN
as well, since the stores that are given are made of the row's own numbers. What differs from column to column
is finite only if it is a truth value, or made of such. A zero that is no weight proves nothing about a product.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.dtypes import Category, DType
from ..core.index import Index, Var, as_index
from ..core.symbols import hint_of
from .expr import Access, Expr, Recorder, loads_in, walk
from .instructions import CHECKS, COMPARISONS
from .nest import Buffer, Combine, MemoryKind, Nest, Phase, Reduce, Store
from .varying import varying


@dataclass(frozen=True)
class Known:
    """A number, or None for one that is not known, but the same for all columns of a row, or finite.

    `weight`: it is the zero that e**x is for minus infinity, or such a zero times something.
    `varies`: it is finite, and perhaps another one in every column.
    """

    number: float | bool | None
    weight: bool = False
    varies: bool = False


ROW = Known(None)
FINITE = Known(None, varies=True)
SIMPLE = (0, 1, math.inf, -math.inf)  # numbers that arithmetic in any precision gives alike


@dataclass(frozen=True)
class Beyond:
    """A buffer of matrices, rows x columns: where column > row + diagonal an element is `value`, or nobody
    minds if it is."""

    rows: Index
    columns: Index
    diagonal: int
    value: Known

    def limit_at(self, index: Index, column: Var) -> Index | None:
        """The first column beyond the diagonal, for an access that walks along rows with `column`."""
        row = row_of(index, column)
        return None if row is None or column.extent != self.columns else row % self.rows + self.diagonal + 1


Facts = Mapping[Buffer, Beyond]


@functools.lru_cache(256)
def row_of(index: Index, column: Var) -> Index | None:
    """The number of the row, counted through all matrices, if rows lie one after the other."""
    start = index - as_index(column)
    if start.depends_on(column) or start % column.extent != 0:
        return None
    return start // column.extent


def columns_of(nest: Nest) -> list[tuple[Phase, Var]]:
    """The phases that run along a row, each with the loop that does; a nest of maps is one such phase."""
    inner = [phase for phase in nest.phases if phase.inner]
    if not inner and len(nest.outer) > 1:
        return [(phase, nest.outer[-1]) for phase in nest.phases]
    return [(phase, phase.inner[-1]) for phase in inner]


# Where columns may end.


def limits(nest: Nest, facts: Facts) -> list[Index]:
    """Limits that may hold for the rows of a nest."""
    found: dict[Index, None] = {}
    for phase, column in columns_of(nest):
        for value in phase.values():
            found.update(dict.fromkeys(_limits_in(value, column, facts)))
    return _inside(found, columns_extent(nest))


def limits_of(value: Expr, column: Var, facts: Facts) -> list[Index]:
    """Limits that may hold for a value that is computed along `column`."""
    return _inside(dict.fromkeys(_limits_in(value, column, facts)), column.extent)


def _limits_in(value: Expr, column: Var, facts: Facts) -> Iterator[Index]:
    """Those of what is read, and of comparisons with the column."""
    for node in walk(value):
        if node.op == "load" and node.data.buffer in facts:
            limit = facts[node.data.buffer].limit_at(node.data.index, column)
            if limit is not None:
                yield limit
        elif compares_indices(node):
            yield from _turning_point(node, column)


def _inside(found: Iterable[Index], columns: Index | None) -> list[Index]:
    """Limits that leave something out, as far as the sizes of the call that was captured tell."""
    most = 0 if columns is None else hint_of(columns)
    return [limit for limit in found if 1 <= limit.bounds()[0] < most]


def compares_indices(node: Expr) -> bool:
    return node.op in _TURNING and all(a.op == "index" for a in node.args)


def columns_extent(nest: Nest) -> Index | None:
    """How many columns the rows have, if all phases agree."""
    extents = {column.extent for _, column in columns_of(nest)}
    return extents.pop() if len(extents) == 1 else None


# For `column + rest` compared with 0: how far after -rest the outcome is settled; for `rest - column`
# likewise, after rest.
_TURNING = {"le": (1, 0), "gt": (1, 0), "lt": (0, 1), "ge": (0, 1)}


def _turning_point(node: Expr, column: Var) -> Iterator[Index]:
    difference = node.args[0].data - node.args[1].data
    step = difference.stride(column)
    if step == 1:
        yield as_index(column) - difference + _TURNING[node.op][0]
    elif step == -1:
        yield difference + column + _TURNING[node.op][1]


# The proof.


def rest_of(
    nest: Nest, limit: Index, facts: Facts, recorder: Recorder
) -> tuple[list[list[Store]], dict[Access, Known]] | None:
    """For each phase what it stores from `limit` on, the same for the rest of a row, and what is known then
    of every element that is stored; None if the nest may not end there."""
    rows: dict[Access, Known] = {}  # what the nest itself stores
    ends: dict[Access, Expr] = {}
    along = {id(phase): column for phase, column in columns_of(nest)}
    outside = {*nest.outer} - {*along.values()}
    if columns_extent(nest) is None or not {a for a in limit.atoms() if isinstance(a, Var)} <= outside:
        return None
    written = {access.buffer for access in nest.writes()}
    rest: list[list[Store]] = []
    for phase in nest.phases:
        rest.append([])
        here = {s.access for s in phase.statements if isinstance(s, Store)}  # to be updated in place
        if any(
            a.buffer in written and a not in rows and (a not in here or a.buffer.memory is MemoryKind.ROW)
            for value in phase.values()
            for a in loads_in(value)
        ):
            return None  # perhaps an element that nobody has computed
        column = along.get(id(phase))
        if column is None:
            continue
        if len(phase.inner) > 1 or any(n.op in CHECKS for v in phase.values() for n in walk(v)):
            return None
        values = ValuesBeyond(column, limit, facts, rows)
        for statement in phase.statements:
            known = values.of(statement.value)
            if known is None or known.number not in SIMPLE:
                return None
            if isinstance(statement, Reduce):
                if NEUTRAL.get(statement.combine) != known.number:
                    return None
                continue
            access = statement.access
            if (
                statement.mode is not None
                or statement.condition is not None
                or access.indirect
                or (access.index.stride(column) != 1)
            ):
                return None
            end = values.end_of(statement.value, recorder, ends)
            if varying([end], [column]):
                return None
            rows[access], ends[access] = known, end
            if access.buffer.memory is not MemoryKind.ROW:
                rest[-1].append(Store(access, end))
    return rest, rows


NEUTRAL = {
    Combine.SUM: 0,
    Combine.PRODUCT: 1,
    Combine.MAXIMUM: -math.inf,
    Combine.MINIMUM: math.inf,
    Combine.ANY: False,
    Combine.ALL: True,
}


def fact_of(
    access: Access, column: Var, limit: Index, known: Known, heights: Iterable[Index]
) -> Beyond | None:
    """What a store of `known` from `limit` on says of its buffer, if its matrices have one of the given
    numbers of rows."""
    row = row_of(access.index, column)
    if row is None:
        return None
    for height in sorted(heights, key=lambda height: (hint_of(height), str(height))):
        after = (limit - row % height).constant_value()
        if after is not None:
            return Beyond(height, column.extent, after - 1, known)
    return None


def extents_in(limit: Index) -> set[Index]:
    """The extents of the loops that a limit depends on: the numbers of rows that its matrices may have."""
    return {a.extent for a in limit.atoms() if isinstance(a, Var) and a.extent != 0}


def as_number(recorder: Recorder, known: Known, dtype: DType) -> Expr:
    assert known.number is not None
    return recorder.number(float(known.number) if dtype.is_floating_point else known.number, dtype)


class ValuesBeyond:
    """What expressions are at columns from a limit on; `rows` are elements that the nest itself has stored, and
    `finite` buffers whose elements count as finite there."""

    def __init__(
        self,
        column: Var,
        limit: Index,
        facts: Facts,
        rows: Mapping[Access, Known],
        finite: Container[Buffer] = (),
    ) -> None:
        self.column = column
        self.limit = limit
        self.facts = facts
        self.rows = rows
        self.finite = finite
        self.memo: dict[Expr, Known | None] = {}

    def of(self, expr: Expr) -> Known | None:
        for node in walk(expr):
            if node not in self.memo:
                known = self._of(node)
                truth = known is None and node.dtype.category is Category.BOOL
                self.memo[node] = FINITE if truth else known
        return self.memo[expr]

    def _of(self, node: Expr) -> Known | None:
        if node.op == "constant":
            number = node.data[1]
            return None if isinstance(number, complex) or number != number else Known(number)
        if node.op == "reduced":
            return ROW
        if node.op == "load":
            return self._loaded(node.data)
        if compares_indices(node):
            return self._compared(node)
        values = [self.memo[a] for a in node.args]
        if node.op == "where":
            return _chosen(*values)
        known = [v for v in values if v is not None]
        decisive = _DECISIVE.get(node.op) if node.dtype.category is Category.BOOL else None
        if decisive is not None and any(v.number is not None and v.number == decisive for v in known):
            return Known(decisive)
        return _computed(node, known) if known and len(known) == len(values) else None

    def end_of(self, expr: Expr, recorder: Recorder, ends: Mapping[Access, Expr]) -> Expr:
        """An expression for the same, without the column; `ends` are those of what the nest has stored."""
        done: dict[Expr, Expr] = {}
        for node in walk(expr):
            known, args = self.memo[node], tuple(done.get(a, a) for a in node.args)
            by_itself = node.op in _DECISIVE or all(a.op in ("constant", "index") for a in args)
            if node.op == "load" and node.data in ends:
                done[node] = ends[node.data]
            elif node.op == "load" and known is not None and known.weight:
                last = node.data.index.substitute({self.column: self.column.extent - 1})
                done[node] = recorder.load_at(node.data.buffer, last, node.dtype)
            elif known is not None and known.number is not None and by_itself:
                done[node] = as_number(recorder, known, node.dtype)
            elif node.op == "where" and args[0].op == "constant":
                done[node] = args[1] if args[0].data[1] else args[2]
            else:
                done[node] = recorder.make(node.op, args, node.dtype, node.data) if args else node
        return done[expr]

    def _loaded(self, access: Access) -> Known | None:
        if access in self.rows:
            return self.rows[access]
        if access.indirect:
            return None
        if not access.index.depends_on(self.column):
            return ROW
        fact = self.facts.get(access.buffer)
        limit = None if fact is None else fact.limit_at(access.index, self.column)
        if fact and limit is not None and (self.limit - limit).bounds()[0] >= 0:
            return fact.value
        return FINITE if access.buffer in self.finite else None

    def _compared(self, node: Expr) -> Known | None:
        """A comparison of the column with another index."""
        difference = node.args[0].data - node.args[1].data
        step = difference.stride(self.column)
        if step == 1:
            least = (difference - self.column + self.limit).bounds()[0]
            settled = least >= 1 if node.op in ("le", "gt") else least >= 0
            return Known(node.op in ("gt", "ge")) if settled else None
        if step == -1:
            most = (difference + self.column - self.limit).bounds()[1]
            settled = most <= -1 if node.op in ("lt", "ge") else most <= 0
            return Known(node.op in ("le", "lt")) if settled else None
        return None


def _chosen(condition: Known | None, yes: Known | None, no: Known | None) -> Known | None:
    if yes is not None and no is not None and yes.number is not None and yes.number == no.number:
        return Known(yes.number, yes.weight or no.weight)
    if condition is not None and condition.number is not None:
        return yes if condition.number else no
    if condition is None or yes is None or no is None:
        return None
    return None if _infinite(yes) or _infinite(no) else FINITE


def _infinite(known: Known) -> bool:
    return known.number in (math.inf, -math.inf)


def _computed(node: Expr, values: list[Known]) -> Known | None:
    """An instruction of numbers and of what is the same for a row."""
    op, numbers = node.op, [v.number for v in values]
    infinite = any(map(_infinite, values))
    if op in ("mul", "div") and not infinite:
        if values[0].weight and (op == "mul" or not (numbers[1] == 0 or values[1].varies)):
            return values[0]
        if op == "mul" and values[1].weight:
            return values[1]
    if None in numbers:
        less = op in ("add", "sub") and numbers[0] == -math.inf
        if less or (op == "add" and numbers[1] == -math.inf):
            return Known(-math.inf)
        if infinite and op not in COMPARISONS:
            return None
        varies = any(v.varies for v in values)
        return ROW if not varies else FINITE if op in _STAYS_FINITE else None
    if op in ("exp", "exp_nonpositive") and numbers[0] == -math.inf:
        return Known(0.0, weight=True)
    if op == "cast":
        if node.dtype.category is Category.BOOL:
            return Known(bool(numbers[0]))
        return values[0] if node.dtype.is_floating_point or not infinite else None
    if op == "bitwise_not" and node.dtype.category is Category.BOOL:
        op = "logical_not"
    if op not in _OPERATIONS:
        return None if infinite else ROW
    number = _OPERATIONS[op](*numbers)
    if number != number:
        return None
    exact = number in SIMPLE and any(n in SIMPLE for n in numbers)
    weight = number == 0 and node.dtype.category is not Category.BOOL and any(v.weight for v in values)
    return Known(number, weight) if exact else ROW


# What decides the outcome of a connective by itself; those of bits are meant for truth values.
_DECISIVE = {"logical_and": False, "bitwise_and": False, "logical_or": True, "bitwise_or": True}

_STAYS_FINITE = {"add", "sub", "mul", "neg", "cast", "maximum", "minimum"}  # of what is finite

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
    "mul": lambda a, b: a * b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "logical_not": lambda a: not a,
    "logical_and": lambda a, b: bool(a and b),
    "logical_or": lambda a, b: bool(a or b),
    "maximum": max,
    "minimum": min,
}

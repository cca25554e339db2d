"""Expressions of sizes as plain data: what the program cache keeps of them, and reading it executes nothing.

An expression is a list of terms, each a coefficient and its factors; a factor is the name of a symbol, or
["//", value, divisor], or ["%", value, divisor]. A number is itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .atoms import Atom, Dim
from .index import Index, Quotient, Remainder, as_index
from .symbols import SizeGuard, SymInt


def to_data(size: Any) -> Any:
    """A size, an expression, or None, as data."""
    if type(size) is SymInt:
        size = size.index
    if not isinstance(size, Index):
        return size
    number = size.constant_value()
    if number is not None:
        return number
    return [[c, [_factor(atom) for atom in monomial]] for monomial, c in size.terms.items()]


def _factor(atom: Atom) -> Any:
    if isinstance(atom, Dim):
        return atom.name
    assert isinstance(atom, Quotient | Remainder)
    return ["//" if isinstance(atom, Quotient) else "%", to_data(atom.value), to_data(atom.divisor)]


def evaluate_data(data: Any, sizes: Mapping[str, int]) -> int:
    """The number that an expression is."""
    if type(data) is int:
        return data
    total = 0
    for coefficient, factors in data:
        for factor in factors:
            if type(factor) is str:
                coefficient *= sizes[factor]
            else:
                value, divisor = (evaluate_data(part, sizes) for part in factor[1:])
                divisor = divisor or 1  # by a size that is data and 0, of which nothing is left
                coefficient *= value // divisor if factor[0] == "//" else value % divisor
        total += coefficient
    return total


def from_data(data: Any, symbols: Mapping[str, Dim]) -> Index:
    """The expression, over the given symbols."""
    if type(data) is int:
        return as_index(data)
    total = as_index(0)
    for coefficient, factors in data:
        term = as_index(coefficient)
        for factor in factors:
            if type(factor) is str:
                term = term * symbols[factor]
            else:
                value, divisor = (from_data(part, symbols) for part in factor[1:])
                term = term * (value // divisor if factor[0] == "//" else value % divisor)
        total = total + term
    return total


def guard_to_data(guard: SizeGuard) -> list[Any]:
    return [guard.relation, to_data(guard.index), guard.holds, guard.line]


def guard_from_data(data: list[Any], symbols: Mapping[str, Dim]) -> SizeGuard:
    relation, index, holds, line = data
    return SizeGuard(relation, from_data(index, symbols), holds, line)


def guard_admits(data: list[Any], sizes: Mapping[str, int]) -> bool:
    """Whether a guard holds for these sizes."""
    relation, index, holds, _ = data
    value = evaluate_data(index, sizes)
    return bool(holds) == (value == 0 if relation == "== 0" else value >= 0)

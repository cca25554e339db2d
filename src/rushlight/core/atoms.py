"""What products of index arithmetic are made of, and arithmetic on their bounds.

Atoms that are made of other indices (variables with an extent, quotients, remainders) are in core/index.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INFINITY = float("inf")
Bound = int | float


class Atom:
    """What products are made of. Ordered by `key` so that expressions have one spelling."""

    __slots__ = ("_hash", "key")

    key: tuple[object, ...]
    fixed = True  # means the same in every program (core/remembered.py)
    owner: Any = None  # of what does not: what knows of its symbols
    is_remainder = False

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        self._hash = hash(key)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Atom) and self._hash == other._hash and self.key == other.key
        )

    def __hash__(self) -> int:
        return self._hash

    def bounds(self) -> tuple[Bound, Bound]:
        raise NotImplementedError

    def inner(self) -> frozenset[Atom]:
        """The atoms that it is made of."""
        return frozenset()

    def value_at(self, values: Mapping[Atom, int]) -> int:
        """The number it is for the given values of the atoms that it is made of."""
        raise KeyError(str(self))

    def sort_key(self) -> str:
        return str(self)


class Dim(Atom):
    """A number that is known only when the compiled function is called, from `low` to `high`.

    `owner` knows more of it: what it was when the function was captured (core/symbols.py).
    """

    __slots__ = ("high", "low", "name", "owner")
    fixed = False

    def __init__(self, name: str, low: Bound = 0, high: Bound = INFINITY, owner: Any = None) -> None:
        self.name = name
        self.low, self.high = low, high
        self.owner = owner
        super().__init__(("dim", name, low, high))

    def bounds(self) -> tuple[Bound, Bound]:
        return self.low, self.high

    def value_at(self, values: Mapping[Atom, int]) -> int:
        """What a symbol was that the compiled function makes no use of (core/symbol_table.py)."""
        number: int = self.owner.places[self]
        return number

    def __str__(self) -> str:
        return self.name


def times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def floor_div(a: Bound, b: Bound) -> Bound:
    if a in (INFINITY, -INFINITY):
        return a
    if b == INFINITY:
        return 0 if a >= 0 else -1
    return a // max(b, 1)

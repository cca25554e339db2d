"""What products of index arithmetic are made of, and arithmetic on their bounds.

Atoms that are made of other indices (variables with an extent, quotients, remainders) are in loops/index.py.
"""

from __future__ import annotations

INFINITY = float("inf")
Bound = int | float


class Atom:
    """What products are made of. Ordered by `key` so that expressions have one spelling."""

    __slots__ = ("_hash", "key")

    key: tuple[object, ...]

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

    def sort_key(self) -> str:
        return str(self)


class Dim(Atom):
    """An extent that is known only when the compiled function is called; at least `low`."""

    __slots__ = ("low", "name")

    def __init__(self, name: str, low: int = 0) -> None:
        self.name = name
        self.low = low
        super().__init__(("dim", name, low))

    def bounds(self) -> tuple[Bound, Bound]:
        return self.low, INFINITY

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

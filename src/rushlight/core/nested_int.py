"""Integers that are no numbers: SymInt and its kin, and the size of a ragged dimension, which is one.

The rows of a nested tensor have different lengths along one dimension, so its size there is no number: it is
a symbol, printed `j1`, that stands for the lengths of all rows. Equal lengths have the same symbol, therefore
two nested tensors fit together exactly if their shapes do.
"""

from __future__ import annotations

import itertools
from typing import Any, NoReturn
from weakref import WeakValueDictionary

_numbers = itertools.count(1)


class _Symbol:
    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls in (SymInt, SymFloat, SymBool):
            raise TypeError(
                f"{cls.__name__} cannot be made from a value: the sizes of ragged dimensions are SymInts, and "
                "all else is a plain number"
            )
        return super().__new__(cls)


class SymInt(_Symbol):
    """An integer that a program may hold and compute with, but that stands for no one number.

    >>> isinstance(3, rl.SymInt)
    False
    """

    __slots__ = ()


class SymFloat(_Symbol):
    """A float of which the value is not known. There are none; programs ask whether a number is one.

    >>> isinstance(1.0, rl.SymFloat)
    False
    """

    __slots__ = ()


class SymBool(_Symbol):
    """A truth value that is not known. There are none; programs ask whether a value is one.

    >>> isinstance(True, rl.SymBool)
    False
    """

    __slots__ = ()


class NestedInt(SymInt):
    """A symbol for the lengths of the rows of a ragged dimension, times a number."""

    __slots__ = ("__weakref__", "factor", "number")

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number = number
        self.factor = factor

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __hash__(self) -> int:
        return hash(("ragged", self.number, self.factor))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self.number, self.factor) == (other.number, other.factor)

    def __mul__(self, other: Any) -> NestedInt:
        return NestedInt(self.number, self.factor * other) if type(other) is int else NotImplemented

    __rmul__ = __mul__

    # A length is taken to be 2 or more, as PyTorch does, so that checks for sizes of 0 and 1 do not see it.

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.factor >= other.factor
        return True if isinstance(other, int) and other <= 2 else _indeterminate(self, other)

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.factor > other.factor
        return True if isinstance(other, int) and other < 2 else _indeterminate(self, other)

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __int__(self) -> int:
        raise TypeError(
            f"the ragged size {self} is not a number: it stands for the lengths of all rows, "
            "which offsets().diff() gives"
        )


def _indeterminate(size: NestedInt, other: Any) -> NoReturn:
    raise ValueError(f"whether the ragged size {size} is larger than {other} differs from row to row")


_known: WeakValueDictionary[bytes, NestedInt] = WeakValueDictionary()


def symbol_of(lengths: bytes) -> NestedInt:
    """The symbol for rows of these lengths, given as the bytes of an array."""
    found = _known.get(lengths)
    if found is None:
        found = _known[lengths] = NestedInt(next(_numbers))
    return found

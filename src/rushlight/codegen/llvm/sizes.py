"""Sizes that change from call to call, in generated code.

They come from a table in memory (the slot of `SIZES` in the block): first the symbols, in their order, then what
follows from them for this program: how many tasks share a loop, how many rows each has, whether a launch is worth
other threads. `SizeTable` collects these while a module is emitted, as plain data; runtime/sized.py works them
out when the program is called with sizes that it has not met.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.atoms import Dim
from ...core.index import as_index
from ...core.index_data import to_data
from ...core.symbols import Symbols
from ...loops.plans import Split
from .emitter import Emitter


def position_of(dim: Dim) -> int:
    """Where in the table a symbol is."""
    return list(dim.owner.hints).index(dim)


def load_size(e: Emitter, table: Any, position: int) -> Any:
    return e.load(e.address(table, position, e.i64), e.i64)


class SizeTable:
    """What the table of a program holds besides its symbols."""

    def __init__(self, symbols: Symbols | None) -> None:
        self.symbols = symbols
        self.derived: list[list[Any]] = []
        self._lengths: list[int] = []

    def _add(self, length: int, *data: Any) -> int:
        """The position of so many numbers that follow from `data`."""
        at = self._end
        self.derived.append(list(data))
        self._lengths.append(length)
        return at

    @property
    def _end(self) -> int:
        assert self.symbols is not None
        return len(self.symbols.hints) + sum(self._lengths)

    def split(self, split: Split) -> tuple[int, int]:
        """Positions of the number of tasks that share a loop, and of the points of each."""
        at = self._add(2, "split", to_data(split.extent), to_data(split.work), split.unit, split.always)
        return at, at + 1

    def number(self, size: Any) -> int:
        """The position of an expression of sizes."""
        return self._add(1, "size", to_data(as_index(size)))

    def parallel(self, work: Any, enough: int) -> int:
        """The position of whether so much work is worth other threads."""
        return self._add(1, "at least", to_data(as_index(work)), enough)

    def product(self, template: dict[str, Any], count: int) -> int:
        """The position of the numbers of a matrix product (matmul/tables.py)."""
        return self._add(count, "product", template)

    def sum(self, parts: Sequence[int]) -> int:
        """The position of a sum of what is at other positions and, given as negative numbers, of numbers."""
        return self._add(1, "sum", list(parts))


class BlockSizes:
    """Reads the table of sizes from the block of addresses, in a function that takes the block."""

    def __init__(self, e: Emitter, block: Any, slot: int | None, table: SizeTable) -> None:
        self.e, self.table = e, table
        self._address = None if slot is None else e.load(e.address(block, slot, e.i64), e.pointer)

    def at(self, position: int) -> Any:
        return load_size(self.e, self._address, position)

    def address(self, position: int) -> Any:
        """Of what begins at a position."""
        return self.e.address(self._address, position, self.e.i64)

    def value(self, size: Any) -> Any:
        """A size: a Python number if it is one, else an i64."""
        number = as_index(size).constant_value()
        return self.at(self.table.number(size)) if number is None else number

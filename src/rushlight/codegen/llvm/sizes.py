"""Sizes that change from call to call, in generated code.

They come from a table in memory (the slot of `SIZES` in the block): first the symbols, in their order, then what
follows from them for this program: how many tasks share a loop, how many rows each has, whether a launch is worth
other threads. `SizeTable` collects these while a module is emitted, as plain data; runtime/sized.py works them
out when the program is called with sizes that it has not met.
"""

from __future__ import annotations

import json
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
        self._known: dict[str, int] = {}
        self._length = 0

    def _add(self, length: int, *data: Any) -> int:
        """The position of so many numbers that follow from `data`."""
        assert self.symbols is not None
        key = json.dumps(data)
        at = self._known.get(key)
        if at is None:
            at = self._known[key] = len(self.symbols.hints) + self._length
            self.derived.append(list(data))
            self._length += length
        return at

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

    def quotient(self, whole: int, share: int) -> int:
        """The position of a quotient of two numbers, given as words of a record (records.py)."""
        return self._add(1, "quotient", whole, share)

    def stage(self, counts: Sequence[int]) -> int:
        """The position of `stage_numbers` of counts, given as words, too."""
        return self._add(1 + 4 * len(counts), "stage", list(counts))

"""A program whose sizes are data: pieces that run one after the other, with sizes that are read in between.

`run(inputs, sizes)` takes the sizes in the order of their symbols, with None for those that the program finds
itself, and fills these in. Nothing is written to the caller's memory before the last piece, so an assertion that
fails has left nothing behind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.index_data import evaluate_data, guard_admits


@dataclass(frozen=True)
class RunPiece:
    """A piece: what runs it, and the sizes that its first outputs are, with their bounds."""

    run: Callable[[Sequence[np.ndarray], Sequence[int]], list[np.ndarray]]
    found: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True)
class SizeCheck:
    """An assertion about sizes, as data."""

    guard: list[Any]
    error: type[Exception]
    message: str
    names: frozenset[str]

    def look(self, sizes: Mapping[str, int]) -> None:
        if not guard_admits(self.guard, sizes):
            raise self.error(
                re.sub(r"\bu\d+\b", lambda found: str(sizes.get(found[0], found[0])), self.message)
            )


@dataclass(frozen=True)
class SizeFormula:
    """A size that follows from others: a function of expressions, as data."""

    name: str
    function: Callable[..., int]
    operands: tuple[Any, ...]
    names: frozenset[str]  # that the operands are made of


class PiecewiseExecutable:
    """The pieces of a program."""

    native = False

    def __init__(
        self,
        symbols: Sequence[str],
        pieces: Sequence[RunPiece],
        updates: Mapping[int, int],
        checks: Sequence[SizeCheck],
        formulas: Sequence[SizeFormula],
    ) -> None:
        self.symbols = list(symbols)
        self.pieces = list(pieces)
        self.updates = dict(updates)
        self._checks, self._formulas = list(checks), list(formulas)

    def run(self, inputs: Sequence[np.ndarray], sizes: list[Any]) -> list[np.ndarray]:
        """The outputs; those in `updates` are the given arrays, with new contents."""
        arrays = list(inputs)
        known = {name: size for name, size in zip(self.symbols, sizes, strict=True) if size is not None}
        checks = self._derived(known, self._checks)
        for piece in self.pieces:
            results = piece.run(arrays, [known.get(name, 0) for name in self.symbols])
            for (name, low, high), array in zip(piece.found, results, strict=False):
                known[name] = size = int(array.reshape(())[()])
                if not low <= size <= high:
                    raise RuntimeError(f"{size} is not a size from {low} to {high}")
            if piece is not self.pieces[-1]:
                checks = self._derived(known, checks)
                arrays += results[len(piece.found) :]
        sizes[:] = [known.get(name) for name in self.symbols]
        return results

    def _derived(self, known: dict[str, int], checks: Sequence[SizeCheck]) -> list[SizeCheck]:
        """Work out what follows from the known sizes and make the checks that they allow; those that are left."""
        for formula in self._formulas:
            if formula.name not in known and formula.names <= known.keys():
                known[formula.name] = formula.function(*[evaluate_data(o, known) for o in formula.operands])
        left = []
        for check in checks:
            if check.names <= known.keys():
                check.look(known)
            else:
                left.append(check)
        return left

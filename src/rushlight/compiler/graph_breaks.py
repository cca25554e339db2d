"""The pieces of a program that has no graph: modules and steps of optimizers that are compiled on their own.

A compiled function whose program breaks (it reads a value, prints, ...) runs eagerly, `in_pieces`: each
module with parts that it calls, and each step of an optimizer, is a `Piece` meanwhile, a compiled function in
its own right. A piece that breaks runs in pieces, too, so that in the end everything is compiled but what
is between the modules on the way to the break.

A piece compiles what it meets for the second time: a shape that comes once (the growing text of a
generation, the rest of a data set) is not worth it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from ..core.modes import MODES
from .function import CompiledFunction
from .specialization import Specialization

MOST_SEEN = 10_000  # kinds of calls that are remembered
PIECES = "_pieces"  # where an object has its pieces, by the function that each compiles


class Piece(CompiledFunction):
    """A part of a program, compiled if a call of the same kind comes again."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, fullgraph=False)
        self._seen: set[Any] = set()

    def _compile(self, key: Any, args: Any, kwargs: Any, *rest: Any) -> tuple[Specialization | None, Any]:
        if key in self._seen:
            return super()._compile(key, args, kwargs, *rest)
        if len(self._seen) >= MOST_SEEN:
            self._seen.clear()
        self._seen.add(key)
        return None, in_pieces(self.function, args, kwargs)


def in_pieces(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a program eagerly but for its pieces."""
    saved, MODES.pieces = MODES.pieces, True
    try:
        return function(*args, **kwargs)
    finally:
        MODES.pieces = saved


def run_piece(owner: Any, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`method(owner, *args, **kwargs)` as a piece, which `owner` keeps."""
    pieces = vars(owner).setdefault(PIECES, {})
    piece = pieces.get(method)
    if piece is None:
        piece = pieces[method] = Piece(MethodType(method, owner))
    return piece(*args, **kwargs)

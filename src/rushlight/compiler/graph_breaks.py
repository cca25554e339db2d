"""Programs with a graph break: their modules and the steps of their optimizers are compiled on their own.

A compiled function whose program breaks (it reads a value, prints, ...) runs eagerly, `in_pieces`: each module
with parts that it calls, and each step of an optimizer, is a compiled function in its own right meanwhile. One
that breaks runs in pieces, too, so that in the end everything is compiled but what is between the modules on
the way to the break.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MethodType
from typing import Any

from ..core.modes import run_pieces_by

PIECES = "_pieces"  # where an object has its pieces, by the function that each compiles

Compile = Callable[[Callable[..., Any]], Any]


def in_pieces(function: Callable[..., Any], args: Any, kwargs: Any, compiled: Compile) -> Any:
    """Run a program eagerly but for its pieces, of which `compiled` makes compiled functions."""
    with run_pieces_by(_runner(compiled)):
        return function(*args, **kwargs)


@functools.cache
def _runner(compiled: Compile) -> Callable[..., Any]:
    """What modules and optimizers call in the place of `method(owner, *args, **kwargs)`: a piece, which `owner`
    keeps."""

    def run(owner: Any, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        pieces = vars(owner).get(PIECES, {})
        piece = pieces.get(method)
        if (
            piece is None or piece.function.__self__ is not owner
        ):  # the attributes are those of another module
            piece = compiled(MethodType(method, owner))
            vars(owner)[PIECES] = {**pieces, method: piece}
        return piece(*args, **kwargs)

    return run

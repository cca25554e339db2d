"""How many points loops have, and where in row-major order a point is.

The loops of a program have extents that are known when it is compiled; `constant` is where that is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import InternalError
from .index import Index, Var, as_index


def constant(index: Index) -> int:
    """The number that an extent or a size is; raises if it is known only when the program runs."""
    value = index.constant_value()
    if value is None:
        raise InternalError(f"{index} is not known at compile time")
    return value


def extents(variables: Sequence[Var]) -> Index:
    """The product of the extents: how many points the loops have."""
    total = as_index(1)
    for var in variables:
        total = total * var.extent
    return total


def points_of(variables: Sequence[Var]) -> int:
    """How many points the loops have, as a number."""
    total = 1
    for var in variables:
        total *= constant(var.extent)
    return total


def flatten(variables: Sequence[Var]) -> Index:
    """The row-major position of a point."""
    position = as_index(0)
    for var in variables:
        position = position * var.extent + var
    return position


def unflatten(position: Index, variables: Sequence[Var]) -> list[Index]:
    """The point at a row-major position."""
    step = as_index(1)
    steps = []
    for var in reversed(variables):
        steps.append(step)
        step = step * var.extent
    return [position // s % var.extent for s, var in zip(reversed(steps), variables, strict=True)]

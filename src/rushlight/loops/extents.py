"""How many points loops have, and where in row-major order a point is.

An extent may be known only when the program is called. Where a number is needed, `constant` gives the one of the
call that was captured, and the code is for that number alone (core/symbols.py). Choices that any extent may take
either way look at `hint` instead.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.index import Index, Var, as_index
from ..core.symbols import hint_of, owner_of, size_of


def constant(index: Index) -> int:
    """The number that an extent or a size is; if that is known only when the program is called, a guard says
    that it is this number."""
    value = index.constant_value()
    return owner_of(index).number(index) if value is None else value


def extents(variables: Sequence[Var]) -> Index:
    """The product of the extents: how many points the loops have."""
    total = as_index(1)
    for var in variables:
        total = total * var.extent
    return total


def points_of(variables: Sequence[Var]) -> int:
    """How many points the loops have, as a size."""
    total = 1
    for var in variables:
        total *= size_of(var.extent)
    return total


def points_hint(variables: Sequence[Var]) -> int:
    """How many points the loops have in the call that was captured."""
    total = 1
    for var in variables:
        total *= hint_of(var.extent)
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

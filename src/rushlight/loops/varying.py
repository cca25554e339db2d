"""Which expressions change along loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.index import Var
from .expr import Expr, walk
from .instructions import COSTS


def varying(values: Iterable[Expr], variables: Sequence[Var]) -> set[Expr]:
    """The expressions in `values` that differ from one iteration of the loops to another."""
    found: set[Expr] = set()
    seen: set[Expr] = set()
    for value in values:
        for node in walk(value):
            if node in seen:
                continue
            seen.add(node)
            if node.args:
                moves = any(a in found for a in node.args)
            elif node.op == "load":
                moves = not node.data.index.atoms().isdisjoint(variables) or any(
                    x in found for _, x in node.data.indirect
                )
            else:
                moves = node.op == "running" or (
                    node.op == "index" and not node.data.atoms().isdisjoint(variables)
                )
            if moves:
                found.add(node)
    return found


def moving_cost(value: Expr, variables: Sequence[Var]) -> tuple[int, int]:
    """(instructions, loads) that every iteration of the loops needs."""
    moving = varying([value], variables)
    loads = sum(node.op == "load" for node in moving)
    return sum(COSTS[node.op] for node in moving if node.args), loads

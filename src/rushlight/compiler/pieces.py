"""Compiling a program whose sizes are data: each piece of it (capture/cut.py) as a program of its own.

A stage of the compiler that has no form for a size that changes makes a guard of it. A guard on a size that is
data cannot choose among compiled calls, since the call is running when the size is known: it concerns the piece,
and a piece whose guards do not hold for some sizes is compiled for these sizes as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..capture.cut import cut
from ..core.atoms import Dim
from ..core.index import Index
from ..core.index_data import guard_to_data, to_data
from ..core.shapes import Spec
from ..core.symbol_table import DERIVED, Symbols
from ..core.symbols import SymInt
from ..graph.ir import Graph, map_values, symbols_of
from ..runtime.pieces import PiecewiseExecutable, RunPiece, SizeCheck, SizeFormula


def compile_pieces(graph: Graph, compiled: Callable[[Graph], Any], symbols: Symbols) -> tuple[Any, list[Any]]:
    """The executable of a program with sizes that are data, and what `compiled` made of its pieces."""
    pieces = cut(graph)
    artifacts = [compiled(piece.graph) for piece in pieces]
    runs = [
        RunPiece(artifact.executable.run, tuple((dim.name, dim.low, dim.high) for dim in piece.found))
        for piece, artifact in zip(pieces, artifacts, strict=True)
    ]
    checks = [
        SizeCheck(guard_to_data(a.what), a.error, a.message, _names(a.what.index)) for a in symbols.assertions
    ]
    formulas = [
        SizeFormula(
            dim.name,
            DERIVED[made.kind],
            tuple(map(to_data, made.operands)),
            frozenset().union(*map(_names, made.operands)),
        )
        for dim, made in symbols.derived.items()
    ]
    names = [dim.name for dim in symbols.hints]
    return PiecewiseExecutable(names, runs, artifacts[-1].executable.updates, checks, formulas), artifacts


def _names(index: Index) -> frozenset[str]:
    return frozenset(atom.name for atom in index.atoms() if isinstance(atom, Dim))


def with_numbers(graph: Graph, sizes: Mapping[str, int] | None) -> Graph:
    """A copy of a graph with numbers in place of all sizes; without `sizes`, a copy."""
    symbols = symbols_of(graph)
    numbers: dict[Any, int] = (
        {} if symbols is None or sizes is None else {dim: sizes[dim.name] for dim in symbols.hints}
    )

    def plain(argument: Any) -> Any:
        if type(argument) is SymInt and numbers:
            return argument.index.evaluate(numbers)
        return tuple(map(plain, argument)) if type(argument) is tuple else argument

    def sized(spec: Spec) -> Spec:
        return spec.sized(numbers) if numbers else spec

    copy = Graph()
    mapped: dict[Any, Any] = {}
    for value in graph.inputs:
        mapped[value] = copy.input(sized(value.spec), value.name)
        mapped[value].number = value.number
    for node in graph.nodes:
        specs = tuple(sized(value.spec) for value in node.outputs)
        args = plain(map_values(node.args, mapped.__getitem__))
        twin = copy.call(node.op, args, specs if node.returns_list else specs[0], node.line)
        for old, new in zip(node.outputs, twin.outputs, strict=True):
            new.number = old.number
            mapped[old] = new
    copy.outputs = [mapped[value] for value in graph.outputs]
    copy.updates = dict(graph.updates)
    return copy

"""Cutting a program behind what computes sizes that are data.

In: a graph, and the values that its sizes are (`Graph.data_sizes`). Out: pieces. Each but the last computes sizes
that those before it make known, and whatever the later ones use of it; a run reads the sizes between them. As few
pieces as there can be: all sizes that can be known at one time are read at that time. What does not depend on a
size may be computed on either side of a cut, and what passes it is chosen as between the forward and the backward
program (capture/partition.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.atoms import Dim
from ..core.symbols import symbols_in
from ..graph.ir import Graph, Value
from .partition import extract, minimum_cut


@dataclass(frozen=True)
class ProgramPiece:
    """`graph` takes the inputs of the whole program, then what the pieces before it have passed on. It returns
    the sizes `found`, then what it passes on; the last piece returns what the program does."""

    graph: Graph
    found: tuple[Dim, ...] = ()


def cut(graph: Graph) -> list[ProgramPiece]:
    """The pieces of a program, in order."""
    pieces = []
    while graph.data_sizes:
        late = _late_values(graph)
        ready = [(dim, value) for dim, value in graph.data_sizes if value not in late]
        later = [(dim, value) for dim, value in graph.data_sizes if value in late]
        given = set(graph.inputs)
        wanted = [*graph.outputs, *(value for _, value in later)]
        passed = [v for v in minimum_cut(graph, graph.inputs, late, wanted) if v not in given]
        first = extract(graph, graph.inputs, [*(value for _, value in ready), *passed])
        rest = extract(graph, [*graph.inputs, *passed], graph.outputs, later)
        rest.updates = graph.updates
        pieces.append(ProgramPiece(first, tuple(dim for dim, _ in ready)))
        graph = rest
    return [*pieces, ProgramPiece(graph)]


def _late_values(graph: Graph) -> set[Value]:
    """The values that cannot be computed before one of the sizes that the graph computes is known."""
    unknown = {dim.name for dim, _ in graph.data_sizes}
    owner = graph.data_sizes[0][0].owner
    for dim, made in owner.derived.items():  # in the order in which they were made
        if any(atom.name in unknown for index in made.operands for atom in index.atoms() if _is_dim(atom)):
            unknown.add(dim.name)
    late: set[Value] = set()
    for node in graph.nodes:
        sizes = [node.args, *((v.spec.shape, v.spec.strides, v.spec.offset) for v in node.outputs)]
        if not late.isdisjoint(node.inputs()) or any(
            dim.name in unknown for each in sizes for dim in _symbols_among(each)
        ):
            late.update(node.outputs)
    return late


def _is_dim(atom: Any) -> bool:
    return isinstance(atom, Dim)


def _symbols_among(argument: Any) -> set[Dim]:
    """The symbols of sizes among arguments, in which there are values, too."""
    if isinstance(argument, tuple | list):
        return set().union(*map(_symbols_among, argument)) if argument else set()
    return symbols_in(argument)

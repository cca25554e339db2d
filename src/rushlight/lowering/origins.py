"""Which nodes of a graph a definition computes: for people who look at a program, never for the compiler.

Operators that are functions of an index leave no definition of their own; what they compute is somewhere in the
expressions of others. So every expression that an operator gives for an element is remembered with its node
while a graph is lowered, and a definition is of the nodes whose expressions it has, besides the one that made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..graph.ir import Node
from ..loops.definitions import Definition, Map, Reduction, written
from ..loops.expr import Expr, operands_of
from ..loops.kernels import Extern, Product, Sort
from ..loops.nest import Store
from .lowered import Indices, Lowered


class Origins:
    """The nodes behind the definitions of one graph, by the names of the buffers that these write."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[Node, ...]] = {}
        self._marks: dict[Expr, dict[Node, None]] = {}
        self._starts: list[tuple[Node, int]] = []  # nodes, and how many definitions there were before each

    def begin(self, node: Node, definitions: int) -> None:
        """A node is lowered from now on."""
        self._starts.append((node, definitions))

    def watch(self, lowered: Lowered, node: Node) -> None:
        """Remember the expressions of the elements of what a node gives."""
        if lowered.buffer is not None:
            return
        element = lowered._element

        def watched(index: Indices) -> Expr:
            made = element(index)
            self._marks.setdefault(made, {})[node] = None
            return made

        lowered._element = watched
        for known in lowered._loaded.values():
            self._marks.setdefault(known, {})[node] = None

    def close(self, definitions: Sequence[Definition]) -> None:
        """All nodes are lowered, to these definitions."""
        ends = [start for _, start in self._starts[1:]] + [len(definitions)]
        makers: list[Node | None] = [None] * len(definitions)
        for (node, start), end in zip(self._starts, ends, strict=True):
            makers[start:end] = [node] * (end - start)
        for definition, maker in zip(definitions, makers, strict=True):
            found: dict[Node, None] = {}
            roots = list(_values(definition))
            for root in roots:
                self._collect(root, found)
            # a copy of what an operator gave, which the next one wanted in memory, is not of the next one
            is_copy = isinstance(definition, Map) and definition.value in self._marks
            if maker is not None and not (is_copy and found):
                found[maker] = None
            for buffer in written(definition):
                self.nodes[buffer.name] = tuple(dict.fromkeys((*self.nodes.get(buffer.name, ()), *found)))

    def _collect(self, root: Expr, found: dict[Node, None]) -> None:
        seen, left = {root}, [root]
        while left:
            here = left.pop()
            found.update(self._marks.get(here, {}))
            for operand in operands_of(here):
                if operand not in seen:
                    seen.add(operand)
                    left.append(operand)


def _values(definition: Definition) -> Iterator[Expr]:
    """The expressions of a definition."""
    match definition:
        case Map() | Reduction():
            yield definition.value
        case Product() | Sort() | Extern():
            return
        case _:
            for phase in definition.nest.phases:
                for statement in phase.statements:
                    yield statement.value
                    if isinstance(statement, Store):
                        yield from (e for _, e in statement.access.indirect)
                        yield from () if statement.condition is None else (statement.condition,)

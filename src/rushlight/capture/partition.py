"""Cutting the joint graph into a forward and a backward program.

Values that do not depend on the gradients coming in can be computed by either half. What the forward half
computes and the backward half uses must be saved in between; `partition` chooses the saved values by a
minimum cut (scipy.sparse.csgraph), where
a value costs its bytes and the inputs of the program cost nothing, since they are there anyway. Values that
are cheap to compute (pointwise operators, views) may be computed again; the results of others (reductions,
products, random
numbers) are computed once, in the forward half.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.atoms import Dim
from ..core.lazy import LazyModule
from ..core.registry import Kind
from ..core.shapes import numel
from ..core.symbols import hint
from ..graph.ir import Graph, Node, Value, map_values

csgraph = LazyModule("scipy.sparse.csgraph")
sparse = LazyModule("scipy.sparse")

UNBOUNDED = 2**30


@dataclass
class Halves:
    """Two graphs.

    The forward one returns its outputs, then `saved`; the backward one takes the inputs with the numbers
    `kept`, which whoever runs them has, then `saved`, then the tangents.
    """

    forward: Graph
    backward: Graph
    saved: list[Value]
    kept: list[int]


def extract(
    graph: Graph, inputs: list[Value], outputs: list[Value], data_sizes: Sequence[tuple[Dim, Value]] = ()
) -> Graph:
    """The part of `graph` that computes `outputs`, and `data_sizes`, from `inputs`, as a graph of its own."""
    copy = Graph()
    mapped: dict[Value, Value] = {}
    for value in inputs:
        mapped[value] = copy.input(value.spec, value.name)
        mapped[value].number = value.number
    needed = _needed_nodes(graph, set(inputs), [*outputs, *(value for _, value in data_sizes)])
    for node in graph.nodes:
        if node not in needed:
            continue
        specs = tuple(v.spec for v in node.outputs)
        twin = copy.call(
            node.op,
            map_values(node.args, mapped.__getitem__),
            specs if node.returns_list else specs[0],
            node.line,
        )
        for old, new in zip(node.outputs, twin.outputs, strict=True):
            new.number = old.number
            mapped.setdefault(old, new)
    copy.outputs = [mapped[value] for value in outputs]
    copy.data_sizes = [(dim, mapped[value]) for dim, value in data_sizes]
    return copy


def _needed_nodes(graph: Graph, known: set[Value], outputs: list[Value]) -> set[Node]:
    needed: set[Node] = set()
    stack = [value for value in outputs if value not in known]
    while stack:
        node = stack.pop().node
        if node is None or node in needed:
            continue
        needed.add(node)
        stack.extend(value for value in node.inputs() if value not in known)
    return needed


def partition(
    graph: Graph,
    outputs: list[Value],
    tangents: list[Value],
    gradients: list[Value],
    there: Collection[Value] = (),
) -> Halves:
    """Cut `graph`: the forward half computes `outputs`, the backward half `gradients` from `tangents`. Inputs
    that are `there` need not be saved."""
    primals = [value for value in graph.inputs if value not in set(tangents)]
    late = depending_on(graph, tangents)
    used = minimum_cut(graph, primals, late, gradients)
    kept = [i for i, value in enumerate(primals) if value in used and value in there]
    saved = [value for value in used if value not in there]
    early_sizes = [(dim, value) for dim, value in graph.data_sizes if value not in late]
    late_sizes = [(dim, value) for dim, value in graph.data_sizes if value in late]
    forward = extract(graph, primals, [*outputs, *saved], early_sizes)
    backward = extract(graph, [*(primals[i] for i in kept), *saved, *tangents], gradients, late_sizes)
    return Halves(forward, backward, saved, kept)


def depending_on(graph: Graph, tangents: Collection[Value]) -> set[Value]:
    """The tangents and every value that is computed from one."""
    late = set(tangents)
    for node in graph.nodes:
        if any(value in late for value in node.inputs()):
            late.update(node.outputs)
    return late


def minimum_cut(graph: Graph, primals: list[Value], late: set[Value], gradients: list[Value]) -> list[Value]:
    """The values to save: those on the edges of a minimum cut between what must be computed forward and the
    gradients.

    Every early value is an edge from its "in" to its "out" vertex with its size as capacity; an operator
    joins the outs of its inputs to the ins of its outputs. The source feeds the inputs and everything that
    must not be computed again.
    """
    early = [value for value in graph.values() if value not in late]
    number = {value: i for i, value in enumerate(early)}
    source, sink = 2 * len(early), 2 * len(early) + 1
    edges: dict[tuple[int, int], int] = {}

    def join(a: int, b: int, capacity: int) -> None:
        edges[a, b] = min(UNBOUNDED, edges.get((a, b), 0) + capacity)

    inputs = set(primals)
    for value in early:
        i = number[value]
        join(2 * i, 2 * i + 1, 1 if value in inputs else _capacity(value))
        if value in inputs or (value.node is not None and not _repeatable(value.node)):
            join(source, 2 * i, UNBOUNDED)
    for node in graph.nodes:
        for value in node.inputs():
            if value not in number:
                continue
            for output in node.outputs:
                target = sink if output in late else 2 * number[output]
                join(2 * number[value] + 1, target, UNBOUNDED)
    for value in gradients:
        if value in number:
            join(2 * number[value] + 1, sink, UNBOUNDED)
    return _cut(edges, early, source, sink)


def _cut(edges: dict[tuple[int, int], int], early: list[Value], source: int, sink: int) -> list[Value]:
    if not any(b == sink for _, b in edges):
        return []
    rows, columns = zip(*edges, strict=True)
    size = sink + 1
    capacity = sparse.csr_matrix((np.array(list(edges.values()), np.int32), (rows, columns)), (size, size))
    flow = csgraph.maximum_flow(capacity, source, sink).flow
    residual = (capacity - flow).tocsr()
    residual.data = np.where(residual.data > 0, residual.data, 0)
    residual.eliminate_zeros()
    reached = np.zeros(size, bool)
    reached[csgraph.breadth_first_order(residual, source, return_predecessors=False)] = True
    return [value for i, value in enumerate(early) if reached[2 * i] and not reached[2 * i + 1]]


def _capacity(value: Value) -> int:
    """The price of saving a value. A view is never saved: its layout means something in its root alone."""
    if value.node is not None and value.node.op.kind is Kind.VIEW:
        return UNBOUNDED
    return 2 + min(_bytes(value), UNBOUNDED // 2)


def _repeatable(node: Node) -> bool:
    """Whether a value may be computed again: cheap, and always the same."""
    return node.op.kind in (Kind.POINTWISE, Kind.VIEW) and not node.op.random


def _bytes(value: Value) -> int:
    return hint(numel(value.shape)) * value.dtype.itemsize

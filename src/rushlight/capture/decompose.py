"""Decompositions: operators of a graph that have no lowering become simpler ones that have.

In: a captured graph. Out: the same graph, changed in place: the call of an operator that `decomposes` is
replaced by what its decomposition does on abstract tensors, and that in turn until nothing is left to
replace. Every value keeps its shape, dtype and memory order, so that views of it stay valid; the returned
map tells what became of the values that are gone.
"""

from __future__ import annotations

from typing import Any

from ..core.autocast import autocast_off
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.tensor import Tensor
from ..graph.ir import Graph, Node, Value, map_values
from .trace import Capture


def decomposes(op: OpDef) -> bool:
    """Whether the compiler replaces calls of `op` by its decomposition."""
    return op.kind is Kind.STRUCTURAL and op.decomposition is not None and not callable(op.lowering)


def decompose(graph: Graph) -> dict[Value, Value]:
    """Replace every call that `decomposes`. Returns the new value of each value that was replaced."""
    replaced: dict[Value, Value] = {}
    waiting = graph.nodes
    while any(map(decomposes, {node.op for node in waiting})):
        waiting, graph.nodes = graph.nodes, []
        for node in waiting:
            node.args = map_values(node.args, lambda value: replaced.get(value, value))
            if decomposes(node.op):
                replaced.update(zip(node.outputs, _expand(graph, node), strict=True))
            else:
                graph.nodes.append(node)
        waiting = graph.nodes
    final = {old: _last(replaced, new) for old, new in replaced.items()}
    graph.outputs = [final.get(value, value) for value in graph.outputs]
    graph.data_sizes = [(dim, final.get(value, value)) for dim, value in graph.data_sizes]
    return final


def _last(replaced: dict[Value, Value], value: Value) -> Value:
    while value in replaced:
        value = replaced[value]
    return value


def _expand(graph: Graph, node: Node) -> list[Value]:
    """Append what the decomposition of `node` calls; the values of its outputs."""
    before = len(graph.nodes)
    capture = Capture(graph)
    assert node.op.decomposition is not None
    with autocast_off(), capture:
        results = node.op.decomposition(map_values(node.args, capture.stand_in))
    outputs = results if isinstance(results, tuple | list) else (results,)
    values = [
        _laid_out(graph, capture, result, old) for result, old in zip(outputs, node.outputs, strict=True)
    ]
    for made in graph.nodes[before:]:
        made.line = node.line
    return values


def _laid_out(graph: Graph, capture: Capture, result: Any, old: Value) -> Value:
    """The value of `result`, in the memory order that the operator's shape rule promised."""
    assert isinstance(result, Tensor)
    value = capture.value_of(capture.abstract(result))
    spec = value.spec
    plain = not spec.conj and not spec.neg and not spec.offset
    is_view = value.node is None or value.node.op.kind is Kind.VIEW
    if plain and not is_view and spec.known_strides() == old.spec.known_strides() and spec.dtype is old.dtype:
        return value
    return graph.call(REGISTRY["clone"], (value, None), old.spec, "").outputs[0]

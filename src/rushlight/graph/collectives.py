"""Where collectives stand in a program: begun as soon as their input is there, waited for where they are read.

Calls that begin one stay in their order, which all processes have to agree about. What is computed between the
two calls is computed while messages travel.
"""

from __future__ import annotations

from ..core.traits import Trait
from .ir import Graph, Node, Value

_Key = tuple[int, float, int]  # before which node of the old order, how near to it, and the node's own place


def spread_collectives(graph: Graph) -> None:
    if not any(node.op.traits & Trait.COLLECTIVE for node in graph.nodes):
        return
    keys: dict[int, _Key] = {}
    made: dict[Value, int] = {value: i for i, node in enumerate(graph.nodes) for value in node.outputs}
    latest: _Key = (-1, 1.0, -1)
    for i, node in enumerate(graph.nodes):
        keys[i] = (i, 0.0, i)
        if _begins(node):
            ready = max((made.get(value, -1) for value in node.inputs()), default=-1)
            keys[i] = latest = max((ready, 1.0, i), (latest[0], latest[1], i))
    users: dict[Value, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.inputs():
            users.setdefault(value, []).append(i)
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        if node.op.traits & Trait.COLLECTIVE and not _begins(node):
            readers = [keys[user] for user in users.get(node.outputs[0], ())]
            first = min(readers, default=(len(graph.nodes), 0.0, i))
            keys[i] = (first[0], first[1] - 0.5, i)
    graph.nodes = [graph.nodes[i] for i in sorted(keys, key=keys.__getitem__)]


def _begins(node: Node) -> bool:
    return bool(node.op.traits & Trait.COLLECTIVE) and node.op.schema.name != "wait_tensor"

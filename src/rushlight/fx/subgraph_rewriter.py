"""Replacing parts of a graph that look like a pattern."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..core.errors import check
from ..nn.modules.module import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign, _found
from .node import Node, map_arg

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A place where the pattern was found."""

    anchor: Node  # what is returned by the pattern, in the graph
    nodes_map: dict[Node, Node]  # nodes of the pattern to those of the graph


@dataclass
class ReplacedPatterns:
    """A place where the pattern was found, and what stands there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node] = field(default_factory=list)


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Put what `replacement` computes in the place of every part of the graph that computes what `pattern` does:
    both take the same arguments. Parts do not overlap, and nothing else may use what is inside of one.

    >>> module = rl.fx.symbolic_trace(lambda x: rl.sin(x) + 1)
    >>> _ = rl.fx.replace_pattern(module, lambda x: rl.sin(x), lambda x: rl.cos(x))
    >>> module(rl.zeros(1))
    tensor([2.])
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(found.anchor, found.nodes_map) for found in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[Callable[..., bool]] | None = None,
    ignore_literals: bool = False,
) -> list[ReplacedPatterns]:
    """As `replace_pattern`, where every filter agrees: each is given the match, the graph and the pattern."""
    wanted, made = _graph_of(pattern), _graph_of(replacement)
    matches = [
        found
        for found in _matches(gm.graph, wanted, ignore_literals)
        if all(accept(found, gm.graph, wanted) for accept in match_filters or ())
    ]
    inputs = [n for n in wanted.nodes if n.op == "placeholder"]
    new_inputs = [n for n in made.nodes if n.op == "placeholder"]
    check(
        len(inputs) == len(new_inputs),
        f"the pattern has {len(inputs)} arguments, the replacement {len(new_inputs)}",
        RuntimeError,
    )
    moved: dict[Node, Node] = {}  # nodes that were replaced, by those that stand for them
    results = [_replace(gm.graph, wanted, made, found, moved) for found in matches]
    if isinstance(replacement, Module):
        _copy_attributes(gm, replacement)
    gm.recompile()
    return results


def _graph_of(program: Any) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _returned(graph: Graph) -> list[Node]:
    """The nodes whose results a graph returns."""
    return graph.output_node().all_input_nodes


def _matches(graph: Graph, pattern: Graph, ignore_literals: bool) -> list[Match]:
    """The places of the pattern, which do not overlap, from the beginning on."""
    anchors = _returned(pattern)
    check(bool(anchors), "the pattern returns nothing that it computes", RuntimeError)
    found: list[Match] = []
    taken: set[Node] = set()
    for node in graph.nodes:
        nodes = _match_at(anchors, node, ignore_literals)
        if nodes is None:
            continue
        inside = {n for p, n in nodes.items() if p.op not in ("placeholder", "get_attr")}
        kept = set(map(nodes.__getitem__, anchors))
        closed = all(user in inside for n in inside - kept for user in n.users)
        if closed and not inside & taken:
            taken |= inside
            found.append(Match(nodes[anchors[0]], nodes))
    return found


def _match_at(anchors: list[Node], node: Node, ignore_literals: bool) -> dict[Node, Node] | None:
    """The nodes that stand for those of the pattern, if its first result is `node`."""
    nodes: dict[Node, Node] = {}
    if not _equal(anchors[0], node, nodes, ignore_literals):
        return None
    for anchor in anchors[1:]:  # other results: a user of what is known, which looks like it
        if anchor not in nodes:
            known = [nodes[p] for p in anchor.all_input_nodes if p in nodes]
            for candidate in known[0].users if known else ():
                attempt = dict(nodes)
                if candidate not in nodes.values() and _equal(anchor, candidate, attempt, ignore_literals):
                    nodes = attempt
                    break
            else:
                return None
    return nodes


def _equal(wanted: Any, found: Any, nodes: dict[Node, Node], ignore_literals: bool) -> bool:
    """Whether an argument looks like that of the pattern; which node stands for which goes to `nodes`."""
    if isinstance(wanted, Node):
        if not isinstance(found, Node):
            return False
        if wanted in nodes:
            return nodes[wanted] is found
        if wanted.op != "placeholder":
            if (wanted.op, wanted.target) != (found.op, found.target):
                return False
            if not _equal(wanted.args, found.args, nodes, ignore_literals):
                return False
            if not _equal(wanted.kwargs, found.kwargs, nodes, ignore_literals):
                return False
        nodes[wanted] = found
        return True
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(wanted) == len(found)
            and all(_equal(a, b, nodes, ignore_literals) for a, b in zip(wanted, found, strict=True))
        )
    if isinstance(wanted, dict):
        return (
            isinstance(found, dict)
            and wanted.keys() == found.keys()
            and all(_equal(value, found[key], nodes, ignore_literals) for key, value in wanted.items())
        )
    return not isinstance(found, Node) and (ignore_literals or bool(wanted == found))


def _replace(
    graph: Graph, pattern: Graph, replacement: Graph, found: Match, moved: dict[Node, Node]
) -> ReplacedPatterns:
    inputs = [n for n in pattern.nodes if n.op == "placeholder"]
    new_inputs = [n for n in replacement.nodes if n.op == "placeholder"]
    places: dict[Node, Any] = {}
    for old, new in zip(inputs, new_inputs, strict=True):
        if old in found.nodes_map:
            node = found.nodes_map[old]
            places[new] = moved.get(node, node)
    last = max((found.nodes_map[n] for n in _returned(pattern)), key=list(graph.nodes).index)
    before = set(graph.nodes)
    with graph.inserting_before(last):
        result = graph.graph_copy(replacement, places)
    made = [node for node in graph.nodes if node not in before]
    results: list[Node] = []
    map_arg(result, results.append)
    for old, new in zip(_returned(pattern), results, strict=True):
        node = found.nodes_map[old]
        node.replace_all_uses_with(new)
        moved[node] = new
    for node in reversed(list(graph.nodes)):
        inside = [
            p for p, n in found.nodes_map.items() if n is node and p.op not in ("placeholder", "output")
        ]
        if inside and not node.users:
            graph.erase_node(node)
    return ReplacedPatterns(found.anchor, found.nodes_map, made)


def _copy_attributes(gm: GraphModule, replacement: Module) -> None:
    """Give the module what the nodes that it has now refer to."""
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr") and _found(gm, node.target) is None:
            value = _found(replacement, node.target)
            check(
                value is not None,
                f'Attempted to create a "{node.op}" node in the replacement subgraph with target {node.target}, '
                "but the referenced attribute does not exist in the replacement GraphModule",
                RuntimeError,
            )
            _assign(gm, node.target, copy.deepcopy(value))

"""Passes over the graph: each takes a graph, changes it in place, and leaves it valid.

dead code, common subexpressions, constant folding of views and casts that do nothing, algebraic
simplification. All of them are exact: no pass changes a value, not even by rounding, and NaN, infinities
and signed zeros keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.registry import Kind
from .ir import Graph, Node, Value, map_values


def remove_dead_code(graph: Graph) -> None:
    """Drop calls whose outputs nobody uses.

    Random calls go too: their counters are given by position, not by order.
    """
    needed = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(value in needed for value in node.outputs):
            kept.append(node)
            needed.update(node.inputs())
    graph.nodes = kept[::-1]


def replace_values(graph: Graph, replacement: dict[Value, Value]) -> None:
    """Use `replacement[v]` wherever v is used."""
    def resolved(value: Value) -> Value:
        while value in replacement:
            value = replacement[value]
        return value

    for node in graph.nodes:
        node.args = map_values(node.args, resolved)
    graph.outputs = [resolved(value) for value in graph.outputs]


def merge_common_subexpressions(graph: Graph) -> None:
    """Compute equal calls once. Calls of random operators are never equal."""
    seen: dict[Any, Node] = {}
    replacement: dict[Value, Value] = {}
    for node in graph.nodes:
        node.args = map_values(node.args, lambda value: replacement.get(value, value))
        if node.op.random:
            continue
        key = (node.op.name, _key(node.args))
        first = seen.setdefault(key, node)
        if first is not node:
            replacement.update(zip(node.outputs, first.outputs, strict=True))
    replace_values(graph, replacement)
    remove_dead_code(graph)


def _key(argument: Any) -> Any:
    """A hashable key under which only identical arguments are equal.

    1, 1.0 and True differ, and so do 0.0 and -0.0.
    """
    if isinstance(argument, tuple | list):
        return tuple(_key(item) for item in argument)
    if isinstance(argument, int | float | complex | bool):
        return type(argument), repr(argument)
    return type(argument), argument


def remove_identities(graph: Graph) -> None:
    """Drop calls that return their input as it is.

    Views to the same shape, casts to the same dtype, x * 1, x + 0 (int).
    """
    replacement: dict[Value, Value] = {}
    for node in graph.nodes:
        node.args = map_values(node.args, lambda value: replacement.get(value, value))
        source = identity_of(node)
        if source is not None:
            replacement[node.outputs[0]] = source
    replace_values(graph, replacement)
    remove_dead_code(graph)


def identity_of(node: Node) -> Value | None:
    """The input that the node's only output equals, layout included, if that can be seen."""
    if len(node.outputs) != 1 or not node.args or not isinstance(node.args[0], Value):
        return None
    source, output = node.args[0], node.outputs[0]
    if not _same_layout(source, output):
        return None
    rule = IDENTITIES.get(node.op.schema.name)
    if node.op.kind is Kind.VIEW or (rule is not None and rule(node)):
        return source
    return None


def _same_layout(a: Value, b: Value) -> bool:
    """Whether two values have the same elements at the same places of their storage, if they share one."""
    first, second = a.spec, b.spec
    return (
        first.shape,
        first.dtype,
        first.known_strides(),
        first.offset,
        bool(first.conj),
        bool(first.neg),
    ) == (
        second.shape,
        second.dtype,
        second.known_strides(),
        second.offset,
        bool(second.conj),
        bool(second.neg),
    )


def _is_one(node: Node) -> bool:
    return node.args[1] == 1 and isinstance(node.args[1], int | float)


def _is_integer_zero(node: Node) -> bool:
    return node.args[1] == 0 and isinstance(node.args[1], int) and not node.args[0].dtype.is_floating_point


# clone and copies: the graph is functional, so a copy is the same value.
IDENTITIES: dict[str, Callable[[Node], bool]] = {
    "clone": lambda node: True,
    "contiguous": lambda node: True,
    "_to_copy": lambda node: True,
    "mul": _is_one,
    "div": _is_one,
    "add": _is_integer_zero,
    "sub": _is_integer_zero,
}


PASSES: list[tuple[str, Callable[[Graph], None]]] = [
    ("remove dead code", remove_dead_code),
    ("remove identities", remove_identities),
    ("merge common subexpressions", merge_common_subexpressions),
]

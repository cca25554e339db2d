"""Passes over the graph: each takes a graph, changes it in place, and leaves it valid.

    remove dead code             calls whose results nobody uses
    compose views                a view of a view is one view of the tensor behind both
    shorten casts                a cast of a cast is one, where the one in between loses nothing
    fold constants               exact arithmetic on tensors filled with one number, which are like no other
    remove identities            x * 1, x - 0, neg(neg(x)), copies, views and casts that change nothing
    merge common subexpressions  equal calls are computed once
    spread collectives           begun as early and waited for as late as possible

All of them are exact: no pass changes a value, not even by rounding, and NaN, infinities and signed zeros
keep their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.construct import from_numpy
from ..core.dispatch import execute
from ..core.dtypes import DTYPES, Category, DType, finfo, iinfo
from ..core.passes import Pass
from ..core.quiet import quietly
from ..core.registry import REGISTRY, Kind
from ..core.shapes import Spec
from ..core.symbols import SymInt, exact, is_size, symbols_in
from ..core.traits import Trait
from ..kernels.creation import filled
from .collectives import spread_collectives
from .ir import Graph, Node, Value, map_values, print_graph, verify


def remove_dead_code(graph: Graph, also: Iterable[Value] = ()) -> None:
    """Drop calls whose outputs neither the graph's outputs nor the values `also` need.

    Random calls go too: their counters are given by position, not by order.
    """
    needed = {*graph.outputs, *also}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            kept.append(node)
            needed.update(node.inputs())
    graph.nodes = kept[::-1]


def replace_values(graph: Graph, replacement: dict[Value, Value]) -> None:
    """Use `replacement[v]` wherever v is used, and drop what nobody uses then."""
    if not replacement:
        return

    def resolved(value: Value) -> Value:
        while value in replacement:
            value = replacement[value]
        return value

    for node in graph.nodes:
        if not replacement.keys().isdisjoint(node.inputs()):
            node.args = map_values(node.args, resolved)
    graph.outputs = [resolved(value) for value in graph.outputs]
    remove_dead_code(graph)


def _use(node: Node, replacement: dict[Value, Value]) -> None:
    """Let a node take other values."""
    if replacement and not replacement.keys().isdisjoint(node.inputs()):
        node.args = map_values(node.args, lambda value: replacement.get(value, value))


def merge_common_subexpressions(graph: Graph) -> None:
    """Compute equal calls once. Calls of random operators are never equal."""
    seen: dict[Any, Node] = {}
    replacement: dict[Value, Value] = {}
    known: dict[int, Any] = {}  # strides, by the identity of a spec, which many values share

    def strides(value: Value) -> Any:
        found = known.get(id(value.spec))
        if found is None:
            found = known[id(value.spec)] = exact(value.spec.known_strides())
        return found

    for node in graph.nodes:
        _use(node, replacement)
        op = node.op
        if op.random or (op.traits is not Trait.NONE and op.traits & Trait.COLLECTIVE):
            continue
        # a copy and a filled tensor have the memory order that was asked for, which no argument tells
        key = (op, _key(node.args), *map(strides, node.outputs))
        first = seen.setdefault(key, node)
        if first is not node:
            replacement.update(zip(node.outputs, first.outputs, strict=True))
    replace_values(graph, replacement)


def _key(argument: Any) -> Any:
    """A hashable key under which only identical arguments are equal.

    1, 1.0 and True differ, and so do 0.0 and -0.0.
    """
    kind = type(argument)
    if kind is Value or argument is None:
        return argument
    if kind is int:
        return kind, argument
    if isinstance(argument, (tuple, list)):
        return tuple([_key(item) for item in argument])
    if kind is SymInt:
        return SymInt, argument.index
    if isinstance(argument, int | float | complex | bool):
        return type(argument), repr(argument)
    return type(argument), argument


def remove_identities(graph: Graph) -> None:
    """Drop calls that return their input as it is: views to the same shape, casts to the same dtype, ..."""
    replacement: dict[Value, Value] = {}
    for node in graph.nodes:
        _use(node, replacement)
        source = identity_of(node)
        if source is not None:
            replacement[node.outputs[0]] = source
    replace_values(graph, replacement)


def identity_of(node: Node) -> Value | None:
    """The input that the node's only output equals, layout included, if that can be seen."""
    if len(node.outputs) != 1 or not node.args or not isinstance(node.args[0], Value):
        return None
    rule = IDENTITIES.get(node.op.schema.name) if node.op.kind is not Kind.VIEW else None
    if rule is None and node.op.kind is not Kind.VIEW:
        return None
    source, output = node.args[0], node.outputs[0]
    if len(source.spec.known_shape()) != len(output.spec.known_shape()) or not _same_layout(source, output):
        return None
    return source if rule is None or rule(node) else None


def _same_layout(a: Value, b: Value) -> bool:
    """Whether two values have the same elements at the same places of their storage, if they share one."""
    return _layout(a.spec) == _layout(b.spec)


def _layout(spec: Spec) -> Any:
    geometry = exact((spec.shape, spec.known_strides(), spec.offset))
    return geometry, spec.dtype, bool(spec.conj), bool(spec.neg)


def _is_one(node: Node) -> bool:
    """x * 1, x / 1 and x ** 1 are x; with a rounding mode, x / 1 is not."""
    plain = all(argument is None for argument in node.args[2:])
    return _is_number(node.args[1], 1) and plain


def _adds_nothing(node: Node) -> bool:
    """Of integers, any zero; of floats, x + -0.0 alone, since -0.0 + 0.0 is 0.0."""
    other, factor = node.args[1], node.args[2]
    if not _is_number(other, 0):
        return False
    exact = node.args[0].dtype.category <= Category.INTEGRAL
    return exact or (type(other) is float and str(other) == "-0.0" and _is_number(factor, 1))


def _subtracts_nothing(node: Node) -> bool:
    """Of integers, any zero; of floats x - 0.0, but not x - -0.0."""
    other, factor = node.args[1], node.args[2]
    if not _is_number(other, 0):
        return False
    exact = node.args[0].dtype.category <= Category.INTEGRAL
    return exact or (str(other) != "-0.0" and _is_number(factor, 1))


def _is_number(value: Any, number: int) -> bool:
    """Whether a value is that number, whatever sizes there are in a call."""
    return isinstance(value, int | float) and not is_size(value) and value == number


# clone and copies: the graph is functional, so a copy is the same value.
IDENTITIES: dict[str, Callable[[Node], bool]] = {
    "clone": lambda node: True,
    "contiguous": lambda node: True,
    "_to_copy": lambda node: True,
    "mul": _is_one,
    "div": _is_one,
    "pow": _is_one,
    "add": _adds_nothing,
    "sub": _subtracts_nothing,
}


def undo_twice(graph: Graph) -> None:
    """neg(neg(x)) is x, abs(abs(x)) is abs(x)."""
    replacement: dict[Value, Value] = {}
    for node in graph.nodes:
        _use(node, replacement)
        traits = node.op.traits
        if (
            traits is Trait.NONE
            or not traits & (Trait.INVOLUTION | Trait.IDEMPOTENT)
            or not isinstance(node.args[0], Value)
        ):
            continue
        inner = node.args[0].node
        if inner is None or inner.op is not node.op:
            continue
        source = inner.args[0] if traits & Trait.INVOLUTION else node.args[0]
        if _same_layout(source, node.outputs[0]):
            replacement[node.outputs[0]] = source
    replace_values(graph, replacement)


# Views.


def compose_views(graph: Graph) -> None:
    """Make every view a view of the tensor whose memory it is."""
    changed = False
    for node in graph.nodes:
        if node.op.kind is not Kind.VIEW or not isinstance(node.args[0], Value):
            continue
        root = node.args[0]
        while root.node is not None and _is_plain_view(root):
            root = root.node.args[0]
        if root is node.args[0] or not all(_reads_plainly(value, root) for value in node.outputs):
            continue
        if len(node.outputs) == 1:
            spec = node.outputs[0].spec
            node.op = REGISTRY["as_strided"]
            node.args = (root, spec.known_shape(), spec.known_strides(), spec.offset)
            changed = True
    if changed:
        remove_dead_code(graph)


def _is_plain_view(value: Value) -> bool:
    node = value.node
    return (
        node is not None
        and node.op.kind is Kind.VIEW
        and isinstance(node.args[0], Value)
        and _reads_plainly(value, node.args[0])
    )


def _reads_plainly(value: Value, source: Value) -> bool:
    """Whether `value` is elements of `source` as they are."""
    return (
        value.dtype is source.dtype
        and bool(value.spec.conj) == bool(source.spec.conj)
        and bool(value.spec.neg) == bool(source.spec.neg)
        and not value.spec.conj
        and not value.spec.neg
        and value.number is None
        and source.number is None
    )


# Casts.


def shorten_casts(graph: Graph) -> None:
    """A cast of a cast converts from the first dtype at once, where the one between holds all its values."""
    changed = False
    for node in graph.nodes:
        if node.op.name != "_to_copy" or not isinstance(node.args[0], Value):
            continue
        inner = node.args[0].node
        while inner is not None and inner.op.name == "_to_copy" and isinstance(inner.args[0], Value):
            source = inner.args[0]
            between, last = inner.outputs[0].dtype, node.outputs[0].dtype
            same_order = exact(source.spec.known_strides()) == exact(inner.outputs[0].spec.known_strides())
            to_whole = source.dtype.is_floating_point and last.category <= Category.INTEGRAL
            if not _holds(between, source.dtype) or to_whole or not same_order or source.spec.conj:
                break
            node.args = (source, *node.args[1:])
            inner = source.node
            changed = True
    if changed:
        remove_dead_code(graph)


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if wide is narrow or narrow is DTYPES["bool"]:
        return True
    if narrow.is_complex or wide.is_complex:
        return wide.is_complex and _holds(wide.to_real(), narrow.to_real())
    if wide is DTYPES["bool"]:
        return False
    if narrow.is_floating_point:
        if not wide.is_floating_point:
            return False
        big, small = finfo(wide), finfo(narrow)
        return big.eps <= small.eps and big.max >= small.max and big.tiny <= small.tiny
    limits = iinfo(narrow)
    if wide.is_floating_point:
        return max(-limits.min, limits.max) <= 1 / finfo(wide).eps and finfo(wide).max >= limits.max
    other = iinfo(wide)
    return other.min <= limits.min and other.max >= limits.max


# Constants.


def constant_of(value: Value) -> Any:
    """The number that fills a tensor, or None."""
    node = value.node
    fill = None if node is None else node.op.fill
    if node is None or not isinstance(fill, str):
        return fill
    number = node.args[node.op.schema.argument_names.index(fill)]
    return None if isinstance(number, Value) or is_size(number) else number


def fold_constants(graph: Graph) -> None:
    """Compute exact operators of filled tensors now, once instead of for each element, and take the tensors away
    that other filled ones are like."""
    changed = False
    for node in graph.nodes:
        changed |= _without_likeness(node)
        if node.op.kind is not Kind.POINTWISE or len(node.outputs) != 1:
            continue
        inputs = node.inputs()
        if not inputs or any(value.node is None or value.node.op.fill is None for value in inputs):
            continue
        if not node.op.traits & Trait.EXACT or any(value.number is not None for value in inputs):
            continue
        if symbols_in(node.args):
            continue
        numbers = {value: constant_of(value) for value in inputs}
        if any(number is None for number in numbers.values()):
            continue
        output = node.outputs[0]

        def one_element(value: Value, numbers: dict[Value, Any] = numbers) -> Any:
            return from_numpy(quietly(filled, Spec((1,) * len(value.shape), value.dtype), numbers[value]))

        result = execute(node.op, map_values(node.args, one_element))
        node.op = REGISTRY["full"]
        node.args = (output.shape, result.numpy_array().reshape(-1)[0].item(), output.dtype, None, None, None)
        changed = True
    if changed:
        remove_dead_code(graph)


def _without_likeness(node: Node) -> bool:
    """Make a tensor that is filled like another one, as `ones_like` does, one that says its own size."""
    if node.op.fill is None or len(node.outputs) != 1 or not isinstance(node.args[0], Value):
        return False
    output, number = node.outputs[0], constant_of(node.outputs[0])
    if number is None or output.number is not None:
        return False
    node.op = REGISTRY["full"]
    node.args = (output.shape, number, output.dtype, None, None, None)
    return True


def _in_place(name: str, change: Callable[[Graph], None], topic: str | None = None) -> Pass:
    def run(graph: Graph) -> Graph:
        change(graph)
        return graph

    return Pass(name, run, verify, print_graph, topic)


GRAPH_PASSES: tuple[Pass, ...] = (
    _in_place("remove dead code", remove_dead_code),
    _in_place("compose views", compose_views),
    _in_place("shorten casts", shorten_casts),
    _in_place("fold constants", fold_constants),
    _in_place("undo what is done twice", undo_twice),
    _in_place("remove identities", remove_identities),
    _in_place("merge common subexpressions", merge_common_subexpressions, "graph"),
    _in_place("spread collectives", spread_collectives),
)

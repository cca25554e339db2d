"""Errors that depend on data survive compilation: what eager code would have raised is looked for.

Compiled code checks an index, a divisor or a target where it uses it. A call whose result nobody uses, or of
whose result only a part is read, would be checked in part or not at all. `keep_checks(graph, roots)` makes
such calls be computed whole: an output is added that depends on every element of their result.

Where all of a result is read anyway, which is nearly always, the check rides on that and nothing is added.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable

from ..core.data_sizes import at_least
from ..core.dtypes import DTYPES
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.shapes import Spec, numel
from ..core.traits import Trait
from ..graph.ir import Graph, Node, Value
from .partition import depending_on

_PLACES = frozenset(("index", "indices", "target", "sorter"))  # arguments that say where something is
# Operators of which any result takes all of the operands: they are read whole before, or into a buffer.
_WHOLE = frozenset(
    (
        "matmul",
        "conv",
        "linalg",
        "fft",
        "reduction",
        "attention",
        "sorting",
        "scan",
        "normalization",
        "recurrent",
        "collective",
    )
)


# Of these all elements of a result are elements of an operand, and the other way round.
_MOVING = frozenset(("cat", "clone", "_to_copy", "flip", "roll", "repeat"))


def may_raise(node: Node) -> bool:
    """Whether eager code raises an error for some data."""
    op = node.op
    if not _may_raise(op):
        return False
    if op.traits & Trait.DIVIDES:
        return not node.outputs[0].dtype.is_floating_point and not node.outputs[0].dtype.is_complex
    return _raises(op) or bool(_places(node))


@functools.cache
def _may_raise(op: OpDef) -> bool:
    """Whether an operator raises an error for some data and some arguments."""
    if op.kind is Kind.VIEW or "backward" in op.schema.name:
        return False
    return bool(op.traits & Trait.DIVIDES) or _raises(op) or bool(_place_arguments(op))


def _raises(op: OpDef) -> bool:
    """Whether an operator raises an error for some data, whatever its arguments."""
    return bool(op.traits & Trait.RAISES) or (op.family == "linalg" and not callable(op.lowering))


def _places(node: Node) -> list[Value]:
    """The tensors of integers that say where something is."""
    found: list[Value] = []
    for at in _place_arguments(node.op):
        argument = node.args[at]
        given = argument if isinstance(argument, tuple | list) else (argument,)
        found += [value for value in given if isinstance(value, Value)]
    return found


@functools.cache
def _has_gaps(op: OpDef) -> bool:
    """Whether views of it leave elements out, however many they have."""
    return bool(op.traits & Trait.GAPS)


@functools.cache
def _place_arguments(op: OpDef) -> tuple[int, ...]:
    return tuple([at for at, name in enumerate(op.schema.argument_names) if name in _PLACES])


def keep_checks(graph: Graph, roots: Iterable[Value], tangents: Collection[Value] = ()) -> None:
    """Add outputs to `graph` for what may raise and is not computed whole; `roots` are wanted besides.

    What depends on `tangents` belongs to the backward half, whose places were checked in the forward one.
    """
    operators = set(filter(_may_raise, {node.op for node in graph.nodes}))
    raising = [node for node in graph.nodes if node.op in operators and may_raise(node)]
    if raising and tangents:
        late = depending_on(graph, tangents)
        raising = [node for node in raising if late.isdisjoint(node.outputs)]
    if not raising:
        return
    reading = _Reading(graph, [*graph.outputs, *roots])
    checked = {value for node in raising if reading.is_whole(node) for value in _places(node)}
    for node in raising:
        places = _places(node)
        if not reading.is_whole(node) and not (places and checked.issuperset(places)):
            checked.update(places)
            if node.op.traits & Trait.COLLECTIVE and any(node.outputs[0] in n.inputs() for n in graph.nodes):
                continue  # what waits for it is kept
            graph.outputs.append(_summary(graph, node))


def _summary(graph: Graph, node: Node) -> Value:
    """A value that takes all of the first result of `node`."""
    result = node.outputs[0]
    if node.op.traits & Trait.COLLECTIVE:
        if node.op.schema.name == "wait_tensor":
            return result
        return graph.call(
            REGISTRY[f"{node.op.schema.namespace}::wait_tensor"], (result,), result.spec, node.line
        ).outputs[0]
    if numel(result.spec.known_shape()) <= 1:
        return result
    dtype = result.dtype if result.dtype.name == "uint8" else DTYPES["bool"]  # as any says
    return graph.call(REGISTRY["any"], (result,), Spec((), dtype), node.line).outputs[0]


class _Reading:
    """How much of each value the outputs take."""

    def __init__(self, graph: Graph, roots: Iterable[Value]) -> None:
        whole = self._whole = set(roots)
        live = self._live = set(whole)
        for node in reversed(graph.nodes):
            outputs = node.outputs
            if live.isdisjoint(outputs):
                continue
            inputs = node.inputs()
            live.update(inputs)
            op = node.op
            if op.family in _WHOLE:
                whole.update(inputs)
            elif outputs[0] in whole if len(outputs) == 1 else self._is_whole(outputs):
                if op.kind is Kind.POINTWISE or op.family == "updates":  # several of them as one
                    whole.update(inputs)
                elif op.kind is Kind.VIEW:
                    whole.update(self._viewed_whole(node, inputs))
                else:
                    whole.update(inputs if op.name in _MOVING else _places(node))

    def _is_whole(self, outputs: Iterable[Value]) -> bool:
        """Whether all of what anybody takes of the results of a node is taken."""
        return all(result in self._whole for result in outputs if result in self._live)

    def is_whole(self, node: Node) -> bool:
        if node.op.family in ("linalg", "collective"):  # a call of a library
            return not self._live.isdisjoint(node.outputs)
        return any(value in self._whole for value in node.outputs)

    def _viewed_whole(self, node: Node, inputs: Iterable[Value]) -> list[Value]:
        """What a view of which all is taken takes all of."""
        if _has_gaps(node.op):
            return []
        made = sum([numel(result.spec.known_shape()) for result in node.outputs if result in self._live])
        return [value for value in inputs if at_least(made - numel(value.spec.known_shape()), 0)]

"""Folding: a graph of many equal layers as one of a few, to which it is easy to add the others again.

What passes make of a layer in the middle is the same for each. `fold` finds equal layers (core/repetition.py) and
gives the graph as it would be with a few of them; plan/unfolding.py adds the rest to the kernels that it became.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..core.dtypes import DType
from ..core.repetition import Instance, Item, Layers, Place, Repetition, find_repetition
from ..core.symbols import SymInt, exact
from ..core.tokens import device, layout, memory_format
from ..graph.ir import Graph, Node, Value, map_values

# layers that stay of those that nothing refers to by their number: at first, and if that is not enough
KEPT = (1, 4, 8)
MANY_NODES = 260  # of a layer whose kernels tell it apart, so that one may be enough
WORTH = 3  # layers that are left out at least
FEWEST_NODES = 32  # of a graph that is worth looking at

_PLAIN = (type(None), bool, int, float, complex, str, DType, device, layout, memory_format)


@dataclass(frozen=True)
class Folded:
    """A graph of fewer layers, and what is known of the one that it stands for."""

    graph: Graph
    whole: Graph
    found: Repetition  # of the nodes and then the outputs of the whole graph
    kept: int  # layers of those that nothing refers to by their number,
    layers: int  # and those that are left out
    numbering: Sequence[Layers]  # of the runs of the folded graph
    inputs: dict[Value, Place]  # where in them its inputs are at home,
    outputs: list[Place]  # and its outputs
    whole_inputs: dict[Place, Value]  # the same of the whole graph, by place
    whole_outputs: list[Place]


class _Output(NamedTuple):
    """The memory of an output, by its number."""

    number: int


class _Odd(Exception):
    """A graph that is not folded."""


def fold(graph: Graph, kept: int) -> Folded | None:
    """The graph with `kept` layers of those that are equal; None if it has too few of them."""
    if (
        len(graph.nodes) < FEWEST_NODES
        or graph.data_sizes
        or any(value.constant is not None for value in graph.inputs)
    ):
        return None
    try:
        items = _items(graph)
    except _Odd:
        return None
    found = find_repetition(items)
    if found is None:
        return None
    if kept == KEPT[0] and sum(run.period for run in found.runs) < MANY_NODES:
        kept = KEPT[1]
    kept = max(kept, found.fewest)
    return None if found.gap - kept < WORTH else _Folding(graph, found, kept).run()


def _items(graph: Graph) -> list[Item]:
    """The nodes of a graph, and its outputs."""
    known: dict[Any, int] = {}  # labels, by number
    alike: dict[Any, int] = {}  # the same, by the identity of what a node is made of: that of equal layers
    layouts: dict[Any, int] = {}
    specs: dict[int, int] = {}  # by identity: many values share one

    def described(value: Value) -> Hashable:
        spec = value.spec
        number = specs.get(id(spec))
        if number is None:
            layout = exact(spec.shape), exact(spec.strides), exact(spec.offset)
            described = spec.dtype, layout, spec.conj, spec.neg
            number = specs[id(spec)] = layouts.setdefault(described, len(layouts))
        return number, value.number

    def argument(given: Any) -> Hashable:
        kind = type(given)
        if kind is Value:
            return described(given)
        if kind is SymInt:
            return kind, exact(given)
        if kind in (tuple, list):
            return tuple([argument(part) for part in given])
        if not isinstance(given, _PLAIN):
            raise _Odd
        return kind, repr(given) if kind in (float, complex) else given

    def label(node: Node) -> int:
        parts = tuple([argument(given) for given in node.args]), tuple(map(described, node.outputs))
        return known.setdefault((node.op, node.returns_list, *parts), len(known))

    items = []
    for node in graph.nodes:
        key = (
            node.op,
            node.returns_list,
            tuple([(id(a.spec), a.number) if type(a) is Value else id(a) for a in node.args]),
            tuple([(id(value.spec), value.number) for value in node.outputs]),
        )
        number = alike.get(key)
        if number is None:
            number = alike[key] = label(node)
        items.append(Item(number, node.inputs(), node.outputs))
    for place, value in enumerate(graph.outputs):
        given = graph.updates.get(place)
        uses = (value,) if given is None else (value, graph.inputs[given])
        items.append(Item((given is None, described(value)), uses, (_Output(place),)))
    return items


class _Folding:
    def __init__(self, graph: Graph, found: Repetition, kept: int) -> None:
        self.whole, self.found, self.kept, self.layers = graph, found, kept, found.gap - kept
        self.graph = Graph()
        self.values: dict[Place, Value] = {}
        inputs = [value for value in graph.inputs if value in found.symbols]
        self.whole_inputs = {found.place(value): value for value in inputs}

    def run(self) -> Folded:
        nodes = len(self.whole.nodes)
        outputs: list[Instance] = []
        for instance in self.found.resized(-self.layers):
            if instance.item < nodes:
                self._node(instance)
            else:
                outputs.append(instance)
        used = set(self.values.values())
        unused = set(self.whole.inputs).difference(self.whole_inputs.values())
        self.graph.inputs = [value for value in self.whole.inputs if value in used or value in unused]
        places = {value: place for place, value in self.values.items()}
        number = {value: n for n, value in enumerate(self.graph.inputs)}
        for instance in outputs:
            values = [self._value(place) for place in instance.uses]
            if len(values) > 1:
                self.graph.updates[len(self.graph.outputs)] = number[values[1]]
            self.graph.outputs.append(values[0])
        return Folded(
            self.graph,
            self.whole,
            self.found,
            self.kept,
            self.layers,
            self._numbering(),
            {value: places[value] for value in self.graph.inputs if value in places},
            [instance.makes[0] for instance in outputs],
            self.whole_inputs,
            [self.found.place(_Output(number)) for number in range(len(self.whole.outputs))],
        )

    def _numbering(self) -> list[Layers]:
        """The layers of the runs of the folded graph."""
        by = self.layers
        return [
            Layers(of.first - (by if of.sign < 0 else 0), of.sign, of.count - by) for of in self.found.layers
        ]

    def _node(self, instance: Instance) -> None:
        like = self.whole.nodes[instance.item]
        values = iter([self._value(place) for place in instance.uses])
        node = Node(like.op, map_values(like.args, lambda _: next(values)), like.line)
        node.returns_list = like.returns_list
        for number, (place, old) in enumerate(zip(instance.makes, like.outputs, strict=True)):
            value = Value(old.name, old.spec, node, number)
            value.number = old.number
            node.outputs.append(value)
            self.values[place] = value
        self.graph.nodes.append(node)

    def _value(self, place: Place) -> Value:
        """The value at a place of the folded graph; inputs are those of the whole one."""
        known = self.values.get(place)
        if known is None:
            known = self.values[place] = self.whole_inputs[self.found.origin(place, -self.layers)[0]]
        return known

"""The graph: a flat program of operator calls in single assignment form.

A `Graph` has inputs, nodes in execution order and outputs. A `Node` is one call of one operator; its
arguments are the operator's complete argument tuple, with a `Value` wherever eager code has a tensor. A
`Value` is one tensor: its Spec is all that is known about it. Invariants, checked by `verify`: a node uses only
inputs and values of earlier nodes; names are unique and deterministic; the shapes and dtypes of a node's
outputs are those that its operator's shape rule gives. Operators of a graph neither mutate nor alias in a way
that another node could see, for capture has made the program functional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..core.atoms import Dim
from ..core.data_sizes import differ
from ..core.dispatch import infer
from ..core.errors import InternalError
from ..core.passes import VERIFY
from ..core.registry import Kind, OpDef
from ..core.shapes import Spec
from ..core.symbol_table import CannotTell
from ..core.symbols import Symbols, SymInt, symbols_in
from ..core.tensor import meta_tensor


class Value:
    """One tensor of the program: an input (`node` None) or an output of a node."""

    __slots__ = ("constant", "index", "name", "node", "number", "spec")

    def __init__(self, name: str, spec: Spec, node: Node | None = None, index: int = 0) -> None:
        self.name = name
        self.spec = spec
        self.node = node
        self.index = index
        self.constant: Any = None  # the tensor behind an input that is the same in every call
        self.number: type | None = None  # float or int, of a 0-d value that stands for a Python number

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.known_shape()

    @property
    def dtype(self) -> Any:
        return self.spec.dtype

    def __repr__(self) -> str:
        return f"%{self.name}"


class Node:
    """One operator call."""

    __slots__ = ("_inputs", "_inputs_of", "args", "line", "op", "outputs", "returns_list")

    def __init__(self, op: OpDef, args: tuple[Any, ...], line: str = "") -> None:
        self.op = op
        self.args = args
        self.outputs: list[Value] = []
        self.returns_list = False
        self.line = line  # where in the user's program the call was made
        self._inputs: tuple[Value, ...] = ()
        self._inputs_of: tuple[Any, ...] | None = None  # the arguments that they were found in

    def inputs(self) -> tuple[Value, ...]:
        """The values it uses, in argument order, each as often as it is used."""
        if self._inputs_of is self.args:
            return self._inputs
        found: list[Value] = []
        for argument in self.args:
            kind = type(argument)
            if kind is Value:
                found.append(argument)
            elif kind is tuple or kind is list:
                for item in argument:
                    inner = type(item)
                    if inner is Value:
                        found.append(item)
                    elif inner is tuple or inner is list:
                        found.extend(values_in(item))
        self._inputs, self._inputs_of = tuple(found), self.args
        return self._inputs

    def __repr__(self) -> str:
        return print_node(self)


class Graph:
    """A program. Build it with `input`, `call` and `outputs`."""

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []
        self.updates: dict[int, int] = {}  # outputs that replace the contents of an input, both by number
        # sizes that are data, in order, and the 0-d values that they are (core/symbol_table.py)
        self.data_sizes: list[tuple[Dim, Value]] = []
        self._counts: dict[str, int] = {}
        self._names: set[str] = set()

    def fresh(self, stem: str) -> str:
        """A name nobody has: the stem, then stem_1, stem_2, ..."""
        name = stem
        while name in self._names:
            self._counts[stem] = self._counts.get(stem, 0) + 1
            name = f"{stem}_{self._counts[stem]}"
        self._names.add(name)
        return name

    def input(self, spec: Spec, stem: str = "arg") -> Value:
        value = Value(self.fresh(stem), spec)
        self.inputs.append(value)
        return value

    def call(self, op: OpDef, args: tuple[Any, ...], specs: Spec | Sequence[Spec], line: str = "") -> Node:
        """Append a call whose outputs have `specs`."""
        node = Node(op, args, line)
        node.returns_list = not isinstance(specs, Spec)
        for i, spec in enumerate([specs] if isinstance(specs, Spec) else specs):
            node.outputs.append(Value(self.fresh(op.schema.name), spec, node, i))
        self.nodes.append(node)
        return node

    def values(self) -> Iterator[Value]:
        """All values, inputs first, in order of definition."""
        yield from self.inputs
        for node in self.nodes:
            yield from node.outputs

    def users(self) -> dict[Value, list[Node]]:
        """The nodes that use each value, in order; a node that uses it twice is listed once."""
        users: dict[Value, list[Node]] = {value: [] for value in self.values()}
        for node in self.nodes:
            for value in dict.fromkeys(node.inputs()):
                users[value].append(node)
        return users

    def __str__(self) -> str:
        return print_graph(self)


def values_in(argument: Any) -> Iterator[Value]:
    """The values inside an argument, lists included."""
    if isinstance(argument, Value):
        yield argument
    elif isinstance(argument, tuple | list):
        for item in argument:
            yield from values_in(item)


def map_values(argument: Any, function: Callable[[Value], Any]) -> Any:
    """`argument` with each value replaced."""
    if type(argument) is Value:
        return function(argument)
    if isinstance(argument, (tuple, list)):
        return tuple(
            [
                function(item)
                if type(item) is Value
                else map_values(item, function)
                if isinstance(item, (tuple, list))
                else item
                for item in argument
            ]
        )
    return argument


_PLAIN = frozenset((Value, int, float, bool, type(None), str))  # most arguments, in which there is no size


def changing_sizes(graph: Graph) -> Iterator[SymInt]:
    """The sizes that change among the shapes, strides, offsets and arguments of a graph."""
    seen: set[int] = set()  # by identity: values of equal layers share their specs
    for value in graph.values():
        spec = value.spec
        if id(spec) in seen:
            continue
        seen.add(id(spec))
        parts: tuple[Any, ...] = (spec.shape, spec.strides, (spec.offset,))
        for sizes in parts:
            for size in sizes or ():
                if type(size) is SymInt:
                    yield size
    for node in graph.nodes:
        for argument in node.args:
            kind = type(argument)
            if kind in _PLAIN:
                continue
            if kind is SymInt:
                yield argument
            elif isinstance(argument, (tuple, list)) and id(argument) not in seen:
                seen.add(id(argument))
                yield from _changing_sizes_in(argument)


def _changing_sizes_in(argument: Any) -> Iterator[SymInt]:
    for item in argument:
        if type(item) is SymInt:
            yield item
        elif isinstance(item, (tuple, list)):
            yield from _changing_sizes_in(item)


def simplify_sizes(graph: Graph) -> None:
    """Replace symbols that are known, by a guard, to be others or numbers."""
    symbols = symbols_of(graph)
    if symbols is None:
        return

    def simple(size: Any) -> Any:
        if type(size) is SymInt:
            return symbols.size(size.index)
        return tuple(map(simple, size)) if type(size) is tuple else size

    for value in graph.values():
        spec = value.spec
        value.spec = replace(
            spec, shape=simple(spec.shape), strides=simple(spec.strides), offset=simple(spec.offset)
        )
    for node in graph.nodes:
        node.args = tuple(simple(argument) for argument in node.args)


def symbols_of(graph: Graph) -> Symbols | None:
    """The symbols that its sizes are made of; None if all are numbers."""
    return next((dim.owner for size in changing_sizes(graph) for dim in symbols_in(size)), None)


def verify(graph: Graph) -> None:
    """Raise InternalError if the graph breaks an invariant.

    Where passes are verified (core/passes.py), every node's shapes and dtypes are inferred anew.
    """
    verify_structure(graph)
    if VERIFY.on:
        symbols = symbols_of(graph)
        if symbols is not None:
            symbols.verifying = True
        try:
            for node in graph.nodes:
                verify_specs(node)
        finally:
            if symbols is not None:
                symbols.verifying = False


def verify_specs(node: Node) -> None:
    """Raise InternalError if the outputs of a node are not what its operator's shape rule says; a composite has
    none, its parts have."""
    if node.op.kind is Kind.COMPOSITE:
        return
    try:
        found = infer(node.op, map_values(node.args, _without_data))
    except CannotTell:
        return  # it asks for a size that is data
    except Exception as error:
        raise InternalError(f"{node}: its shape rule does not take its arguments: {error}") from error
    specs = (found,) if isinstance(found, Spec) else tuple(found)
    if len(specs) != len(node.outputs):
        raise InternalError(f"{node}: its shape rule gives {len(specs)} outputs")
    for value, spec in zip(node.outputs, specs, strict=True):
        if spec.dtype is not value.dtype or differ(spec.known_shape(), value.shape):
            raise InternalError(f"{node}: its shape rule says that {value} is {print_spec(spec)}")


def _without_data(value: Value) -> Any:
    """What a shape rule sees of a value: a tensor without data, or a Python number."""
    return meta_tensor(value.spec) if value.number is None else value.number(1)


def verify_structure(graph: Graph) -> None:
    """Raise InternalError if a value is used before it is defined, or two have one name."""
    known: set[Value] = set()
    names: set[str] = set()
    for value in graph.values():
        if value.name in names:
            raise InternalError(f"two values are called {value.name}")
        names.add(value.name)
    known.update(graph.inputs)
    for node in graph.nodes:
        if len(node.args) != len(node.op.schema.arguments):
            raise InternalError(f"{node}: {node.op.name} takes {len(node.op.schema.arguments)} arguments")
        for value in node.inputs():
            if value not in known:
                raise InternalError(f"{node} uses {value} before it is defined")
        for i, value in enumerate(node.outputs):
            if value.node is not node or value.index != i:
                raise InternalError(f"{value} does not know its node")
        known.update(node.outputs)
    for value in graph.outputs:
        if value not in known:
            raise InternalError(f"output {value} is not defined in the graph")


def print_graph(graph: Graph) -> str:
    """The program as text, one call a line."""
    inputs = ", ".join(f"{v}: {print_spec(v.spec)}" for v in graph.inputs)
    lines = [f"graph({inputs}):"]
    lines.extend(f"  {print_node(node)}" for node in graph.nodes)
    lines.append(f"  return {', '.join(map(str, graph.outputs))}")
    return "\n".join(lines)


def print_node(node: Node) -> str:
    outputs = ", ".join(f"{v}: {print_spec(v.spec)}" for v in node.outputs)
    return f"{outputs} = {node.op.name}({', '.join(_print_argument(a) for a in node.args)})"


def print_spec(spec: Spec) -> str:
    sizes = "?" if spec.shape is None else ", ".join(map(str, spec.shape))
    layout = "" if spec.strides is None else f" strides ({', '.join(map(str, spec.strides))})"
    return f"{spec.dtype.name}[{sizes}]{layout}"


def _print_argument(argument: Any) -> str:
    if isinstance(argument, tuple):
        return f"[{', '.join(_print_argument(a) for a in argument)}]"
    return str(argument)

"""Recording a call of a module as a functional graph of operators, in which sizes may be symbols.

The call is captured as the compiler captures it (capture/program.py); what was captured becomes a graph of `fx`:
parameters, buffers and constants are inputs of it, and what is written to them, or to arguments, are outputs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..autograd.grad_mode import no_grad
from ..capture.deferred import DeferredNumber
from ..capture.effects import Contents, stores_of
from ..capture.environment import environment_of
from ..capture.errors import CaptureError, Problem
from ..capture.locations import Environment
from ..capture.program import capture_with
from ..capture.sizes import Changing
from ..capture.trace import Capture
from ..core import pytree
from ..core.aten import find, overload
from ..core.atoms import Dim as Symbol
from ..core.errors import UserError
from ..core.index import as_index
from ..core.symbols import SymInt
from ..core.tensor import Tensor, shapeless
from ..fx.graph import Graph
from ..fx.node import Node
from ..graph import ir
from ._sizes import OPERATIONS, Condition, Expression, ValueRanges, condition_of, expression_of, parsed
from .dynamic_shapes import LARGEST, ChangingSize, Dim, _DimHint

_SIZE_OF, _ITEM = find("aten", "sym_size", "int"), find("aten", "item", "default")


@dataclass
class Input:
    """An input of the graph: a tensor with a name, or a leaf of the arguments."""

    name: str
    value: Any
    node: Node | None = None
    prefix: str = ""


@dataclass
class Recorded:
    """A call as a graph."""

    graph: Graph
    outputs: list[Any]  # what it returns: nodes and constants
    structure: pytree.TreeSpec  # of what it returns
    writes: list[tuple[Input, Node]]  # inputs that get new contents
    constants: list[Input]  # tensors that are neither named nor arguments
    symbols: dict[str, tuple[int, int]] = field(default_factory=dict)  # (leaf of the arguments, dimension)
    ranges: dict[str, ValueRanges] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)
    size_nodes: list[Node] = field(default_factory=list)  # those that are numbers


class Recorder:
    """Records one call. `named` are parameters and buffers, `leaves` the leaves of the arguments,
    `attributes` the names of other tensors of the module, by identity."""

    def __init__(
        self,
        named: Sequence[Input],
        leaves: Sequence[Input],
        changing: Sequence[ChangingSize],
        attributes: Mapping[int, str],
    ) -> None:
        self._named, self._leaves, self._changing, self._attributes = named, leaves, changing, attributes
        self.graph = Graph()
        self._nodes: dict[ir.Value, Node] = {}
        self._sizes: dict[str, Node] = {}  # nodes of expressions, by text
        self._symbols: dict[Symbol, str] = {}
        self._data: dict[Symbol, ir.Value] = {}
        self._streams: set[ir.Value] = set()
        self._constants: list[Input] = []
        self._numbers: set[ir.Value] = set()  # that are computed of sizes
        self._live: dict[ir.Value, type] = {}  # inputs of the captured graph that hold such numbers
        self._formulas: list[tuple[str, type]] = []
        self._roots: dict[int, Symbol] = {}
        self._whole: dict[Symbol, str] = {}  # sizes that Python computes in other ways than with + and *

    def record(
        self, function: Callable[..., Any], rebuild: Callable[[list[Any]], tuple[Any, Any]]
    ) -> Recorded:
        """`rebuild(leaves)` gives the arguments of the function, in which numbers are constants."""
        tensors = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf.value, Tensor)]
        places = {leaf: place for place, leaf in enumerate(tensors)}
        sizes: dict[int, frozenset[int]] = {}
        for size in self._changing:
            place = places[size.leaf]
            sizes[place] = sizes.get(place, frozenset()) | {size.dim}

        def program(*given: Tensor) -> Any:
            leaves = [leaf.value for leaf in self._leaves]
            for place, leaf in enumerate(tensors):
                leaves[leaf] = given[place]
            self._tie(leaves)
            args, kwargs = rebuild(leaves)
            return function(*args, **kwargs)

        examples = tuple(self._leaves[i].value for i in tensors)
        environment = environment_of(program, examples)
        with no_grad():
            return capture_with(self._summary, program, examples, {}, environment, Changing(sizes=sizes))

    def _tie(self, leaves: list[Any]) -> None:
        """Have sizes with one name be equal, and in their range."""
        first: dict[str, Any] = {}
        for size in self._changing:
            found = leaves[size.leaf].shape[size.dim]
            if not isinstance(size.said, Dim):
                continue
            name, number = size.said.__name__, found.hint if type(found) is SymInt else found
            if not size.said.min <= number <= size.said.max:
                raise UserError(
                    f"Constraints violated ({name})!\n  - {self._leaves[size.leaf].name}.size()[{size.dim}] is "
                    f"{number}, which is not in the range {size.said.min} to {size.said.max}"
                )
            if not bool(first.setdefault(name, found) == found):
                raise UserError(
                    f"Constraints violated ({name})!\n  - The sizes of {name} are not equal: "
                    f"{self._leaves[size.leaf].name}.size()[{size.dim}] is {number}"
                )

    # What was captured.

    def _summary(
        self, capture: Capture, environment: Environment, contents: Contents, returned: Any
    ) -> Recorded:
        if stores_of(capture, list(environment.changed()), contents, returned):
            raise CaptureError(
                "it changes an attribute, or a container, of its surroundings", "", Problem.STATE
            )
        leaves, structure = pytree.flatten(returned)
        results = [self._result(capture, leaf) for leaf in leaves]
        written = [
            (state.input, state.value)
            for state in {id(s): s for s in capture.states.values()}.values()
            if state.source is not None and state.writes
        ]
        capture.numbers.finish()
        ir.simplify_sizes(capture.graph)
        self._begin(capture)
        for node in capture.graph.nodes:
            self._node(node)
        outputs = [self._argument(result) for result in results]
        inputs = {leaf.node: leaf for leaf in (*self._named, *self._leaves, *self._constants)}
        writes = [(inputs[self._nodes[given]], self._nodes[value]) for given, value in written]
        made = Recorded(self.graph, outputs, structure, writes, self._constants)
        made.size_nodes = list(self._sizes.values())
        self._conclude(capture, made)
        return made

    def _result(self, capture: Capture, leaf: Any) -> Any:
        if type(leaf) is DeferredNumber:
            return capture.value_of(leaf.tensor), "number"
        if type(leaf) is SymInt:
            return leaf
        if not isinstance(leaf, Tensor):
            if leaf is None or isinstance(leaf, bool | int | float | complex | str | bytes):
                return leaf
            raise UserError(
                f"It looks like one of the outputs with type `{type(leaf)}` is not supported or "
                "pytree-flattenable. "
                "Exported graphs outputs can only contain tensors, numbers, strings, None and containers of them"
            )
        if shapeless(leaf):
            raise CaptureError("it returns a tensor whose shape is data", "", Problem.SHAPE_FROM_DATA)
        return capture.value_of(capture.abstract(leaf))

    def _begin(self, capture: Capture) -> None:
        """Make the inputs: parameters and buffers, other tensors, leaves of the arguments."""
        sources = {id(s.source): s.input for s in capture.states.values() if s.source is not None}
        own = {id(leaf.value) for leaf in (*self._named, *self._leaves)}
        self._streams = {draws.value for draws in capture.draws.values()}
        self._live = {value: kind for kind, value in capture.numbers.inputs.items()}
        self._formulas = [(text, kind) for text, kind in capture.numbers.used]
        self._roots = {root: symbol for symbol, root in capture.numbers.sizes.items()}
        self._whole = {_symbol_of(size): text for text, size in capture.numbers._whole.items()}
        for state in capture.states.values():
            if state.source is not None and id(state.source) not in own:
                own.add(id(state.source))
                name = self._attributes.get(id(state.source), f"lifted_tensor_{len(self._constants)}")
                self._constants.append(Input(name, state.source, prefix="c"))
        for given in (*self._named, *self._constants, *self._leaves):
            stem = f"{given.prefix}_{given.name}" if given.prefix else given.name
            given.node = self.graph.placeholder(stem.replace(".", "_"))
            value = sources.get(id(given.value))
            if value is not None and value not in self._nodes:
                if tuple(value.spec.known_shape()) != tuple(given.value.shape) and not self._changes(given):
                    raise UserError(
                        f"export: {given.name} shares memory with another tensor, or does not fill its memory; "
                        "pass a copy (clone)"
                    )
                self._nodes[value] = given.node
        self._symbols = {
            symbol: f"s{i}"
            for i, symbol in enumerate(s for s in capture.numbers.sizes if s in self._own_symbols(capture))
        }
        self._data = dict(capture.graph.data_sizes)
        for symbol, name in self._symbols.items():
            leaf, dim = self._own_symbols(capture)[symbol]
            self._sizes[name] = self.graph.call_function(
                _SIZE_OF, (self._leaves[leaf].node, dim), name="sym_size_int"
            )

    def _changes(self, given: Input) -> bool:
        return any(self._leaves[size.leaf] is given for size in self._changing)

    def _own_symbols(self, capture: Capture) -> dict[Symbol, tuple[int, int]]:
        """The sizes of arguments that are symbols, and where they are."""
        tensors = [i for i, leaf in enumerate(self._leaves) if isinstance(leaf.value, Tensor)]
        places = {
            f"argument {k}.shape[{d}]": (i, d)
            for k, i in enumerate(tensors)
            for d in range(self._leaves[i].value.ndim)
        }
        found = {}
        for symbol, root in capture.numbers.sizes.items():
            name = capture.numbers.names[root]
            if name in places:
                found[symbol] = places[name]
        return found

    def _conclude(self, capture: Capture, made: Recorded) -> None:
        """What holds of the sizes. UserError if one is a number that was said to change."""
        symbols = capture.numbers.symbols
        own = self._own_symbols(capture)
        said = {(size.leaf, size.dim): size.said for size in self._changing}
        for symbol, (leaf, dim) in own.items():
            name = self._symbols[symbol]
            what = said[leaf, dim]
            number = symbols.simplified(as_index(symbol)).constant_value()
            if number is not None:
                if what is not _DimHint.AUTO:
                    raise UserError(_specialized(what, self._leaves[leaf].name, dim, number))
                continue
            made.symbols[name] = (leaf, dim)
            low, high = (what.min, what.max) if isinstance(what, Dim) else (0, LARGEST)
            made.ranges[name] = ValueRanges(max(low, 2), math.inf if high == LARGEST else high)
            made.conditions += [Condition(name, ">=", low)] if low > 2 else []
            made.conditions += [Condition(name, "<=", high)] if high < LARGEST else []
        for (text, _), value in capture.numbers.guards.items():
            expression = parsed(text, self._root)
            if expression is None:
                raise CaptureError(f"it assumes something of sizes, {text}, that has no place in a graph", "")
            made.conditions.append(Condition(expression, "==", value))
        for guard in symbols.guards:
            if not symbols.is_data(guard.index):
                made.conditions.append(condition_of(guard, self._symbol))

    # Nodes.

    def _symbol(self, symbol: Symbol) -> str:
        if symbol not in self._symbols:
            if symbol in self._whole:
                name = self._symbols[symbol] = str(symbol)
                self._sizes[name] = self._number(self._whole[symbol])
                return name
            if symbol not in self._data:
                raise CaptureError(
                    f"a size that it computes, {symbol}, has no place in a graph", "", Problem.SIZE_FROM_DATA
                )
            name = self._symbols[symbol] = f"u{len(self._symbols)}"
            self._sizes[name] = self.graph.call_function(
                _ITEM, (self._nodes[self._data[symbol]],), name="item"
            )
        return self._symbols[symbol]

    def _size(self, expression: Expression) -> Any:
        """The node that computes a size."""
        if isinstance(expression, int | float):
            return expression
        text = str(expression)
        if text not in self._sizes:
            assert isinstance(expression, list)
            sign, *operands = expression
            self._sizes[text] = self.graph.call_function(OPERATIONS[sign], tuple(map(self._size, operands)))
        return self._sizes[text]

    def _root(self, i: int) -> str:
        if i not in self._roots:
            raise CaptureError("it computes with a number that changes from call to call", "", Problem.STATE)
        return self._symbol(self._roots[i])

    def _number(self, text: str) -> Any:
        """The node that computes a number of sizes."""
        expression = parsed(text, self._root)
        if expression is None:
            raise CaptureError(f"a number that it computes of sizes, {text}, has no place in a graph", "")
        return self._size(expression)

    def _argument(self, value: Any) -> Any:
        if type(value) is SymInt:
            return self._size(expression_of(value.index, self._symbol))
        if isinstance(value, ir.Value):
            node = self._nodes[value]
            return (
                node
                if value.number is None or value in self._numbers
                else self.graph.call_function(_ITEM, (node,), name="item")
            )
        if isinstance(value, tuple) and len(value) == 2 and value[1] == "number":
            return self.graph.call_function(_ITEM, (self._nodes[value[0]],), name="item")
        return [self._argument(part) for part in value] if isinstance(value, tuple | list) else value

    def _node(self, node: ir.Node) -> None:
        if node.args and isinstance(node.args[0], ir.Value) and node.args[0] in self._live:
            kind = self._live[node.args[0]]
            texts = [text for text, used in self._formulas if used is kind]
            self._nodes[node.outputs[0]] = self._number(texts[node.args[2]])
            self._numbers.add(node.outputs[0])
            return
        if any(value in self._streams for value in node.inputs()):
            self._streams.update(node.outputs)  # where a draw stands, which every run finds anew
            if not node.op.random:
                return
        given: list[Any] = []
        named: dict[str, Any] = {}
        for argument, value in zip(node.op.schema.arguments, node.args, strict=True):
            if isinstance(value, ir.Value) and argument.name == "generator":
                value = None
            found = self._argument(value)
            if argument.keyword_only:
                if found != argument.default or isinstance(found, Node):
                    named[argument.name] = found
            else:
                given.append((found, argument.default))
        while given and not isinstance(given[-1][0], Node | list) and _same(*given[-1]):
            given.pop()
        for value in node.outputs:
            self._streams.discard(value)
        target = overload(node.op)
        made = self.graph.call_function(target, tuple(v for v, _ in given), named, name=target._opname)
        if node.line:
            made.meta["line"] = node.line
        if not node.returns_list:
            self._nodes[node.outputs[0]] = made
            return
        for i, value in enumerate(node.outputs):
            self._nodes[value] = self.graph.call_function(operator.getitem, (made, i))


def _symbol_of(size: Any) -> Symbol:
    (symbol,) = size.index.atoms()
    return symbol


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _specialized(what: Any, name: str, dim: int, number: int) -> str:
    label = what.__name__ if isinstance(what, Dim) else f"L['{name}'].size()[{dim}]"
    fixes = f"\nSuggested fixes:\n  {label} = {number}" if isinstance(what, Dim) else ""
    return (
        f"Constraints violated ({label})!\n  - You marked {label} as dynamic but your code "
        "specialized it to be a "
        f"constant ({number}). Leave it out of dynamic_shapes, or replace it with Dim.STATIC or Dim.AUTO.{fixes}"
    )

"""Updates of inputs, such as the step of an optimizer, as one node each.

A step of AdamW takes some twenty pointwise operators for each parameter, more than all that comes before it.
`compose_updates` puts those into one node that are used once, on the way to what replaces an input or to a
number that such an update takes: passes look at one node in place of many, and equal updates share their
operator. The elements are those of the operators, one after the other, with the same roundings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.dispatch import execute, run_by
from ..core.dtypes import DType
from ..core.registry import INTERNAL, Kind, OpDef
from ..core.schema import parse_schema
from ..core.shapes import Spec
from ..core.symbols import exact, is_size
from ..graph.ir import Graph, Node, Value, values_in
from ..graph.passes import identity_of
from ..loops.expr import Expr, NotRecordable, Recorder, walk
from ..loops.native import has_native_code
from .lower import casts_of, operand
from .lowered import Indices, Lowered

FAMILY = "updates"
MOST = 16  # nodes of an update
MOST_KNOWN = 4096  # operators that are kept

_CONSTANTS = (type(None), bool, int, float, complex, str)

_known: dict[Any, OpDef | None] = {}


def compose_updates(graph: Graph) -> Graph:
    """Make one node of each update, and of each number that one takes."""
    if graph.updates:
        roots = [graph.outputs[output].node for output in graph.updates]
        graph.nodes = _composed(graph.nodes, roots, _uses(graph.nodes, graph.outputs))
    return graph


def compose_row(nodes: list[Node], results: Sequence[Value]) -> list[Node]:
    """The nodes of a row of updates (capture/row_updates.py), which gives `results`, one for each."""
    uses = _uses(nodes, results)
    own = {value for node in nodes for value in node.outputs}
    uses.update({value: 2 for value in uses if value not in own})  # what is made outside of it stays there
    return _composed(nodes, [value.node for value in results if value in own], uses)


def _composed(nodes: list[Node], left: list[Node | None], uses: dict[Value, int]) -> list[Node]:
    """The nodes, with one in place of several for each that is `left`, and for the numbers that it takes."""
    own = set(nodes)  # that are not looked at yet
    gone: set[Node] = set()
    while left:
        root = left.pop()
        if root is None or root not in own:
            continue
        own.remove(root)
        if root.op.family == FAMILY:
            left.extend(value.node for value in root.inputs() if not value.spec.shape)
        elif _is_pointwise(root):
            parts, given = _single_use(root, uses)
            left.extend(value.node for value in given if not value.spec.shape)
            op = _operator(parts, given) if len(parts) > 1 else None
            if op is not None:
                root.op, root.args = op, tuple(given)
                gone.update(parts[:-1])
    return [node for node in nodes if node not in gone] if gone else nodes


def _uses(nodes: Sequence[Node], results: Sequence[Value]) -> dict[Value, int]:
    uses: dict[Value, int] = dict.fromkeys(results, 2)  # once, and by the caller
    for node in nodes:
        for argument in node.args:
            if type(argument) is Value:
                uses[argument] = uses.get(argument, 0) + 1
            elif isinstance(argument, (tuple, list)):
                for value in values_in(argument):
                    uses[value] = uses.get(value, 0) + 1
    return uses


def _is_pointwise(node: Node) -> bool:
    """Whether it is a pointwise operator of ours, all of whose arguments are values or plain numbers."""
    op = node.op
    return (
        op.kind is Kind.POINTWISE
        and op.family != "library"
        and len(node.outputs) == 1
        and all(type(a) is Value or type(a) in _CONSTANTS or isinstance(a, DType) for a in node.args)
    )


def _single_use(root: Node, uses: dict[Value, int]) -> tuple[list[Node], list[Value]]:
    """The nodes that `root` is made of, in order, and the values that they take from outside."""
    shape = root.outputs[0].spec.shape
    assert shape is not None
    fixed = not any(is_size(size) or size == 0 for size in shape)
    nodes: list[Node] = []
    given: dict[Value, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False)]
    count = 1
    while stack:
        node, ready = stack.pop()
        if ready:
            nodes.append(node)
            continue
        stack.append((node, True))
        for value in [a for a in node.args if type(a) is Value][::-1]:
            made = value.node
            if (
                fixed
                and made is not None
                and count < MOST
                and uses[value] == 1
                and exact(value.spec.shape) == shape
                and _is_pointwise(made)
            ):
                count += 1
                stack.append((made, False))
            else:
                given[value] = None
    return nodes, list(given)


def _operator(nodes: Sequence[Node], given: Sequence[Value]) -> OpDef | None:
    """The operator of nodes, of which the last is the result; None if they are to stay as they are."""
    numbers = {value: i for i, value in enumerate(given)}
    for node in nodes:
        numbers[node.outputs[0]] = len(numbers)
    result = nodes[-1].outputs[0].spec
    key = (
        tuple([(v.spec.dtype, v.number, not v.spec.shape) for v in given]),
        tuple([(n.op, n.outputs[0].spec.dtype, *[_key(a, numbers) for a in n.args]) for n in nodes]),
        result.shape,
    )
    if key not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[key] = _new_operator(_Update(nodes, given), repr(key))
    return _known[key]


def _key(argument: Any, numbers: dict[Value, int]) -> Any:
    if type(argument) is Value:
        return numbers[argument]
    return argument if isinstance(argument, DType) else (type(argument), repr(argument))


class _Taken(NamedTuple):
    """A value that is given, or that one of the nodes before makes, by its number."""

    number: int


class _Update:
    """Nodes as a function of the elements that they take from outside."""

    def __init__(self, nodes: Sequence[Node], given: Sequence[Value]) -> None:
        numbers = {value: i for i, value in enumerate(given)}
        for node in nodes:
            numbers[node.outputs[0]] = len(numbers)
        self.given = [value.dtype for value in given]
        self.spec = Spec(nodes[-1].outputs[0].shape, nodes[-1].outputs[0].dtype)
        # an operator, the arguments that are no values, where its operands are, and their casts; what it gives
        self.steps = [
            (
                node.op,
                [None if type(a) is Value else a for a in node.args],
                {i: numbers[node.args[i]] for i in node.op.operands if type(node.args[i]) is Value},
                casts_of(node),
                node.outputs[0].dtype,
            )
            for node in nodes
        ]
        self.calls = [
            (node.op, [_Taken(numbers[a]) if type(a) is Value else a for a in node.args]) for node in nodes
        ]
        self.plain = not any(identity_of(node) is not None for node in nodes)

    def element(self, ops: Recorder, given: Sequence[Expr]) -> Expr:
        values = list(given)
        for op, args, places, casts, dtype in self.steps:
            full = list(args)
            for i in op.operands:
                place = places.get(i)
                full[i] = operand(ops, None if place is None else values[place], args[i], casts[i])
            values.append(ops.cast(op.body(ops, *full), dtype))  # type: ignore[misc]
        return values[-1]

    def lower(self, arguments: tuple[Any, ...]) -> Lowered:
        """The rule of the operator."""
        *given, low, spec = arguments
        operands = [lowered.expand(spec.known_shape()) for lowered in given]

        def element(index: Indices) -> Expr:
            return self.element(low.recorder, [x.load(index) for x in operands])

        return low.generated(spec.known_shape(), spec.dtype, element)

    def run(self, given: tuple[Any, ...]) -> Any:
        """The operators, one after the other, on tensors and numbers."""
        values = list(given)
        for op, args in self.calls:
            values.append(execute(op, tuple([values[a.number] if type(a) is _Taken else a for a in args])))
        return values[-1]

    def is_recordable(self) -> bool:
        ops = Recorder()
        given = [ops.make("scalar", (), dtype, str(i)) for i, dtype in enumerate(self.given)]
        try:
            return all(map(has_native_code, walk(self.element(ops, given))))
        except NotRecordable:
            return False


def _new_operator(update: _Update, text: str) -> OpDef | None:
    if not update.plain or not update.is_recordable():
        return None
    name = f"update_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    arguments = ", ".join(f"Tensor x{i}" for i in range(len(update.given)))
    op = OpDef(
        parse_schema(f"{name}({arguments}) -> Tensor"),
        Kind.STRUCTURAL,
        FAMILY,
        api=INTERNAL,
        rule=lambda args: update.spec,
    )
    op.lowering = update.lower
    run_by(op, lambda op, args: update.run(args))
    return op

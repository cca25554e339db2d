"""Rows of lists of tensors, such as those of an optimizer, which have an element for each parameter.

Most rows look alike: the same operators on tensors of the same shapes. What the first such row went through
(dispatch, shape rules, checks of its arguments) holds for the others, of which only the nodes are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.dispatch import AMBIENT, Arguments, call
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.shapes import Spec
from ..core.tensor import AUTOGRAD, TRACED, Tensor
from ..graph.ir import Node, Value, map_values
from .numbers import LiveNumber

if TYPE_CHECKING:
    from .trace import Capture

PLAIN = AUTOGRAD | TRACED


def record_rows(capture: Capture, op: OpDef, rows: Sequence[Arguments]) -> list[Tensor] | None:
    """The results of `op` on each row; None where rows have to be recorded one by one."""
    single = op.kind is Kind.POINTWISE and len(op.schema.returns) == 1 and not op.list_positions
    if not single or op.random or not is_quiet(capture):
        return None
    known: dict[Any, Node] = {}
    line = capture._line()
    results: list[Tensor] = []
    for row in rows:
        operands = [row[i] for i in op.tensor_positions]
        key = _key(capture, op, row, operands)
        first = None if key is None else known.get(key)
        if first is None:
            result = call(op, row)
            if capture.reason is not None:
                return [*results, result, *(call(op, other) for other in rows[len(results) + 1 :])]
            if key is not None and _is_plain(capture, op, result):
                known[key] = capture.graph.nodes[-1]
        else:
            given = list(first.args)
            for i, tensor in zip(op.tensor_positions, operands, strict=True):
                if tensor is not None:
                    given[i] = capture.value_of(capture.abstract(tensor))
            spec = first.outputs[0].spec
            node = capture.graph.call(op, tuple(given), spec, line)
            result = capture._fresh(spec)
            capture._adopt(result, node.outputs[0], own_storage=True)
        results.append(result)
    return results


def is_quiet(capture: Capture) -> bool:
    """Whether operators do nothing but record themselves."""
    return AMBIENT.keys == TRACED and not (MODES.traces or MODES.grad or MODES.inference or capture.deferred)


def record_alike(
    capture: Capture, function: Callable[[Tensor], Tensor], tensors: Sequence[Tensor]
) -> list[Tensor]:
    """`function(tensor)`, which has no effects, of each tensor."""
    if not is_quiet(capture):
        return [function(tensor) for tensor in tensors]
    graph = capture.graph
    known: dict[Any, tuple[Value, list[Node], Value]] = {}
    results: list[Tensor] = []
    for tensor in tensors:
        key = None if capture.reason is not None else layout_of(capture, tensor)
        first = known.get(key)
        if first is None:
            value = None if key is None else capture.value_of(capture.abstract(tensor))
            before = len(graph.nodes)
            result = function(tensor)
            if value is not None and capture.reason is None:
                nodes = graph.nodes[before:]
                if nodes and _is_plain(capture, nodes[-1].op, result):
                    known[key] = value, nodes, nodes[-1].outputs[0]
        else:
            result = capture._fresh(first[2].spec)
            value = _again(capture, first, capture.value_of(capture.abstract(tensor)))
            capture._adopt(result, value, own_storage=True)
        results.append(result)
    return results


def _again(capture: Capture, first: tuple[Value, list[Node], Value], value: Value) -> Value:
    """Record nodes again, for another value in the place of the first one; gives their result."""
    mapped = {first[0]: value}
    for node in first[1]:
        if mapped.keys().isdisjoint(node.inputs()):
            continue
        specs: Any = [output.spec for output in node.outputs]
        twin = capture.graph.call(
            node.op,
            map_values(node.args, lambda v: mapped.get(v, v)),
            specs if node.returns_list else specs[0],
            node.line,
        )
        for old, new in zip(node.outputs, twin.outputs, strict=True):
            new.number = old.number
            mapped[old] = new
    return mapped[first[2]]


def _key(capture: Capture, op: OpDef, row: Arguments, operands: Sequence[Any]) -> Any:
    """What the node of a row depends on, but for the values of its tensors; None if that is more than can be seen
    here."""
    found: list[Any] = []
    for tensor in operands:
        layout = None if tensor is None else layout_of(capture, tensor)
        if tensor is not None and layout is None:
            return None
        found.append(layout)
    for i, argument in enumerate(row):
        if i not in op.tensor_positions:
            plain = argument is None or type(argument) in (int, float, bool)
            if not plain and type(argument) is not LiveNumber:
                return None
            found.append((type(argument), id(argument) if type(argument) is LiveNumber else repr(argument)))
    return tuple(found)


def layout_of(capture: Capture, tensor: Any) -> Any:
    """What shape rules see of a tensor; None of one that is more than its elements."""
    if not isinstance(tensor, Tensor) or (tensor._trace is not None and tensor._trace is not capture):
        return None
    if tensor._keys & ~PLAIN or tensor._policy is not None or tensor._quantizer is not None:
        return None
    shape, strides = tuple(tensor.shape), tensor.strides()
    if any(type(n) is not int for n in (*shape, *strides)):
        return None
    return tensor.dtype, shape, strides


def _is_plain(capture: Capture, op: OpDef, result: Any) -> bool:
    """Whether what was recorded last is `op` itself, and `result` is its result."""
    node = capture.graph.nodes[-1] if capture.graph.nodes else None
    return (
        node is not None
        and node.op is op
        and type(result) is Tensor
        and result._trace is capture
        and getattr(result, "_value", None) is node.outputs[0]
        and isinstance(node.outputs[0].spec, Spec)
        and not result._keys & ~TRACED
    )

"""The autograd layer of dispatch: runs an operator, and records it where an input has history or a tangent.

A composite without an entry of its own is not recorded here: the operators of its body are. Everything else
runs below autograd, then gets a node (reverse mode) and tangents (forward mode).
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import Arguments, execute, install_layer
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.tensor import AUTOGRAD, SPARSE, Tensor, shapeless
from ..derivatives.declare import Entry, missing
from . import forward
from .edges import edge_of
from .saved import OpNode, capture_values, node_class, shallow_copy
from .tape import meta_of

_missing: dict[OpDef, Entry] = {}


def autograd_layer(op: OpDef, args: Arguments, keys: int, trace: Any = None) -> Any:
    """Run `op`, recording it as needed; `trace` is the interpreter at whose level the arguments live, None
    for plain ones."""
    entry = op.derivative
    modes = MODES
    if keys & SPARSE and op.sparse is not None and op.sparse.through:
        entry = None
    if entry is None:
        if op.kind is Kind.COMPOSITE or op.sparse is not None:
            seen = trace is not None and op.kind is not Kind.COMPOSITE  # which refuses sparse tensors
            result = trace.process(op, args) if seen else execute(op, args, keys)
            return mark_inference(op, args, result) if modes.inference else result
        entry = _missing.get(op)
        if entry is None:
            entry = _missing[op] = missing(op)
    if trace is None:
        return _plain_layer(op, entry, args, keys)
    mask, edges, counts = 0, None, None
    if modes.grad and trace not in modes.silent:
        edges, mask, counts = _edges(entry, args, trace)
    if mask and op.kind is Kind.VIEW and args[0]._inference:
        mask = 0
    result = _execute(op, args, keys, trace)
    if mask and shapeless(result):
        mask = 0  # it is recorded when it runs
    node = record(entry, result, edges, mask, counts) if mask else None
    if modes.dual_levels and modes.forward_grad:
        forward.propagate(op, entry, args, result, trace)
    if node is not None:
        node.saved = capture_values(node.plan, args, result if type(result) is tuple else (result,))
    elif modes.inference:
        mark_inference(op, args, result)
    return result


def _plain_layer(op: OpDef, entry: Entry, args: Arguments, keys: int) -> Any:
    """The layer for plain tensors."""
    modes = MODES
    edges, mask, counts = (), 0, None
    if modes.grad and None not in modes.silent:
        if entry.any_lists:
            edges, mask, counts = _edges(entry, args, None)
        else:
            edges, mask = _plain_edges(entry, args)
    if mask and op.kind is Kind.VIEW and args[0]._inference:
        mask = 0
    inside = op.kind is Kind.COMPOSITE or entry.any_lists
    result = _execute(op, args, keys, None) if inside else execute(op, args, keys)
    node = record(entry, result, edges, mask, counts) if mask else None
    if modes.dual_levels and modes.forward_grad:
        forward.propagate(op, entry, args, result)
    if node is None:
        return mark_inference(op, args, result) if modes.inference else result
    if node.plan.captures:
        node.saved = capture_values(node.plan, args, result if type(result) is tuple else (result,))
    return result


def _plain_edges(entry: Entry, args: Arguments) -> tuple[Any, int]:
    """The edges to the differentiable arguments, none of which is a list, and the bits of those that have
    one."""
    edges: list[Any] = []
    mask = 0
    bit = 1
    for position in entry.targets:
        tensor = args[position]
        edge: Any = None
        if tensor is not None and tensor._keys & AUTOGRAD:
            if tensor._base is None and tensor._node is not None:
                edge = (tensor._node, tensor._output_nr)
                mask |= bit
            else:
                edge = edge_of(tensor)
                if edge is not None:
                    mask |= bit
        edges.append(edge)
        bit <<= 1
    return edges, mask


def _edges(entry: Entry, args: Arguments, trace: Any) -> tuple[Any, int, Any]:
    """As `_plain_edges`, for any arguments at any level; also how many edges each argument has."""
    edges: list[Any] = []
    counts = []
    mask = 0
    for number, position in enumerate(entry.targets):
        value = args[position]
        several = value if entry.lists[number] and value is not None else (value,)
        there = False
        for tensor in several:
            edge = _edge(tensor, trace)
            edges.append(edge)
            there = there or edge is not None
        counts.append(len(several))
        if there:
            mask |= 1 << number
    return edges, mask, tuple(counts) if entry.any_lists else None


def _edge(tensor: Any, trace: Any) -> Any:
    """The edge to a tensor of this level; the history of tensors of outer levels is recorded there."""
    if tensor is None or not tensor._keys & AUTOGRAD or (trace is not None and not trace.owns(tensor)):
        return None
    return edge_of(tensor)


def record(entry: Entry, result: Any, edges: Any, mask: int, counts: Any) -> OpNode | None:
    """Give the differentiable outputs of a call their node; what it saves is captured last, with the tangents
    in place."""
    allowed = entry.outputs
    node: OpNode
    plan = entry.plans.get(mask) or entry.plan(mask)
    if type(result) is not tuple:
        if not result.dtype.is_differentiable or (allowed is not None and 0 not in allowed):
            return None
        node = (entry.node_class or node_class(entry))(entry, plan, tuple(edges), (meta_of(result),), counts)
        _give(result, node, 0)
        return node
    metas = tuple([_NOTHING if output is None else meta_of(output) for output in result])
    node = (entry.node_class or node_class(entry))(entry, plan, tuple(edges), metas, counts)
    given = False
    for number, output in enumerate(result):
        if output is not None and output.dtype.is_differentiable and (allowed is None or number in allowed):
            _give(output, node, number)
            given = True
    return node if given else None


def _give(output: Tensor, node: OpNode, number: int) -> None:
    output._node = node
    if output._output_nr != number:
        output._output_nr = number
    output._keys |= AUTOGRAD
    base = output._base
    if base is not None:
        output._seen = base._node


_NOTHING: Any = None


def _execute(op: OpDef, args: Arguments, keys: int, trace: Any) -> Any:
    """Run `op` below autograd. What the body of a composite with an entry of its own does is not recorded."""
    if trace is not None and (op.kind is not Kind.COMPOSITE or not trace.lowest):
        return trace.process(op, _without_history(args, trace) if op.kind is Kind.COMPOSITE else args)
    modes = MODES
    saved = modes.grad, modes.forward_grad
    modes.grad = modes.forward_grad = False
    try:
        return execute(op, args, keys) if trace is None else trace.process(op, args)
    finally:
        modes.grad, modes.forward_grad = saved


def _without_history(args: Arguments, trace: Any) -> Arguments:
    """`args` without history at this level; that of the levels below, inside what is wrapped, is kept."""

    def strip(value: Any) -> Any:
        if isinstance(value, Tensor):
            return shallow_copy(value) if value._keys & AUTOGRAD and trace.owns(value) else value
        return tuple([strip(v) for v in value]) if type(value) is tuple else value

    return tuple([strip(value) for value in args])


def mark_inference(op: OpDef, args: Arguments, result: Any) -> Any:
    """Outputs made in inference mode say so, unless they share the memory of a tensor that was not."""
    for tensor in result if type(result) is tuple else (result,):
        if isinstance(tensor, Tensor):
            source = args[0] if op.kind is Kind.VIEW else tensor._base
            if source is None or source._inference:
                tensor._inference = True
                tensor._keys |= AUTOGRAD
    return result


install_layer("autograd", autograd_layer)

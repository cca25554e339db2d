"""The autograd layer of dispatch: runs an operator, and records it where an input has history or a tangent.

A composite without an entry of its own is not recorded here: the operators of its body are. Everything else
runs below autograd, then gets a node (reverse mode) and tangents (forward mode).
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import Arguments, execute, install_layer
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.tensor import AUTOGRAD, Tensor
from ..derivatives.declare import Entry, missing
from . import forward
from .edges import edge_of
from .saved import OpNode, capture_values, shallow_copy
from .tape import meta_of

_missing: dict[OpDef, Entry] = {}


def autograd_layer(op: OpDef, args: Arguments, keys: int, trace: Any = None) -> Any:
    """Run `op`, recording it as needed; `trace` is the interpreter at whose level the arguments live, None
    for plain ones."""
    entry = op.derivative
    modes = MODES
    if entry is None:
        if op.kind is Kind.COMPOSITE:
            result = execute(op, args, keys)
            return mark_inference(op, args, result) if modes.inference else result
        entry = _missing.get(op)
        if entry is None:
            entry = _missing[op] = missing(op)
    edges, mask = _edges(entry, args, trace) if modes.grad and trace not in modes.silent else (None, 0)
    result = _execute(op, args, keys, trace)
    node = record(entry, args, result, edges, mask) if mask else None
    if modes.dual_levels and modes.forward_grad:
        forward.propagate(op, entry, args, result, trace)
    if node is not None:
        node.saved = capture_values(node.plan, args, result if type(result) is tuple else (result,))
    elif modes.inference:
        mark_inference(op, args, result)
    return result


def _edges(entry: Entry, args: Arguments, trace: Any) -> tuple[Any, int]:
    """The edges to the differentiable arguments, and the bits of those that have one."""
    edges: list[Any] = []
    mask = 0
    bit = 1
    for position in entry.targets:
        value = args[position]
        if type(value) is tuple or type(value) is list:
            several = [_edge(tensor, trace) for tensor in value]
            edges.append(several)
            if any(edge is not None for edge in several):
                mask |= bit
        else:
            edge = _edge(value, trace)
            edges.append(edge)
            if edge is not None:
                mask |= bit
        bit <<= 1
    return edges, mask


def _edge(tensor: Any, trace: Any) -> Any:
    """The edge to a tensor of this level; the history of tensors of outer levels is recorded there."""
    if tensor is None or not tensor._keys & AUTOGRAD or (trace is not None and not trace.owns(tensor)):
        return None
    return edge_of(tensor)


def record(entry: Entry, args: Arguments, result: Any, edges: Any, mask: int) -> OpNode | None:
    """Give the differentiable outputs of a call their node; what it saves is captured last, with the tangents
    in place."""
    results = result if type(result) is tuple else (result,)
    allowed = entry.outputs
    differentiable = [i for i, r in enumerate(results) if r is not None and r.dtype.is_differentiable
                      and (allowed is None or i in allowed)]
    if not differentiable:
        return None
    counts = None
    if entry.any_lists:
        counts = tuple([len(e) if type(e) is list else 1 for e in edges])
        edges = [item for e in edges for item in (e if type(e) is list else (e,))]
    plan = entry.plan(mask)
    node = OpNode(entry, plan, tuple(edges), tuple([_NOTHING if r is None else meta_of(r) for r in results]),
                  counts)
    for i in differentiable:
        output = results[i]
        output._node = node
        output._output_nr = i
        output._keys |= AUTOGRAD
        if output._base is not None:
            output._seen = output._base._node
    return node


_NOTHING: Any = None


def _execute(op: OpDef, args: Arguments, keys: int, trace: Any) -> Any:
    """Run `op` below autograd. What the body of a composite with an entry of its own does is not recorded."""
    if trace is not None:
        return trace.process(op, _without_history(args, trace) if op.kind is Kind.COMPOSITE else args)
    if op.kind is not Kind.COMPOSITE:
        return execute(op, args, keys)
    modes = MODES
    saved = modes.grad, modes.forward_grad
    modes.grad = modes.forward_grad = False
    try:
        return execute(op, args, keys)
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

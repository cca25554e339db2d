"""The gradients of a captured call, computed by eager operators: for a pass that is itself differentiated
(create_graph=True), or has a batch of gradients at once (vmap, is_grads_batched).

The joint graph of the call is run on the caller's own tensors, forward and backward, so that the result has a
history; numbers and random draws are those of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..autograd.saved import modified
from ..core.autocast import autocast_off
from ..core.dispatch import execute
from ..core.registry import Kind
from ..core.symbols import SymInt
from ..core.tensor import TRACED, Tensor, wrap
from ..graph.ir import Graph, Node, Value, map_values
from .captured_call import CapturedCall
from .subgraph import laid_out, run_operator


def gradients_again(
    call: CapturedCall,
    inputs: Sequence[tuple[Tensor | np.ndarray, int]],
    tangents: Sequence[Tensor],
    sizes: dict[Any, int],
    node: Any,
) -> list[Tensor | None]:
    """The gradient of each of `call.differentiable`. `inputs` are what filled the inputs of the graph, and how
    often they had been written to when it ran; `node` is that of the call on the tape."""
    nodes, needed = _nodes_for(call.graph, [g for g in call.backward if g is not None])
    values: dict[Value, Any] = dict(zip(call.tangents, tangents, strict=True))
    for value, (given, version) in zip(call.graph.inputs, inputs, strict=False):
        if value not in needed:
            continue
        if not isinstance(given, Tensor):
            values[value] = wrap(given)
            continue
        if given._versions is not None and given._versions.value != version:
            raise modified(given, version, given._node, given._output_nr, node)
        if tuple(given.shape) != _number(tuple(value.spec.shape or ()), sizes):
            raise RuntimeError(
                "a compiled function whose arguments are views with gaps can be differentiated once only; "
                "pass it a copy, or call the function itself"
            )
        values[value] = given
    with autocast_off():  # the graph has its casts
        for step in nodes:
            args = map_values(step.args, lambda v: values[v] if v.number is None else values[v].item())
            run = execute if step.op.family == "updates" else run_operator  # they have no history
            result = run(step.op, _number(args, sizes))
            for value, made in zip(step.outputs, result if step.returns_list else (result,), strict=True):
                in_order = step.op.kind is Kind.VIEW or made._keys & TRACED
                values[value] = made if in_order else laid_out(made, value.spec.sized(sizes))
    return [None if gradient is None else values[gradient] for gradient in call.backward]


def overwritten(call: CapturedCall) -> list[int]:
    """Inputs that the call writes to, and that its gradients are computed of again: who may differentiate twice
    keeps a copy of them."""
    if not call.writes:
        return []
    _, needed = _nodes_for(call.graph, [g for g in call.backward if g is not None])
    return sorted({i for i, _ in call.writes if call.graph.inputs[i] in needed})


def _nodes_for(graph: Graph, wanted: Iterable[Value]) -> tuple[list[Node], set[Value]]:
    """The nodes that compute these values, in order, and all values that they need."""
    needed, nodes = set(wanted), []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs())
            nodes.append(node)
    return nodes[::-1], needed


def _number(argument: Any, sizes: dict[Any, int]) -> Any:
    """An argument with numbers in the place of sizes."""
    if type(argument) is SymInt:
        return argument.index.evaluate(sizes)
    return tuple(_number(item, sizes) for item in argument) if type(argument) is tuple else argument

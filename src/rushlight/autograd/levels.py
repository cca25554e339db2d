"""A derivative taken inside a computation: inputs with a history of their own, and gradients for those.

Reverse mode needs no perturbation levels: a gradient asks for the nodes of its own inputs. What has to be
kept apart is only which history outlives the transform. If nothing outside of it is involved (`isolated`),
nothing is recorded while its gradients are computed, at the level of its inputs; levels below, inside of what
vmap wraps, are not concerned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..batching.vmap import BatchedTensor, current_vmap
from ..core.dispatch import AMBIENT, run_name
from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from .edges import edge_of
from .engine import Run
from .forward import Level, set_tangent
from .saved import shallow_copy, zeros
from .tape import AccumulateGrad, Node, meta_of


def lifted(tensor: Tensor) -> Tensor:
    """`tensor` as an object of the innermost vmap, so that history recorded inside of it is kept there."""
    trace = current_vmap()
    return tensor if trace is None else trace.pure(tensor)


def fresh(tensor: Tensor, recording: bool) -> Tensor:
    """`tensor` as an input to differentiate by; `recording` says whether its former history matters outside."""
    check(isinstance(tensor, Tensor), f"expected Tensor inputs, got {type(tensor).__name__}", TypeError)
    tensor = lifted(tensor)
    if recording and tensor.requires_grad:
        return run_name("alias", tensor)
    if AMBIENT.trace is not None and tensor._trace is None and tensor._array is not None:
        tensor = AMBIENT.trace.abstract(tensor)
    copy = shallow_copy(tensor)  # not detach(): what vmap wraps keeps its history
    copy._base = copy._view_of = copy._creation = None
    return copy._set_requires_grad()


def has_history(tensor: Any) -> bool:
    """Whether `tensor`, or what it wraps, requires grad."""
    while isinstance(tensor, BatchedTensor):
        if tensor.requires_grad:
            return True
        tensor = tensor._value
    return isinstance(tensor, Tensor) and tensor.requires_grad


def is_isolated(outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Any] = ()) -> bool:
    """Whether the outputs depend on nothing that requires grad but the inputs, all of which are leaves."""
    if any(tensor._node is not None for tensor in inputs) or any(has_history(c) for c in cotangents):
        return False
    own = {id(tensor) for tensor in inputs}
    stack: list[Node] = [edge[0] for edge in map(edge_of, outputs) if edge is not None]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad) and id(node.variable) not in own:
            return False
        for edge in node._next:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return True


def gradients_at_level(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Any],
    *,
    recording: bool,
    retain_graph: bool,
    private: Sequence[Tensor] = (),
) -> list[Tensor]:
    """The gradients of `inputs`, made by `fresh`; zeros where an output does not depend on one.

    `recording` is the grad mode outside of the transform; `private` are other inputs that nobody outside
    knows. A cotangent of None stands for ones.
    """
    trace = inputs[0]._trace
    isolated = not recording or is_isolated(outputs, [*inputs, *private], cotangents)
    edges: list[Any] = [edge_of(tensor) for tensor in inputs]
    run = Run(
        retain_graph=retain_graph or not isolated, create_graph=recording, inputs=edges, accumulate=False
    )
    roots = []
    for output, cotangent in zip(outputs, cotangents, strict=True):
        edge = edge_of(output) if output._trace is trace else None
        if edge is not None:
            grad = (
                run_name("ones_like", output.detach(), None, None, None, None, None)
                if cotangent is None
                else cotangent
            )
            roots.append((edge, grad))
    saved = MODES.silent
    MODES.silent = saved | {trace} if isolated else saved
    try:
        run.start(roots)
    finally:
        MODES.silent = saved
    return [
        zeros(meta_of(tensor)) if run.captured.get(i) is None else run.captured[i]
        for i, tensor in enumerate(inputs)
    ]


def without_history(tensor: Any, isolated: bool) -> Any:
    """A result as it leaves the transform: without the transform's own history."""
    if not isolated or not isinstance(tensor, Tensor) or not tensor.requires_grad:
        return tensor
    copy = shallow_copy(tensor)
    copy._base = copy._view_of = copy._creation = None
    if copy._tangents:
        copy._keys |= 1
    return copy


def dual(tensor: Tensor, tangent: Tensor, level: Level) -> Tensor:
    """`tensor` with a tangent, as an object of its own."""
    made = run_name("alias", lifted(tensor))
    set_tangent(made, level, lifted(tangent), own=True)
    return made

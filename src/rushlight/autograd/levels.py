"""A derivative taken inside a computation: inputs with a history of their own, and gradients for those.

Reverse mode needs no perturbation levels: a gradient asks for the nodes of its own inputs. What has to be
kept apart is only which history outlives the transform. If nothing outside of it is involved (`isolated`),
nothing is recorded while its gradients are computed, at the level of its inputs; levels below, inside of what
vmap wraps, are not concerned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..batching.vmap import BatchedTensor
from ..core.dispatch import AMBIENT, run_name
from ..core.errors import check
from ..core.functionalize import FunctionalTensor
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, Tensor
from ..core.transforms import TransformType, install_untracked
from .edges import edge_of
from .engine import Run
from .forward import Level, set_tangent
from .saved import shallow_copy, without_tangents, zeros
from .tape import AccumulateGrad, Node, meta_of


def lifted(tensor: Tensor) -> Tensor:
    """`tensor` as an object of the innermost open transform that wraps tensors, so that history recorded inside
    of it is kept there."""
    lifted: Tensor = MODES.traces[-1].pure(tensor) if MODES.traces else tensor
    return lifted


def fresh(tensor: Tensor) -> Tensor:
    """`tensor` as an input to differentiate by: a leaf, or a tensor whose history goes on outside."""
    check(isinstance(tensor, Tensor), f"expected Tensor inputs, got {type(tensor).__name__}", TypeError)
    made = held(tensor)
    return made if made.requires_grad else made._set_requires_grad()


def held(tensor: Any) -> Any:
    """An argument as an object of the transform: what the function writes to it reaches the caller's memory, but
    the history of it does not reach the caller's tensor."""
    if not isinstance(tensor, Tensor):
        return tensor
    tensor = lifted(tensor)
    if tensor.requires_grad:
        return run_name("alias", tensor)
    if AMBIENT.trace is not None and tensor._trace is None and tensor._array is not None:
        tensor = AMBIENT.trace.abstract(tensor)
    copy = shallow_copy(tensor)  # not detach(): what vmap wraps keeps its history
    copy._base = copy._view_of = copy._creation = None
    if copy._tangents:
        copy._keys |= AUTOGRAD
    return copy


def has_history(tensor: Any) -> bool:
    """Whether `tensor`, or what it wraps, requires grad."""
    while isinstance(tensor, BatchedTensor | FunctionalTensor):
        if tensor.requires_grad:
            return True
        tensor = tensor._value
    return isinstance(tensor, Tensor) and tensor.requires_grad


def is_isolated(outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Any] = ()) -> bool:
    """Whether the outputs depend on nothing that requires grad but the inputs, all of which are leaves."""
    if any(tensor._node is not None for tensor in inputs) or any(has_history(c) for c in cotangents):
        return False
    own = {id(tensor) for tensor in inputs}
    leaves = (node for node in history(outputs) if isinstance(node, AccumulateGrad))
    return all(id(leaf.variable) in own for leaf in leaves)


def history(tensors: Iterable[Tensor]) -> Iterator[Node]:
    """The nodes that tensors were made by, directly or not."""
    stack: list[Node] = [edge[0] for edge in map(edge_of, tensors) if edge is not None]
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for edge in node._next:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])


def reaches(tensor: Tensor, inputs: Sequence[Tensor]) -> bool:
    """Whether `tensor` is one of `inputs`, which `fresh` made, or was computed from one."""
    own = {edge[0] for edge in map(edge_of, inputs) if edge is not None}
    return any(node in own for node in history((tensor,)))


def untracked(tensor: Tensor) -> Tensor:
    """`tensor` without its history, where that ends at open transforms, and without their tangents."""
    pushing = [transform for transform in MODES.transforms if transform.kind is TransformType.Jvp]
    if pushing and tensor._tangents:
        tensor = without_tangents(tensor, pushing[0].level.number)
    leaves = (node for node in history((tensor,)) if isinstance(node, AccumulateGrad))
    return without_history(tensor, all(leaf.variable._transform in MODES.transforms for leaf in leaves))


def has_escaped(tensor: Tensor) -> bool:
    """Whether `tensor` was computed inside of a transform of reverse mode that has ended, from its inputs."""
    edge = edge_of(tensor)
    made = -1 if edge is None or tensor._transform is not None else edge[0]._sequence
    ended = (
        node.variable._transform.ended
        for node in history((tensor,))
        if isinstance(node, AccumulateGrad) and node.variable._transform is not None
    )
    return any(number is not None and made < number for number in ended)


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


install_untracked(untracked)

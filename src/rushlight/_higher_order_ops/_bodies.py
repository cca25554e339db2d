"""What the higher-order operators share: bodies of functions, and bodies that derive from bodies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..capture.errors import CaptureError, Problem, user_line
from ..capture.partition import depending_on
from ..capture.subgraph import capture_body, run_body
from ..capture.tentative import TentativeCapture
from ..capture.trace import Capture
from ..core.dispatch import AMBIENT, run_name
from ..core.interpreters import innermost
from ..core.modes import MODES
from ..core.shapes import Spec
from ..core.tensor import Tensor
from ..func import jvp, vmap
from ..graph.subgraph import Joint, Subgraph

Tensors = Sequence[Tensor]


def open_capture() -> Capture | None:
    """The capture that records operators at present, if there is one."""
    trace = AMBIENT.trace
    if not isinstance(trace, Capture) or trace.closed:
        return None
    return None if isinstance(trace, TentativeCapture) and trace.reason is not None else trace


def in_graph(captured: Callable[[Capture], Any], eagerly: Callable[[], Any]) -> Any:
    """What `captured` gives, where a capture is open and control flow has a place in it, else `eagerly`."""
    capture = open_capture()
    if capture is None:
        return eagerly()
    try:
        return captured(capture)
    except CaptureError as error:
        if not isinstance(capture, TentativeCapture) or AMBIENT.trace is not capture:
            raise
        capture.leave(error)
    return eagerly()


def specs_of(tensors: Tensors) -> list[Spec]:
    return [Spec(tuple(tensor.shape), tensor.dtype) for tensor in tensors]


def slice_specs(tensors: Tensors) -> list[Spec]:
    """Of one element each along the first dimension."""
    return [Spec(tuple(tensor.shape)[1:], tensor.dtype) for tensor in tensors]


def is_recorded(tensors: Tensors) -> bool:
    """Whether an operator on `tensors` has a history."""
    recorded = MODES.grad and any(tensor.requires_grad for tensor in tensors)
    return recorded and innermost(list(tensors)) not in MODES.silent


def zeros(spec: Spec) -> Tensor:
    made: Tensor = run_name("zeros", spec.known_shape(), spec.dtype, None, None, None)
    return made


def or_zeros(tensor: Tensor | None, spec: Spec) -> Tensor:
    """A gradient or tangent that is zero where there is none."""
    return zeros(spec) if tensor is None else tensor


def split(tensors: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Parts of `tensors` of these lengths, and the rest."""
    parts, start = [], 0
    for count in counts:
        parts.append(list(tensors[start : start + count]))
        start += count
    return [*parts, list(tensors[start:])]


def body_of(function: Callable[..., Any], specs: Sequence[Spec]) -> Subgraph:
    """The body that a function of tensors is, nothing recorded; it uses no tensors from outside."""
    grad, MODES.grad = MODES.grad, False
    try:
        body = capture_body(open_capture(), function, specs)
    finally:
        MODES.grad = grad
    assert not body.captured
    return body.subgraph


def differentiated(subgraph: Subgraph, wanted: Collection[int]) -> Subgraph:
    """The same body with its derivative by the inputs with the numbers `wanted`."""
    if subgraph.joint is not None and subgraph.joint.recorded.issuperset(wanted):
        return subgraph
    refuse_opaque(subgraph)
    grad, MODES.grad = MODES.grad, True
    try:
        specs = subgraph.input_specs()
        flags = [i in wanted for i in range(len(specs))]
        return capture_body(open_capture(), lambda *given: run_body(subgraph, given), specs, flags).subgraph
    finally:
        MODES.grad = grad


def reached(joint: Joint, grads: Sequence[Tensor | None], carried: int = 0) -> set[int]:
    """The inputs of a body that gradients of its outputs reach; those of the first `carried` inputs go on as
    gradients of the outputs with the same numbers, of the step before. Others have none, not zeros."""
    reach = {}
    for number, tangent in zip(joint.outputs, joint.tangents, strict=True):
        late = depending_on(joint.graph, [tangent])
        pairs = zip(joint.inputs, joint.gradients, strict=True)
        reach[number] = {i for i, gradient in pairs if gradient in late}
    found: set[int] = set()
    waiting = [i for i, grad in enumerate(grads) if grad is not None]
    seen: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            found |= reach.get(number, set())
            waiting += [i for i in reach.get(number, ()) if i < carried]
    return found


def refuse_opaque(subgraph: Subgraph) -> None:
    if subgraph.opaque:
        raise CaptureError(
            "a derivative of control flow, other than the first one in reverse mode, whose functions have a "
            "custom backward or a part that is not recorded",
            user_line(),
            Problem.BODY,
        )


def floating(specs: Sequence[Spec]) -> list[int]:
    """The numbers of those that have derivatives."""
    return [i for i, spec in enumerate(specs) if spec.dtype.is_differentiable]


def dual_body(subgraph: Subgraph, moving: Sequence[int]) -> Callable[..., tuple[list[Tensor], list[Tensor]]]:
    """A function of the inputs, then tangents for those with the numbers `moving`, that gives the outputs and
    tangents of those that have derivatives."""
    refuse_opaque(subgraph)
    count = len(subgraph.graph.inputs)
    numbers = floating(subgraph.output_specs())

    def function(*given: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        fixed, tangents = list(given[:count]), given[count:]

        def moved(*parts: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
            values = list(fixed)
            for number, part in zip(moving, parts, strict=True):
                values[number] = part
            outputs = run_body(subgraph, values)
            return tuple(outputs[n] for n in numbers), tuple(outputs)

        found = jvp(moved, tuple(fixed[n] for n in moving), tuple(tangents), has_aux=True)
        _, changes, outputs = found
        return list(outputs), list(changes)

    return function


def batched_body(subgraph: Subgraph, size: int, batched: Sequence[bool]) -> Subgraph:
    """The body of a batch: of the inputs, those that are `batched` have it as their first dimension; of the
    outputs, all."""
    specs = [
        Spec((size, *spec.known_shape()) if flag else spec.known_shape(), spec.dtype)
        for spec, flag in zip(subgraph.input_specs(), batched, strict=True)
    ]
    if not any(batched):
        return subgraph
    dims = tuple(0 if flag else None for flag in batched)
    mapped = vmap(lambda *given: tuple(run_body(subgraph, given)), in_dims=dims)
    return body_of(mapped, specs)


def moved(tensor: Tensor, dim: int | None, to: int) -> Tensor:
    """`tensor` with its batch dimension, if it has one, at another place."""
    if dim is None or dim == to:
        return tensor
    result: Tensor = run_name("movedim.intlist", tensor, (dim,), (to,))
    return result


def with_batch(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """`tensor` with the batch as its first dimension, whether or not it differs along it."""
    if dim is not None:
        return moved(tensor, dim, 0)
    shape = tuple(tensor.shape)
    result: Tensor = run_name("expand", run_name("unsqueeze", tensor, 0), (size, *shape), False)
    return result

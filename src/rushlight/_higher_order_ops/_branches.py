"""`cond` and `invoke_subgraph` over bodies: their derivatives and batching rules.

The derivative of a branch is a branch over the derivatives, which compute again what they need of the branch
that was taken. What the derivative of a region needs is an output of the region.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.function import Function
from ..capture.control_flow import COND, INVOKE
from ..capture.subgraph import backward_body, cut, run_body
from ..core.dispatch import call, run_name
from ..core.tensor import Tensor
from ..graph.subgraph import BodyHalves, Subgraph
from ._bodies import (
    Tensors,
    batched_body,
    body_of,
    differentiated,
    dual_body,
    floating,
    is_recorded,
    moved,
    or_zeros,
    reached,
    specs_of,
    split,
    with_batch,
    zeros,
)

# cond


def run_cond(pred: Tensor, operands: Tensors, true: Subgraph, false: Subgraph) -> list[Tensor]:
    """The outputs of one of two bodies."""
    if is_recorded(operands):
        wanted = [i for i, tensor in enumerate(operands) if tensor.requires_grad]
        true, false = differentiated(true, wanted), differentiated(false, wanted)
    return list(Cond.apply((true, false), pred, *operands))


COND.apply = run_cond


class Cond(Function):
    """A branch as one node of the tape."""

    is_control_flow = True

    @staticmethod
    def forward(bodies: tuple[Subgraph, Subgraph], pred: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
        return tuple(call(COND, (pred, operands, *bodies)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.bodies, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        joints = [body.joint for body in ctx.bodies if body.joint is not None]
        if joints:
            differentiable = {i for joint in joints for i in joint.outputs}
            ctx.mark_non_differentiable(*[t for i, t in enumerate(output) if i not in differentiable])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        pred, *operands = ctx.saved_tensors
        wanted = [i for i in range(len(operands)) if ctx.needs_input_grad[2 + i]]
        given = [i for i, grad in enumerate(grads) if grad is not None]
        tangents = [grad for grad in grads if grad is not None]
        specs = [*specs_of(operands), *specs_of(tangents)]
        back = [
            body_of(_backward_of(differentiated(body, wanted), given, wanted), specs) for body in ctx.bodies
        ]
        found = run_cond(pred, [*operands, *tangents], *back)
        by_input = dict(zip(wanted, found, strict=True))
        return (None, None, *[by_input.get(i) for i in range(len(operands))])

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        pred, *operands = ctx.saved_for_forward
        moving = [i for i, tangent in enumerate(tangents[2:]) if tangent is not None]
        changes = [tangent for tangent in tangents[2:] if tangent is not None]
        specs = [*specs_of(operands), *specs_of(changes)]
        outputs = ctx.bodies[0].output_specs()
        duals = [body_of(_tangents_of(body, moving), specs) for body in ctx.bodies]
        found = dict(zip(floating(outputs), run_cond(pred, [*operands, *changes], *duals), strict=True))
        return tuple(found.get(i) for i in range(len(outputs)))

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], bodies: tuple[Subgraph, ...], pred: Tensor, *operands: Tensor
    ) -> tuple[Any, Any]:
        size = info.batch_size
        dims = in_dims[2:]
        if in_dims[1] is not None:
            return _select(size, bodies, (pred, in_dims[1]), list(zip(operands, dims, strict=True)))
        batched = [dim is not None for dim in dims]
        true, false = (batched_body(body, size, batched) for body in bodies)
        results = run_cond(
            pred, [moved(t, dim, 0) for t, dim in zip(operands, dims, strict=True)], true, false
        )
        return tuple(results), (0 if any(batched) else None,) * len(results)


def _backward_of(
    body: Subgraph, given: Sequence[int], wanted: Sequence[int]
) -> Callable[..., tuple[Tensor, ...]]:
    """A function of the operands and of the gradients of the outputs `given`: the gradients of `wanted`."""
    specs, outputs = body.input_specs(), body.output_specs()
    joint = body.joint
    back = None if joint is None else backward_body(body)

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        operands, grads = split(tensors, len(specs))
        if joint is None or back is None:
            return tuple(zeros(specs[i]) for i in wanted)
        arriving = dict(zip(given, grads, strict=True))
        tangents = [arriving[i] if i in arriving else zeros(outputs[i]) for i in joint.outputs]
        found = dict(zip(joint.inputs, run_body(back, [*operands, *tangents]), strict=True))
        return tuple(found[i] if i in found else zeros(specs[i]) for i in wanted)

    return function


def _tangents_of(body: Subgraph, moving: Sequence[int]) -> Callable[..., list[Tensor]]:
    dual = dual_body(body, moving)
    return lambda *tensors: dual(*tensors)[1]


def _select(
    size: int,
    bodies: Sequence[Subgraph],
    condition: tuple[Tensor, int],
    operands: Sequence[tuple[Tensor, int | None]],
) -> tuple[Any, Any]:
    """Both branches for the whole batch, of which each element takes its own."""
    batched = [True] * len(operands)
    given = [with_batch(tensor, dim, size) for tensor, dim in operands]
    true, false = (run_invoke(given, _for_batch(body, size, batched)) for body in bodies)
    chosen = moved(condition[0], condition[1], 0)

    def select(a: Tensor, b: Tensor) -> Tensor:
        flags = run_name("reshape", chosen, (size, *(1 for _ in range(a.ndim - 1))))
        result: Tensor = run_name("where.self", flags, a, b)
        return result

    results = tuple(map(select, true, false))
    return results, (0,) * len(results)


def _for_batch(body: Subgraph, size: int, batched: Sequence[bool]) -> Subgraph:
    """As `batched_body`, also for a body that has no inputs."""
    if batched:
        return batched_body(body, size, batched)
    specs = body.output_specs()
    return body_of(
        lambda: [
            run_name("expand", run_name("unsqueeze", t, 0), (size, *spec.known_shape()), False)
            for t, spec in zip(run_body(body, ()), specs, strict=True)
        ],
        (),
    )


# invoke_subgraph


def run_invoke(operands: Tensors, body: Subgraph) -> list[Tensor]:
    """The outputs of a body."""
    halves = None
    outputs = len(body.graph.outputs)
    if is_recorded(operands):
        body = differentiated(body, [i for i, tensor in enumerate(operands) if tensor.requires_grad])
        if body.joint is not None and body.joint.outputs:
            halves = cut(body, range(len(operands)))
    return list(Invoke.apply(body, halves, *operands))[:outputs]


INVOKE.apply = run_invoke


class Invoke(Function):
    """A region as one node of the tape."""

    is_control_flow = True

    @staticmethod
    def forward(body: Subgraph, halves: BodyHalves | None, *operands: Tensor) -> tuple[Tensor, ...]:
        return tuple(call(INVOKE, (operands, body if halves is None else halves.forward)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.body, ctx.halves, *tensors = inputs
        ctx.count, ctx.shown = len(tensors), len(ctx.body.graph.outputs)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *output[ctx.shown :])
        ctx.save_for_forward(*tensors)
        joint = ctx.body.joint
        if joint is not None:
            ctx.mark_non_differentiable(*[output[i] for i in range(ctx.shown) if i not in joint.outputs])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        operands, saved = split(ctx.saved_tensors, ctx.count)
        again = ctx.halves is None or any(grad is not None for grad in grads[ctx.shown :])
        body: Subgraph = ctx.body
        if again:
            running = body if ctx.halves is None else ctx.halves.forward
            body = differentiated(running, floating(running.input_specs()))
        joint = body.joint
        if joint is None:
            return (None,) * (2 + ctx.count)
        specs = body.output_specs()
        tangents = [or_zeros(grads[i], specs[i]) for i in joint.outputs]
        if again:
            found = run_invoke([*operands, *tangents], backward_body(body))
        else:
            kept = [operands[i] for i in ctx.halves.kept]
            found = run_invoke([*kept, *saved, *tangents], ctx.halves.backward)
        some = reached(joint, grads)
        by_input = {i: grad for i, grad in zip(joint.inputs, found, strict=True) if i in some}
        return (
            None,
            None,
            *[by_input.get(i) if ctx.needs_input_grad[2 + i] else None for i in range(ctx.count)],
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        operands = ctx.saved_for_forward
        moving = [i for i, tangent in enumerate(tangents[2:]) if tangent is not None]
        changes = [tangent for tangent in tangents[2:] if tangent is not None]
        running = ctx.body if ctx.halves is None else ctx.halves.forward
        outputs = running.output_specs()
        dual = body_of(_tangents_of(running, moving), [*specs_of(operands), *specs_of(changes)])
        found = dict(zip(floating(outputs), run_invoke([*operands, *changes], dual), strict=True))
        return tuple(found.get(i) for i in range(len(outputs)))

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], body: Subgraph, halves: BodyHalves | None, *operands: Tensor
    ) -> tuple[Any, Any]:
        dims = in_dims[2:]
        running = body if halves is None else halves.forward
        batched = [dim is not None for dim in dims]
        made = batched_body(running, info.batch_size, batched)
        results = run_invoke([moved(t, dim, 0) for t, dim in zip(operands, dims, strict=True)], made)
        return tuple(results), (0 if any(batched) else None,) * len(results)

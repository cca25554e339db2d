"""`while_loop` over bodies: its derivatives and its batching rule.

Reverse mode computes the steps again, as many as there were, and keeps what each was given; then it goes back
through them. That derivative is one operator, which has none itself.
"""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..capture.control_flow import INT64, WHILE, WHILE_BACKWARD
from ..capture.errors import CaptureError, Problem, user_line
from ..capture.subgraph import backward_body, run_body
from ..core.dispatch import call, run_name
from ..core.tensor import Tensor
from ..graph.subgraph import Subgraph
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
    specs_of,
    split,
    with_batch,
    zeros,
)


def run_while(carried: Tensors, extra: Tensors, condition: Subgraph, body: Subgraph) -> list[Tensor]:
    """The carried tensors at the end, and the number of steps."""
    tensors = (*carried, *extra)
    if is_recorded(tensors):
        wanted = {i for i, tensor in enumerate(tensors) if tensor.requires_grad}
        body = differentiated(body, wanted | set(floating(specs_of(carried))))
    return list(While.apply((condition, body), len(carried), *tensors))


def run_while_backward(
    carried: Tensors, extra: Tensors, steps: Tensor, grads: Tensors, body: Subgraph, back: Subgraph
) -> list[Tensor]:
    """The gradients before the first step."""
    counts = len(carried), len(extra), len(grads)
    return list(WhileBackward.apply((body, back), counts, *carried, *extra, steps, *grads))


WHILE.apply, WHILE_BACKWARD.apply = run_while, run_while_backward


class While(Function):
    """A loop as one node of the tape."""

    is_control_flow = True

    @staticmethod
    def forward(bodies: tuple[Subgraph, Subgraph], count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(call(WHILE, (tensors[:count], tensors[count:], *bodies)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.bodies, ctx.count, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, output[-1])
        ctx.save_for_forward(*tensors)
        ctx.mark_non_differentiable(*[t for t in output if not t.dtype.is_differentiable])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        *tensors, steps = ctx.saved_tensors
        body: Subgraph = ctx.bodies[1]
        joint = body.joint
        specs = body.input_specs()
        carried = [i for i in floating(specs) if i < ctx.count]
        summed = [] if joint is None else [i for i in joint.inputs if i >= ctx.count]
        start = [or_zeros(grads[i], specs[i]) for i in carried]
        start += [zeros(specs[i]) for i in summed]
        backward = None if joint is None else backward_body(body)

        def back(*given: Tensor) -> tuple[Tensor, ...]:
            before, sums, values = split(given, len(carried), len(summed))
            found: dict[int, Tensor] = {}
            if joint is not None and backward is not None:
                arriving = dict(zip(carried, before, strict=True))
                results = run_body(backward, [*values, *(arriving[i] for i in joint.outputs)])
                found = dict(zip(joint.inputs, results, strict=True))
            leaving = [found[i] if i in found else zeros(specs[i]) for i in carried]
            return (*leaving, *(total + found[i] for total, i in zip(sums, summed, strict=True)))

        made = body_of(back, [*specs_of(start), *specs])
        values, extra = split(tensors, ctx.count)
        results = run_while_backward(values, extra, steps, start, body, made)
        by_input = dict(zip((*carried, *summed), results, strict=True))
        return (
            None,
            None,
            *[by_input.get(i) if ctx.needs_input_grad[2 + i] else None for i in range(len(tensors))],
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        tensors, changes = ctx.saved_for_forward, tangents[2:]
        condition, body = ctx.bodies
        specs, count = body.input_specs(), ctx.count
        starts = [i for i in floating(specs) if i < count]
        fixed = [i for i in floating(specs) if i >= count and changes[i] is not None]
        dual = dual_body(body, [*starts, *fixed])
        extra = [*tensors[count:], *(changes[i] for i in fixed)]
        given = [or_zeros(changes[i], specs[i]) for i in starts]
        carried = [*tensors[:count], *given]

        def step(*values: Tensor) -> tuple[Tensor, ...]:
            now, moving, rest, slopes = split(values, count, len(starts), len(specs) - count)
            outputs, found = dual(*now, *rest, *moving, *slopes)
            return (*outputs, *found)

        def test(*values: Tensor) -> Any:
            now, _, rest, _ = split(values, count, len(starts), len(specs) - count)
            return run_body(condition, [*now, *rest])[0]

        wide = [*specs_of(carried), *specs_of(extra)]
        results = run_while(carried, extra, body_of(test, wide), body_of(step, wide))
        found = dict(zip(starts, results[count:], strict=False))
        return tuple(found.get(i) for i in range(count + 1))

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], bodies: tuple[Subgraph, Subgraph], count: int, *tensors: Tensor
    ) -> tuple[Any, Any]:
        """The loop runs until all elements of the batch are done; one that is done keeps what it has."""
        size, dims = info.batch_size, in_dims[2:]
        carried = [with_batch(t, dim, size) for t, dim in zip(tensors[:count], dims[:count], strict=True)]
        steps = run_name("zeros", (size,), INT64, None, None, None)
        carried.append(steps)
        extra = [moved(t, dim, 0) for t, dim in zip(tensors[count:], dims[count:], strict=True)]
        batched = [True] * count + [dim is not None for dim in dims[count:]]
        condition, body = (batched_body(b, size, batched) for b in bodies)

        def test(*given: Tensor) -> Tensor:
            values, _, rest = split(given, count, 1)
            flag: Tensor = run_name("any", run_body(condition, [*values, *rest])[0])
            return flag

        def step(*given: Tensor) -> tuple[Tensor, ...]:
            values, (steps,), rest = split(given, count, 1)
            going = run_body(condition, [*values, *rest])[0]
            after = run_body(body, [*values, *rest])
            kept = [_where(going, new, old) for new, old in zip(after, values, strict=True)]
            return (*kept, steps + going.to(INT64))

        wide = [*specs_of(carried), *specs_of(extra)]
        *results, _ = run_while(carried, extra, body_of(test, wide), body_of(step, wide))
        return tuple(results), (0,) * len(results)


def _where(flags: Tensor, a: Tensor, b: Tensor) -> Tensor:
    wide = run_name("reshape", flags, (flags.shape[0], *(1 for _ in range(a.ndim - 1))))
    result: Tensor = run_name("where.self", wide, a, b)
    return result


class WhileBackward(Function):
    """The way back through the steps of a loop."""

    is_control_flow = True

    @staticmethod
    def forward(
        bodies: tuple[Subgraph, Subgraph], counts: tuple[int, int, int], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        carried, extra, (steps,), grads = map(tuple, split(tensors, *counts[:2], 1))
        return tuple(call(WHILE_BACKWARD, (carried, extra, steps, grads, *bodies)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        raise CaptureError("a second derivative of while_loop", user_line(), Problem.BODY)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        raise CaptureError("a second derivative of while_loop", user_line(), Problem.BODY)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[Any, ...],
        bodies: tuple[Subgraph, Subgraph],
        counts: tuple[int, int, int],
        *tensors: Tensor,
    ) -> tuple[Any, Any]:
        """As many steps as the longest element of the batch takes; each carries its number."""
        size, (count, shared, _) = info.batch_size, counts
        parts = split(list(zip(tensors, in_dims[2:], strict=True)), count, shared, 1)
        carried, grads = ([with_batch(t, dim, size) for t, dim in part] for part in (parts[0], parts[3]))
        extra = [moved(t, dim, 0) for t, dim in parts[1]]
        flags = [dim is not None for _, dim in parts[1]]
        steps = with_batch(parts[2][0][0], parts[2][0][1], size)
        body = batched_body(bodies[0], size, [True] * count + flags)
        back = batched_body(bodies[1], size, [True] * (len(grads) + count) + flags)

        def forward(*given: Tensor) -> tuple[Tensor, ...]:
            values, (number,), rest, (limits,) = split(given, count, 1, shared)
            after = run_body(body, [*values, *rest])
            kept = [_where(number < limits, new, old) for new, old in zip(after, values, strict=True)]
            return (*kept, number + 1)

        def backward(*given: Tensor) -> tuple[Tensor, ...]:
            before, values, (number,), rest, (limits,) = split(given, len(grads), count, 1, shared)
            after = run_body(back, [*before, *values, *rest])
            return tuple(_where(number < limits, new, old) for new, old in zip(after, before, strict=True))

        first = run_name("zeros", (), INT64, None, None, None)
        wide = [*specs_of(carried), *specs_of([first]), *specs_of(extra), *specs_of([steps])]
        made = body_of(forward, wide), body_of(backward, [*specs_of(grads), *wide])
        longest = run_name("amax", steps, (0,), False)
        results = run_while_backward([*carried, first], [*extra, steps], longest, grads, *made)
        return tuple(results), (0,) * len(results)

"""`while_loop` over bodies: its derivatives and its batching rule.

Reverse mode computes the steps again, as many as there were, and keeps what each was given; then it goes back
through them: one operator, `while_loop_backward`. With the loop as F and its Jacobian as J, that is J^T g, and

- in reverse mode, for l arriving, (J^T g) . l = g . (J l): the gradients are those of a loop that carries
  tangents, J l, and reverse mode of this one;
- in forward mode it is once more a way back, of the loop that carries tangents: from (g', g) for (F, J x') to
  (J^T g' + J'^T g, J^T g).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

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
    carried: Tensors,
    extra: Tensors,
    steps: Tensor,
    grads: Tensors,
    body: Subgraph,
    back: Subgraph,
    inputs: Sequence[int],
) -> list[Tensor]:
    """The gradients before the first step, of the inputs of `body` with the numbers `inputs`."""
    way = WayBack(body, back, len(carried), len(extra), tuple(inputs))
    return list(WhileBackward.apply(way, *carried, *extra, steps, *grads))


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
        by_input = _gradients(ctx.bodies[1], ctx.count, tensors, steps, grads)
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


def _gradients(
    body: Subgraph, count: int, tensors: Tensors, steps: Tensor, grads: Sequence[Tensor | None]
) -> dict[int, Tensor]:
    """By the numbers of the inputs, their gradients from those of the `count` carried tensors at the end."""
    joint = body.joint
    specs = body.input_specs()
    carried = [i for i in floating(specs) if i < count]
    summed = [] if joint is None else [i for i in joint.inputs if i >= count]
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
    values, extra = split(tensors, count)
    inputs = [*carried, *summed]
    return dict(zip(inputs, run_while_backward(values, extra, steps, start, body, made, inputs), strict=True))


def _where(flags: Tensor, a: Tensor, b: Tensor) -> Tensor:
    wide = run_name("reshape", flags, (flags.shape[0], *(1 for _ in range(a.ndim - 1))))
    result: Tensor = run_name("where.self", wide, a, b)
    return result


class WayBack(NamedTuple):
    """`while_loop_backward` without its tensors."""

    body: Subgraph
    back: Subgraph
    carried: int
    shared: int
    inputs: tuple[int, ...]  # of `body`, whose gradients go back

    def split(self, tensors: Sequence[Any]) -> list[list[Any]]:
        """Carried tensors, `extra`, the number of steps, gradients."""
        return split(tensors, self.carried, self.shared, 1)


class TangentLoop(NamedTuple):
    """The loop of a way back, once more forward, with tangents."""

    carried: list[Tensor]  # what the loop carries, tangents of what has any, and the number of the step
    extra: list[Tensor]
    condition: Subgraph
    body: Subgraph


def _tangent_loop(
    way: WayBack, carried: Tensors, extra: Tensors, steps: Tensor, tangents: dict[int, Tensor | None]
) -> TangentLoop:
    specs, count = way.body.input_specs(), way.carried
    starts = [i for i in way.inputs if i < count]
    fixed = [i for i in way.inputs if i >= count and tangents[i] is not None]
    dual = dual_body(way.body, [*starts, *fixed])
    first = run_name("zeros", (), INT64, None, None, None)
    wide = [*carried, *(or_zeros(tangents[i], specs[i]) for i in starts), first]
    shared = [*extra, *(or_zeros(tangents[i], specs[i]) for i in fixed), steps]

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        now, moving, (number,), rest, along, _ = split(given, count, len(starts), 1, way.shared, len(fixed))
        outputs, found = dual(*now, *rest, *moving, *along)
        return (*outputs, *found, number + 1)

    def test(*given: Tensor) -> Tensor:
        flag: Tensor = given[len(wide) - 1] < given[-1]
        return flag

    made = [*specs_of(wide), *specs_of(shared)]
    return TangentLoop(wide, shared, body_of(test, made), body_of(step, made))


def _check_shapes(way: WayBack, grads: Tensors) -> None:
    """Refuse a gradient for each element of a batch of what all of them share."""
    specs = way.body.input_specs()
    if any(tuple(g.shape) != specs[i].known_shape() for g, i in zip(grads, way.inputs, strict=True)):
        raise CaptureError("a derivative of a batch of gradients of while_loop", user_line(), Problem.BODY)


class WhileBackward(Function):
    """The way back through the steps of a loop."""

    is_control_flow = True

    @staticmethod
    def forward(way: WayBack, *tensors: Tensor) -> tuple[Tensor, ...]:
        carried, extra, (steps,), grads = map(tuple, way.split(tensors))
        return tuple(call(WHILE_BACKWARD, (carried, extra, steps, grads, way.body, way.back, way.inputs)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.way, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *arriving: Tensor | None) -> tuple[Any, ...]:
        way: WayBack = ctx.way
        carried, extra, (steps,), grads = way.split(ctx.saved_tensors)
        _check_shapes(way, grads)
        by_input = dict(zip(way.inputs, arriving, strict=True))
        loop = _tangent_loop(way, carried, extra, steps, by_input)
        moving = [i for i in way.inputs if i < way.carried]
        *results, _ = run_while(loop.carried, loop.extra, loop.condition, loop.body)
        tangents = dict(zip(moving, results[way.carried :], strict=False))
        of_grads = [tangents[i] if i in tangents else by_input[i] for i in way.inputs]
        body = differentiated(loop.body, floating(loop.body.input_specs()))
        wanted: list[Tensor | None] = [None] * len(loop.carried)
        wanted[way.carried : way.carried + len(moving)] = grads[: len(moving)]
        found = _gradients(body, len(loop.carried), [*loop.carried, *loop.extra], steps, wanted)
        first = len(loop.carried)
        of_carried = [found.get(i) for i in range(way.carried)]
        of_extra = [found.get(first + i) for i in range(way.shared)]
        given = [*of_carried, *of_extra, None, *of_grads]
        flags = ctx.needs_input_grad[1:]
        return (None, *[grad if flag else None for grad, flag in zip(given, flags, strict=True)])

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        way: WayBack = ctx.way
        carried, extra, (steps,), grads = way.split(ctx.saved_for_forward)
        changes, slopes, _, found = way.split(tangents[1:])
        _check_shapes(way, grads)
        specs, count = way.body.input_specs(), way.carried
        starts = [i for i in way.inputs if i < count]
        summed = [i for i in way.inputs if i >= count]
        fixed = [i for i in floating(specs) if i in summed or (i >= count and slopes[i - count] is not None)]
        dual = dual_body(way.body, [*starts, *fixed])
        first = len(grads)
        dual_back = dual_body(way.back, [*range(first), *(first + i for i in (*starts, *fixed))])

        def step(*given: Tensor) -> tuple[Tensor, ...]:
            now, moving, rest, along = split(given, count, len(starts), way.shared)
            outputs, moved = dual(*now, *rest, *moving, *along)
            return (*outputs, *moved)

        def back(*given: Tensor) -> tuple[Tensor, ...]:
            of_starts, of_sums = len(starts), len(summed)
            parts = split(given, of_starts, of_starts, of_sums, of_sums, count, of_starts, way.shared)
            more, before, more_sums, sums, now, moving, rest, along = parts
            outputs, moved = dual_back(*before, *sums, *now, *rest, *more, *more_sums, *moving, *along)
            return (*moved[:of_starts], *outputs[:of_starts], *moved[of_starts:], *outputs[of_starts:])

        wide = [*carried, *(or_zeros(changes[i], specs[i]) for i in starts)]
        shared = [*extra, *(or_zeros(slopes[i - count], specs[i]) for i in fixed)]
        moving = [or_zeros(change, spec) for change, spec in zip(found, specs_of(grads), strict=True)]
        given = [*moving[: len(starts)], *grads[: len(starts)], *moving[len(starts) :], *grads[len(starts) :]]
        inputs = [*starts, *range(count, len(wide))]
        inputs += [i + len(starts) for i in summed]
        inputs += [len(wide) + way.shared + fixed.index(i) for i in summed]
        made = [*specs_of(wide), *specs_of(shared)]
        bodies = body_of(step, made), body_of(back, [*specs_of(given), *made])
        results = run_while_backward(wide, shared, steps, given, *bodies, inputs)
        after = 2 * len(starts)
        return (*results[: len(starts)], *results[after : after + len(summed)])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], way: WayBack, *tensors: Tensor) -> tuple[Any, Any]:
        """As many steps as the longest element of the batch takes; each carries its number."""
        size, count, shared = info.batch_size, way.carried, way.shared
        parts = way.split(list(zip(tensors, in_dims[1:], strict=True)))
        carried, grads = ([with_batch(t, dim, size) for t, dim in part] for part in (parts[0], parts[3]))
        # a tensor that all elements share has a gradient for each: to have derivatives, it is one for each, too
        each = {i - count for i in way.inputs} if is_recorded(tensors) else set()
        extra = [
            with_batch(t, dim, size) if i in each else moved(t, dim, 0) for i, (t, dim) in enumerate(parts[1])
        ]
        flags = [dim is not None or i in each for i, (_, dim) in enumerate(parts[1])]
        steps = with_batch(parts[2][0][0], parts[2][0][1], size)
        body = batched_body(way.body, size, [True] * count + flags)
        back = batched_body(way.back, size, [True] * (len(grads) + count) + flags)

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
        inputs = [i if i < count else i + 1 for i in way.inputs]
        results = run_while_backward([*carried, first], [*extra, steps], longest, grads, *made, inputs)
        return tuple(results), (0,) * len(results)

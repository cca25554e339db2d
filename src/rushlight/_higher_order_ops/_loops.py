"""`scan` over a body: its derivatives and its batching rule, each of which is again a scan.

Reverse mode runs the backward half of the body from the last step to the first. What that needs of each step,
chosen as for a whole program by a minimum cut, the forward loop gives as further outputs. Where those are
differentiated in turn, for a second derivative, the steps are computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..autograd.function import Function
from ..capture.control_flow import SCAN
from ..capture.subgraph import backward_body, cut, run_body
from ..core.dispatch import call
from ..core.shapes import Spec
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
    slice_specs,
    specs_of,
    split,
    with_batch,
    zeros,
)


def run_scan(
    init: Tensors, xs: Tensors, extra: Tensors, body: Subgraph, length: int, reverse: bool
) -> list[Tensor]:
    """The last carry and the stacked outputs of a loop over `body`."""
    tensors = (*init, *xs, *extra)
    outputs = len(body.graph.outputs)
    halves = None
    if is_recorded(tensors):
        specs = body.input_specs()
        wanted = {i for i, tensor in enumerate(tensors) if tensor.requires_grad}
        body = differentiated(body, wanted | set(floating(specs[: len(init)])))
        if body.joint is not None and body.joint.outputs:
            halves = cut(body, range(len(init), len(specs)))
    loop = Loop(body, halves, len(init), len(xs), length, reverse)
    return list(Scan.apply(loop, *tensors))[:outputs]


SCAN.apply = run_scan


class Loop:
    """A scan without its tensors."""

    def __init__(
        self, body: Subgraph, halves: BodyHalves | None, carried: int, sliced: int, length: int, reverse: bool
    ) -> None:
        self.body, self.halves = body, halves
        self.carried, self.sliced, self.length, self.reverse = carried, sliced, length, reverse

    @property
    def running(self) -> Subgraph:
        """The body that runs, with what is saved among its outputs."""
        return self.body if self.halves is None else self.halves.forward

    def split(self, tensors: Sequence[Any]) -> list[list[Any]]:
        return split(tensors, self.carried, self.sliced)


class Scan(Function):
    """A loop as one node of the tape."""

    is_control_flow = True

    @staticmethod
    def forward(loop: Loop, *tensors: Tensor) -> tuple[Tensor, ...]:
        init, xs, extra = loop.split(tensors)
        return tuple(
            call(SCAN, (tuple(init), tuple(xs), tuple(extra), loop.running, loop.length, loop.reverse))
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        loop, *tensors = inputs
        ctx.loop, ctx.count = loop, len(tensors)
        ctx.set_materialize_grads(False)
        saved = output[len(loop.body.graph.outputs) :]
        ctx.save_for_backward(*tensors, *saved)
        ctx.save_for_forward(*tensors)
        joint = loop.body.joint
        if joint is not None:
            shown = range(len(loop.body.graph.outputs))
            ctx.mark_non_differentiable(*[output[i] for i in shown if i not in joint.outputs])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        loop: Loop = ctx.loop
        tensors, saved = split(ctx.saved_tensors, ctx.count)
        shown = len(loop.body.graph.outputs)
        if any(grad is not None for grad in grads[shown:]) or loop.halves is None:
            found = _backward_again(loop, tensors, grads)
        else:
            found = _backward(loop, tensors, saved, grads[:shown])
        return (None, *[found.get(i) if ctx.needs_input_grad[1 + i] else None for i in range(ctx.count)])

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        return _forward_mode(ctx.loop, ctx.saved_for_forward, tangents[1:])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], loop: Loop, *tensors: Tensor) -> tuple[Any, Any]:
        return _batched(info.batch_size, loop, tensors, in_dims[1:])


# Reverse mode.


def _backward(
    loop: Loop, tensors: Tensors, saved: Tensors, grads: Sequence[Tensor | None]
) -> dict[int, Tensor]:
    """The gradients of the inputs, by their numbers, from what the forward loop has saved."""
    halves = loop.halves
    assert halves is not None
    places = [number for number in halves.kept if number < loop.carried + loop.sliced]
    kept = [tensors[i] for i in places]  # slices of these; the others are the same in every step
    fixed = [number for number in halves.kept if number >= loop.carried + loop.sliced]

    def inputs(slices: Tensors, shared: Tensors) -> list[Tensor]:
        sliced, steps = split(slices, len(places))
        by_number = {**dict(zip(places, sliced, strict=True)), **dict(zip(fixed, shared, strict=True))}
        return [*(by_number[number] for number in halves.kept), *steps]

    return _loop_back(loop, halves.backward, grads, [*kept, *saved], [tensors[i] for i in fixed], inputs)


def _backward_again(loop: Loop, tensors: Tensors, grads: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """As `_backward`, for all outputs of the body that ran, and with every step computed again."""
    running = loop.running
    specs = running.input_specs()
    running = differentiated(running, floating(specs))
    if running.joint is None:
        return {}
    count = loop.carried
    keeping = body_of(
        lambda *given: (*run_body(loop.body, given)[:count], *[t.clone() for t in given[:count]]), specs
    )
    init, xs, extra = loop.split(tensors)
    carries = run_scan(init, xs, extra, keeping, loop.length, loop.reverse)[count:]
    again = Loop(running, None, loop.carried, loop.sliced, loop.length, loop.reverse)

    def inputs(slices: Tensors, shared: Tensors) -> list[Tensor]:
        return [*slices, *shared]

    return _loop_back(again, backward_body(running), grads, [*carries, *xs], extra, inputs)


def _loop_back(
    loop: Loop,
    backward: Subgraph,
    grads: Sequence[Tensor | None],
    stacked: Tensors,
    shared: Tensors,
    inputs: Any,
) -> dict[int, Tensor]:
    """Run the backward half of a body from the last step to the first.

    `inputs(slices, shared)` puts slices of `stacked`, and `shared`, in the order of its inputs, which come
    before the tangents. Carried are the gradients of what the loop carries, and sums for what is the same in
    every step.
    """
    joint = loop.body.joint
    assert joint is not None
    specs, outputs = loop.body.input_specs(), loop.body.output_specs()
    carried = [i for i in floating(specs) if i < loop.carried]
    first = loop.carried + loop.sliced
    summed = [i for i in joint.inputs if i >= first]
    sliced = [i for i in joint.inputs if loop.carried <= i < first]
    late = [i for i in joint.outputs if i >= loop.carried]
    init = [or_zeros(grads[i], outputs[i]) for i in carried]
    init += [zeros(specs[i]) for i in summed]
    tangents = [
        or_zeros(grads[i], Spec((loop.length, *outputs[i].known_shape()), outputs[i].dtype)) for i in late
    ]
    count = len(stacked)

    def body(*given: Tensor) -> tuple[Tensor, ...]:
        before, sums, slices, steps, fixed = split(given, len(carried), len(summed), count, len(late))
        arriving = {**dict(zip(carried, before, strict=True)), **dict(zip(late, steps, strict=True))}
        found = run_body(backward, [*inputs(slices, fixed), *(arriving[i] for i in joint.outputs)])
        by_input = dict(zip(joint.inputs, found, strict=True))
        leaving = [by_input[i] if i in by_input else zeros(specs[i]) for i in carried]
        totals = [total + by_input[i] for total, i in zip(sums, summed, strict=True)]
        return (*leaving, *totals, *(by_input[i] for i in sliced))

    xs = [*stacked, *tangents]
    made = body_of(body, [*specs_of(init), *slice_specs(xs), *specs_of(shared)])
    results = run_scan(init, xs, shared, made, loop.length, not loop.reverse)
    some = reached(joint, grads, loop.carried)
    return {i: grad for i, grad in zip((*carried, *summed, *sliced), results, strict=True) if i in some}


# Forward mode.


def _forward_mode(loop: Loop, tensors: Tensors, tangents: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """The tangents of all outputs: a loop that carries the tangents, too."""
    running = loop.running
    specs, outputs = running.input_specs(), running.output_specs()
    moving = [i for i in floating(specs) if i < loop.carried or tangents[i] is not None]
    starts = [i for i in moving if i < loop.carried]
    steps = [i for i in moving if loop.carried <= i < loop.carried + loop.sliced]
    fixed = [i for i in moving if i >= loop.carried + loop.sliced]
    changing = floating(outputs)
    last = [i for i in changing if i < loop.carried]
    dual = dual_body(running, [*starts, *steps, *fixed])

    def body(*given: Tensor) -> tuple[Tensor, ...]:
        parts = split(
            given, loop.carried, len(starts), loop.sliced, len(steps), len(specs) - loop.carried - loop.sliced
        )
        carry, changes, xs, slopes, extra, rest = parts
        values, found = dual(*carry, *xs, *extra, *changes, *slopes, *rest)
        by_output = dict(zip(changing, found, strict=True))
        return (
            *values[: loop.carried],
            *(by_output[i] for i in last),
            *(by_output[i] for i in changing if i >= loop.carried),
        )

    init, xs, extra = loop.split(tensors)
    init += [or_zeros(tangents[i], specs[i]) for i in starts]
    xs += [tangents[i] for i in steps]
    extra += [tangents[i] for i in fixed]
    made = body_of(body, [*specs_of(init), *slice_specs(xs), *specs_of(extra)])
    results = run_scan(init, xs, extra, made, loop.length, loop.reverse)[loop.carried :]
    order = [*last, *(i for i in changing if i >= loop.carried)]
    by_output = dict(zip(order, results, strict=True))
    return tuple(by_output.get(i) for i in range(len(outputs)))


# vmap.


def _batched(size: int, loop: Loop, tensors: Tensors, dims: Sequence[Any]) -> tuple[Any, Any]:
    """The loop over a batch; what it carries differs along the batch, from the first step on."""
    batched = [i < loop.carried or dim is not None for i, dim in enumerate(dims)]
    body = batched_body(loop.running, size, batched)
    init, xs, extra = loop.split(list(zip(tensors, dims, strict=True)))
    results = run_scan(
        [with_batch(tensor, dim, size) for tensor, dim in init],
        [moved(tensor, dim, 1) for tensor, dim in xs],
        [moved(tensor, dim, 0) for tensor, dim in extra],
        body,
        loop.length,
        loop.reverse,
    )
    count = loop.carried
    mapped = any(batched)
    return tuple(results), tuple((0 if i < count else 1) if mapped else None for i in range(len(results)))

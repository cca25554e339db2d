"""Cells from gates that are computed already, and their backward operators.

The workspace of an LSTM cell is its four gates; that of a GRU cell its three, the old state, and the hidden
share of the new gate. PyTorch runs these operators on accelerators only; here layers of LSTM cells do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..core.dispatch import run_name
from ..core.registry import INTERNAL, composite
from ..core.tensor import Tensor
from .recurrent import Parameters, State, gru_step, linear, lstm_step

_GATES = "Tensor input_gates, Tensor hidden_gates"
_BIASES = "Tensor? input_bias=None, Tensor? hidden_bias=None"
FIVE = "(Tensor, Tensor, Tensor, Tensor, Tensor)"


def biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def cat(*parts: Tensor) -> Tensor:
    return run_name("cat", parts, 1)


def of_sigmoid(grad: Tensor, s: Tensor) -> Tensor:
    return grad * s * (1 - s)


def of_tanh(grad: Tensor, t: Tensor) -> Tensor:
    return grad * (1 - t * t)


def with_biases(gates: State, state: Tensor, has_bias: bool) -> tuple[Any, ...]:
    """The gradients of a cell: of both shares of the gates, of the state, and of both biases."""
    biases = tuple(g.sum(0) for g in gates) if has_bias else (None, None)
    return (*gates, state, *biases)


# LSTM.


@composite(f"_thnn_fused_lstm_cell({_GATES}, Tensor cx, {_BIASES}) -> (Tensor, Tensor, Tensor)", api=INTERNAL)
def fused_lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
) -> State:
    gates = biased(input_gates, input_bias) + biased(hidden_gates, hidden_bias)
    hy, cy, parts = lstm_step(gates, cx)
    return hy, cy, cat(*parts)


def lstm_gradients(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, parts: State
) -> State:
    """The gradients of the gates and of the old cell."""
    i, f, g, o = parts
    out = cy.tanh()
    to_cell = cy.new_zeros(cy.shape) if grad_cy is None else grad_cy
    to_out = o.new_zeros(o.shape)
    if grad_hy is not None:
        to_cell = to_cell + of_tanh(grad_hy * o, out)
        to_out = of_sigmoid(grad_hy * out, o)
    gates = cat(of_sigmoid(to_cell * g, i), of_sigmoid(to_cell * cx, f), of_tanh(to_cell * i, g), to_out)
    return gates, to_cell * f


@composite(
    "_thnn_fused_lstm_cell_backward_impl(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, "
    "Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def fused_lstm_cell_backward_impl(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Any, ...]:
    gates, to_cell = lstm_gradients(grad_hy, grad_cy, cx, cy, tuple(workspace.chunk(4, 1)))
    return gates, to_cell, gates.sum(0) if has_bias else None


@composite(
    "_thnn_fused_lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor "
    f"workspace, bool has_bias) -> {FIVE}",
    api=INTERNAL,
)
def fused_lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Any, ...]:
    gates, to_cell = lstm_gradients(grad_hy, grad_cy, cx, cy, tuple(workspace.chunk(4, 1)))
    return with_biases((gates, gates), to_cell, has_bias)


@composite(
    "_thnn_differentiable_lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor input_gates, "
    "Tensor hidden_gates, Tensor? input_bias, Tensor? hidden_bias, Tensor cx, Tensor cy) -> "
    f"{FIVE}",
    api=INTERNAL,
)
def lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    input_gates: Tensor,
    hidden_gates: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
    cx: Tensor,
    cy: Tensor,
) -> tuple[Any, ...]:
    parts = lstm_step(biased(input_gates, input_bias) + biased(hidden_gates, hidden_bias), cx)[2]
    gates, to_cell = lstm_gradients(grad_hy, grad_cy, cx, cy, parts)
    return with_biases((gates, gates), to_cell, input_bias is not None)


# A layer of LSTM cells. What its way back needs of the forward steps, their gates, cells and outputs, is one flat
# tensor.

Step = Callable[[State, State], tuple[State, State]]
Loop = Callable[[Step, State, State, bool], tuple[State, State]]


def step_by_step(step: Step, start: State, slices: State, reverse: bool) -> tuple[State, State]:
    """`state, outputs = step(state, parts)` for the parts of each step along the first dimension of `slices`: the
    last state, and all outputs, stacked."""
    parts = list(zip(*[x.unbind(0) for x in slices], strict=True))
    state, made = start, []
    for given in reversed(parts) if reverse else parts:
        state, outputs = step(state, given)
        made.append(outputs)
    columns = zip(*(reversed(made) if reverse else made), strict=True)
    return state, tuple([run_name("stack", column, 0) for column in columns])


class _Loops(threading.local):
    """How steps run: here one after the other. A capture may record them as a loop of the program."""

    run: Loop = staticmethod(step_by_step)


LOOPS = _Loops()


@contextmanager
def loops_by(run: Loop) -> Iterator[None]:
    """Let `run` run the steps of layers of this thread."""
    before, LOOPS.run = LOOPS.run, run
    try:
        yield
    finally:
        LOOPS.run = before


def run_lstm_layer(
    x: Tensor, start: State, p: Parameters, reverse: bool, kept: bool
) -> tuple[Tensor, State, Tensor]:
    """The outputs, the last state and, if it is to be kept, the workspace (else one without elements)."""

    def step(state: State, given: State) -> tuple[State, State]:
        of_hidden = linear(state[0], p.w_hh, p.b_hh)
        h, c, parts = run_name("_thnn_fused_lstm_cell", given[0], of_hidden, state[1], None, None)
        return (h, c), ((h, c, parts) if kept else (h,))

    last, made = LOOPS.run(step, start, (linear(x, p.w_ih, p.b_ih),), reverse)
    output = made[0]
    if not kept:
        return output, last, x.new_empty((0,))
    flat = tuple([t.reshape(-1) for t in (made[2], made[1], output)])
    return output, last, run_name("cat", flat, 0)


def back_through_lstm_layer(
    x: Tensor, workspace: Tensor, start: State, p: Parameters, reverse: bool, grads: tuple[Tensor, ...]
) -> tuple[Tensor, State, list[Tensor]]:
    """Gradients of the input, the first state and the parameters, by those of the outputs and the last state."""
    length, rows, width = grads[0].shape
    count = length * rows * width
    works = workspace[: 4 * count].view(length, rows, 4 * width)
    cells = workspace[4 * count : 5 * count].view(length, rows, width)
    output = workspace[5 * count :].view(length, rows, width)

    def before(first: Tensor, steps: Tensor) -> Tensor:
        """What each step began with."""
        lead = first.unsqueeze(0)
        return run_name("cat", (steps[1:], lead) if reverse else (lead, steps[:-1]), 0)

    def step(state: State, given: State) -> tuple[State, State]:
        to_hidden, to_cell = state
        of_output, cx, cy, work = given
        gates, to_cell, _ = run_name(
            "_thnn_fused_lstm_cell_backward_impl", to_hidden + of_output, to_cell, cx, cy, work, False
        )
        return (gates @ p.w_hh, to_cell), (gates,)

    slices = (grads[0], before(start[1], cells), cells, works)
    of_start, (gates,) = LOOPS.run(step, grads[1:], slices, not reverse)
    flat = gates.flatten(0, 1)
    of_w_hh = flat.mT @ before(start[0], output).flatten(0, 1)
    biases = [] if p.b_ih is None else [flat.sum(0)] * 2
    return gates @ p.w_ih, of_start, [flat.mT @ x.flatten(0, 1), of_w_hh, *biases]


# GRU.


@composite(f"_thnn_fused_gru_cell({_GATES}, Tensor hx, {_BIASES}) -> (Tensor, Tensor)", api=INTERNAL)
def fused_gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
) -> State:
    hy, (r, z, n, h_new) = gru_step(biased(input_gates, input_bias), biased(hidden_gates, hidden_bias), hx)
    return hy, cat(r, z, n, hx, h_new)


def gru_gradients(grad_hy: Tensor, hx: Tensor, parts: State) -> tuple[State, Tensor]:
    """The gradients of both shares of the gates, and of the old state."""
    r, z, n, h_new = parts
    to_new = of_tanh(grad_hy * (1 - z), n)
    to_reset, to_update = of_sigmoid(to_new * h_new, r), of_sigmoid(grad_hy * (hx - n), z)
    return (cat(to_reset, to_update, to_new), cat(to_reset, to_update, to_new * r)), grad_hy * z


@composite(
    f"_thnn_fused_gru_cell_backward(Tensor grad_hy, Tensor workspace, bool has_bias) -> {FIVE}", api=INTERNAL
)
def fused_gru_cell_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Any, ...]:
    r, z, n, hx, h_new = workspace.chunk(5, 1)
    gates, to_state = gru_gradients(grad_hy, hx, (r, z, n, h_new))
    return with_biases(gates, to_state, has_bias)


@composite(
    "_thnn_differentiable_gru_cell_backward(Tensor grad_hy, Tensor input_gates, Tensor hidden_gates, "
    f"Tensor hx, Tensor? input_bias, Tensor? hidden_bias) -> {FIVE}",
    api=INTERNAL,
)
def gru_cell_backward(
    grad_hy: Tensor,
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None,
    hidden_bias: Tensor | None,
) -> tuple[Any, ...]:
    parts = gru_step(biased(input_gates, input_bias), biased(hidden_gates, hidden_bias), hx)[1]
    gates, to_state = gru_gradients(grad_hy, hx, parts)
    return with_biases(gates, to_state, input_bias is not None)

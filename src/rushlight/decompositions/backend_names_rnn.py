"""Recurrent networks that PyTorch names after a library: the loop of `recurrent`, and its way back.

The backward operators of those libraries read what the forward pass left in a workspace. Here the workspace
is empty, but for a layer of LSTM cells: states are computed again, and the gradients run through the steps in the
opposite order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.tensor import Tensor
from .recurrent import (
    Cell,
    Network,
    Options,
    Parameters,
    State,
    by_layer,
    gru_of,
    gru_step,
    input_gates,
    joined,
    linear,
    lstm_of,
    lstm_step,
    over_layers,
    relu_of,
    rows_of,
    run_layers,
    run_steps,
    steps_of,
    tanh_of,
    together,
)
from .recurrent_fused import back_through_lstm_layer, gru_gradients, lstm_gradients, run_lstm_layer

# Gradients of the new state, the input's share of the gates, the old state and the parameters -> gradients of
# both shares of the gates, of the old state apart from the hidden share, and of the projection.
CellBackward = Callable[[State, Tensor, State, Parameters], tuple[Tensor, Tensor, State, Tensor | None]]


def lstm_back(
    grads: State, gates: Tensor, state: State, p: Parameters
) -> tuple[Tensor, Tensor, State, Tensor | None]:
    out, cy, parts = lstm_step(gates + linear(state[0], p.w_hh, p.b_hh), state[1])
    to_out, to_projection = grads[0], None
    if p.w_hr is not None:
        to_out, to_projection = grads[0] @ p.w_hr, grads[0].mT @ out
    to_gates, to_cell = lstm_gradients(to_out, grads[1], state[1], cy, parts)
    return to_gates, to_gates, (state[0].new_zeros(state[0].shape), to_cell), to_projection


def gru_back(
    grads: State, gates: Tensor, state: State, p: Parameters
) -> tuple[Tensor, Tensor, State, Tensor | None]:
    parts = gru_step(gates, linear(state[0], p.w_hh, p.b_hh), state[0])[1]
    (of_input, of_hidden), to_state = gru_gradients(grads[0], state[0], parts)
    return of_input, of_hidden, (to_state,), None


def tanh_back(
    grads: State, gates: Tensor, state: State, p: Parameters
) -> tuple[Tensor, Tensor, State, Tensor | None]:
    out = tanh_of(gates, state, p)[0]
    to_gates = grads[0] * (1 - out * out)
    return to_gates, to_gates, (state[0].new_zeros(state[0].shape),), None


def relu_back(
    grads: State, gates: Tensor, state: State, p: Parameters
) -> tuple[Tensor, Tensor, State, Tensor | None]:
    to_gates = run_name("threshold_backward", grads[0], relu_of(gates, state, p)[0], 0)
    return to_gates, to_gates, (state[0].new_zeros(state[0].shape),), None


# By the number that the libraries give to each kind of network.
CELLS: tuple[tuple[Cell, CellBackward], ...] = (
    (relu_of, relu_back),
    (tanh_of, tanh_back),
    (lstm_of, lstm_back),
    (gru_of, gru_back),
)
LSTM = 2


def states_before(
    cell: Cell,
    gates: Sequence[Tensor],
    sizes: Sequence[int],
    start: State,
    p: Parameters,
    order: Sequence[int],
) -> dict[int, State]:
    """The state that each step begins with."""
    before: dict[int, State] = {}
    state, rows = rows_of(start, 0, sizes[order[0]]), sizes[order[0]]
    for t in order:
        state = rows_of(state, 0, min(rows, sizes[t]))
        if sizes[t] > rows:
            state = joined([state, rows_of(start, rows, sizes[t])])
        rows, before[t] = sizes[t], state
        state = cell(gates[t], state, p)
    return before


def back_through_steps(
    mode: int,
    gates: Sequence[Tensor],
    sizes: Sequence[int],
    start: State,
    p: Parameters,
    reverse: bool,
    grad_outputs: Sequence[Tensor],
    grad_last: State,
) -> tuple[list[Tensor], State, list[Tensor]]:
    """Gradients of every step's share of the input, of the first state, and of w_hh, b_hh and w_hr."""
    cell, back = CELLS[mode]
    steps = range(len(gates))
    order = list(reversed(steps)) if reverse else list(steps)
    before = states_before(cell, gates, sizes, start, p, order)
    to_gates: dict[int, Tensor] = {}
    begun: list[State] = []
    sums: list[Tensor] = []
    rows = sizes[order[-1]]
    carried = rows_of(grad_last, 0, rows)
    for t in reversed(order):
        if sizes[t] < rows:  # the rest of the rows began at the step just seen
            begun.append(rows_of(carried, sizes[t], rows))
            carried = rows_of(carried, 0, sizes[t])
        elif sizes[t] > rows:  # the rest of the rows ended here
            carried = joined([carried, rows_of(grad_last, rows, sizes[t])])
        rows = sizes[t]
        grads = (carried[0] + grad_outputs[t], *carried[1:])
        to_gates[t], of_hidden, old, of_projection = back(grads, gates[t], before[t], p)
        carried = (old[0] + of_hidden @ p.w_hh, *old[1:])
        parts = [of_hidden.mT @ before[t][0]]
        parts += [] if p.b_hh is None else [of_hidden.sum(0)]
        parts += [] if of_projection is None else [of_projection]
        sums = parts if not sums else [total + part for total, part in zip(sums, parts, strict=True)]
    return [to_gates[t] for t in steps], joined([carried, *reversed(begun)]), sums


def back_through_layer(
    mode: int,
    x: Tensor,
    sizes: Sequence[int] | None,
    start: State,
    p: Parameters,
    reverse: bool,
    grad_output: Tensor,
    grad_last: State,
) -> tuple[Tensor, State, list[Tensor]]:
    """Gradients of the input of one layer in one direction, of its first state and of its parameters."""
    gates, rows = input_gates(x, sizes, p)
    found, of_start, sums = back_through_steps(
        mode, gates, rows, start, p, reverse, steps_of(grad_output, sizes), grad_last
    )
    of_gates = together(found, sizes)
    flat, data = of_gates.flatten(0, -2), x.flatten(0, -2)
    biases = [] if p.b_ih is None else [flat.sum(0)]
    return of_gates @ p.w_ih, of_start, [flat.mT @ data, sums[0], *biases, *sums[1:]]


def back_through_layers(
    mode: int,
    x: Tensor,
    sizes: Sequence[int] | None,
    hidden: Sequence[Tensor],
    options: Options,
    grad_output: Tensor,
    grad_last: Sequence[Tensor],
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Gradients of the input, steps first, of the first states and of all parameters."""
    network, ends = Network(hidden, options), by_layer(grad_last)
    inputs = [x]
    for layer in range(options.num_layers - 1):
        inputs.append(network.run(CELLS[mode][0], layer, inputs[-1], sizes)[0])
    of_states: dict[int, State] = {}
    of_params: dict[int, list[Tensor]] = {}
    for layer in reversed(range(options.num_layers)):
        shares = []
        for way, grad in enumerate(grad_output.chunk(network.directions, -1)):
            at = layer * network.directions + way
            start, p = network.starts[at], network.parameters[at]
            share, of_states[at], of_params[at] = back_through_layer(
                mode, inputs[layer], sizes, start, p, way == 1, grad, ends[at]
            )
            shares.append(share)
        grad_output = shares[0] if len(shares) == 1 else shares[0] + shares[1]
    numbers = range(len(network.parameters))
    states = over_layers([of_states[at] for at in numbers])
    return grad_output, states, [t for at in numbers for t in of_params[at]]


# The operators.


def nothing(like: Tensor) -> Tensor:
    return like.new_empty((0,))


def run_network(
    mode: int,
    input: Tensor,
    hidden: Sequence[Tensor],
    options: Options,
    batch_first: bool,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, ...]:
    if batch_sizes:
        return run_layers(CELLS[mode][0], input, list(batch_sizes), hidden, options)
    x = input.transpose(0, 1) if batch_first else input
    output, *last = run_layers(CELLS[mode][0], x, None, hidden, options)
    return (output.transpose(0, 1) if batch_first else output), *last


def back_through_network(
    mode: int,
    input: Tensor,
    hidden: Sequence[Tensor],
    options: Options,
    batch_first: bool,
    batch_sizes: Sequence[int],
    grad_output: Tensor | None,
    grad_last: Sequence[Tensor | None],
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    check(
        not (options.train and options.dropout > 0.0 and options.num_layers > 1),
        "the backward of a recurrent network does not know "
        "which values dropout kept between the layers; differentiate the forward pass instead",
    )
    swapped = batch_first and not batch_sizes
    x = input.transpose(0, 1) if swapped else input
    ends = [h.new_zeros(h.shape) if g is None else g for g, h in zip(grad_last, hidden, strict=True)]
    if grad_output is None:
        width = hidden[0].shape[2] * (2 if options.bidirectional else 1)
        grad_output = x.new_zeros((*x.shape[:-1], width))
    elif swapped:
        grad_output = grad_output.transpose(0, 1)
    to_input, states, of_params = back_through_layers(
        mode, x, list(batch_sizes) or None, hidden, options, grad_output, ends
    )
    return (to_input.transpose(0, 1) if swapped else to_input), states, of_params


def states_of(hx: Any, cx: Any, mode: int) -> tuple[Any, ...]:
    return (hx, cx) if mode == LSTM else (hx,)


def declare(name: str, buffer: str, sizes: str, projected: str, number: str) -> None:
    rest = (
        f"int mode, {number} hidden_size{projected}, int num_layers, bool batch_first, float dropout, bool "
        f"train, bool bidirectional, {sizes} batch_sizes, Tensor? dropout_state"
    )
    declare_network(name, buffer, rest)
    declare_backward(name, rest)


def declare_network(name: str, buffer: str, rest: str) -> None:
    @composite(
        f"{name}(Tensor input, Tensor[] weight, int weight_stride0{buffer}, Tensor hx, Tensor? cx, {rest}) "
        "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
        api=FUNCTION,
    )
    def network(
        input: Tensor,
        weight: Sequence[Tensor],
        weight_stride0: int,
        hx: Tensor,
        cx: Tensor | None,
        mode: int,
        num_layers: int,
        batch_first: bool,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_sizes: Sequence[int],
    ) -> tuple[Tensor, ...]:
        options = Options(weight, weight_stride0 >= 4, num_layers, dropout, train, bidirectional)
        states = states_of(hx, cx, mode)
        output, hy, *cy = run_network(mode, input, states, options, batch_first, batch_sizes)
        return output, hy, *(cy or [nothing(hx)]), nothing(hx), nothing(hx)


def declare_backward(name: str, rest: str) -> None:
    @composite(
        f"{name}_backward(Tensor input, Tensor[] weight, int weight_stride0, Tensor weight_buf, Tensor hx, "
        "Tensor? cx, Tensor output, Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, "
        f"{rest}, Tensor reserve, bool[4] output_mask) -> (Tensor, Tensor, Tensor, Tensor[])",
        api=INTERNAL,
    )
    def network_backward(
        input: Tensor,
        weight: Sequence[Tensor],
        weight_stride0: int,
        hx: Tensor,
        cx: Tensor | None,
        grad_output: Tensor | None,
        grad_hy: Tensor | None,
        grad_cy: Tensor | None,
        mode: int,
        num_layers: int,
        batch_first: bool,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_sizes: Sequence[int],
    ) -> tuple[Any, ...]:
        to_input, states, of_params = back_through_network(
            mode,
            input,
            states_of(hx, cx, mode),
            Options(weight, weight_stride0 >= 4, num_layers, dropout, train, bidirectional),
            batch_first,
            batch_sizes,
            grad_output,
            states_of(grad_hy, grad_cy, mode),
        )
        return to_input, states[0], states[1] if len(states) > 1 else nothing(hx), of_params


declare("_cudnn_rnn", ", Tensor? weight_buf", "SymInt[]", ", SymInt proj_size", "SymInt")
declare("miopen_rnn", "", "int[]", "", "int")

_MPS = (
    "Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool "
    "bidirectional, bool batch_first"
)


@composite(
    f"_lstm_mps(Tensor input, {_MPS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)", api=INTERNAL
)
def lstm_mps(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    options = Options(params, has_biases, num_layers, dropout, train, bidirectional)
    return (*run_network(2, input, hx, options, batch_first, ()), *[nothing(input) for _ in range(3)])


@composite(
    "lstm_mps_backward(Tensor? grad_y, Tensor? grad_hy, Tensor? grad_cy, Tensor z_state, Tensor "
    f"cell_state_fwd, Tensor input, Tensor layersOutputs, {_MPS}) -> (Tensor, Tensor[], Tensor[])",
    api=INTERNAL,
)
def lstm_mps_backward(
    grad_y: Tensor | None,
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Any, ...]:
    options = Options(params, has_biases, num_layers, dropout, train, bidirectional)
    return back_through_network(2, input, hx, options, batch_first, (), grad_y, (grad_hy, grad_cy))


# One layer in one direction, whose states have no dimension of layers.


@composite(
    "mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor "
    "hx_, Tensor cx_, bool reverse, int[] batch_sizes, int mode, int hidden_size, int num_layers, bool "
    "has_biases, bool bidirectional, bool batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def mkldnn_rnn_layer(
    input: Tensor,
    weight0: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    weight3: Tensor,
    hx_: Tensor,
    cx_: Tensor,
    reverse: bool,
    mode: int,
    has_biases: bool,
    train: bool,
) -> tuple[Tensor, ...]:
    p = Parameters((weight0, weight1, weight2, weight3), has_biases, False)
    start = tuple(t.reshape(t.shape[-2:]) for t in states_of(hx_, cx_, mode))
    if mode == LSTM:
        output, last, workspace = run_lstm_layer(input, start, p, reverse, train)
    else:
        gates, rows = input_gates(input, None, p)
        outputs, last = run_steps(CELLS[mode][0], gates, rows, start, p, reverse)
        output, workspace = together(outputs, None), nothing(input)
    hy, *cy = [t.reshape(hx_.shape) for t in last]
    return output, hy, *(cy or [cx_.new_zeros(cx_.shape)]), workspace


@composite(
    "mkldnn_rnn_layer_backward(Tensor input, Tensor weight1, Tensor weight2, Tensor weight3, Tensor "
    "weight4, Tensor hx_, Tensor cx_tmp, Tensor output, Tensor hy_, Tensor cy_, Tensor? grad_output, "
    "Tensor? grad_hy, Tensor? grad_cy, bool reverse, int mode, int hidden_size, int num_layers, bool "
    "has_biases, bool train, bool bidirectional, int[] batch_sizes, bool batch_first, Tensor workspace) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def mkldnn_rnn_layer_backward(
    input: Tensor,
    weight1: Tensor,
    weight2: Tensor,
    weight3: Tensor,
    weight4: Tensor,
    hx_: Tensor,
    cx_tmp: Tensor,
    grad_output: Tensor | None,
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    reverse: bool,
    mode: int,
    has_biases: bool,
    workspace: Tensor,
) -> tuple[Tensor, ...]:
    p = Parameters((weight1, weight2, weight3, weight4), has_biases, False)
    start = tuple(t.reshape(t.shape[-2:]) for t in states_of(hx_, cx_tmp, mode))
    ends = tuple(
        t.new_zeros(t.shape) if g is None else g.reshape(t.shape)
        for g, t in zip(states_of(grad_hy, grad_cy, mode), start, strict=True)
    )
    shape = (*input.shape[:-1], hx_.shape[-1])
    of_output = input.new_zeros(shape) if grad_output is None else grad_output
    if mode == LSTM and workspace.numel():
        of_input, of_start, of_params = back_through_lstm_layer(
            input, workspace, start, p, reverse, (of_output, *ends)
        )
    else:
        of_input, of_start, of_params = back_through_layer(
            mode, input, None, start, p, reverse, of_output, ends
        )
    of_w_ih, of_w_hh, *biases = of_params
    of_hidden = of_start[0].reshape(hx_.shape)
    of_cell = of_start[1].reshape(cx_tmp.shape) if mode == LSTM else cx_tmp.new_zeros(cx_tmp.shape)
    of_biases = biases or [t.new_zeros(t.shape) for t in (weight3, weight4)]
    return of_input, of_w_ih, of_w_hh, *of_biases, of_hidden, of_cell

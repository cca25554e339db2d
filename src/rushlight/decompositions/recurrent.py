"""Recurrent networks: cells, and layers of them as a loop over the steps.

A cell takes the share of the input in its gates, the state (a tuple of tensors) and the parameters, and
returns the next state, whose first tensor is the output. A layer computes the input's share for all steps in
one product. Sequences of one length and packed ones are the same loop: of the latter, steps have fewer and
fewer rows, so that rows of the state retire on the way forward and join on the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.autocast import FLOAT32, NARROW, autocast_off, lowered
from ..core.dispatch import AMBIENT, run_name
from ..core.errors import check
from ..core.modes import MODES
from ..core.registry import FUNCTION, composite
from ..core.tensor import AUTOCAST, AUTOGRAD, Tensor

State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State, "Parameters"], State]


class Parameters:
    """The parameters of one layer in one direction."""

    __slots__ = ("b_hh", "b_ih", "w_hh", "w_hr", "w_ih")

    def __init__(self, tensors: Sequence[Tensor], has_biases: bool, projected: bool) -> None:
        self.w_ih, self.w_hh = tensors[:2]
        self.b_ih: Tensor | None = tensors[2] if has_biases else None
        self.b_hh: Tensor | None = tensors[3] if has_biases else None
        self.w_hr = tensors[-1] if projected else None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return run_name("linear", x, weight, bias)


# The cells.


def lstm_step(gates: Tensor, cx: Tensor) -> tuple[Tensor, Tensor, State]:
    """The output before its projection, the cell, and the gates in, forget, new and out."""
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, (i, f, g, o)


def gru_step(of_input: Tensor, of_hidden: Tensor, hx: Tensor) -> tuple[Tensor, State]:
    """The output, and the gates reset, update and new with the hidden share of the last."""
    ir, iz, i_new = of_input.chunk(3, 1)
    hr, hz, h_new = of_hidden.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (i_new + r * h_new).tanh()
    return n + z * (hx - n), (r, z, n, h_new)


def lstm_of(gates: Tensor, state: State, p: Parameters) -> State:
    hy, cy, _ = lstm_step(gates + linear(state[0], p.w_hh, p.b_hh), state[1])
    return (hy if p.w_hr is None else linear(hy, p.w_hr, None)), cy


def gru_of(gates: Tensor, state: State, p: Parameters) -> State:
    return (gru_step(gates, linear(state[0], p.w_hh, p.b_hh), state[0])[0],)


def tanh_of(gates: Tensor, state: State, p: Parameters) -> State:
    return ((gates + linear(state[0], p.w_hh, p.b_hh)).tanh(),)


def relu_of(gates: Tensor, state: State, p: Parameters) -> State:
    return ((gates + linear(state[0], p.w_hh, p.b_hh)).relu(),)


def cell_once(
    cell: Cell,
    input: Tensor,
    state: State,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> State:
    check(
        input.shape[-1] == w_ih.shape[1],
        f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[1]}",
    )
    for number, hidden in enumerate(state):
        check(
            hidden.shape[0] == input.shape[0],
            f"Input batch size {input.shape[0]} doesn't match hidden{number} batch size {hidden.shape[0]}",
        )
        check(
            hidden.shape[-1] == w_hh.shape[1],
            f"hidden{number} has inconsistent hidden_size: got {hidden.shape[-1]}, expected {w_hh.shape[1]}",
        )
    parameters = Parameters([w_ih, w_hh], False, False)
    parameters.b_hh = b_hh
    return cell(linear(input, w_ih, b_ih), state, parameters)


@composite(
    "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? "
    "b_hh=None) -> (Tensor, Tensor)",
    api=FUNCTION,
)
def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
) -> State:
    check(len(hx) == 2, f"lstm_cell expects two hidden states, got {len(hx)}")
    return cell_once(lstm_of, input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


def declare_cell(name: str, cell: Cell) -> None:
    @composite(
        f"{name}(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? "
        "b_hh=None) -> Tensor",
        api=FUNCTION,
    )
    def once(
        input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None
    ) -> Tensor:
        return cell_once(cell, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


# The loop.


def run_steps(
    cell: Cell,
    gates: Sequence[Tensor],
    sizes: Sequence[int],
    start: State,
    parameters: Parameters,
    reverse: bool,
) -> tuple[list[Tensor], State]:
    """The outputs of all steps in their order, and the last state of every row."""
    outputs, retired = [], []
    order = range(len(gates) - 1, -1, -1) if reverse else range(len(gates))
    rows = sizes[order[0]]
    state = rows_of(start, 0, rows)
    for t in order:
        if sizes[t] < rows:  # the shortest sequences are over
            retired.append(rows_of(state, sizes[t], rows))
            state = rows_of(state, 0, sizes[t])
        elif sizes[t] > rows:  # more sequences begin, seen from their ends
            state = joined([state, rows_of(start, rows, sizes[t])])
        rows = sizes[t]
        state = cell(gates[t], state, parameters)
        outputs.append(state[0])
    return outputs[::-1] if reverse else outputs, joined([state, *reversed(retired)])


def rows_of(state: State, first: int, end: int) -> State:
    if first == 0 and end == state[0].shape[0]:
        return state
    return tuple(t.narrow(0, first, end - first) for t in state)


def joined(states: Sequence[State]) -> State:
    if len(states) == 1:
        return states[0]
    return tuple(run_name("cat", parts, 0) for parts in zip(*states, strict=True))


def steps_of(t: Tensor, sizes: Sequence[int] | None) -> Sequence[Tensor]:
    """The steps of a tensor, steps first; or packed, of `sizes` rows for each step."""
    return t.unbind(0) if sizes is None else run_name("split_with_sizes", t, tuple(sizes), 0)


def together(steps: Sequence[Tensor], sizes: Sequence[int] | None) -> Tensor:
    """The tensor that has these steps."""
    joint: Tensor = run_name("stack" if sizes is None else "cat", tuple(steps), 0)
    return joint


def input_gates(
    x: Tensor, sizes: Sequence[int] | None, p: Parameters
) -> tuple[Sequence[Tensor], Sequence[int]]:
    """The input's share of the gates of each step, and how many rows each has."""
    gates = steps_of(linear(x, p.w_ih, p.b_ih), sizes)
    return gates, sizes or [x.shape[1]] * len(gates)


def run_layer(
    cell: Cell, x: Tensor, sizes: Sequence[int] | None, start: State, p: Parameters, reverse: bool
) -> tuple[Tensor, State]:
    """One layer in one direction: its outputs, and the states after the last step."""
    if cell is lstm_of and sizes is None and _is_one_operator(x, start, p):
        return _lstm_layer(x, start, p, reverse)
    gates, rows = input_gates(x, sizes, p)
    outputs, last = run_steps(cell, gates, rows, start, p, reverse)
    return together(outputs, sizes), last


def _is_one_operator(x: Tensor, start: State, p: Parameters) -> bool:
    """Whether a layer of LSTM cells runs as one operator, with a derivative of its own: nobody is to see what it
    consists of."""
    if AMBIENT.keys or AMBIENT.trace is not None or MODES.dual_levels or MODES.traces or MODES.functions:
        return False
    tensors = [x, *start, p.w_ih, p.w_hh] + ([] if p.b_ih is None or p.b_hh is None else [p.b_ih, p.b_hh])
    dtype = x.dtype
    return (
        p.w_hr is None
        and dtype.is_floating_point
        and all(t.dtype is dtype and not t._keys & ~AUTOGRAD and t.numel() for t in tensors)
    )


def _lstm_layer(x: Tensor, start: State, p: Parameters, reverse: bool) -> tuple[Tensor, State]:
    biases = [x.new_empty((1,)) if b is None else b for b in (p.b_ih, p.b_hh)]
    tensors = (x, p.w_ih, p.w_hh, *biases, *start)
    kept = MODES.grad and any(t.requires_grad for t in tensors)
    width, has_biases = start[1].shape[1], p.b_ih is not None
    output, hy, cy, _ = run_name(
        "mkldnn_rnn_layer", *tensors, reverse, (), 2, width, 1, has_biases, False, False, kept
    )
    return output, (hy, cy)


class Options(NamedTuple):
    """What all recurrent operators are told of their network."""

    params: Sequence[Tensor]
    has_biases: bool
    num_layers: int
    dropout: float
    train: bool
    bidirectional: bool


class Network:
    """Layers in one direction or two; numbered (layer, direction), the direction last.

    `hidden` are the states, each with all layers and directions as its first dimension.
    """

    def __init__(self, hidden: Sequence[Tensor], options: Options) -> None:
        params, has_biases, layers, *_, bidirectional = options
        self.directions = 2 if bidirectional else 1
        count = layers * self.directions
        projected = len(hidden) == 2 and hidden[0].shape[2] != hidden[1].shape[2]
        group = 2 + 2 * has_biases + projected
        check(
            len(params) == count * group,
            f"Expected {group} parameters for each of {layers} layers in {self.directions} directions, "
            f"but got {len(params)}",
        )
        self.parameters = [
            Parameters(params[at * group : (at + 1) * group], has_biases, projected) for at in range(count)
        ]
        self.starts = by_layer(hidden)
        check(
            len(self.starts) == count,
            f"Expected hidden states for {layers} layers in {self.directions} directions, "
            f"but got {len(self.starts)}",
        )

    def run(
        self, cell: Cell, layer: int, x: Tensor, sizes: Sequence[int] | None
    ) -> tuple[Tensor, list[State]]:
        """A layer in all directions: its outputs side by side, and the last states of each direction."""
        first = layer * self.directions
        outputs, last = zip(
            *(
                run_layer(cell, x, sizes, self.starts[at], self.parameters[at], at > first)
                for at in range(first, first + self.directions)
            ),
            strict=True,
        )
        return (outputs[0] if self.directions == 1 else run_name("cat", outputs, -1)), list(last)


def by_layer(states: Sequence[Tensor]) -> list[State]:
    """States with layers and directions as their first dimension, one for each of these."""
    return list(zip(*(t.unbind(0) for t in states), strict=True))


def over_layers(states: Sequence[State]) -> list[Tensor]:
    """The opposite."""
    return [run_name("stack", parts, 0) for parts in zip(*states, strict=True)]


def run_layers(
    cell: Cell, x: Tensor, sizes: Sequence[int] | None, hidden: Sequence[Tensor], options: Options
) -> tuple[Tensor, ...]:
    """All layers over `x`, steps first; or packed, of `sizes` rows for each step.

    Returns the outputs of the last layer and the states after the last step.
    """
    network = Network(hidden, options)
    last: list[State] = []
    for layer in range(options.num_layers):
        if layer and options.train and options.dropout > 0.0:
            x = run_name("dropout", x, options.dropout, True)
        x, states = network.run(cell, layer, x, sizes)
        last += states
    return x, *over_layers(last)


def run_batch(
    cell: Cell, input: Tensor, hidden: Sequence[Tensor], options: Options, batch_first: bool
) -> tuple[Tensor, ...]:
    check(input.ndim == 3, f"Expected input of 3 dimensions, but got {input.ndim}")
    x = input.transpose(0, 1) if batch_first else input
    check(x.shape[0] > 0, "Expected sequence length to be larger than 0 in RNN")
    output, *last = run_layers(cell, x, None, hidden, options)
    return (output.transpose(0, 1) if batch_first else output), *last


def run_packed(
    cell: Cell, data: Tensor, batch_sizes: Tensor, hidden: Sequence[Tensor], options: Options
) -> tuple[Tensor, ...]:
    return run_layers(cell, data, [int(size) for size in batch_sizes.tolist()], hidden, options)


_REST = "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional"


def declare_network(name: str, cell: Cell) -> None:
    @composite(
        f"{name}.input(Tensor input, Tensor hx, {_REST}, bool batch_first) -> (Tensor, Tensor)", api=FUNCTION
    )
    def of_input(
        input: Tensor,
        hx: Tensor,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        options = Options(params, has_biases, num_layers, dropout, train, bidirectional)
        return run_batch(cell, input, (hx,), options, batch_first)

    @composite(
        f"{name}.data(Tensor data, Tensor batch_sizes, Tensor hx, {_REST}) -> (Tensor, Tensor)", api=FUNCTION
    )
    def of_data(
        data: Tensor,
        batch_sizes: Tensor,
        hx: Tensor,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> Any:
        options = Options(params, has_biases, num_layers, dropout, train, bidirectional)
        return run_packed(cell, data, batch_sizes, (hx,), options)


for _name, _cell in (("gru", gru_of), ("rnn_tanh", tanh_of), ("rnn_relu", relu_of)):
    declare_cell(f"{_name}_cell", _cell)
    declare_network(_name, _cell)


@composite(
    f"lstm.input(Tensor input, Tensor[] hx, {_REST}, bool batch_first) -> (Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def lstm_input(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    check(len(hx) == 2, "lstm expects two hidden states")
    settings = (has_biases, num_layers, dropout, train, bidirectional)
    if AMBIENT.keys & AUTOCAST and _is_lowered(input, hx):
        input, hx, params = lowered(input), lowered(tuple(hx)), lowered(tuple(params))
        with autocast_off():
            return run_batch(lstm_of, input, hx, Options(params, *settings), batch_first)
    return run_batch(lstm_of, input, hx, Options(params, *settings), batch_first)


def _is_lowered(input: Tensor, hx: Sequence[Tensor]) -> bool:
    """Whether autocast casts a network as a whole: where PyTorch has one kernel for its layers."""
    projected = hx[0].shape[2:] != hx[1].shape[2:]
    return not projected and (input.dtype is FLOAT32 or input.dtype in NARROW) and input.numel() != 0


@composite(
    f"lstm.data(Tensor data, Tensor batch_sizes, Tensor[] hx, {_REST}) -> (Tensor, Tensor, Tensor)",
    api=FUNCTION,
)
def lstm_data(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> Any:
    check(len(hx) == 2, "lstm expects two hidden states")
    options = Options(params, has_biases, num_layers, dropout, train, bidirectional)
    return run_packed(lstm_of, data, batch_sizes, hx, options)

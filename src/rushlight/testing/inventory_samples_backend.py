"""Arguments for the derivative inventory of operators named after a library (see inventory_samples)."""

from __future__ import annotations

_STEPS = "x(2, 2, 1)"  # steps, rows, width of the input
_STATE = "x(1, 2, 2)"
_SETTINGS = "False, 0.0, True"
_TANH, _LSTM, _GRU = 1, 2, 3


def _weights(gates: int, layers: int = 1, directions: int = 1) -> str:
    """All parameters of layers of width 2 whose input has width 1."""
    parts = []
    for layer in range(layers):
        width = 1 if layer == 0 else 2 * directions
        rows = 2 * gates
        parts += [f"x({rows}, {width})", f"x({rows}, 2)", f"x({rows})", f"x({rows})"] * directions
    return f"[{', '.join(parts)}]"


def _network(name: str) -> list[str]:
    """Each kind of network; two layers both ways; a packed batch."""
    buffer, proj = (", None", ", 0") if "cudnn" in name else ("", "")
    head, tail = f"4{buffer}, {_STATE}", f"2{proj}, 1, {_SETTINGS}, False"
    return [
        f"{_STEPS}, {_weights(1)}, {head}, None, 0, {tail}, (), None",
        f"{_STEPS}, {_weights(4)}, {head}, {_STATE}, {_LSTM}, {tail}, (), None",
        f"{_STEPS}, {_weights(3)}, {head}, None, {_GRU}, {tail}, (), None",
        f"{_STEPS}, {_weights(1, 2, 2)}, 4{buffer}, x(4, 2, 2), None, {_TANH}, 2{proj}, 2, True, 0.0, True, "
        "True, (), None",
        f"x(3, 1), {_weights(1)}, {head}, None, {_TANH}, {tail}, (2, 1), None",
    ]


def _network_backward(name: str) -> list[str]:
    proj = ", 0" if "cudnn" in name else ""
    head, tail = (
        f"4, k(0), {_STATE}",
        f"2{proj}, 1, {_SETTINGS}, False, (), None, k(0), (True, True, True, True)",
    )
    return [
        f"{_STEPS}, {_weights(4)}, {head}, {_STATE}, k(2, 2, 2), x(2, 2, 2), {_STATE}, {_STATE}, {_LSTM}, "
        f"{tail}",
        f"{_STEPS}, {_weights(3)}, {head}, None, k(2, 2, 2), x(2, 2, 2), {_STATE}, None, {_GRU}, {tail}",
    ]


_LAYER = "x(8, 1), x(8, 2), x(8), x(8), x(2, 2), x(2, 2)"
_HEADS = "x(1, 2, 3, 2), x(1, 2, 4, 2), x(1, 2, 4, 2)"

BACKEND_SAMPLES: dict[str, list[str]] = {
    "_cudnn_rnn": _network("_cudnn_rnn"),
    "miopen_rnn": _network("miopen_rnn")[1:2],
    "_cudnn_rnn_backward": _network_backward("_cudnn_rnn"),
    "miopen_rnn_backward": _network_backward("miopen_rnn")[1:],
    "_lstm_mps": [f"{_STEPS}, [{_STATE}, {_STATE}], {_weights(4)}, True, 1, 0.0, True, False, False"],
    "lstm_mps_backward": [
        f"x(2, 2, 2), {_STATE}, {_STATE}, k(0), k(0), {_STEPS}, k(0), [{_STATE}, {_STATE}], "
        f"{_weights(4)}, True, 1, 0.0, True, False, False"
    ],
    "mkldnn_rnn_layer": [
        f"{_STEPS}, {_LAYER}, {reverse}, (), 2, 2, 1, True, False, False, True" for reverse in (False, True)
    ],
    "mkldnn_rnn_layer_backward": [
        f"{_STEPS}, {_LAYER}, k(2, 2, 2), k(2, 2), k(2, 2), x(2, 2, 2), x(2, 2), x(2, 2), "
        "True, 2, 2, 1, True, True, False, (), False, k(0)"
    ],
    "mkldnn_linear": ["x(2, 3), x(4, 3), x(4)"],
    "linear_backward": [
        "x(2, 3), x(2, 4), x(4, 3), (True, True, True)",
        "x(2, 2, 3), x(2, 2, 4), x(4, 3), (True, True, True)",
    ],
    "_mkldnn_reshape": ["x(2, 3), (3, 2)"],
    "cudnn_grid_sampler": ["x(1, 2, 4, 3), x(1, 2, 2, 2)"],
    "cudnn_affine_grid_generator": ["x(2, 2, 3), 2, 1, 2, 3"],
    "_scaled_dot_product_efficient_attention": [
        f"{_HEADS}, x(1, 2, 3, 4), True",
        f"{_HEADS}, None, False, 0.0, True",
    ],
    "_scaled_dot_product_flash_attention": [f"{_HEADS}", f"{_HEADS}, 0.0, True, scale=0.6"],
    "_flash_attention_forward": [
        "x(1, 3, 2, 2), x(1, 4, 2, 2), x(1, 4, 2, 2), None, None, 3, 4, 0.0, False, False",
        "x(5, 2, 2), x(6, 2, 2), x(6, 2, 2), i([0, 3, 5]), i([0, 2, 6]), 3, 4, 0.0, True, False",
    ],
}

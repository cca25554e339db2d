"""Recurrent networks and their cells."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...core.autocast import is_any_enabled
from ...core.errors import check
from ...core.tensor import Tensor
from .. import init
from ..utils.rnn import PackedSequence
from ._simple import functions, new_parameter
from .module import Module

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _uniform(module: Module, hidden_size: int) -> None:
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


class RNNBase(Module):
    """Layers of a recurrent network, in one or both directions.

    >>> isinstance(nn.LSTM(2, 3), nn.RNNBase)
    True
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self._check(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(self._directions):
                self._add_layer(layer, "_reverse" if direction else "", device, dtype)
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    def _check(
        self,
        mode: str,
        input_size: Any,
        hidden_size: Any,
        num_layers: int,
        bias: Any,
        batch_first: Any,
        dropout: Any,
        proj_size: int,
    ) -> None:
        check(
            isinstance(dropout, int | float) and not isinstance(dropout, bool) and 0 <= dropout <= 1,
            "dropout "
            "should be a number in range [0, 1] representing the probability of an element being zeroed",
            ValueError,
        )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                f"num_layers greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                UserWarning,
                stacklevel=4,
            )
        for name, value, kind in (
            ("bias", bias, bool),
            ("batch_first", batch_first, bool),
            ("input_size", input_size, int),
            ("hidden_size", hidden_size, int),
        ):
            check(
                isinstance(value, kind),
                f"{name} should be of type {kind.__name__}, got: {type(value).__name__}",
                TypeError,
            )
        for name, value in (
            ("input_size", input_size),
            ("hidden_size", hidden_size),
            ("num_layers", num_layers),
        ):
            check(value > 0, f"{name} must be greater than zero", ValueError)
        check(
            proj_size >= 0,
            "proj_size should be a positive integer or zero to disable projections",
            ValueError,
        )
        check(proj_size < hidden_size, "proj_size has to be smaller than hidden_size", ValueError)
        check(mode in _GATES, f"Unrecognized RNN mode: {mode}", ValueError)

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _output_size(self) -> int:
        return self.proj_size or self.hidden_size

    def _add_layer(self, layer: int, suffix: str, device: Any, dtype: Any) -> None:
        gates = _GATES[self.mode] * self.hidden_size
        inputs = self.input_size if layer == 0 else self._output_size * self._directions
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates, inputs),
            "weight_hh": (gates, self._output_size),
        }
        if self.bias:
            shapes.update(bias_ih=(gates,), bias_hh=(gates,))
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        named = {f"{name}_l{layer}{suffix}": shape for name, shape in shapes.items()}
        for name, shape in named.items():
            self.register_parameter(name, new_parameter(shape, device, dtype))
        self._all_weights.append(list(named))

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Any]]:
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def flatten_parameters(self) -> None:
        """Accepted for compatibility: parameters are used where they are."""

    def reset_parameters(self) -> None:
        _uniform(self, self.hidden_size)

    def extra_repr(self) -> str:
        shown = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        return ", ".join(
            [
                f"{self.input_size}, {self.hidden_size}",
                *[
                    f"{name}={getattr(self, name)}"
                    for name, default in shown.items()
                    if getattr(self, name) != default
                ],
            ]
        )

    # The call.

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        dtype = self._flat_weights[0].dtype
        check(
            input.dtype is dtype or is_any_enabled(),
            f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert "
            f"input: input.to({dtype}), or convert model: model.to({input.dtype})",
            ValueError,
        )
        wanted = 3 if batch_sizes is None else 2
        check(input.ndim == wanted, f"input must have {wanted} dimensions, got {input.ndim}")
        check(
            input.shape[-1] == self.input_size,
            f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}",
        )

    def _batch(self, input: Tensor, batch_sizes: Tensor | None) -> int:
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.shape[0 if self.batch_first else 1]

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        return self.num_layers * self._directions, self._batch(input, batch_sizes), self._output_size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        check(tuple(hx.shape) == expected_hidden_size, msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        return hx if permutation is None else self._each(hx, lambda state: state.index_select(1, permutation))

    def _each(self, hx: Any, change: Any) -> Any:
        """`change` of each tensor of the hidden state."""
        return change(hx)

    def _zeros(self, input: Tensor, batch: int) -> Any:
        return functions["zeros"](
            (self.num_layers * self._directions, batch, self._output_size),
            dtype=input.dtype,
            device=input.device,
        )

    def _check_ranks(self, hx: Any, rank: int) -> None:
        kind = "batched 3-D" if rank == 3 else "unbatched 2-D"
        check(hx.ndim == rank, f"For {kind} input, hx should also be {rank}-D but got {hx.ndim}-D tensor")

    def _run(self, input: Tensor, batch_sizes: Tensor | None, hx: Any) -> tuple[Tensor, Any]:
        """The operator; returns the outputs and the last hidden state."""
        function = functions[
            {"RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}.get(self.mode, self.mode.lower())
        ]
        rest = (
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )
        if batch_sizes is None:
            output, *hidden = function(input, hx, *rest, self.batch_first)
        else:
            output, *hidden = function(input, batch_sizes, hx, *rest)
        return output, hidden[0] if len(hidden) == 1 else tuple(hidden)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The outputs of the last layer at every step, and the last hidden state of every layer."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        name = type(self).__name__
        check(
            input.ndim in (2, 3),
            f"{name}: Expected input to be 2D or 3D, got {input.ndim}D instead",
            ValueError,
        )
        single, batch_dim = input.ndim == 2, 0 if self.batch_first else 1
        if hx is not None:
            self._check_ranks(hx, 2 if single else 3)
        if single:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else self._each(hx, lambda state: state.unsqueeze(1))
        if hx is None:
            hx = self._zeros(input, input.shape[batch_dim])
        self.check_forward_args(input, hx, None)
        output, hidden = self._run(input, None, hx)
        if single:
            output, hidden = output.squeeze(batch_dim), self._each(hidden, lambda state: state.squeeze(1))
        return output, hidden

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[Any, Any]:
        data, batch_sizes, sorted_indices, unsorted_indices = input
        hx = self._zeros(data, int(batch_sizes[0])) if hx is None else self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._run(data, batch_sizes, hx)
        return (
            PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices),
            self.permute_hidden(hidden, unsorted_indices),
        )


class RNN(RNNBase):
    """Elman's recurrent network: h' = nonlinearity(W x + V h).

    >>> output, state = nn.RNN(2, 3)(rl.ones(5, 1, 2))
    >>> state.shape
    rushlight.Size([1, 1, 3])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check(
            "proj_size" not in kwargs,
            "proj_size argument is only supported for LSTM, not RNN or GRU",
            ValueError,
        )
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        check(
            nonlinearity in ("tanh", "relu"),
            f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.",
            ValueError,
        )
        self.nonlinearity = nonlinearity
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent units.

    >>> output, state = nn.GRU(2, 3)(rl.ones(5, 1, 2))
    >>> output.shape
    rushlight.Size([5, 1, 3])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check(
            "proj_size" not in kwargs,
            "proj_size argument is only supported for LSTM, not RNN or GRU",
            ValueError,
        )
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory; the hidden state is a pair of output and cell.

    >>> output, (hidden, cell) = nn.LSTM(2, 3, batch_first=True)(rl.ones(1, 5, 2))
    >>> output.shape
    rushlight.Size([1, 5, 3])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        return self.num_layers * self._directions, self._batch(input, batch_sizes), self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0], self.get_expected_hidden_size(input, batch_sizes), "Expected hidden[0] size {}, got {}"
        )
        self.check_hidden_size(
            hidden[1], self.get_expected_cell_size(input, batch_sizes), "Expected hidden[1] size {}, got {}"
        )

    def _each(self, hx: Any, change: Any) -> Any:
        return change(hx[0]), change(hx[1])

    def _zeros(self, input: Tensor, batch: int) -> Any:
        cell = functions["zeros"](
            (self.num_layers * self._directions, batch, self.hidden_size),
            dtype=input.dtype,
            device=input.device,
        )
        return super()._zeros(input, batch), cell

    def _check_ranks(self, hx: Any, rank: int) -> None:
        kind = "batched 3-D" if rank == 3 else "unbatched 2-D"
        check(
            hx[0].ndim == rank == hx[1].ndim,
            f"For {kind} input, hx and cx should also be {rank}-D but got "
            f"({hx[0].ndim}-D, {hx[1].ndim}-D) tensors",
        )


# Cells.


class RNNCellBase(Module):
    """One step of a recurrent network.

    >>> isinstance(nn.GRUCell(2, 3), nn.RNNCellBase)
    True
    """

    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = new_parameter((gates, input_size), device, dtype)
        self.weight_hh = new_parameter((gates, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, new_parameter((gates,), device, dtype) if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return ", ".join(
            [
                f"{self.input_size}, {self.hidden_size}",
                *([f"bias={self.bias}"] if self.bias is not True else []),
                *([f"nonlinearity={nonlinearity}"] if nonlinearity != "tanh" else []),
            ]
        )

    def reset_parameters(self) -> None:
        _uniform(self, self.hidden_size)

    def _step(self, operator: str, input: Tensor, hx: Any, names: tuple[str, ...]) -> Any:
        """`operator` on a batch, of one where the input has none; `names` are what the states are called."""
        cell = type(self).__name__
        check(
            input.ndim in (1, 2),
            f"{cell}: Expected input to be 1D or 2D, got {input.ndim}D instead",
            ValueError,
        )
        single = input.ndim == 1
        states = None if hx is None else hx if len(names) > 1 else (hx,)
        for name, state in zip(names, states or (), strict=False):
            check(
                state.ndim in (1, 2),
                f"{cell}: Expected {name} to be 1D or 2D, got {state.ndim}D instead",
                ValueError,
            )
        if single:
            input = input.unsqueeze(0)
            states = states and tuple(state.unsqueeze(0) for state in states)
        if states is None:
            zeros = functions["zeros"](
                (input.shape[0], self.hidden_size), dtype=input.dtype, device=input.device
            )
            states = (zeros,) * len(names)
        result = functions[operator](
            input,
            states if len(names) > 1 else states[0],
            self.weight_ih,
            self.weight_hh,
            self.bias_ih,
            self.bias_hh,
        )
        if not single:
            return result
        return tuple(state.squeeze(0) for state in result) if len(names) > 1 else result.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of a recurrent layer with tanh or a rectifier.

    >>> nn.RNNCell(2, 3)(rl.ones(1, 2)).shape
    rushlight.Size([1, 3])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        check(self.nonlinearity in ("tanh", "relu"), f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"rnn_{self.nonlinearity}_cell", input, hx, ("hidden",))


class LSTMCell(RNNCellBase):
    """One step of an LSTM: new hidden state and cell state.

    >>> hidden, cell = nn.LSTMCell(2, 3)(rl.ones(1, 2))
    >>> cell.shape
    rushlight.Size([1, 3])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        return self._step("lstm_cell", input, hx, ("hx[0]", "hx[1]"))


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit.

    >>> nn.GRUCell(2, 3)(rl.ones(1, 2)).shape
    rushlight.Size([1, 3])
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("gru_cell", input, hx, ("hidden",))

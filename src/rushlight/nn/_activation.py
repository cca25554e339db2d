"""torch.nn.functional: activations, softmax and dropout, with PyTorch's signatures."""

from __future__ import annotations

import warnings
from typing import Any

from .._api import link as _functions
from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.errors import check
from ..core.modes import MODES
from ..core.mutation import call_inplace
from ..core.out_calls import call_out
from ..core.overrides import ask_operator
from ..core.registry import REGISTRY
from ..core.tensor import Tensor

__all__ = [
    "alpha_dropout",
    "celu",
    "celu_",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "feature_alpha_dropout",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

_api: Any = _functions


def _run(name: str, inplace: bool, *args: Any) -> Tensor:
    """The operator `name`, or its in-place form."""
    if getattr(args[0], "_overrides", True) and not MODES.plain:
        return ask_operator(name, _run, inplace, args)
    return call_inplace(REGISTRY[name], args) if inplace else run_name(name, *args)


def _run_out(name: str, out: Tensor | None, *args: Any) -> Tensor:
    """The operator `name`, its result written to `out` where that is given."""
    if getattr(args[0], "_overrides", True) and not MODES.plain:
        return ask_operator(name, _run_out, out, args)
    return run_name(name, *args) if out is None else call_out(REGISTRY[name], args, out)


# Rectifiers.


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return _run("relu", inplace, input)


def relu_(input: Tensor) -> Tensor:
    return _run("relu", True, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    return _run("relu6", inplace, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    return _run("threshold", inplace, input, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    return _run("threshold", True, input, threshold, value)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return _run("leaky_relu", inplace, input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    return _run("leaky_relu", True, input, negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    return run_name("prelu", input, weight)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    return _run("rrelu", inplace, input, lower, upper, training, None)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    return _run("rrelu", True, input, lower, upper, training, None)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return _run("elu", inplace, input, alpha, 1, 1)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    return _run("elu", True, input, alpha, 1, 1)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    return _run("selu", inplace, input)


def selu_(input: Tensor) -> Tensor:
    return _run("selu", True, input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    return _run("celu", inplace, input, alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    return _run("celu", True, input, alpha)


# Pieces of straight lines.


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    check(min_val <= max_val, f"min_val cannot be greater than max_val: {min_val} > {max_val}", ValueError)
    return _run("hardtanh", inplace, input, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    return hardtanh(input, min_val, max_val, True)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    return _run("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    return _run("hardswish", inplace, input)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    return _run_out("hardshrink", out, input, lambd)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    return _run_out("softshrink", out, input, lambd)


# Smooth activations.


def gelu(input: Tensor, *, approximate: str = "none", out: Tensor | None = None) -> Tensor:
    return _run_out("gelu", out, input, approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    return _run("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    return _run("mish", inplace, input)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None) -> Tensor:
    return _run_out("softplus", out, input, beta, threshold)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _run_out("log_sigmoid", out, input)


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def tanh(input: Tensor) -> Tensor:
    return run_name("tanh", input)


def sigmoid(input: Tensor) -> Tensor:
    return run_name("sigmoid", input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    check(input.ndim > 0, "glu does not support scalars because halving size must be even")
    return run_name("glu", input, dim)


# Softmax.


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    return _api.softmax(input, _dim("softmax", dim, input, _stacklevel), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    return _api.log_softmax(input, _dim("log_softmax", dim, input, _stacklevel), dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    return _api.softmax(-input, _dim("softmin", dim, input, _stacklevel), dtype=dtype)


def _dim(name: str, dim: int | None, input: Tensor, stacklevel: int) -> int:
    """The dimension PyTorch takes where none is given."""
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        UserWarning,
        stacklevel=stacklevel,
    )
    return 0 if input.ndim in (0, 1, 3) else 1


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A random one-hot vector, softened by the temperature `tau`.

    With `hard` it is one-hot in value, with the gradient of the soft one.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", UserWarning, stacklevel=2)
    noise = -logits.detach().new_empty(logits.shape).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    best = soft.argmax(dim, keepdim=True)
    one_hot = run_name("zeros_like", logits.detach(), None, None, None, None, None).scatter(dim, best, 1.0)
    return one_hot - soft.detach() + soft


# Dropout.


def _dropout(name: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    check(0.0 <= p <= 1.0, f"dropout probability has to be between 0 and 1, but got {p}", ValueError)
    return _run(name, inplace, input, p, training)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return _dropout("dropout", input, p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    return _dropout("alpha_dropout", input, p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    return _dropout("feature_alpha_dropout", input, p, training, inplace)


def _channels_dropout(
    name: str, ranks: tuple[int, int], input: Tensor, p: float, training: bool, inplace: bool
) -> Tensor:
    """Drops whole channels of `input`, (batch, channels, ...)."""
    if input.ndim not in ranks:
        warnings.warn(
            f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will "
            f"result in an error in a future release; expected {ranks[0]}-D or {ranks[1]}-D.",
            UserWarning,
            stacklevel=3,
        )
    return _dropout("feature_dropout", input, p, training, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    check(0.0 <= p <= 1.0, f"dropout probability has to be between 0 and 1, but got {p}", ValueError)
    check(
        input.ndim in (2, 3),
        f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input. "
        "Note that dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, a "
        "channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs).",
    )
    if input.ndim == 3:
        return _dropout("feature_dropout", input, p, training, inplace)
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _dropout("feature_dropout", batch, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if input.ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired: it is read as (batch, channels, length). Use dropout1d to say "
            "so, or add a dimension for the batch.",
            UserWarning,
            stacklevel=3,
        )
    return _channels_dropout("dropout2d", (3, 4), input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if input.ndim != 4:
        return _channels_dropout("dropout3d", (4, 5), input, p, training, inplace)
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _dropout("feature_dropout", batch, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)

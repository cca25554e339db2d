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
    """Negative elements replaced by zero.

    >>> F.relu(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _run("relu", inplace, input)


def relu_(input: Tensor) -> Tensor:
    """`relu` in place.

    >>> F.relu_(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _run("relu", True, input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Elements limited to the range from 0 to 6.

    >>> F.relu6(rl.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """
    return _run("relu6", inplace, input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Elements above the threshold as they are, the others replaced by a value.

    >>> F.threshold(rl.tensor([0.5, 2.0]), 1.0, 0.0)
    tensor([0., 2.])
    """
    return _run("threshold", inplace, input, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """`threshold` in place.

    >>> F.threshold_(rl.tensor([0.5, 2.0]), 1.0, 0.0)
    tensor([0., 2.])
    """
    return _run("threshold", True, input, threshold, value)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Linear above zero, and with a small slope below.

    >>> F.leaky_relu(rl.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return _run("leaky_relu", inplace, input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`leaky_relu` in place.

    >>> F.leaky_relu_(rl.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return _run("leaky_relu", True, input, negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Leaky rectifier whose slope below zero is a tensor.

    >>> F.prelu(rl.tensor([-2.0, 3.0]), rl.tensor([0.1]))
    tensor([-0.2000,  3.0000])
    """
    return run_name("prelu", input, weight)


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Leaky rectifier whose slope below zero is random in training.

    >>> F.rrelu(rl.tensor([-2.0, 3.0]))
    tensor([-0.4583,  3.0000])
    """
    return _run("rrelu", inplace, input, lower, upper, training, None)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """`rrelu` in place.

    >>> F.rrelu_(rl.tensor([-2.0, 3.0]))
    tensor([-0.4583,  3.0000])
    """
    return _run("rrelu", True, input, lower, upper, training, None)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Linear above zero, `alpha * expm1(x)` below.

    >>> F.elu(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _run("elu", inplace, input, alpha, 1, 1)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`elu` in place.

    >>> F.elu_(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _run("elu", True, input, alpha, 1, 1)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Scaled exponential linear unit.

    >>> F.selu(rl.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _run("selu", inplace, input)


def selu_(input: Tensor) -> Tensor:
    """`selu` in place.

    >>> F.selu_(rl.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return _run("selu", True, input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Linear above zero, `alpha * expm1(x / alpha)` below.

    >>> F.celu(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _run("celu", inplace, input, alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place.

    >>> F.celu_(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _run("celu", True, input, alpha)


# Pieces of straight lines.


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Elements limited to the range from `min_val` to `max_val`.

    >>> F.hardtanh(rl.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    check(min_val <= max_val, f"min_val cannot be greater than max_val: {min_val} > {max_val}", ValueError)
    return _run("hardtanh", inplace, input, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`hardtanh` in place.

    >>> F.hardtanh_(rl.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return hardtanh(input, min_val, max_val, True)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """The sigmoid in three straight pieces.

    >>> F.hardsigmoid(rl.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    return _run("hardsigmoid", inplace, input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times the hard sigmoid of x.

    >>> F.hardswish(rl.tensor([-4.0, 1.0]))
    tensor([-0.0000, 0.6667])
    """
    return _run("hardswish", inplace, input)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Elements within `lambd` of zero become zero.

    >>> F.hardshrink(rl.tensor([0.3, -1.0]))
    tensor([ 0., -1.])
    """
    return _run_out("hardshrink", out, input, lambd)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Elements moved towards zero by `lambd`, not beyond it.

    >>> F.softshrink(rl.tensor([0.3, -1.0]))
    tensor([ 0.0000, -0.5000])
    """
    return _run_out("softshrink", out, input, lambd)


# Smooth activations.


def gelu(input: Tensor, *, approximate: str = "none", out: Tensor | None = None) -> Tensor:
    """x times the normal distribution function of x, exactly or by tanh.

    >>> F.gelu(rl.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    return _run_out("gelu", out, input, approximate)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x times the sigmoid of x.

    >>> F.silu(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """
    return _run("silu", inplace, input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times tanh of softplus of x.

    >>> F.mish(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """
    return _run("mish", inplace, input)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None) -> Tensor:
    """`log(1 + exp(x))`, a smooth rectifier.

    >>> F.softplus(rl.tensor([0.0, 1.0]))
    tensor([0.6931, 1.3133])
    """
    return _run_out("softplus", out, input, beta, threshold)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the sigmoid, without overflow.

    >>> F.logsigmoid(rl.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.0000])
    """
    return _run_out("log_sigmoid", out, input)


def softsign(input: Tensor) -> Tensor:
    """`x / (1 + abs(x))`.

    >>> F.softsign(rl.tensor([1.0, -3.0]))
    tensor([ 0.5000, -0.7500])
    """
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """`x - tanh(x)`.

    >>> F.tanhshrink(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return input - input.tanh()


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent, elementwise.

    >>> F.tanh(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return run_name("tanh", input)


def sigmoid(input: Tensor) -> Tensor:
    """The logistic function, elementwise.

    >>> F.sigmoid(rl.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """
    return run_name("sigmoid", input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second.

    >>> F.glu(rl.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    check(input.ndim > 0, "glu does not support scalars because halving size must be even")
    return run_name("glu", input, dim)


# Softmax.


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """Softmax along a dimension.

    >>> F.softmax(rl.tensor([0.0, 1.0]), dim=0)
    tensor([0.2689, 0.7311])
    """
    return _api.softmax(input, _dim("softmax", dim, input, _stacklevel), dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """Logarithm of the softmax along a dimension.

    >>> F.log_softmax(rl.tensor([0.0, 1.0]), dim=0)
    tensor([-1.3133, -0.3133])
    """
    return _api.log_softmax(input, _dim("log_softmax", dim, input, _stacklevel), dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """Softmax of the negated elements.

    >>> F.softmin(rl.tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
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

    >>> F.gumbel_softmax(rl.zeros(3), hard=True).sum()
    tensor(1.)
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
    """In training, zeros elements at random and scales the rest up.

    >>> F.dropout(rl.ones(2), 0.5, training=False)
    tensor([1., 1.])
    """
    return _dropout("dropout", input, p, training, inplace)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of what `selu` gives.

    >>> F.alpha_dropout(rl.ones(2), training=False)
    tensor([1., 1.])
    """
    return _dropout("alpha_dropout", input, p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels.

    >>> F.feature_alpha_dropout(rl.ones(1, 2, 1), training=False).flatten()
    tensor([1., 1.])
    """
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
    """Dropout of whole channels of input (N, C, L).

    >>> F.dropout1d(rl.ones(1, 2, 1), training=False).flatten()
    tensor([1., 1.])
    """
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
    """Dropout of whole channels of input (N, C, H, W).

    >>> F.dropout2d(rl.ones(1, 2, 1, 1), training=False).flatten()
    tensor([1., 1.])
    """
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
    """Dropout of whole channels of input (N, C, D, H, W).

    >>> F.dropout3d(rl.ones(1, 2, 1, 1, 1), training=False).flatten()
    tensor([1., 1.])
    """
    if input.ndim != 4:
        return _channels_dropout("dropout3d", (4, 5), input, p, training, inplace)
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _dropout("feature_dropout", batch, p, training, inplace)
    return result.squeeze_(0) if inplace else result.squeeze(0)

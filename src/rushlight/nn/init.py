"""Initial values of parameters. Every function fills its tensor in place, unrecorded, and returns it."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._api.link import API
from ..autograd.grad_mode import no_grad
from ..core.construct import from_numpy
from ..core.dtypes import float64
from ..core.errors import check
from ..core.generator import Generator
from ..core.tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_functions = API.functions[""]
_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
_GAINS = {**dict.fromkeys((*_LINEAR, "sigmoid"), 1), "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of activations from layer to layer; `param` is leaky_relu's
    slope.

    >>> rl.nn.init.calculate_gain("relu")
    1.4142135623730951
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        check(
            isinstance(slope, int | float) and not isinstance(slope, bool),
            f"negative_slope {param} not a valid number",
            ValueError,
        )
        return math.sqrt(2.0 / (1 + slope**2))
    check(nonlinearity in _GAINS, f"Unsupported nonlinearity {nonlinearity}", ValueError)
    return _GAINS[nonlinearity]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills a tensor with uniform random numbers.

    >>> rl.nn.init.uniform_(rl.empty(2), 3.0, 3.0)
    tensor([3., 3.])
    """
    """The older name of `uniform_`.

    >>> rl.nn.init.uniform(rl.empty(2), 3.0, 3.0)
    tensor([3., 3.])
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fills a tensor with normal random numbers.

    >>> rl.nn.init.normal_(rl.empty(2), 1.0, 0.0)
    tensor([1., 1.])
    """
    """The older name of `normal_`.

    >>> rl.nn.init.normal(rl.empty(2), 1.0, 0.0)
    tensor([1., 1.])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """The normal distribution, cut off at `a` and `b`.

    >>> x = rl.nn.init.trunc_normal_(rl.empty(100))
    >>> bool((x.abs() <= 2).all())
    True
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may "
            "be incorrect.",
            UserWarning,
            stacklevel=2,
        )
    # Inversion of the distribution function, on the lower tail, where small probabilities keep their
    # precision.
    low, high, sign = (a - mean) / std, (b - mean) / std, 1.0
    if low > 0:
        low, high, sign = -high, -low, -1.0
    with no_grad():
        share = _functions["empty"](tuple(tensor.shape), dtype=float64)
        share.uniform_(_below(low), _below(high), generator=generator)
        values = API.functions["special"]["ndtri"](share).clamp_(low, high)
        tensor.copy_(values.mul_(sign * std).add_(mean).clamp_(a, b))
        return tensor.clamp_(a, b)  # rounding to a narrower dtype may have stepped over the bounds


def _below(x: float) -> float:
    return math.erfc(-x / math.sqrt(2.0)) / 2.0


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills a tensor with one value.

    >>> rl.nn.init.constant_(rl.empty(2), 3.0)
    tensor([3., 3.])
    """
    """The older name of `constant_`.

    >>> rl.nn.init.constant(rl.empty(2), 3.0)
    tensor([3., 3.])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills a tensor with ones.

    >>> rl.nn.init.ones_(rl.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills a tensor with zeros.

    >>> rl.nn.init.zeros_(rl.empty(2))
    tensor([0., 0.])
    """
    with no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix.

    >>> rl.nn.init.eye_(rl.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    check(tensor.ndim == 2, "Only tensors with 2 dimensions are supported", ValueError)
    with no_grad():
        return tensor.copy_(_functions["eye"](*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The kernel of a convolution that returns its input, for as many channels as there are.

    >>> rl.nn.init.dirac_(rl.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    check(tensor.ndim in (3, 4, 5), "Only tensors with 3, 4, or 5 dimensions are supported", ValueError)
    check(tensor.shape[0] % groups == 0, "dim 0 must be divisible by groups", ValueError)
    if tensor.is_meta:
        return tensor
    per_group = tensor.shape[0] // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.shape[1])):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    check(
        tensor.ndim >= 2,
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions",
        ValueError,
    )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    check(
        mode in ("fan_in", "fan_out"),
        f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']",
        ValueError,
    )
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills a weight with uniform random numbers whose variance keeps that of the signal both ways.

    >>> rl.nn.init.xavier_uniform_(rl.empty(2, 3)).shape
    rushlight.Size([2, 3])
    """
    """The older name of `xavier_uniform_`.

    >>> rl.nn.init.xavier_uniform(rl.empty(2, 3)).shape
    rushlight.Size([2, 3])
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills a weight with normal random numbers whose variance keeps that of the signal both ways.

    >>> rl.nn.init.xavier_normal_(rl.empty(2, 3)).shape
    rushlight.Size([2, 3])
    """
    """The older name of `xavier_normal_`.

    >>> rl.nn.init.xavier_normal(rl.empty(2, 3)).shape
    rushlight.Size([2, 3])
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", UserWarning, stacklevel=3)
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fills a weight with uniform random numbers whose variance suits rectifiers.

    >>> rl.nn.init.kaiming_uniform_(rl.empty(2, 3)).shape
    rushlight.Size([2, 3])
    """
    """The older name of `kaiming_uniform_`.

    >>> rl.nn.init.kaiming_uniform(rl.empty(2, 3)).shape
    rushlight.Size([2, 3])
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    return uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fills a weight with normal random numbers whose variance suits rectifiers.

    >>> rl.nn.init.kaiming_normal_(rl.empty(2, 3)).shape
    rushlight.Size([2, 3])
    """
    """The older name of `kaiming_normal_`.

    >>> rl.nn.init.kaiming_normal(rl.empty(2, 3)).shape
    rushlight.Size([2, 3])
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A matrix with orthonormal rows or columns, uniformly distributed among them, times `gain`.

    >>> rl.nn.init.orthogonal_(rl.empty(2, 2)).shape
    rushlight.Size([2, 2])
    """
    check(tensor.ndim >= 2, "Only tensors with 2 or more dimensions are supported", ValueError)
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        drawn = _functions["empty"]((rows, columns), dtype=float64).normal_(0, 1, generator=generator).numpy()
        q, r = np.linalg.qr(drawn.T if rows < columns else drawn)
        q = q * np.sign(np.diagonal(r))  # without this the distribution would depend on the algorithm
        values = from_numpy(np.ascontiguousarray(q.T if rows < columns else q))
        return tensor.copy_(values.reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal values, with the share `sparsity` of every column set to zero.

    >>> rl.nn.init.sparse_(rl.empty(4, 1), 0.5).count_nonzero()
    tensor(2)
    """
    check(tensor.ndim == 2, "Only tensors with 2 dimensions are supported", ValueError)
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[_functions["randperm"](rows)[:zeros], column] = 0
    return tensor


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The former name of `function`, without the underscore."""
    name = function.__name__

    @functools.wraps(function)
    def former(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    former.__name__ = name[:-1]
    return former


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

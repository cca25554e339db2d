"""Activations: modules over the functions of the same name."""

from __future__ import annotations

import warnings
from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from .. import init as initial
from ._simple import F, FunctionModule, new_parameter
from .linear import NonDynamicallyQuantizableLinear  # noqa: F401  PyTorch has it here as well
from .module import Module
from .multihead import MultiheadAttention

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SELU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _InPlace(FunctionModule):
    """An activation with no argument but `inplace`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(inplace=inplace)


class _Plain(FunctionModule):
    """An activation without arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self, *args, **kwargs)


class ReLU(_InPlace):
    """Negative elements replaced by zero.

    >>> nn.ReLU()(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    function = "relu"


class SiLU(_InPlace):
    """x times the sigmoid of x.

    >>> nn.SiLU()(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7311])
    """

    function = "silu"


class Mish(_InPlace):
    """x times tanh of softplus of x.

    >>> nn.Mish()(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8651])
    """

    function = "mish"


class SELU(_InPlace):
    """Scaled exponential linear unit.

    >>> nn.SELU()(rl.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    function = "selu"


class Hardsigmoid(_InPlace):
    """The sigmoid in three straight pieces.

    >>> nn.Hardsigmoid()(rl.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    function = "hardsigmoid"

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """x times the hard sigmoid of x.

    >>> nn.Hardswish()(rl.tensor([-4.0, 1.0]))
    tensor([-0.0000, 0.6667])
    """

    function = "hardswish"

    def extra_repr(self) -> str:
        return ""


class Sigmoid(_Plain):
    """The logistic function, elementwise.

    >>> nn.Sigmoid()(rl.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    function = "sigmoid"


class Tanh(_Plain):
    """Hyperbolic tangent, elementwise.

    >>> nn.Tanh()(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    function = "tanh"


class LogSigmoid(_Plain):
    """Logarithm of the sigmoid, without overflow.

    >>> nn.LogSigmoid()(rl.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.0000])
    """

    function = "logsigmoid"


class Softsign(_Plain):
    """`x / (1 + abs(x))`.

    >>> nn.Softsign()(rl.tensor([1.0, -3.0]))
    tensor([ 0.5000, -0.7500])
    """

    function = "softsign"


class Tanhshrink(_Plain):
    """`x - tanh(x)`.

    >>> nn.Tanhshrink()(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """

    function = "tanhshrink"


class Threshold(FunctionModule):
    """Elements above the threshold as they are, the others replaced by `value`.

    >>> nn.Threshold(1.0, 0.0)(rl.tensor([0.5, 2.0]))
    tensor([0., 2.])
    """

    function = "threshold"

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold=threshold, value=value, inplace=inplace)


class RReLU(FunctionModule):
    """Leaky ReLU with a random slope in training, and the mean of slopes in evaluation.

    >>> nn.RReLU().eval()(rl.tensor([-1.0, 2.0]))
    tensor([-0.2292,  2.0000])
    """

    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(FunctionModule):
    """Elements limited to the range from `min_val` to `max_val`.

    >>> nn.Hardtanh()(rl.tensor([-2.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """

    function = "hardtanh"
    inplace: bool

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        for former, value in (("min_val", min_value), ("max_val", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{former}ue` is deprecated and renamed to `{former}`",
                    FutureWarning,
                    stacklevel=2,
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        check(
            max_val > min_val, f"max_val ({max_val}) must be greater than min_val ({min_val})", AssertionError
        )
        super().__init__(min_val=min_val, max_val=max_val, inplace=inplace)


class ReLU6(Hardtanh):
    """Elements limited to the range from 0 to 6.

    >>> nn.ReLU6()(rl.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ELU(FunctionModule):
    """Applies `functional.elu`: linear above zero, `alpha * expm1(x)` below.

    >>> nn.ELU()(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    function = "elu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class CELU(FunctionModule):
    """Applies `functional.celu`: linear above zero, `alpha * expm1(x / alpha)` below.

    >>> nn.CELU()(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    function = "celu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class LeakyReLU(FunctionModule):
    """Linear above zero, and with a small slope below.

    >>> nn.LeakyReLU(0.1)(rl.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    function = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(negative_slope=negative_slope, inplace=inplace)


class GLU(FunctionModule):
    """Gated linear unit: the first half of a dimension times the sigmoid of the second.

    >>> nn.GLU()(rl.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """

    function = "glu"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class GELU(FunctionModule):
    """Gaussian error linear unit, x times the normal distribution function of x.

    >>> nn.GELU()(rl.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class _Shrink(FunctionModule):
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """Elements within `lambd` of zero become zero.

    >>> nn.Hardshrink()(rl.tensor([0.3, -1.0]))
    tensor([ 0., -1.])
    """

    function = "hardshrink"


class Softshrink(_Shrink):
    """Elements moved towards zero by `lambd`, not beyond it.

    >>> nn.Softshrink()(rl.tensor([0.3, -1.0]))
    tensor([ 0.0000, -0.5000])
    """

    function = "softshrink"


class Softplus(FunctionModule):
    """`log(1 + exp(x))`, a smooth rectifier.

    >>> nn.Softplus()(rl.tensor([0.0, 1.0]))
    tensor([0.6931, 1.3133])
    """

    function = "softplus"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class PReLU(Module):
    """Leaky ReLU whose slope, or slope of each channel, is learned.

    >>> nn.PReLU()(rl.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    weight: Any

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = new_parameter((num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        initial.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _OverDim(FunctionModule):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)


class Softmin(_OverDim):
    """Softmax of the negated elements.

    >>> nn.Softmin(dim=0)(rl.tensor([0.0, 1.0]))
    tensor([0.7311, 0.2689])
    """

    function = "softmin"


class Softmax(_OverDim):
    """Softmax along a dimension.

    >>> nn.Softmax(dim=0)(rl.tensor([0.0, 1.0]))
    tensor([0.2689, 0.7311])
    """

    function = "softmax"


class LogSoftmax(_OverDim):
    """Logarithm of the softmax along a dimension.

    >>> nn.LogSoftmax(dim=0)(rl.tensor([0.0, 1.0]))
    tensor([-1.3133, -0.3133])
    """

    function = "log_softmax"


class Softmax2d(Module):
    """Softmax over the channels of images.

    >>> nn.Softmax2d()(rl.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        check(
            input.ndim in (3, 4),
            f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead",
            ValueError,
        )
        return F.softmax(input, -3)

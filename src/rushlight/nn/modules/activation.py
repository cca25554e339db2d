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
    function = "relu"


class SiLU(_InPlace):
    function = "silu"


class Mish(_InPlace):
    function = "mish"


class SELU(_InPlace):
    function = "selu"


class Hardsigmoid(_InPlace):
    function = "hardsigmoid"

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    function = "hardswish"

    def extra_repr(self) -> str:
        return ""


class Sigmoid(_Plain):
    function = "sigmoid"


class Tanh(_Plain):
    function = "tanh"


class LogSigmoid(_Plain):
    function = "logsigmoid"


class Softsign(_Plain):
    function = "softsign"


class Tanhshrink(_Plain):
    function = "tanhshrink"


class Threshold(FunctionModule):
    function = "threshold"

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold=threshold, value=value, inplace=inplace)


class RReLU(FunctionModule):
    """Leaky ReLU with a random slope in training, and the mean of slopes in evaluation."""

    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(FunctionModule):
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
    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ELU(FunctionModule):
    function = "elu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class CELU(FunctionModule):
    function = "celu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha, inplace=inplace)


class LeakyReLU(FunctionModule):
    function = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(negative_slope=negative_slope, inplace=inplace)


class GLU(FunctionModule):
    function = "glu"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class GELU(FunctionModule):
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
    function = "hardshrink"


class Softshrink(_Shrink):
    function = "softshrink"


class Softplus(FunctionModule):
    function = "softplus"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class PReLU(Module):
    """Leaky ReLU whose slope, or slope of each channel, is learned."""

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
    function = "softmin"


class Softmax(_OverDim):
    function = "softmax"


class LogSoftmax(_OverDim):
    function = "log_softmax"


class Softmax2d(Module):
    """Softmax over the channels of images."""

    def forward(self, input: Tensor) -> Tensor:
        check(
            input.ndim in (3, 4),
            f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead",
            ValueError,
        )
        return F.softmax(input, -3)

"""Normalization over features, groups of channels, or neighbouring channels."""

from __future__ import annotations

from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from .. import init
from ._simple import F, FunctionModule, new_parameter
from .module import Module

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class LocalResponseNorm(FunctionModule):
    """Divides by a power of the mean square of `size` neighbouring channels.

    >>> nn.LocalResponseNorm(2)(rl.ones(1, 4, 3)).shape
    rushlight.Size([1, 4, 3])
    """

    function = "local_response_norm"
    size: int

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__(size=size, alpha=alpha, beta=beta, k=k)

    def extra_repr(self) -> str:
        return super().extra_repr().removeprefix("size=")


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm by its former name.

    >>> nn.CrossMapLRN2d(3)(rl.ones(1, 4, 2, 2)).shape
    rushlight.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)


class _Affine(Module):
    """A weight of ones and a bias of zeros, each of which may be missing."""

    weight: Any
    bias: Any

    def _register(self, shape: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        self.register_parameter("weight", new_parameter(shape, device, dtype) if weight else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


def _shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if hasattr(normalized_shape, "__index__") else tuple(normalized_shape)


class LayerNorm(_Affine):
    """Subtracts the mean over the last dimensions and divides by the standard deviation.

    >>> nn.LayerNorm(2)(rl.tensor([[1.0, 3.0]])).detach().round(decimals=3)
    tensor([[-1.,  1.]])
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-05,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._register(self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class GroupNorm(_Affine):
    """Normalizes groups of channels of each sample.

    >>> nn.GroupNorm(2, 4)(rl.ones(1, 4, 3)).shape
    rushlight.Size([1, 4, 3])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-05,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check(
            num_channels % num_groups == 0,
            f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})",
            ValueError,
        )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._register((num_channels,), affine, affine and bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root of the mean square over the last dimensions.

    >>> nn.RMSNorm(2)(rl.tensor([[3.0, 3.0]])).detach().round(decimals=3)
    tensor([[1., 1.]])
    """

    weight: Any

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", new_parameter(self.normalized_shape, device, dtype) if elementwise_affine else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"

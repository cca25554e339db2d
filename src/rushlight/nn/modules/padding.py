"""Padding: the edges of the last one, two or three dimensions are extended."""

from __future__ import annotations

from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from ._simple import F, repeated
from .module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """`padding` before and after each dimension, from the last one on."""

    spatial: int
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self.spatial)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        low, high = self.spatial + 1, self.spatial + 2
        check(
            input.ndim in (low, high),
            f"expected {low}D or {high}D input (got {input.ndim}D input)",
            ValueError,
        )
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Border of input (C, L) that wraps around.

    >>> nn.CircularPad1d(1)(rl.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    spatial = 1


class CircularPad2d(_CircularPad):
    """Border of input (C, H, W) that wraps around.

    >>> nn.CircularPad2d(1)(rl.ones(1, 2, 2)).shape
    rushlight.Size([1, 4, 4])
    """

    spatial = 2


class CircularPad3d(_CircularPad):
    """Border of input (C, D, H, W) that wraps around.

    >>> nn.CircularPad3d(1)(rl.ones(1, 2, 2, 2)).shape
    rushlight.Size([1, 4, 4, 4])
    """

    spatial = 3


class ReflectionPad1d(_Pad):
    """Border that mirrors what is next to it, without the edge itself.

    >>> nn.ReflectionPad1d(1)(rl.tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 1., 2., 3., 2.]])
    """

    spatial, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Border of images that mirrors what is next to it.

    >>> nn.ReflectionPad2d(1)(rl.ones(1, 2, 2)).shape
    rushlight.Size([1, 4, 4])
    """

    spatial, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Border of volumes that mirrors what is next to it.

    >>> nn.ReflectionPad3d(1)(rl.ones(1, 2, 2, 2)).shape
    rushlight.Size([1, 4, 4, 4])
    """

    spatial, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Border that repeats the edge.

    >>> nn.ReplicationPad1d(1)(rl.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 2., 3., 3.]])
    """

    spatial, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Border of images that repeats the edge.

    >>> nn.ReplicationPad2d(1)(rl.ones(1, 2, 2)).shape
    rushlight.Size([1, 4, 4])
    """

    spatial, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Border of volumes that repeats the edge.

    >>> nn.ReplicationPad3d(1)(rl.ones(1, 2, 2, 2)).shape
    rushlight.Size([1, 4, 4, 4])
    """

    spatial, mode = 3, "replicate"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Border of one value along one dimension.

    >>> nn.ConstantPad1d(1, 9.0)(rl.tensor([[1.0, 2.0]]))
    tensor([[9., 1., 2., 9.]])
    """

    spatial = 1


class ConstantPad2d(_ConstantPad):
    """Border of one value around images.

    >>> nn.ConstantPad2d(1, 9.0)(rl.zeros(1, 1, 1))
    tensor([[[9., 9., 9.],
             [9., 0., 9.],
             [9., 9., 9.]]])
    """

    spatial = 2


class ConstantPad3d(_ConstantPad):
    """Border of one value around volumes.

    >>> nn.ConstantPad3d(1, 9.0)(rl.zeros(1, 2, 2, 2)).shape
    rushlight.Size([1, 4, 4, 4])
    """

    spatial = 3


class ZeroPad1d(ConstantPad1d):
    """Border of zeros along one dimension.

    >>> nn.ZeroPad1d(1)(rl.tensor([[1.0, 2.0]]))
    tensor([[0., 1., 2., 0.]])
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Border of zeros around images.

    >>> nn.ZeroPad2d(1)(rl.ones(1, 1, 1))
    tensor([[[0., 0., 0.],
             [0., 1., 0.],
             [0., 0., 0.]]])
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Border of zeros around volumes.

    >>> nn.ZeroPad3d(1)(rl.ones(1, 1, 1, 1)).shape
    rushlight.Size([1, 3, 3, 3])
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"

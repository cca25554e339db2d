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
    spatial = 1


class CircularPad2d(_CircularPad):
    spatial = 2


class CircularPad3d(_CircularPad):
    spatial = 3


class ReflectionPad1d(_Pad):
    spatial, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    spatial, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    spatial, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    spatial, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    spatial, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
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
    spatial = 1


class ConstantPad2d(_ConstantPad):
    spatial = 2


class ConstantPad3d(_ConstantPad):
    spatial = 3


class ZeroPad1d(ConstantPad1d):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"

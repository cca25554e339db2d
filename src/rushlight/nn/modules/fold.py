"""Fold and Unfold: sliding blocks as columns, and back."""

from __future__ import annotations

from typing import Any

from ._simple import FunctionModule

__all__ = ["Fold", "Unfold"]


class Fold(FunctionModule):
    """The image whose blocks, added where they overlap, are the columns of the input.

    >>> nn.Fold((2, 2), kernel_size=1)(rl.arange(4.0).reshape(1, 1, 4))
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """

    function = "fold"

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(
            output_size=output_size,
            kernel_size=kernel_size,
            dilation=dilation,
            padding=padding,
            stride=stride,
        )


class Unfold(FunctionModule):
    """The sliding blocks of an image, as columns.

    >>> nn.Unfold(kernel_size=2)(rl.arange(9.0).reshape(1, 1, 3, 3)).shape
    rushlight.Size([1, 4, 4])
    """

    function = "unfold"

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__(kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)

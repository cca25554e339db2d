"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from .. import init
from ..parameter import UninitializedParameter
from ._simple import F, new_parameter, repeated
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What convolutions share. `spatial` is the number of dimensions they move along."""

    spatial: int
    transposed: bool
    weight: Any
    bias: Any

    def _set_up(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        count = self.spatial
        self._check(in_channels, out_channels, repeated(stride, count), padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = repeated(kernel_size, count)
        self.stride = repeated(stride, count)
        self.padding: Any = padding if isinstance(padding, str) else repeated(padding, count)
        self.dilation = repeated(dilation, count)
        self.output_padding = repeated(output_padding, count)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._sides()
        self.weight = new_parameter(self._weight_shape(), device, dtype)
        self.register_parameter("bias", new_parameter((out_channels,), device, dtype) if bias else None)
        self.reset_parameters()

    def _check(
        self,
        in_channels: int,
        out_channels: int,
        stride: tuple[int, ...],
        padding: Any,
        groups: int,
        padding_mode: str,
    ) -> None:
        check(groups > 0, "groups must be a positive integer", ValueError)
        check(in_channels % groups == 0, "in_channels must be divisible by groups", ValueError)
        check(out_channels % groups == 0, "out_channels must be divisible by groups", ValueError)
        if isinstance(padding, str):
            check(
                padding in ("same", "valid"),
                f"Invalid padding string {padding!r}, should be one of 'same', 'valid'",
                ValueError,
            )
            check(
                padding != "same" or all(s == 1 for s in stride),
                "padding='same' is not supported for strided convolutions",
                ValueError,
            )
        check(
            padding_mode in _MODES,
            f"padding_mode must be one of {_MODES}, but got padding_mode='{padding_mode}'",
            ValueError,
        )

    def _weight_shape(self) -> tuple[int, ...]:
        channels = (
            (self.in_channels, self.out_channels // self.groups)
            if self.transposed
            else (self.out_channels, self.in_channels // self.groups)
        )
        return (*channels, *self.kernel_size)

    def _sides(self) -> list[int]:
        """The padding as F.pad takes it: before and after, from the last dimension on."""
        if self.padding == "valid":
            return [0, 0] * self.spatial
        if self.padding == "same":
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return [side for t in reversed(total) for side in (t // 2, t - t // 2)]
        return [side for p in reversed(self.padding) for side in (p, p)]

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        zeros, ones = (0,) * self.spatial, (1,) * self.spatial
        return ", ".join(
            [
                f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
                f"stride={self.stride}",
                *([f"padding={self.padding}"] if self.padding != zeros else []),
                *([f"dilation={self.dilation}"] if self.dilation != ones else []),
                *([f"output_padding={self.output_padding}"] if self.output_padding != zeros else []),
                *([f"groups={self.groups}"] if self.groups != 1 else []),
                *(["bias=False"] if self.bias is None else []),
                *([f"padding_mode={self.padding_mode}"] if self.padding_mode != "zeros" else []),
            ]
        )


class _Conv(_ConvNd):
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolve = getattr(F, f"conv{self.spatial}d")
        if self.padding_mode == "zeros":
            return convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return convolve(padded, weight, bias, self.stride, (0,) * self.spatial, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution over one spatial dimension, with learned weight and bias.

    >>> nn.Conv1d(2, 3, kernel_size=3, padding=1)(rl.ones(1, 2, 8)).shape
    rushlight.Size([1, 3, 8])
    """

    spatial = 1


class Conv2d(_Conv):
    """Convolution over two spatial dimensions, with learned weight and bias.

    >>> nn.Conv2d(3, 8, kernel_size=3, stride=2)(rl.ones(1, 3, 9, 9)).shape
    rushlight.Size([1, 8, 4, 4])
    """

    spatial = 2


class Conv3d(_Conv):
    """Convolution over three spatial dimensions, with learned weight and bias.

    >>> nn.Conv3d(1, 2, kernel_size=2)(rl.ones(1, 1, 3, 3, 3)).shape
    rushlight.Size([1, 2, 2, 2, 2])
    """

    spatial = 3


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check(
            padding_mode == "zeros",
            f'Only "zeros" padding mode is supported for {type(self).__name__}',
            ValueError,
        )
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _padding_for(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """The output padding that leads to `output_size`, which may or may not have batch and channels."""
        if output_size is None:
            return self.output_padding
        count = self.spatial
        lead = 2 if input.ndim == count + 2 else 1
        sizes = list(output_size)[lead:] if len(output_size) == lead + count else list(output_size)
        check(
            len(sizes) == count,
            f"ConvTranspose{count}D: for {input.ndim}D input, output_size must have {count} or "
            f"{lead + count} elements (got {len(sizes)})",
            ValueError,
        )
        least = [
            (input.shape[lead + i] - 1) * self.stride[i]
            - 2 * self.padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(count)
        ]
        most = [low + stride - 1 for low, stride in zip(least, self.stride, strict=True)]
        check(
            all(low <= size <= high for low, size, high in zip(least, sizes, most, strict=True)),
            "requested an "
            f"output size of {sizes}, but valid sizes range from {least} to {most} (for an input of "
            f"{tuple(input.shape[2:])})",
            ValueError,
        )
        return tuple(size - low for size, low in zip(sizes, least, strict=True))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return getattr(F, f"conv_transpose{self.spatial}d")(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._padding_for(input, output_size),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution over one spatial dimension.

    >>> nn.ConvTranspose1d(2, 3, kernel_size=3, stride=2)(rl.ones(1, 2, 4)).shape
    rushlight.Size([1, 3, 9])
    """

    spatial = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution over two spatial dimensions.

    >>> nn.ConvTranspose2d(2, 3, kernel_size=2, stride=2)(rl.ones(1, 2, 4, 4)).shape
    rushlight.Size([1, 3, 8, 8])
    """

    spatial = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution over three spatial dimensions.

    >>> nn.ConvTranspose3d(2, 3, kernel_size=2)(rl.ones(1, 2, 2, 2, 2)).shape
    rushlight.Size([1, 3, 3, 3, 3])
    """

    spatial = 3


class _LazyConvNd(LazyModuleMixin, _ConvNd):
    """A convolution whose in_channels is that of the first input."""

    def _make_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        single = self.spatial + 1
        check(
            input.ndim in (single, single + 1),
            f"Expected {single}D (unbatched) or {single + 1}D (batched) input "
            f"to {type(self).__name__}, but got input of size: {input.shape}",
        )
        self.in_channels = input.shape[input.ndim - single]
        check(self.in_channels % self.groups == 0, "in_channels must be divisible by groups", ValueError)
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConv(_LazyConvNd, _Conv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv):
    """`Conv1d` whose number of input channels is that of its first input.

    >>> nn.LazyConv1d(3, 2)(rl.ones(1, 2, 8)).shape
    rushlight.Size([1, 3, 7])
    """

    spatial = 1
    cls_to_become = Conv1d


class LazyConv2d(_LazyConv):
    """`Conv2d` whose number of input channels is that of its first input.

    >>> nn.LazyConv2d(3, 2)(rl.ones(1, 2, 4, 4)).shape
    rushlight.Size([1, 3, 3, 3])
    """

    spatial = 2
    cls_to_become = Conv2d


class LazyConv3d(_LazyConv):
    """`Conv3d` whose number of input channels is that of its first input.

    >>> nn.LazyConv3d(3, 2)(rl.ones(1, 2, 2, 2, 2)).shape
    rushlight.Size([1, 3, 1, 1, 1])
    """

    spatial = 3
    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvNd, _ConvTranspose):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0,
            0,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            False,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        self._make_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose):
    """`ConvTranspose1d` whose number of input channels is that of its first input.

    >>> nn.LazyConvTranspose1d(3, 2)(rl.ones(1, 2, 8)).shape
    rushlight.Size([1, 3, 9])
    """

    spatial = 1
    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose):
    """`ConvTranspose2d` whose number of input channels is that of its first input.

    >>> nn.LazyConvTranspose2d(3, 2)(rl.ones(1, 2, 4, 4)).shape
    rushlight.Size([1, 3, 5, 5])
    """

    spatial = 2
    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose):
    """`ConvTranspose3d` whose number of input channels is that of its first input.

    >>> nn.LazyConvTranspose3d(3, 2)(rl.ones(1, 2, 2, 2, 2)).shape
    rushlight.Size([1, 3, 3, 3, 3])
    """

    spatial = 3
    cls_to_become = ConvTranspose3d

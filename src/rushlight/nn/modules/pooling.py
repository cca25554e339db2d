"""Pooling: maxima, means and norms of windows."""

from __future__ import annotations

from typing import Any

from ...core.errors import check
from ...core.tensor import Tensor
from ._simple import F, FunctionModule, repeated
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _Window(Module):
    """Windows of `kernel_size`, `stride` apart."""

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _MaxPool(_Window):
    function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPool):
    """Maximum of each window along one spatial dimension.

    >>> nn.MaxPool1d(2)(rl.tensor([[1.0, 3.0, 2.0, 4.0]]))
    tensor([[3., 4.]])
    """

    function = "max_pool1d"


class MaxPool2d(_MaxPool):
    """Maximum of each window of images.

    >>> nn.MaxPool2d(2)(rl.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])
    """

    function = "max_pool2d"


class MaxPool3d(_MaxPool):
    """Maximum of each window of volumes.

    >>> nn.MaxPool3d(2)(rl.ones(1, 2, 2, 2))
    tensor([[[[1.]]]])
    """

    function = "max_pool3d"


class _MaxUnpool(_Window):
    spatial: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self.spatial)
        self.stride = repeated(kernel_size if stride is None else stride, self.spatial)
        self.padding = repeated(padding, self.spatial)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return getattr(F, f"max_unpool{self.spatial}d")(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )


class MaxUnpool1d(_MaxUnpool):
    """Puts maxima back where `MaxPool1d` found them, zeros elsewhere.

    >>> y, where = nn.MaxPool1d(2, return_indices=True)(rl.tensor([[1.0, 3.0]]))
    >>> nn.MaxUnpool1d(2)(y, where)
    tensor([[0., 3.]])
    """

    spatial = 1


class MaxUnpool2d(_MaxUnpool):
    """Puts maxima back where `MaxPool2d` found them, zeros elsewhere.

    >>> y, where = nn.MaxPool2d(2, return_indices=True)(rl.arange(4.0).reshape(1, 2, 2))
    >>> nn.MaxUnpool2d(2)(y, where)
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    spatial = 2


class MaxUnpool3d(_MaxUnpool):
    """Puts maxima back where `MaxPool3d` found them, zeros elsewhere.

    >>> y, where = nn.MaxPool3d(2, return_indices=True)(rl.ones(1, 2, 2, 2))
    >>> nn.MaxUnpool3d(2)(y, where).sum()
    tensor(1.)
    """

    spatial = 3


class AvgPool1d(_Window):
    """Mean of each window along one spatial dimension.

    >>> nn.AvgPool1d(2)(rl.tensor([[1.0, 3.0, 2.0, 4.0]]))
    tensor([[2., 3.]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = repeated(kernel_size if stride is None else stride, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPool(_Window):
    function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPool):
    """Mean of each window of images.

    >>> nn.AvgPool2d(2)(rl.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5000]]])
    """

    function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """Mean of each window of volumes.

    >>> nn.AvgPool3d(2)(rl.ones(1, 2, 2, 2))
    tensor([[[[1.]]]])
    """

    function = "avg_pool3d"


class _FractionalMaxPool(Module):
    """Windows of random places that lead to an output of a given size, or share of the input's size."""

    spatial: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        sizes = repeated(kernel_size, self.spatial)
        check(
            self.spatial == 2 or all(size > 0 for size in sizes),
            f"kernel_size must be greater than 0, but got {kernel_size}",
            ValueError,
        )
        self.kernel_size = sizes
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else repeated(output_size, self.spatial)
        self.output_ratio = None if output_ratio is None else repeated(output_ratio, self.spatial)
        check(
            output_size is not None or output_ratio is not None,
            f"{type(self).__name__} requires specifying either an output size, or a pooling ratio",
            ValueError,
        )
        check(
            output_size is None or output_ratio is None,
            "only one of output_size and output_ratio may be specified",
            ValueError,
        )
        check(
            all(0 < ratio < 1 for ratio in self.output_ratio or ()),
            f"output_ratio must be between 0 and 1 (got {output_ratio})",
            ValueError,
        )

    def forward(self, input: Tensor) -> Any:
        return getattr(F, f"fractional_max_pool{self.spatial}d")(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Maxima of windows of images at random places, to a fraction of the size.

    >>> nn.FractionalMaxPool2d(2, output_size=2)(rl.ones(1, 4, 4)).shape
    rushlight.Size([1, 2, 2])
    """

    spatial = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """Maxima of windows of volumes at random places, to a fraction of the size.

    >>> nn.FractionalMaxPool3d(2, output_size=2)(rl.ones(1, 4, 4, 4)).shape
    rushlight.Size([1, 2, 2, 2])
    """

    spatial = 3


class _LPPool(FunctionModule):
    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__(norm_type=norm_type, kernel_size=kernel_size, stride=stride, ceil_mode=ceil_mode)


class LPPool1d(_LPPool):
    """The p-norm of each window along one spatial dimension.

    >>> nn.LPPool1d(2, 2)(rl.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    function = "lp_pool1d"


class LPPool2d(_LPPool):
    """The p-norm of each window of images.

    >>> nn.LPPool2d(2, 2)(rl.ones(1, 2, 2))
    tensor([[[2.]]])
    """

    function = "lp_pool2d"


class LPPool3d(_LPPool):
    """The p-norm of each window of volumes.

    >>> nn.LPPool3d(2, 2)(rl.ones(1, 2, 2, 2)).shape
    rushlight.Size([1, 1, 1, 1])
    """

    function = "lp_pool3d"


class _AdaptiveMaxPool(FunctionModule):
    output_size: Any

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size=output_size, return_indices=return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Maxima of as many windows as `output_size` says.

    >>> nn.AdaptiveMaxPool1d(2)(rl.tensor([[1.0, 3.0, 2.0, 4.0]]))
    tensor([[3., 4.]])
    """

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima of windows of images, to a given size.

    >>> nn.AdaptiveMaxPool2d(1)(rl.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])
    """

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Maxima of windows of volumes, to a given size.

    >>> nn.AdaptiveMaxPool3d(1)(rl.ones(1, 2, 2, 2)).shape
    rushlight.Size([1, 1, 1, 1])
    """

    function = "adaptive_max_pool3d"


class _AdaptiveAvgPool(FunctionModule):
    def __init__(self, output_size: Any) -> None:
        super().__init__(output_size=output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of as many windows as `output_size` says.

    >>> nn.AdaptiveAvgPool1d(2)(rl.tensor([[1.0, 3.0, 2.0, 4.0]]))
    tensor([[2., 3.]])
    """

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of windows of images, to a given size.

    >>> nn.AdaptiveAvgPool2d(1)(rl.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5000]]])
    """

    function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of windows of volumes, to a given size.

    >>> nn.AdaptiveAvgPool3d(1)(rl.ones(1, 2, 2, 2)).shape
    rushlight.Size([1, 1, 1, 1])
    """

    function = "adaptive_avg_pool3d"

"""Convolutions and pools that PyTorch names after a library or a way to compute them: the generic operators.

They differ in the order of their arguments; those without `groups` find them in the shapes.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import Shape
from ..core.tensor import Tensor

Parts = tuple[Any, ...]

_SETTINGS = "SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups"
_SPREAD = "SymInt[] padding, SymInt[] output_padding, SymInt[] stride, SymInt[] dilation, SymInt groups"
_FLAGS = "bool benchmark, bool deterministic"


@composite(
    f"miopen_convolution(Tensor self, Tensor weight, Tensor? bias, {_SETTINGS}, {_FLAGS}) -> Tensor",
    f"miopen_depthwise_convolution(Tensor self, Tensor weight, Tensor? bias, {_SETTINGS}, {_FLAGS}) "
    "-> Tensor",
    f"mkldnn_convolution(Tensor self, Tensor weight, Tensor? bias, {_SETTINGS}) -> Tensor",
    f"_mps_convolution(Tensor self, Tensor weight, Tensor? bias, {_SETTINGS}) -> Tensor",
    api=FUNCTION,
)
def convolution(
    self: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: Shape,
    stride: Shape,
    dilation: Shape,
    groups: int,
) -> Tensor:
    return run_name("convolution", self, weight, bias, stride, padding, dilation, False, (0,), groups)


@composite(
    f"cudnn_convolution(Tensor self, Tensor weight, {_SETTINGS}, {_FLAGS}, bool allow_tf32) -> Tensor",
    api=FUNCTION,
)
def cudnn_convolution(
    self: Tensor, weight: Tensor, padding: Shape, stride: Shape, dilation: Shape, groups: int
) -> Tensor:
    return convolution(self, weight, None, padding, stride, dilation, groups)


@composite(
    f"miopen_convolution_transpose(Tensor self, Tensor weight, Tensor? bias, {_SPREAD}, {_FLAGS}) -> Tensor",
    api=FUNCTION,
)
def convolution_transpose(
    self: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: Shape,
    output_padding: Shape,
    stride: Shape,
    dilation: Shape,
    groups: int,
) -> Tensor:
    return run_name(
        "convolution", self, weight, bias, stride, padding, dilation, True, output_padding, groups
    )


@composite(
    f"cudnn_convolution_transpose(Tensor self, Tensor weight, {_SPREAD}, {_FLAGS}, bool allow_tf32) "
    "-> Tensor",
    f"_mps_convolution_transpose(Tensor self, Tensor weight, {_SPREAD}) -> Tensor",
    api=FUNCTION,
)
def cudnn_convolution_transpose(
    self: Tensor,
    weight: Tensor,
    padding: Shape,
    output_padding: Shape,
    stride: Shape,
    dilation: Shape,
    groups: int,
) -> Tensor:
    return convolution_transpose(self, weight, None, padding, output_padding, stride, dilation, groups)


_RELU = "Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups"


@composite(
    f"cudnn_convolution_relu(Tensor self, Tensor weight, {_RELU}) -> Tensor",
    f"miopen_convolution_relu(Tensor self, Tensor weight, {_RELU}) -> Tensor",
    api=FUNCTION,
)
def convolution_relu(
    self: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Tensor:
    return convolution(self, weight, bias, padding, stride, dilation, groups).relu()


@composite(
    f"cudnn_convolution_add_relu(Tensor self, Tensor weight, Tensor z, Scalar? alpha, {_RELU}) -> Tensor",
    f"miopen_convolution_add_relu(Tensor self, Tensor weight, Tensor z, Scalar? alpha, {_RELU}) -> Tensor",
    api=FUNCTION,
)
def convolution_add_relu(
    self: Tensor,
    weight: Tensor,
    z: Tensor,
    alpha: Any,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
) -> Tensor:
    found = convolution(self, weight, bias, padding, stride, dilation, groups)
    return (found + z * (1 if alpha is None else alpha)).relu()


@composite(
    "_nnpack_spatial_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[2] padding, "
    "SymInt[2] stride=[1, 1]) -> Tensor",
    api=FUNCTION,
)
def nnpack_convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, padding: Shape, stride: Shape
) -> Tensor:
    return convolution(input, weight, bias, padding, stride, (1,), 1)


@composite(
    f"mps_convolution_backward(Tensor self, Tensor grad_output, Tensor weight, {_SETTINGS}, bool[3] "
    "output_mask) -> (Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def mps_convolution_backward(
    self: Tensor,
    grad_output: Tensor,
    weight: Tensor,
    padding: Shape,
    stride: Shape,
    dilation: Shape,
    groups: int,
    output_mask: Any,
) -> Parts:
    return run_name(
        "convolution_backward",
        grad_output,
        self,
        weight,
        None,
        stride,
        padding,
        dilation,
        False,
        (0,),
        groups,
        output_mask,
    )


@composite(
    f"mps_convolution_transpose_backward(Tensor self, Tensor grad_output, Tensor weight, {_SPREAD}, "
    "bool[2] output_mask) -> (Tensor, Tensor)",
    api=INTERNAL,
)
def mps_transpose_backward(
    self: Tensor,
    grad_output: Tensor,
    weight: Tensor,
    padding: Shape,
    output_padding: Shape,
    stride: Shape,
    dilation: Shape,
    groups: int,
    output_mask: Any,
) -> Parts:
    return run_name(
        "convolution_backward",
        grad_output,
        self,
        weight,
        None,
        stride,
        padding,
        dilation,
        True,
        output_padding,
        groups,
        (*output_mask, False),
    )[:2]


# By the way they are computed in PyTorch: one group, or as many as there are channels.


def _batched(
    self: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    transposed: bool = False,
    output_padding: Shape = (0,),
) -> Tensor:
    single = self.ndim == weight.ndim - 1
    found = run_name(
        "convolution",
        self.unsqueeze(0) if single else self,
        weight,
        bias,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )
    return found.squeeze(0) if single else found


def _declare_slow(rank: int) -> None:
    head = f"Tensor self, Tensor weight, SymInt[{rank}] kernel_size, Tensor? bias"
    ones, zeros = [1] * rank, [0] * rank
    with_defaults = f"{head}=None, SymInt[{rank}] stride={ones}, SymInt[{rank}] padding={zeros}"
    without = f"{head}, SymInt[{rank}] stride, SymInt[{rank}] padding"

    @composite(
        f"{'thnn_conv2d' if rank == 2 else 'slow_conv3d'}({with_defaults}) -> Tensor",
        f"{'_slow_conv2d_forward' if rank == 2 else 'slow_conv3d_forward'}({without}) -> Tensor",
        api=INTERNAL,
    )
    def plain(self: Tensor, weight: Tensor, bias: Tensor | None, stride: Shape, padding: Shape) -> Tensor:
        return _batched(self, weight, bias, stride, padding, (1,), 1)

    @composite(
        f"slow_conv_dilated{rank}d({with_defaults}, SymInt[{rank}] dilation={ones}) -> Tensor", api=INTERNAL
    )
    def dilated(
        self: Tensor, weight: Tensor, bias: Tensor | None, stride: Shape, padding: Shape, dilation: Shape
    ) -> Tensor:
        return _batched(self, weight, bias, stride, padding, dilation, 1)

    @composite(
        f"{'_conv_depthwise2d' if rank == 2 else 'conv_depthwise3d'}({without}, SymInt[{rank}] "
        "dilation) -> Tensor",
        api=INTERNAL,
    )
    def depthwise(
        self: Tensor, weight: Tensor, bias: Tensor | None, stride: Shape, padding: Shape, dilation: Shape
    ) -> Tensor:
        return _batched(self, weight, bias, stride, padding, dilation, self.shape[-rank - 1])

    @composite(
        f"slow_conv_transpose{rank}d({with_defaults}, SymInt[{rank}] output_padding={zeros}, "
        f"SymInt[{rank}] dilation={ones}) -> Tensor",
        api=INTERNAL,
    )
    def transpose(
        self: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Shape,
        padding: Shape,
        output_padding: Shape,
        dilation: Shape,
    ) -> Tensor:
        return _batched(self, weight, bias, stride, padding, dilation, 1, True, output_padding)


for _rank in (2, 3):
    _declare_slow(_rank)


@composite(
    "_slow_conv2d_backward.output_mask(Tensor grad_output, Tensor self, Tensor weight, SymInt[2] "
    "kernel_size, SymInt[2] stride, SymInt[2] padding, bool[3] output_mask) -> (Tensor grad_input, "
    "Tensor grad_weight, Tensor grad_bias)",
    api=INTERNAL,
)
def slow_conv2d_backward(
    grad_output: Tensor, self: Tensor, weight: Tensor, stride: Shape, padding: Shape, output_mask: Any
) -> Parts:
    return mps_convolution_backward(self, grad_output, weight, padding, stride, (1,), 1, output_mask)


# Pools.


def _declare_pools(rank: int) -> None:
    more = (
        f"int[{rank}] kernel_size, int[{rank}] stride=[], int[{rank}] padding=0, int[{rank}] dilation=1, "
        "bool ceil_mode=False"
    )

    @composite(f"mkldnn_max_pool{rank}d(Tensor self, {more}) -> Tensor", api=FUNCTION)
    def max_pool(
        self: Tensor, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
    ) -> Tensor:
        return run_name(f"max_pool{rank}d", self, kernel_size, stride, padding, dilation, ceil_mode)

    @composite(
        f"mkldnn_max_pool{rank}d_backward(Tensor grad_output, Tensor output, Tensor input, {more}) -> Tensor",
        api=INTERNAL,
    )
    def backward(
        grad_output: Tensor,
        input: Tensor,
        kernel_size: Shape,
        stride: Shape,
        padding: Shape,
        dilation: Shape,
        ceil_mode: bool,
    ) -> Tensor:
        settings = (kernel_size, stride, padding, dilation, ceil_mode)
        indices = run_name(f"max_pool{rank}d_with_indices", input, *settings)[1]
        return run_name(f"max_pool{rank}d_with_indices_backward", grad_output, input, *settings, indices)


for _rank in (2, 3):
    _declare_pools(_rank)


@composite("mkldnn_adaptive_avg_pool2d(Tensor self, int[2] output_size) -> Tensor", api=FUNCTION)
def adaptive_avg_pool2d(self: Tensor, output_size: Shape) -> Tensor:
    return run_name("adaptive_avg_pool2d", self, output_size)


@composite("mkldnn_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor", api=INTERNAL)
def adaptive_avg_pool2d_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    return run_name("_adaptive_avg_pool2d_backward", grad_output, self)

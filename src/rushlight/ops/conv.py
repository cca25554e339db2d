"""Convolutions, and sliding blocks as columns: schemas and shape rules.

`convolution` and `convolution_backward` are all of them; conv1d, conv_transpose2d, ... are composites of
these. Input is [batch, channels, *space], weight [out channels, channels / groups, *kernel]; of a transposed
convolution the weight is [channels, out channels / groups, *kernel].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, define
from ..core.shapes import Shape, Spec, numel, suggested_strides
from ..core.tensor import Tensor
from .dtype_sets import INEXACT, NUMBERS
from .rules import like

Sizes = Sequence[int]
SPREAD = INEXACT | {DTYPES["int64"]}  # what PyTorch's transposed convolutions take; others take more integers
VOLUMES = {
    DTYPES[name] for name in ("float32", "bfloat16", "complex64")
}  # whose channels stay last in 3-D, too
COLUMNS = INEXACT | {DTYPES["bool"]}


def _sides(sizes: list[int]) -> str:
    return " x ".join(str(size) for size in sizes)


def each(given: Sizes | int, count: int, name: str = "", word: str = "") -> Shape:
    """`given` as one number for each of `count` dimensions."""
    given = (given,) if isinstance(given, int) else tuple(given)
    check(
        len(given) in (1, count),
        f"{name}: expected {word} to be a single integer value or a list of "
        f"{count} values to match the dimensions of space, but got {word}={list(given)}",
    )
    return given if len(given) == count else given * count


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many windows there are along a dimension."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


def spread(size: int, kernel: int, stride: int, padding: int, dilation: int, more: int) -> int:
    """The size that a transposed convolution leads to."""
    return (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1


def check_dtypes(
    input: Tensor, weight: Tensor, bias: Tensor | None, name: str, transposed: bool = False
) -> None:
    check(
        input.dtype in (SPREAD if transposed else NUMBERS),
        f"\"{name}\" not implemented for '{input.dtype.torch_name}'",
        NotImplementedError,
    )
    for word, tensor in (("weight", weight), ("bias", bias)):
        check(
            tensor is None or tensor.dtype is input.dtype,
            f"{name}: Input type ({input.dtype.torch_name}) "
            f"and {word} type ({None if tensor is None else tensor.dtype.torch_name}) should be the same",
        )


class Geometry(NamedTuple):
    """How the windows of a convolution lie: the arguments that all of them share."""

    stride: Sizes
    padding: Sizes
    dilation: Sizes
    transposed: bool
    output_padding: Sizes
    groups: int

    def checked(self, rank: int, name: str) -> Geometry:
        """The same with one number for each dimension, and none that makes no sense."""
        steps, borders, apart, more = (
            each(getattr(self, word), rank, name, word)
            for word in ("stride", "padding", "dilation", "output_padding")
        )
        check(
            max(borders, default=0) < 2**62,
            f"{name}: expected padding to be at most {2**62 - 1}, got {list(borders)}",
        )
        check(
            min(borders) >= 0 and min(more) >= 0,
            f"{name}: negative padding is not supported: padding={list(borders)}, output_padding={list(more)}",
        )
        check(min(steps) > 0, f"{name}: non-positive stride is not supported: {list(steps)}")
        check(min(apart) > 0, f"{name}: dilation should be greater than zero: {list(apart)}")
        check(self.groups > 0, f"{name}: non-positive groups is not supported: {self.groups}")
        return Geometry(steps, borders, apart, self.transposed, more, self.groups)


def result_shape(input: Tensor, weight: Tensor, given: Geometry, name: str = "convolution") -> Shape:
    """The shape of the output, after checking that all arguments fit together."""
    rank, shape = weight.ndim - 2, list(weight.shape)
    check(rank >= 1, f"{name}: weight should have at least three dimensions, but its shape is {shape}")
    check(
        input.ndim == weight.ndim,
        f"{name}: Expected {weight.ndim}-dimensional input for "
        f"{weight.ndim}-dimensional weight {shape}, but got {input.ndim}-dimensional input of size "
        f"{list(input.shape)} instead",
    )
    geometry = given.checked(rank, name)
    groups, transposed = geometry.groups, geometry.transposed
    check(
        shape[0] >= groups and shape[0] % groups == 0,
        f"{name}: Given groups={groups}, expected weight to "
        f"be at least {groups} at dimension 0, and divisible by it, but got weight of size {shape} instead",
    )
    channels = shape[0] if transposed else shape[1] * groups
    check(
        input.shape[1] == channels,
        f"{name}: Given groups={groups}, transposed={transposed}, weight of "
        f"size {shape}, expected input{list(input.shape)} to have {channels} channels, but got "
        f"{input.shape[1]} channels instead",
    )
    kernel, space = shape[2:], input.shape[2:]
    check(min(kernel) > 0, f"{name}: kernel size should be greater than zero, but weight has shape {shape}")
    if transposed:
        return input.shape[0], shape[1] * groups, *_spread_sizes(space, kernel, geometry, name)
    return input.shape[0], shape[0], *_window_counts(space, kernel, geometry, name)


def _window_counts(space: Sizes, kernel: Sizes, geometry: Geometry, name: str) -> list[int]:
    steps, borders, apart = geometry[:3]
    seen = [d * (k - 1) + 1 for k, d in zip(kernel, apart, strict=True)]
    padded = [n + 2 * p for n, p in zip(space, borders, strict=True)]
    check(
        all(p >= s for p, s in zip(padded, seen, strict=True)),
        f"{name}: Calculated padded input size "
        f"per channel: ({_sides(padded)}). Kernel size: ({_sides(seen)}). Kernel size can't be greater "
        "than actual input size",
    )
    return [windows(*one) for one in zip(space, kernel, steps, borders, apart, strict=True)]


def _spread_sizes(space: Sizes, kernel: Sizes, geometry: Geometry, name: str) -> list[int]:
    """The sizes that a transposed convolution leads to."""
    steps, borders, apart, _, more, _ = geometry
    check(
        all(m < max(s, d) for m, s, d in zip(more, steps, apart, strict=True)),
        f"{name}: output padding "
        f"must be smaller than either stride or dilation, but got output_padding={list(more)}, stride="
        f"{list(steps)}, dilation={list(apart)}",
    )
    sizes = [spread(*one) for one in zip(space, kernel, steps, borders, apart, more, strict=True)]
    check(
        min(sizes) > 0,
        f"{name}: Given input size per channel: {list(space)}. Calculated output size per "
        f"channel: {sizes}. Output size is too small",
    )
    return sizes


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
) -> Spec:
    geometry = Geometry(stride, padding, dilation, transposed, output_padding, groups)
    shape = result_shape(input, weight, geometry)
    check(
        bias is None or tuple(bias.shape) == (shape[1],),
        f"convolution: Given weight of size "
        f"{list(weight.shape)}, expected bias to be 1-dimensional with {shape[1]} elements, but got bias "
        f"of size {None if bias is None else list(bias.shape)} instead",
    )
    check_dtypes(input, weight, bias, "convolution", transposed)
    return Spec(shape, input.dtype, _result_strides(shape, input, weight))


def _result_strides(shape: Shape, input: Tensor, weight: Tensor) -> Shape | None:
    """With channels last in memory if those of the input or of the weight are."""
    if len(shape) == 5 and input.dtype not in VOLUMES:
        return None
    found = [suggested_strides(shape, [(t.shape, t.strides())]) for t in (input, weight)]
    return found[0] or found[1]


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Spec, ...]:
    """Gradients of input, weight and bias; one that is not asked for has no elements."""
    name = "convolution_backward"
    geometry = Geometry(stride, padding, dilation, transposed, output_padding, groups)
    shape = result_shape(input, weight, geometry, name)
    check(
        tuple(grad_output.shape) == shape,
        f"{name}: expected grad_output of shape {list(shape)}, but got {list(grad_output.shape)}",
    )
    check_dtypes(input, weight, None, name)
    check(
        grad_output.dtype is input.dtype,
        f"{name}: grad_output type ({grad_output.dtype.name}) and input "
        f"type ({input.dtype.name}) should be the same",
    )
    shapes = (tuple(input.shape), tuple(weight.shape), (shape[1],))
    return tuple(
        Spec(s if asked else (0,), input.dtype) for s, asked in zip(shapes, output_mask, strict=True)
    )


define(
    "convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
    "dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
    shape=convolution,
    api=FUNCTION,
)
define(
    "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] "
    "stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt "
    "groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    shape=convolution_backward,
    api=INTERNAL,
)


# Sliding blocks of an image, [batch, channels, height, width], as columns
# [batch, channels * kernel elements, positions].


def blocks(
    space: Sizes, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes, name: str
) -> Shape:
    """How many blocks there are along each dimension."""
    for word, given, least in (
        ("kernel_size", kernel_size, 1),
        ("dilation", dilation, 1),
        ("padding", padding, 0),
        ("stride", stride, 1),
    ):
        check(len(given) == 2, f"{name}: It is expected {word} equals to 2, but got size {len(given)}")
        check(
            min(given) >= least,
            f"{name}: {word} should be "
            f"{'greater than zero' if least else 'non-negative'}, but got {word}: {list(given)}",
        )
    counts = tuple(windows(*one) for one in zip(space, kernel_size, stride, padding, dilation, strict=True))
    check(
        min(counts) >= 1,
        f"{name}: Given spatial size {list(space)}, kernel_size={list(kernel_size)}, "
        f"dilation={list(dilation)}, padding={list(padding)}, stride={list(stride)}, calculated shape of "
        f"the array of sliding blocks as {list(counts)}, but its components must be at least one",
    )
    return counts


def check_columns(self: Tensor, name: str) -> None:
    check(
        self.dtype in COLUMNS,
        f"\"{name}\" not implemented for '{self.dtype.torch_name}'",
        NotImplementedError,
    )


def im2col(self: Tensor, kernel_size: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Spec:
    check(
        self.ndim in (3, 4) and 0 not in self.shape[-3:],
        "im2col: Expected 3D or 4D (batch mode) tensor "
        "for input with possibly 0 batch size and non-zero dimensions for input, but got: "
        f"{list(self.shape)}",
    )
    counts = blocks(self.shape[-2:], kernel_size, dilation, padding, stride, "im2col")
    check_columns(self, "im2col")
    return Spec((*self.shape[:-3], self.shape[-3] * numel(kernel_size), numel(counts)), self.dtype)


def col2im(
    self: Tensor, output_size: Shape, kernel_size: Shape, dilation: Shape, padding: Shape, stride: Shape
) -> Spec:
    check(
        len(output_size) == 2,
        f"col2im: It is expected output_size equals to 2, but got size {len(output_size)}",
    )
    check(
        self.ndim in (2, 3) and 0 not in self.shape[-2:],
        "col2im: Expected 2D or 3D (batch mode) tensor "
        "for input with possibly 0 batch size and non-zero dimensions for input, but got: "
        f"{list(self.shape)}",
    )
    counts = blocks(output_size, kernel_size, dilation, padding, stride, "col2im")
    check_columns(self, "col2im")
    elements, positions = self.shape[-2:]
    check(
        elements % numel(kernel_size) == 0,
        "col2im: Expected size of input's dimension 1 to be divisible "
        f"by the product of kernel_size, but got input.size(1)={elements} and kernel_size="
        f"{list(kernel_size)}",
    )
    check(
        positions == numel(counts),
        f"col2im: Given output_size={list(output_size)}, kernel_size="
        f"{list(kernel_size)}, dilation={list(dilation)}, padding={list(padding)}, stride={list(stride)}, "
        f"expected size of input's dimension 2 to match the calculated number of sliding blocks "
        f"{numel(counts)}, but got input.size(2)={positions}",
    )
    return Spec((*self.shape[:-2], elements // numel(kernel_size), *output_size), self.dtype)


define(
    "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
    shape=im2col,
    api=INTERNAL,
    moves=True,
)
define(
    "col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, "
    "int[2] stride) -> Tensor",
    shape=col2im,
    api=INTERNAL,
)


# Time, batch, channels.


def conv_tbc(self: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Spec:
    """self [time, batch, channels], weight [kernel, channels, out channels]."""
    check(
        self.ndim == 3, f"conv_tbc: Input must have 3 dims: time, batch, in_channel; it is {list(self.shape)}"
    )
    check(
        weight.ndim == 3,
        "conv_tbc: Weight tensor must have 3 dims: kernel_width, in_channels, "
        f"out_channels; it is {list(weight.shape)}",
    )
    check(bias.ndim == 1, f"conv_tbc: Bias must be 1-D, but its shape is {list(bias.shape)}")
    check(
        self.shape[2] == weight.shape[1],
        f"conv_tbc: Input dim 2 (input channels) is not == dim 1 in the "
        f"weight tensor: {self.shape[2]} and {weight.shape[1]}",
    )
    check(
        weight.shape[2] == bias.shape[0],
        f"conv_tbc: Bias size must equal dim 2 in the weight tensor "
        f"(output channels): {bias.shape[0]} and {weight.shape[2]}",
    )
    check_dtypes(self, weight, bias, "conv_tbc")
    length = self.shape[0] + 2 * pad - weight.shape[0] + 1
    check(
        length >= 0,
        f"conv_tbc: the kernel of {weight.shape[0]} is longer than the input with padding, "
        f"{self.shape[0] + 2 * pad}",
    )
    return Spec((length, self.shape[1], weight.shape[2]), self.dtype)


def conv_tbc_backward(self: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Any:
    shape = conv_tbc(input, weight, bias, pad).shape
    check(
        tuple(self.shape) == shape,
        f"conv_tbc_backward: expected a gradient of shape {shape}, but got {tuple(self.shape)}",
    )
    return like(input), like(weight), like(bias)

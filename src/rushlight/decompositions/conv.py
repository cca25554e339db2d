"""Convolutions by their PyTorch names, in terms of `convolution` and `convolution_backward`."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite, decomposition
from ..core.shapes import Shape
from ..core.tensor import Tensor
from ..ops.conv import blocks, each
from ..ops.conv import conv_tbc as check_tbc
from ..ops.conv import conv_tbc_backward as check_tbc_backward

Parts = tuple[Any, ...]


def convolve(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    rank: int,
    transposed: bool = False,
    output_padding: Shape = (0,),
) -> Tensor:
    """A convolution along `rank` dimensions of an input with or without a batch."""
    name = f"conv{'_transpose' if transposed else ''}{rank}d"
    check(
        input.ndim in (rank + 1, rank + 2),
        f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) "
        f"input to {name}, but got input of size: {list(input.shape)}",
    )
    settings = [
        each(given, rank, name, word)
        for given, word in ((stride, "stride"), (padding, "padding"), (dilation, "dilation"))
    ]
    more = each(output_padding, rank, name, "output_padding")
    batch = input if input.ndim == rank + 2 else input.unsqueeze(0)
    result = run_name("convolution", batch, weight, bias, *settings, transposed, more, groups)
    return result if input.ndim == rank + 2 else result.squeeze(0)


def padded_by_name(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: str,
    dilation: Shape,
    groups: int,
    rank: int,
) -> Tensor:
    """A convolution with the padding "valid" (none) or "same" (as much as keeps the size)."""
    check(
        padding in ("same", "valid"),
        f"conv{rank}d: Invalid padding string: '{padding}'; it must be 'same' or 'valid'",
    )
    if padding == "valid":
        return convolve(input, weight, bias, stride, (0,) * rank, dilation, groups, rank)
    check(all(s == 1 for s in stride), "padding='same' is not supported for strided convolutions")
    check(
        weight.ndim == rank + 2,
        f"conv{rank}d: Expected a weight of {rank + 2} dimensions, but got {list(weight.shape)}",
    )
    apart = each(dilation, rank, f"conv{rank}d", "dilation")
    totals = [d * (k - 1) for d, k in zip(apart, weight.shape[2:], strict=True)]
    if any(total % 2 for total in totals):  # the odd element goes behind
        sides = [side for total in reversed(totals) for side in (0, total % 2)]
        input = run_name("constant_pad_nd", input, tuple(sides), 0)
    return convolve(input, weight, bias, stride, tuple(t // 2 for t in totals), dilation, groups, rank)


def _list(word: str, rank: int, default: int) -> str:
    return f"SymInt[{rank}] {word}={[default] * rank}"


def _declare(rank: int) -> None:
    head = "Tensor input, Tensor weight, Tensor? bias=None"
    stride, dilation = _list("stride", rank, 1), _list("dilation", rank, 1)
    padding, more = _list("padding", rank, 0), _list("output_padding", rank, 0)

    @composite(
        f"conv{rank}d({head}, {stride}, {padding}, {dilation}, SymInt groups=1) -> Tensor", api=FUNCTION
    )
    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Shape,
        padding: Shape,
        dilation: Shape,
        groups: int,
    ) -> Tensor:
        return convolve(input, weight, bias, stride, padding, dilation, groups, rank)

    @composite(
        f'conv{rank}d.padding({head}, {stride}, str padding="valid", {dilation}, SymInt groups=1) -> Tensor',
        api=FUNCTION,
    )
    def conv_by_name(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Shape,
        padding: str,
        dilation: Shape,
        groups: int,
    ) -> Tensor:
        return padded_by_name(input, weight, bias, stride, padding, dilation, groups, rank)

    @composite(
        f"conv_transpose{rank}d{'.input' if rank > 1 else ''}({head}, {stride}, {padding}, {more}, "
        f"SymInt groups=1, {dilation}) -> Tensor",
        api=FUNCTION,
    )
    def conv_transpose(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Shape,
        padding: Shape,
        output_padding: Shape,
        groups: int,
        dilation: Shape,
    ) -> Tensor:
        return convolve(input, weight, bias, stride, padding, dilation, groups, rank, True, output_padding)


for _rank in (1, 2, 3):
    _declare(_rank)

_CONVOLUTION = (
    "Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] "
    "dilation, bool transposed, {}[] output_padding, SymInt groups"
)


@composite(
    f"_convolution({_CONVOLUTION.format('SymInt')}, bool benchmark, bool deterministic, bool "
    "cudnn_enabled, bool allow_tf32) -> Tensor",
    f"_convolution.deprecated({_CONVOLUTION.format('int')}, bool benchmark, bool deterministic, bool "
    "cudnn_enabled) -> Tensor",
    api=FUNCTION,
)
def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
) -> Tensor:
    return run_name(
        "convolution", input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


composite(f"convolution_overrideable({_CONVOLUTION.format('SymInt')}) -> Tensor", api=INTERNAL)(_convolution)


@composite(
    "convolution_backward_overrideable(Tensor grad_output, Tensor input, Tensor weight, SymInt[] "
    "stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt "
    "groups, bool[3] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
    api=INTERNAL,
)
def convolution_backward_overrideable(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
    output_mask: Any,
) -> Parts:
    return run_name(
        "convolution_backward",
        grad_output,
        input,
        weight,
        None,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    )


@composite(
    "_convolution_mode(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, str padding, "
    "SymInt[] dilation, SymInt groups) -> Tensor",
    api=FUNCTION,
)
def _convolution_mode(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: str,
    dilation: Shape,
    groups: int,
) -> Tensor:
    return padded_by_name(input, weight, bias, stride, padding, dilation, groups, weight.ndim - 2)


# Second derivatives, from gradients of the gradients.


@composite(
    "_convolution_double_backward(Tensor? ggI, Tensor? ggW, Tensor? ggb, Tensor gO, Tensor weight, "
    "Tensor self, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] "
    "output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def double_backward(
    ggI: Tensor | None,
    ggW: Tensor | None,
    ggb: Tensor | None,
    gO: Tensor,
    weight: Tensor,
    self: Tensor,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    transposed: bool,
    output_padding: Shape,
    groups: int,
    output_mask: Any,
) -> Parts:
    """Gradients of grad_output, weight and self of convolution_backward (in this order).

    All is multilinear: gO is to the result what ggI and ggW are to self and weight.
    """
    settings = (stride, padding, dilation, transposed, output_padding, groups)
    to_grad = to_weight = to_self = None
    if output_mask[0]:
        terms = [] if ggI is None else [run_name("convolution", ggI, weight, None, *settings)]
        terms += [] if ggW is None else [run_name("convolution", self, ggW, None, *settings)]
        if ggb is not None:
            terms.append(ggb.reshape((1, -1, *[1] * (gO.ndim - 2))).expand(gO.shape))
        for term in terms:
            to_grad = term if to_grad is None else to_grad + term
    if output_mask[1] and ggI is not None:
        to_weight = run_name("convolution_backward", gO, ggI, weight, None, *settings, (False, True, False))[
            1
        ]
    if output_mask[2] and ggW is not None:
        to_self = run_name("convolution_backward", gO, self, ggW, None, *settings, (True, False, False))[0]
    return to_grad, to_weight, to_self


# Time, batch, channels: a convolution of [batch, channels, time].


@composite("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", api=FUNCTION)
def conv_tbc(self: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    check_tbc(self, weight, bias, pad)
    result = run_name(
        "convolution",
        self.permute((1, 2, 0)),
        weight.permute((2, 1, 0)),
        bias,
        (1,),
        (pad,),
        (1,),
        False,
        (0,),
        1,
    )
    return result.permute((2, 0, 1))


@composite(
    "conv_tbc_backward(Tensor self, Tensor input, Tensor weight, Tensor bias, int pad) -> (Tensor, "
    "Tensor, Tensor)",
    api=INTERNAL,
)
def conv_tbc_backward(self: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Parts:
    check_tbc_backward(self, input, weight, bias, pad)
    to_input, to_weight, to_bias = run_name(
        "convolution_backward",
        self.permute((1, 2, 0)),
        input.permute((1, 2, 0)),
        weight.permute((2, 1, 0)),
        tuple(bias.shape),
        (1,),
        (pad,),
        (1,),
        False,
        (0,),
        1,
        (True, True, True),
    )
    return to_input.permute((2, 0, 1)), to_weight.permute((2, 1, 0)), to_bias


# Sliding blocks as columns and back; eager has kernels for these.


@decomposition("im2col")
def im2col(self: Tensor, kernel_size: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Tensor:
    counts = blocks(self.shape[-2:], kernel_size, dilation, padding, stride, "im2col")
    lead = tuple(self.shape[:-3])
    (up, left), elements = padding, self.shape[-3] * kernel_size[0] * kernel_size[1]
    seen = run_name("constant_pad_nd", self, (left, left, up, up), 0)
    for kernel, apart, step in zip(kernel_size, dilation, stride, strict=True):
        seen = run_name("unfold", seen, -2, apart * (kernel - 1) + 1, step)  # taps come last
        seen = run_name("slice.Tensor", seen, -1, None, None, apart)
    # now [..., rows, columns, taps of rows, taps of columns]
    order = (*range(seen.ndim - 4), seen.ndim - 2, seen.ndim - 1, seen.ndim - 4, seen.ndim - 3)
    return seen.permute(order).reshape((*lead, elements, counts[0] * counts[1]))


@decomposition("col2im")
def col2im(
    self: Tensor, output_size: Shape, kernel_size: Shape, dilation: Shape, padding: Shape, stride: Shape
) -> Tensor:
    counts = blocks(output_size, kernel_size, dilation, padding, stride, "col2im")
    channels = self.shape[-2] // (kernel_size[0] * kernel_size[1])
    many = self.reshape((-1, *kernel_size, *counts)).permute((0, 1, 3, 2, 4))
    settings = list(zip(output_size, dilation, padding, stride, strict=True))
    rows = overlapped(many, *settings[1]).permute((0, 3, 1, 2))
    return (
        overlapped(rows, *settings[0]).transpose(-2, -1).reshape((*self.shape[:-2], channels, *output_size))
    )


def overlapped(blocks_of: Tensor, size: int, dilation: int, padding: int, stride: int) -> Tensor:
    """Blocks [..., taps, positions] added up to lines [..., size]."""
    taps, positions = blocks_of.shape[-2:]
    places = run_name("arange", size, None, None, blocks_of.device, None) + padding
    total = None
    for tap in range(taps):
        ahead = places - tap * dilation
        at = run_name("div.Scalar_mode", ahead, stride, "floor")
        valid = (at >= 0) & (at < positions) & (at * stride == ahead)
        part = run_name("index_select", blocks_of.select(-2, tap), -1, at.clamp(0, positions - 1))
        part = run_name("where.ScalarOther", valid, part, 0)
        total = part if total is None else total + part
    assert total is not None
    return total

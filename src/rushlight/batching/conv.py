"""vmap of convolutions: a batch of inputs joins the images; with a batch of weights it joins the groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import batching, expand_batch


def beside_channels(x: Tensor) -> Tensor:
    """[batch, n, c, *space] as [n, batch * c, *space]."""
    return x.movedim(0, 1).flatten(1, 2)


def from_channels(x: Tensor, batch: int) -> Tensor:
    return x.unflatten(1, (batch, x.shape[1] // batch)).movedim(1, 0)


def split_first(x: Tensor, batch: int) -> Tensor:
    return x.unflatten(0, (batch, x.shape[0] // batch))


@batching("convolution")
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    batch: int,
    input_batched: bool,
    weight_batched: bool,
    bias_batched: bool,
) -> Tensor:
    settings = (stride, padding, dilation, transposed, output_padding)
    if not weight_batched and not input_batched:
        result = run_name("convolution", input, weight, None, *settings, groups).unsqueeze(0)
    elif not weight_batched:
        found = run_name("convolution", input.flatten(0, 1), weight, None, *settings, groups)
        result = split_first(found, batch)
    else:
        x = input if input_batched else expand_batch(input, batch)
        found = run_name(
            "convolution", beside_channels(x), weight.flatten(0, 1), None, *settings, groups * batch
        )
        result = from_channels(found, batch)
    if bias is None:
        return result
    lead = batch if bias_batched else 1
    return result + bias.reshape((lead, 1, bias.shape[-1], *[1] * (result.ndim - 3)))


@batching("convolution_backward")
def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
    batch: int,
    grad_output_batched: bool,
    input_batched: bool,
    weight_batched: bool,
) -> tuple[Tensor, ...]:
    settings = (stride, padding, dilation, transposed, output_padding)
    grad, x = (
        t if has else expand_batch(t, batch)
        for t, has in ((grad_output, grad_output_batched), (input, input_batched))
    )
    none = expand_batch(grad.new_zeros((0,)), batch)
    to_bias = grad.sum((1, *range(3, grad.ndim))) if output_mask[2] else none
    if not weight_batched and not output_mask[1]:
        found = none
        if output_mask[0]:
            found = split_first(
                run_name(
                    "convolution_backward",
                    grad.flatten(0, 1),
                    x.flatten(0, 1),
                    weight,
                    None,
                    *settings,
                    groups,
                    (True, False, False),
                )[0],
                batch,
            )
        return found, none, to_bias
    many = weight if weight_batched else expand_batch(weight, batch)
    mask = (output_mask[0], output_mask[1], False)
    to_input, to_weight, _ = run_name(
        "convolution_backward",
        beside_channels(grad),
        beside_channels(x),
        many.flatten(0, 1),
        None,
        *settings,
        groups * batch,
        mask,
    )
    return (
        from_channels(to_input, batch) if mask[0] else none,
        split_first(to_weight, batch) if mask[1] else none,
        to_bias,
    )


@batching("im2col")
def im2col(
    self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any, self_ndim: int, batch: int
) -> Tensor:
    images = self if self_ndim == 3 else self.flatten(0, 1)
    found = run_name("im2col", images, kernel_size, dilation, padding, stride)
    return found if self_ndim == 3 else split_first(found, batch)


@batching("col2im")
def col2im(
    self: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
    self_ndim: int,
    batch: int,
) -> Tensor:
    columns = self if self_ndim == 2 else self.flatten(0, 1)
    found = run_name("col2im", columns, output_size, kernel_size, dilation, padding, stride)
    return found if self_ndim == 2 else split_first(found, batch)

"""Convolutions on NumPy arrays: windows as columns, and one product for each group.

`columns` and `added_columns` are transposes of each other: the first reads every window, the second adds to
every window. A convolution is a product with the first, its gradient by the input (and a transposed
convolution) a product followed by the second, its gradient by the weight a product with the first's columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as taps_of
from math import prod
from typing import Any

import numpy as np

from ..core.registry import kernel
from ..core.shapes import Spec
from ..ops.conv import blocks, each
from .creation import filled
from .matmul import product
from .reduction_sums import total

Array = np.ndarray
Sizes = Sequence[int]


class Geometry:
    """Windows over the last dimensions of an array: what lies where."""

    def __init__(self, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> None:
        rank = len(kernel)
        self.kernel = tuple(kernel)
        self.stride, self.padding, self.dilation = (each(g, rank) for g in (stride, padding, dilation))

    def places(self, taps: Sizes, result: Sizes) -> tuple[slice, ...]:
        """The elements of a padded array that lie under one tap in all windows."""
        return tuple(
            slice(t * d, t * d + (r - 1) * s + 1, s if r > 1 else 1)
            for t, d, r, s in zip(taps, self.dilation, result, self.stride, strict=True)
        )

    def padded(self, x: Array) -> Array:
        if not any(self.padding):
            return x
        lead = x.ndim - len(self.padding)
        return np.pad(x, [(0, 0)] * lead + [(p, p) for p in self.padding])

    def seen(self, x: Array, result: Sizes) -> Array:
        """x [..., *space] as [..., *kernel, *result], without a copy."""
        x = self.padded(x)
        rank = len(self.kernel)
        lead, along = x.strides[:-rank], x.strides[-rank:]
        # a step of a single window or tap is never taken, and may be too large for NumPy
        inner = [d * s * (k > 1) for d, s, k in zip(self.dilation, along, self.kernel, strict=True)]
        outer = [d * s * (r > 1) for d, s, r in zip(self.stride, along, result, strict=True)]
        return np.lib.stride_tricks.as_strided(
            x, (*x.shape[:-rank], *self.kernel, *result), (*lead, *inner, *outer), writeable=False
        )

    def added(self, columns: Array, space: Sizes) -> Array:
        """columns [..., *kernel, *result] added to where they were seen in zeros [..., *space]."""
        rank = len(self.kernel)
        lead, result = columns.shape[: -2 * rank], columns.shape[-rank:]
        sizes = [
            max(n + 2 * p, d * (k - 1) + (r - 1) * s + 1)
            for n, p, d, k, r, s in zip(
                space, self.padding, self.dilation, self.kernel, result, self.stride, strict=True
            )
        ]
        total = np.zeros((*lead, *sizes), columns.dtype)
        if columns.size:
            for taps in taps_of(*map(range, self.kernel)):
                to: Any = (..., *self.places(taps, result))
                tap: Any = (..., *taps, *[slice(None)] * rank)
                total[to] += columns[tap]
        inner: Any = (..., *[slice(p, p + n) for p, n in zip(self.padding, space, strict=True)])
        return total[inner]


def correlated(x: Array, weight: Array, geometry: Geometry, result: Sizes, groups: int) -> Array:
    """x [n, c, *space] under weight [o, c / groups, *kernel], as [n, o, *result]."""
    images, channels = x.shape[:2]
    depth = channels // groups * prod(geometry.kernel)
    columns = geometry.seen(x, result).reshape(images, groups, depth, prod(result))
    out = product(weight.reshape(groups, weight.shape[0] // groups, depth), columns)
    return out.reshape(images, weight.shape[0], *result)


def transposed_correlation(
    grad: Array, weight: Array, geometry: Geometry, space: Sizes, groups: int
) -> Array:
    """The gradient by x of `correlated`: grad [n, o, *result] to [n, c, *space]."""
    images, result = grad.shape[0], grad.shape[2:]
    outside, inside = weight.shape[0] // groups, weight.shape[1]
    matrix = weight.reshape(groups, outside, inside * prod(geometry.kernel)).transpose(0, 2, 1)
    columns = product(matrix, grad.reshape(images, groups, outside, prod(result)))
    return geometry.added(columns.reshape(images, groups * inside, *geometry.kernel, *result), space)


def weight_gradient(x: Array, grad: Array, geometry: Geometry, groups: int) -> Array:
    """The gradient by the weight of `correlated`."""
    images, channels, outside, result = x.shape[0], x.shape[1], grad.shape[1], grad.shape[2:]
    depth, points = channels // groups * prod(geometry.kernel), prod(result)
    columns = geometry.seen(x, result).reshape(images, groups, depth, points)
    split = grad.reshape(images, groups, outside // groups, points)
    left = split.transpose(1, 2, 0, 3).reshape(groups, outside // groups, images * points)
    right = columns.transpose(1, 0, 3, 2).reshape(groups, images * points, depth)
    return product(left, right).reshape(outside, channels // groups, *geometry.kernel)


@kernel("convolution")
def convolution(
    input: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    groups: int,
    out: Spec,
) -> Array:
    result = out.known_shape()[2:]
    geometry = Geometry(weight.shape[2:], stride, padding, dilation)
    run = transposed_correlation if transposed else correlated
    found = run(input, weight, geometry, result, groups)
    found = found if bias is None else found + bias.reshape(-1, *[1] * len(result))
    return found if out.strides is None else filled(out, found)


@kernel("convolution_backward")
def convolution_backward(
    grad_output: Array,
    input: Array,
    weight: Array,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Array, ...]:
    geometry = Geometry(weight.shape[2:], stride, padding, dilation)
    to_input = to_weight = to_bias = np.zeros(0, input.dtype)
    if output_mask[0]:
        run = correlated if transposed else transposed_correlation
        to_input = run(grad_output, weight, geometry, input.shape[2:], groups)
    if output_mask[1]:
        source, other = (grad_output, input) if transposed else (input, grad_output)
        to_weight = weight_gradient(source, other, geometry, groups)
    if output_mask[2]:
        to_bias = total(grad_output, (0, *range(2, grad_output.ndim)), grad_output.dtype)
    return to_input, to_weight, to_bias


@kernel("im2col")
def im2col(
    self: Array, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes, out: Spec
) -> Array:
    counts = blocks(self.shape[-2:], kernel_size, dilation, padding, stride, "im2col")
    seen = Geometry(kernel_size, stride, padding, dilation).seen(self, counts)
    return seen.reshape(out.known_shape())


@kernel("col2im")
def col2im(
    self: Array,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes,
    padding: Sizes,
    stride: Sizes,
    out: Spec,
) -> Array:
    counts = blocks(output_size, kernel_size, dilation, padding, stride, "col2im")
    channels = out.known_shape()[:-2]
    geometry = Geometry(kernel_size, stride, padding, dilation)
    return geometry.added(self.reshape(*channels, *kernel_size, *counts), output_size)

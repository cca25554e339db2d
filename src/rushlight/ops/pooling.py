"""Pooling: windows over the last dimensions, their sizes and what PyTorch asks of them.

The operators are composites (decompositions/pooling*.py); this is the arithmetic that they share with their
derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..core.dtypes import DType
from ..core.errors import check
from ..core.shapes import Shape
from ..core.tensor import Tensor


@dataclass(frozen=True)
class Line:
    """Regular windows along one dimension: `count` of them, of `kernel` elements, `dilation` apart."""

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    count: int

    @property
    def inside(self) -> bool:
        """Whether no window reaches over an end."""
        last = (self.count - 1) * self.stride + (self.kernel - 1) * self.dilation
        return self.padding == 0 and last < self.size


def amounts(given: Any, rank: int, word: str, name: str, default: Shape | None = None) -> Shape:
    """An argument for each dimension, from one number or as many as there are dimensions."""
    given = (given,) if isinstance(given, int) else tuple(given)
    if not given and default is not None:
        return default
    check(
        len(given) in (1, rank),
        f"{name}: {word} must either be a single int, or a tuple of {rank} ints, but got {list(given)}",
    )
    return given if len(given) == rank else given * rank


def check_input(self: Tensor, rank: int, dtypes: frozenset[DType], name: str) -> None:
    """A tensor with or without a batch, which alone may be empty."""
    single, shape = rank + 1, list(self.shape)
    check(
        self.ndim in (single, single + 1),
        f"{name}: Expected {single}D or {single + 1}D (batch mode) "
        f"tensor with optional 0 dim batch size for input, but got: {shape}",
    )
    check(
        0 not in shape[-single:],
        f"{name}: Expected input of {single}D or {single + 1}D (batch mode) "
        f"with optional 0 dim batch size, but got: {shape}",
    )
    check(
        self.dtype in dtypes, f"\"{name}\" not implemented for '{self.dtype.torch_name}'", NotImplementedError
    )


def lines(
    self: Tensor,
    rank: int,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    name: str,
) -> tuple[Line, ...]:
    """The windows along each of the last `rank` dimensions."""
    kernel = amounts(kernel_size, rank, "kernel_size", name)
    steps = amounts(stride, rank, "stride", name, kernel)
    borders, apart = amounts(padding, rank, "padding", name), amounts(dilation, rank, "dilation", name)
    check(min(steps) != 0, f"{name}: stride should not be zero: {list(steps)}")
    check(
        min(kernel) > 0 and min(steps) > 0,
        f"{name}: kernel size and stride should be greater than zero, "
        f"but got kernel_size={list(kernel)} and stride={list(steps)}",
    )
    check(
        min(apart) > 0,
        f"{name}: dilation should be greater than zero: Expected dilation >= 1, but got {list(apart)}",
    )
    check(min(borders) >= 0, f"{name}: pad must be non-negative, but got pad: {list(borders)}")
    check(
        all(p <= (d * (k - 1) + 1) // 2 for p, d, k in zip(borders, apart, kernel, strict=True)),
        f"{name}: pad should be at most half of effective kernel size, but got pad={list(borders)}, "
        f"kernel_size={list(kernel)} and dilation={list(apart)}",
    )
    check(
        self.ndim >= rank,
        f"{name}: non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for "
        f"input, but got: {list(self.shape)}",
    )
    found = tuple(
        Line(*one, _count(*one, ceil_mode))
        for one in zip(self.shape[-rank:], kernel, steps, borders, apart, strict=True)
    )
    check(
        all(line.count >= 1 for line in found),
        f"{name}: Given input size: {list(self.shape)}. Calculated "
        f"output size: {[line.count for line in found]}. Output size is too small",
    )
    return found


def _count(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    # a window must start inside of the input or the padding before it
    return count - 1 if ceil_mode and (count - 1) * stride >= size + padding else count


def adaptive_sizes(
    self: Tensor, rank: int, output_size: Sequence[Any], dtypes: frozenset[DType], name: str
) -> Shape:
    """The output's size along each dimension, None in `output_size` meaning the input's."""
    check(len(output_size) == rank, f"{name}: output_size must be {rank}, but got {list(output_size)}")
    check(
        self.ndim in (rank + 1, rank + 2),
        f"{name}: Expected {rank + 1}D or {rank + 2}D tensor, but got {list(self.shape)}",
    )
    check(
        0 not in self.shape[-rank:],
        f"{name}: Expected input to have non-zero size for non-batch "
        f"dimensions, but input has sizes {list(self.shape)}",
    )
    check(
        self.dtype in dtypes, f"\"{name}\" not implemented for '{self.dtype.torch_name}'", NotImplementedError
    )
    sizes = tuple(n if w is None else w for n, w in zip(self.shape[-rank:], output_size, strict=True))
    check(
        min(sizes) >= 0,
        f"{name}: elements of output_size must be greater than or equal to 0 but received {list(sizes)}",
    )
    return sizes

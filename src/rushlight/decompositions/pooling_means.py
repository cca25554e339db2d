"""Means of windows and their gradients: sums along one dimension after the other, divided by counts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import Shape
from ..core.tensor import Tensor
from ..ops.dtype_sets import FLOATS
from ..ops.pooling import Line, adaptive_sizes, check_input, lines
from .normalization import wide
from .pooling import INT64, MEANS, adaptive_ends, check_windows, counted, laid_out, quotient, shaped


def placed(x: Tensor, like: Tensor) -> Tensor:
    """In two dimensions means keep the order of channels in memory, as in PyTorch."""
    return laid_out(x, like) if like.ndim == 4 else x.contiguous()


def sums(x: Tensor, dim: int, line: Line) -> Tensor:
    """Sums of windows along `dim`, zeros around the input."""
    if not line.inside:
        after = (line.count - 1) * line.stride + line.kernel - line.size - line.padding
        x = run_name("constant_pad_nd", x, (*[0, 0] * (-dim - 1), line.padding, after), 0)
    total = None
    for tap in range(line.kernel):
        part = run_name("slice.Tensor", x, dim, tap, tap + (line.count - 1) * line.stride + 1, line.stride)
        total = part if total is None else total + part
    assert total is not None
    return total


def spread(grad: Tensor, dim: int, line: Line) -> Tensor:
    """The transpose of `sums`: every element of `line.size` gets the sum over the windows it lies in."""
    if line.kernel == line.stride and line.padding == 0 and line.count * line.kernel == line.size:
        return repeated(grad, dim, line.kernel)
    places = counted(line.size, grad) + line.padding
    latest = quotient(places, line.stride)
    total = None
    for back in range(-(-line.kernel // line.stride)):
        at = latest - back
        valid = (at >= 0) & (at < line.count) & (places - at * line.stride < line.kernel)
        part = run_name("index_select", grad, dim, at.clamp(0, line.count - 1))
        part = run_name("where.ScalarOther", shaped(valid, dim), part, 0)
        total = part if total is None else total + part
    assert total is not None
    return total


def repeated(x: Tensor, dim: int, times: int) -> Tensor:
    """Every element along `dim` repeated."""
    shape, place = tuple(x.shape), x.ndim + dim
    many = x.unsqueeze(place + 1).expand((*shape[: place + 1], times, *shape[place + 1 :]))
    return many.reshape((*shape[:place], shape[place] * times, *shape[place + 1 :]))


def divisor(like: Tensor, along: Sequence[Line], count_include_pad: bool, override: int | None) -> Any:
    """What the sums are divided by: a number, or a tensor where windows differ."""
    if override is not None:
        return override
    if all(line.inside for line in along):
        return prod(line.kernel for line in along)
    result: Any = None
    for dim, line in zip(range(-len(along), 0), along, strict=True):
        starts = counted(line.count, like) * line.stride - line.padding
        if count_include_pad:
            counts = (starts + line.kernel).clamp_max(line.size + line.padding) - starts
        else:
            counts = (starts + line.kernel).clamp_max(line.size) - starts.clamp_min(0)
        counts = shaped(counts, dim)
        result = counts if result is None else result * counts
    return result


def divided(x: Tensor, by: Any) -> Tensor:
    if x.dtype is INT64:
        overload = "div.Tensor_mode" if isinstance(by, Tensor) else "div.Scalar_mode"
        return run_name(overload, x, by, "trunc")
    return x / (by.to(x.dtype) if isinstance(by, Tensor) else by)


def mean_lines(
    self: Tensor,
    rank: int,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    divisor_override: int | None,
    name: str,
) -> tuple[Line, ...]:
    along = lines(self, rank, kernel_size, stride, padding, 1, ceil_mode, name)
    check(divisor_override != 0, f"{name}: divisor must be not zero")
    check_input(self, rank, MEANS, name)
    return along


def _declare_avg(rank: int) -> None:
    name = f"avg_pool{rank}d"

    @composite(
        f"{name}(Tensor self, int[{rank}] kernel_size, int[{rank}] stride=[], int[{rank}] padding=0, "
        "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        api=INTERNAL,
    )
    def avg_pool(
        self: Tensor,
        kernel_size: Shape,
        stride: Shape,
        padding: Shape,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Tensor:
        along = mean_lines(self, rank, kernel_size, stride, padding, ceil_mode, divisor_override, name)
        by = divisor(self, along, count_include_pad, divisor_override)
        total = wide(self)
        for dim, line in zip(range(-rank, 0), along, strict=True):
            total = sums(total, dim, line)
        return placed(divided(total, by).to(self.dtype), self)

    @composite(
        f"{name}_backward(Tensor grad_output, Tensor self, int[{rank}] kernel_size, int[{rank}] "
        f"stride, int[{rank}] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) "
        "-> Tensor",
        api=INTERNAL,
    )
    def backward(
        grad_output: Tensor,
        self: Tensor,
        kernel_size: Shape,
        stride: Shape,
        padding: Shape,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Tensor:
        along = mean_lines(self, rank, kernel_size, stride, padding, ceil_mode, divisor_override, name)
        by = divisor(self, along, count_include_pad, divisor_override)
        grad = divided(wide(grad_output), by)
        for dim, line in zip(range(-rank, 0), along, strict=True):
            grad = spread(grad, dim, line)
        return placed(grad.to(self.dtype), self)


for _rank in (2, 3):
    _declare_avg(_rank)


@composite(
    "avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool "
    "ceil_mode=False, bool count_include_pad=True) -> Tensor",
    api=FUNCTION,
)
def avg_pool1d(
    self: Tensor, kernel_size: Shape, stride: Shape, padding: Shape, ceil_mode: bool, count_include_pad: bool
) -> Tensor:
    check(
        self.ndim in (2, 3),
        f"avg_pool1d: Expected 2 to 3 dimensions, but got {self.ndim}-dimensional "
        "tensor for argument #1 'self'",
    )
    check(
        len(kernel_size) == len(padding) == 1 >= len(stride),
        "avg_pool1d() kernel_size, stride and "
        f"padding must be single ints, but got {list(kernel_size)}, {list(stride)} and {list(padding)}",
    )
    return run_name(
        "avg_pool2d",
        self.unsqueeze(-2),
        (1, *kernel_size),
        (1, *(stride or kernel_size)),
        (0, *padding),
        ceil_mode,
        count_include_pad,
        None,
    ).squeeze(-2)


# Windows that cover the input evenly.


def adaptive_sums(x: Tensor, dim: int, count: int) -> Tensor:
    """Sums of `count` windows that cover a dimension."""
    size = x.shape[dim]
    if count == size:
        return x
    if count == 1:
        return x.sum(dim, True)
    if size % count == 0:
        return x.unflatten(dim, (count, size // count)).sum(dim)
    if count % size == 0:
        return repeated(x, dim, count // size)
    starts, ends, most = adaptive_ends(size, count, x)
    total = None
    for tap in range(most):
        part = run_name("index_select", x, dim, (starts + tap).clamp_max(size - 1))
        if tap:
            part = run_name("where.ScalarOther", shaped(starts + tap < ends, dim), part, 0)
        total = part if total is None else total + part
    assert total is not None
    return total


def adaptive_counts(space: Sequence[int], sizes: Sequence[int], like: Tensor) -> Any:
    """How many elements each window has: a number where all have as many."""
    result: Any = 1
    for dim, size, count in zip(range(-len(sizes), 0), space, sizes, strict=True):
        if size % count == 0:
            result = result * (size // count)
            continue
        starts, ends, _ = adaptive_ends(size, count, like)
        result = result * shaped(ends - starts, dim)
    return result


def _declare_adaptive_avg(rank: int) -> None:
    name = f"adaptive_avg_pool{rank}d"

    @composite(f"_{name}(Tensor self, SymInt[{rank}] output_size) -> Tensor", api=FUNCTION)
    def adaptive_avg_pool(self: Tensor, output_size: Shape) -> Tensor:
        sizes = adaptive_sizes(self, rank, output_size, FLOATS, name)
        if 0 in sizes:
            return self.new_zeros((*self.shape[:-rank], *sizes))
        total = wide(self)
        for dim, count in zip(range(-rank, 0), sizes, strict=True):
            total = adaptive_sums(total, dim, count)
        return placed(divided(total, adaptive_counts(self.shape[-rank:], sizes, self)).to(self.dtype), self)

    @composite(f"_{name}_backward(Tensor grad_output, Tensor self) -> Tensor", api=INTERNAL)
    def backward(grad_output: Tensor, self: Tensor) -> Tensor:
        check(
            grad_output.ndim == self.ndim,
            f"{name}_backward: Expected dimensions {self.ndim} for "
            f"`grad_output` but got dimensions {grad_output.ndim}",
        )
        space, sizes = self.shape[-rank:], grad_output.shape[-rank:]
        check_windows(grad_output, name)
        if 0 in grad_output.shape:
            return self.new_zeros(self.shape)
        grad = divided(wide(grad_output), adaptive_counts(space, sizes, self))
        for dim, size in zip(range(-rank, 0), space, strict=True):
            grad = adaptive_sums(grad, dim, size)
        return placed(grad.to(self.dtype), self)

    @composite(f"{name}(Tensor self, SymInt[{rank}] output_size) -> Tensor", api=INTERNAL)
    def by_size(self: Tensor, output_size: Shape) -> Tensor:
        check(len(output_size) == rank, f"{name}: output_size must be {rank}, but got {list(output_size)}")
        return run_name(f"_{name}", self, output_size)


for _rank in (2, 3):
    _declare_adaptive_avg(_rank)


@composite("adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", api=FUNCTION)
def adaptive_avg_pool1d(self: Tensor, output_size: Shape) -> Tensor:
    sizes = adaptive_sizes(self, 1, output_size, FLOATS, "adaptive_avg_pool1d")
    return run_name("adaptive_avg_pool2d", self.unsqueeze(-2), (1, *sizes)).squeeze(-2)

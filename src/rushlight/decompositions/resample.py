"""Images of another size, one dimension after the other.

Along a dimension every output element is a weighted sum of a few input elements, its taps: one for the
nearest, two for linear and four for cubic interpolation, more with antialias. Places and weights depend on
sizes alone; they are computed in the dtype that PyTorch computes them in, since a rounding decides which
element is the nearest. The backward operators scatter along the same taps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.registry import INTERNAL, Api, composite
from ..core.shapes import suggests_channels_last
from ..core.tensor import Tensor
from ..core.tokens import channels_last, channels_last_3d

FLOAT32, FLOAT64, INT64 = (DTYPES[name] for name in ("float32", "float64", "int64"))
Scales = Sequence[float | None]


class Tap(NamedTuple):
    """For every output element the index of an input element, its weight (None: 1), and whether it counts
    (None: all do)."""

    index: Tensor  # type: ignore[assignment]
    weight: Tensor | None = None
    valid: Tensor | None = None


class Axis(NamedTuple):
    """What the places along a dimension depend on."""

    size: int
    out: int
    align_corners: bool
    given: float | None  # the scale as the user gave it
    like: Tensor
    dtype: DType

    @property
    def scale(self) -> float:
        """The distance in the input of neighbours in the output."""
        if self.align_corners:
            return (self.size - 1) / (self.out - 1) if self.out > 1 else 0.0
        return 1.0 / self.given if self.given is not None and self.given > 0 else self.size / self.out

    def places(self) -> Tensor:
        return run_name("arange", self.out, self.dtype, None, self.like.device, None)

    def sources(self) -> Tensor:
        """Where each output element lies in the input."""
        if self.align_corners:
            return self.places() * self.scale
        return (self.places() + 0.5) * self.scale - 0.5

    def within(self, index: Tensor) -> Tensor:
        return index.clamp(0, self.size - 1)


def nearest(axis: Axis) -> list[Tap]:
    return [Tap(axis.within((axis.places() * axis.scale).to(FLOAT32).floor().to(INT64)))]


def nearest_same(axis: Axis) -> list[Tap]:
    """As `nearest`, but a dimension that keeps its size is kept, whatever scale was given: so PyTorch does
    for images, and for images alone."""
    return [Tap(axis.places().to(INT64))] if axis.size == axis.out else nearest(axis)


def nearest_exact(axis: Axis) -> list[Tap]:
    places = (axis.places() + 0.5) * axis.scale
    return [Tap(axis.within(places.to(FLOAT32).floor().to(INT64)))]


def linear(axis: Axis) -> list[Tap]:
    if axis.size == axis.out:
        return [Tap(axis.places().to(INT64))]
    source = axis.sources().clamp(min=0)
    index = axis.within(source.floor().to(INT64))
    part = (source - index.to(axis.dtype)).clamp(0, 1)
    return [Tap(index, 1 - part), Tap(axis.within(index + 1), part)]


def cubic_near(t: Tensor, a: float) -> Tensor:
    """The cubic kernel at a distance up to 1."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def cubic_far(t: Tensor, a: float) -> Tensor:
    """The cubic kernel at a distance from 1 to 2."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a


CUBIC = -0.75  # the slope of the kernel at distance 1
CUBIC_ANTIALIAS = -0.5


def cubic_weights(t: Tensor) -> list[Tensor]:
    """The weights of the elements at -1, 0, 1 and 2 for a place at `t` between 0 and 1."""
    return [cubic_far(t + 1, CUBIC), cubic_near(t, CUBIC), cubic_near(1 - t, CUBIC), cubic_far(2 - t, CUBIC)]


def cubic(axis: Axis) -> list[Tap]:
    source = axis.sources()
    index = source.floor().clamp(max=axis.size - 1)
    weights = cubic_weights((source - index).clamp(0, 1))
    index = index.to(INT64)
    return [Tap(axis.within(index + k), weight) for k, weight in zip((-1, 0, 1, 2), weights, strict=True)]


# Antialias: the kernel is widened to cover all of the input.


def triangle(x: Tensor) -> Tensor:
    return (1 - x.abs()).clamp(min=0)


def wide_cubic(x: Tensor) -> Tensor:
    x = x.abs()
    near, far = cubic_near(x, CUBIC_ANTIALIAS), cubic_far(x, CUBIC_ANTIALIAS)
    return near.where(x < 1, far.where(x < 2, 0.0))


def lanczos(x: Tensor) -> Tensor:
    return (x.sinc() * (x / 3).sinc()).where(x.abs() < 3, 0.0)


def antialiased(kernel: Callable[[Tensor], Tensor], reach: int) -> Callable[[Axis], list[Tap]]:
    """Taps for a kernel that is zero beyond the distance `reach`."""

    def taps(axis: Axis) -> list[Tap]:
        stretch = max(axis.scale, 1.0)
        support = reach * stretch
        center = (axis.places() + 0.5) * axis.scale
        first = (center - support + 0.5).clamp(min=0).floor()
        end = (center + support + 0.5).clamp(max=axis.size).floor()
        found = []
        for k in range(min(2 * math.ceil(support) + 1, axis.size)):
            valid = first + k < end
            weight = kernel((first + (k + 0.5) - center) / stretch).where(valid, 0.0)
            found.append(Tap(axis.within((first + k).to(INT64)), weight, valid))
        total = found[0].weight
        for tap in found[1:]:
            total = total + tap.weight  # type: ignore[operator]
        return [Tap(tap.index, tap.weight / total, tap.valid) for tap in found]  # type: ignore[operator]

    return taps


# Along one dimension.


def column(values: Tensor, ndim: int, dim: int) -> Tensor:
    return values.reshape([-1 if d == dim else 1 for d in range(ndim)])


def gathered(x: Tensor, dim: int, taps: Sequence[Tap]) -> Tensor:
    """The weighted sums of elements of x."""
    total = None
    for tap in taps:
        part = x.index_select(dim, tap.index)
        if tap.valid is not None:  # so that no weight of 0 meets an infinity
            part = part.where(column(tap.valid, x.ndim, dim), 0.0)
        if tap.weight is not None:
            part = part * column(tap.weight, x.ndim, dim)
        total = part if total is None else total + part
    assert total is not None
    return total


def scattered(grad: Tensor, dim: int, taps: Sequence[Tap], size: int) -> Tensor:
    """The adjoint of `gathered`: what each of `size` elements gets from the gradient."""
    total = grad.new_zeros([size if d == dim else n for d, n in enumerate(grad.shape)])
    for tap in taps:
        part = grad if tap.weight is None else grad * column(tap.weight, grad.ndim, dim)
        total = total.index_add(dim, tap.index, part)
    return total


# Bytes: PyTorch computes with 16-bit weights and rounds to bytes after each dimension.


def mixed_bytes(x: Tensor, dim: int, taps: Sequence[Tap], size: int) -> Tensor:
    """The weighted sums of elements of x, which hold bytes as float64; they stay bytes."""
    mixture = x.new_zeros((taps[0].index.shape[0], size))
    for tap in taps:
        weight = tap.index.to(FLOAT64) * 0 + 1 if tap.weight is None else tap.weight
        mixture = mixture.scatter_add(1, tap.index.unsqueeze(1), weight.unsqueeze(1))
    # The most bits after the point with which the largest weight has 15 bits.
    bits = ((2**15 - 0.5) / mixture.max()).log2().ceil() - 1
    scale = bits.clamp(max=22).exp2()
    weights = (mixture.abs() * scale + 0.5).floor() * mixture.sign()
    mixed = x.movedim(dim, -1).matmul(weights.transpose(0, 1)).movedim(-1, dim)
    return ((mixed + scale / 2) / scale).floor().clamp(0, 255)


# The operators.


class Method(NamedTuple):
    name: str
    rank: int  # the number of spatial dimensions
    taps: Callable[[Axis], list[Tap]]
    corners: bool  # takes align_corners

    def axes(
        self,
        like: Tensor,
        sizes: Sequence[int],
        outs: Sequence[int],
        align_corners: bool,
        scales: Scales,
        dtype: DType,
    ) -> list[Axis]:
        return [
            Axis(size, out, align_corners, scale, like, dtype)
            for size, out, scale in zip(sizes, outs, scales, strict=True)
        ]

    def check(self, sizes: Sequence[int], outs: Sequence[int]) -> None:
        name, wanted = self.name, self.rank + 2
        check(
            len(outs) == self.rank,
            f"{name}: It is expected output_size equals to {self.rank}, but got size {len(outs)}",
        )
        check(
            len(sizes) == wanted,
            f"{name}: It is expected input_size equals to {wanted}, but got size {len(sizes)}",
        )
        check(
            min(*sizes[2:], *outs) > 0,
            f"{name}: Input and output sizes should be greater than 0, but got "
            f"input of size {list(sizes[2:])} and output of size {list(outs)}",
        )
        check(
            min(sizes[1:]) > 0,
            f"{name}: Non-empty {wanted}D data tensor expected but got a tensor with sizes {list(sizes)}",
        )

    def forward(self, x: Tensor, output_size: Sequence[int], align_corners: bool, scales: Scales) -> Tensor:
        self.check(x.shape, output_size)
        moved_only, byte = not self.corners, x.dtype.name == "uint8"
        check(
            x.dtype.is_floating_point or (byte and (moved_only or self.rank == 2)),
            f"\"{self.name}\" not implemented for '{x.dtype.torch_name}'",
            NotImplementedError,
        )
        compute = (FLOAT32 if moved_only else FLOAT64) if byte else x.dtype.opmath
        # Copies need no precision, but the sums of their gradients do.
        as_it_is = x.dtype is compute or (moved_only and not x.requires_grad)
        result = x if as_it_is else x.to(compute)
        axes = self.axes(x, x.shape[2:], output_size, align_corners, scales, compute)
        for dim in range(self.rank + 1, 1, -1):
            taps = self.taps(axes[dim - 2])
            result = (
                mixed_bytes(result, dim, taps, x.shape[dim])
                if byte and not moved_only
                else gathered(result, dim, taps)
            )
        return in_format_of(x, result.to(x.dtype))

    def backward(
        self,
        grad: Tensor,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        scales: Scales,
    ) -> Tensor:
        self.check(input_size, output_size)
        expected = (*input_size[:2], *output_size)
        check(
            tuple(grad.shape) == expected,
            f"{self.name}_backward: Expected grad_output to have the shape "
            f"of "
            f"the output, {list(expected)}, but got {list(grad.shape)}",
        )
        compute = grad.dtype.opmath
        result = grad if grad.dtype is compute else grad.to(compute)
        axes = self.axes(grad, input_size[2:], output_size, align_corners, scales, compute)
        for dim in range(2, self.rank + 2):
            result = scattered(result, dim, self.taps(axes[dim - 2]), input_size[dim])
        return in_format_of(grad, result.to(grad.dtype))

    def with_factors(
        self,
        x: Tensor,
        output_size: Sequence[int] | None,
        align_corners: bool,
        factors: Sequence[float] | None,
    ) -> Tensor:
        """From an output size, or from factors that give one."""
        check(
            (output_size is None) != (factors is None),
            f"{self.name}: Must specify exactly one of output_size and scale_factors",
        )
        if output_size is not None:
            return self.forward(x, output_size, align_corners, (None,) * self.rank)
        assert factors is not None
        check(
            len(factors) == self.rank and x.ndim == self.rank + 2,
            f"{self.name}: expects an input of "
            f"{self.rank + 2} dimensions and {self.rank} factors, but got {x.ndim} and {len(factors)}",
        )
        scaled = [size * factor for size, factor in zip(x.shape[2:], factors, strict=True)]
        check(
            all(abs(size) < 2**63 for size in scaled),
            f"{self.name}: factors of {list(factors)} give "
            "sizes that cannot be converted to int64 without overflow",
        )
        sizes = [int(size) for size in scaled]
        return self.forward(x, sizes, align_corners, tuple(factors))


def in_format_of(x: Tensor, result: Tensor) -> Tensor:
    if suggests_channels_last(tuple(x.shape), x.strides()):
        return result.contiguous(memory_format=channels_last if x.ndim == 4 else channels_last_3d)
    return result.contiguous()


METHODS = [
    *[Method(f"upsample_nearest{n}d", n, nearest_same if n == 2 else nearest, False) for n in (1, 2, 3)],
    *[Method(f"_upsample_nearest_exact{n}d", n, nearest_exact, False) for n in (1, 2, 3)],
    Method("upsample_linear1d", 1, linear, True),
    Method("upsample_bilinear2d", 2, linear, True),
    Method("upsample_trilinear3d", 3, linear, True),
    Method("upsample_bicubic2d", 2, cubic, True),
    Method("_upsample_bilinear2d_aa", 2, antialiased(triangle, 1), True),
    Method("_upsample_bicubic2d_aa", 2, antialiased(wide_cubic, 2), True),
    Method("_upsample_lanczos2d_aa", 2, antialiased(lanczos, 3), True),
]

# The arguments of the operators differ in number and names with the rank and with align_corners.
Body = Callable[..., Any]
FORWARD: dict[tuple[int, bool], Callable[[Body], Body]] = {
    (1, False): lambda run: lambda self, output_size, scales: run(self, output_size, False, (scales,)),
    (2, False): lambda run: (
        lambda self, output_size, scales_h, scales_w: run(self, output_size, False, (scales_h, scales_w))
    ),
    (3, False): lambda run: (
        lambda self, output_size, scales_d, scales_h, scales_w: run(
            self, output_size, False, (scales_d, scales_h, scales_w)
        )
    ),
    (1, True): lambda run: (
        lambda self, output_size, align_corners, scales: run(self, output_size, align_corners, (scales,))
    ),
    (2, True): lambda run: (
        lambda self, output_size, align_corners, scales_h, scales_w: run(
            self, output_size, align_corners, (scales_h, scales_w)
        )
    ),
    (3, True): lambda run: (
        lambda self, output_size, align_corners, scales_d, scales_h, scales_w: run(
            self, output_size, align_corners, (scales_d, scales_h, scales_w)
        )
    ),
}
BACKWARD: dict[tuple[int, bool], Callable[[Body], Body]] = {
    (1, False): lambda run: (
        lambda grad_output, output_size, input_size, scales: run(
            grad_output, output_size, input_size, False, (scales,)
        )
    ),
    (2, False): lambda run: (
        lambda grad_output, output_size, input_size, scales_h, scales_w: run(
            grad_output, output_size, input_size, False, (scales_h, scales_w)
        )
    ),
    (3, False): lambda run: (
        lambda grad_output, output_size, input_size, scales_d, scales_h, scales_w: run(
            grad_output, output_size, input_size, False, (scales_d, scales_h, scales_w)
        )
    ),
    (1, True): lambda run: (
        lambda grad_output, output_size, input_size, align_corners, scales: run(
            grad_output, output_size, input_size, align_corners, (scales,)
        )
    ),
    (2, True): lambda run: (
        lambda grad_output, output_size, input_size, align_corners, scales_h, scales_w: run(
            grad_output, output_size, input_size, align_corners, (scales_h, scales_w)
        )
    ),
    (3, True): lambda run: (
        lambda grad_output, output_size, input_size, align_corners, scales_d, scales_h, scales_w: run(
            grad_output, output_size, input_size, align_corners, (scales_d, scales_h, scales_w)
        )
    ),
}
VECTORS: dict[bool, Callable[[Body], Body]] = {
    False: lambda run: (
        lambda input, output_size, scale_factors: run(input, output_size, False, scale_factors)
    ),
    True: lambda run: (
        lambda input, output_size, align_corners, scale_factors: run(
            input, output_size, align_corners, scale_factors
        )
    ),
}


def declare(method: Method) -> None:
    name, rank, form = method.name, method.rank, (method.rank, method.corners)
    corners = "bool align_corners, " if method.corners else ""
    scales = ", ".join(
        f"float? {key}=None"
        for key in (["scales"] if rank == 1 else ["scales_d", "scales_h", "scales_w"][3 - rank :])
    )
    composite(f"{name}(Tensor self, SymInt[{rank}] output_size, {corners}{scales}) -> Tensor", api=Api.EXACT)(
        FORWARD[form](method.forward)
    )
    composite(
        f"{name}_backward(Tensor grad_output, SymInt[{rank}] output_size, SymInt[{rank + 2}] "
        f"input_size, "
        f"{corners}{scales}) -> Tensor",
        api=Api.EXACT,
    )(BACKWARD[form](method.backward))
    composite(
        f"{name}.vec(Tensor input, SymInt[]? output_size, {corners}float[]? scale_factors) -> Tensor",
        api=INTERNAL,
    )(VECTORS[method.corners](method.with_factors))


for _method in METHODS:
    declare(_method)

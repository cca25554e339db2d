"""Sampling images at the places of a grid, and grids of affine maps.

Along each dimension a place has a few taps, with weights and their slopes; a sample is the sum over all
combinations of taps, one for each dimension. The backward operators sum over the same combinations, with the
slope of one dimension in place of its weight for the gradient of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import numel
from ..core.tensor import Tensor
from .resample import CUBIC, INT64, cubic_weights

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
BOOL = DTYPES["bool"]
GRADED = frozenset(DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64"))


class GridTap(NamedTuple):
    index: Tensor  # type: ignore[assignment]
    weight: Tensor
    slope: Tensor | None  # of the weight, along the grid's own coordinate; None: 0
    valid: Tensor | None  # None: everywhere


class Side(NamedTuple):
    """One dimension of the image."""

    size: int
    padding: int
    align_corners: bool
    rank: int  # how many dimensions the image has: PyTorch treats what is not a number by it

    @property
    def unit(self) -> float:
        """How many elements one unit of the grid is."""
        return (self.size - 1) / 2 if self.align_corners else self.size / 2

    def place(self, coordinate: Tensor) -> Tensor:
        """The grid's -1 to 1 in elements."""
        place = (coordinate + 1) * self.unit
        if not self.align_corners:
            place = place - 0.5
        if self.padding != ZEROS:
            return place
        # Far places are all the same outside, and a number that an index can hold. Nowhere, and infinitely
        # far, is not a number where there are two dimensions and outside where there are three.
        far = place.clamp(-4, self.size + 4)
        finite = (place - place) == 0
        return far.where(finite, math.nan if self.rank == 2 else -4.0)

    def padded(self, place: Tensor) -> tuple[Tensor, Tensor | None]:
        """The place inside of the image that stands for one anywhere, and its slope; None for 1."""
        if self.padding == ZEROS:
            return place, None
        slope = ones_like(place)
        if self.padding == REFLECTION:
            place, slope = self.reflected(place, slope)
        place = place.masked_fill(place != place, 0.0 if self.rank == 2 else self.size - 1.0)
        outside = (place <= 0) | (place >= self.size - 1)
        return place.clamp(0, self.size - 1), slope.masked_fill(outside, 0.0)

    def reflected(self, place: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
        """Back and forth between the outermost centers, or, without align_corners, the outer edges."""
        low, span = (0.0, self.size - 1) if self.align_corners else (-0.5, self.size)
        if span == 0:
            return place.new_zeros(place.shape), slope.new_zeros(slope.shape)
        away = place - low
        slope = slope.where(away >= 0, -slope)
        away = away.abs()
        turns = (away / span).floor()
        rest = away - turns * span
        odd = turns - (turns / 2).floor() * 2 > 0.5
        return (span - rest).where(odd, rest) + low, (-slope).where(odd, slope)

    def inside(self, place: Tensor) -> Tensor | None:
        return (place >= 0) & (place <= self.size - 1) if self.padding == ZEROS else None

    def tap(self, place: Tensor, weight: Tensor, slope: Tensor | None) -> GridTap:
        index = place.to(INT64).clamp(0, self.size - 1)
        return GridTap(index, weight, slope, self.inside(place))

    def taps(self, coordinate: Tensor, mode: int) -> list[GridTap]:
        place = self.place(coordinate)
        if mode == BICUBIC:
            base = place.floor()
            t = place - base
            return [
                self.tap(self.padded(base + k)[0], weight, slope * self.unit)
                for k, weight, slope in zip((-1, 0, 1, 2), cubic_weights(t), cubic_slopes(t), strict=True)
            ]
        place, slope = self.padded(place)
        if mode == NEAREST:
            return [self.tap(place.round(), ones_like(place), None)]
        base = place.floor()
        t = place - base
        slope = (ones_like(t) if slope is None else slope) * self.unit
        return [self.tap(base, 1 - t, -slope), self.tap(base + 1, t, slope)]


def cubic_slopes(t: Tensor) -> list[Tensor]:
    """The derivatives of `cubic_weights`."""

    def near(x: Tensor) -> Tensor:
        return (3 * (CUBIC + 2) * x - 2 * (CUBIC + 3)) * x

    def far(x: Tensor) -> Tensor:
        return (3 * CUBIC * x - 10 * CUBIC) * x + 8 * CUBIC

    return [far(t + 1), near(t), -near(1 - t), -far(2 - t)]


class Sampling:
    """The combinations of taps for one call; tensors over all places of the grid in one dimension."""

    def __init__(self, input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> None:
        self.shape = tuple(input.shape)
        self.sizes = self.shape[2:]
        self.places = grid.reshape((grid.shape[0], numel(grid.shape[1:-1]), grid.shape[-1]))
        coordinates = self.places.unbind(-1)[::-1]  # the grid names the last dimension first
        self.taps = [
            Side(size, padding, align_corners, len(self.sizes)).taps(coordinate, mode)
            for size, coordinate in zip(self.sizes, coordinates, strict=True)
        ]

    def combinations(self) -> Iterator[tuple[Sequence[GridTap], Tensor, Tensor | None]]:
        """The taps, the flat index that they make, and where all of them count."""
        for taps in product(*self.taps):
            index, valid = taps[0].index, taps[0].valid
            for tap, size in zip(taps[1:], self.sizes[1:], strict=True):
                index = index * size + tap.index
                valid = valid if tap.valid is None or valid is None else valid & tap.valid
            yield taps, index, valid

    def wide(self, index: Tensor) -> Tensor:
        return index.unsqueeze(1).expand((-1, self.shape[1], -1))


def ones_like(x: Tensor) -> Tensor:
    return run_name("ones_like", x, None, None, None, None, None)


def counted(values: Tensor, valid: Tensor | None) -> Tensor:
    return values if valid is None else values.where(valid, 0.0)


def weight_of(taps: Sequence[GridTap], slope_at: int = -1) -> Tensor | None:
    """The product of the weights, with the slope of one dimension instead of its weight; None for 0."""
    total = None
    for at, tap in enumerate(taps):
        factor = tap.slope if at == slope_at else tap.weight
        if factor is None:
            return None
        total = factor if total is None else total * factor
    return total


def compute_of(*tensors: Tensor) -> list[Tensor]:
    return [t if t.dtype.opmath is t.dtype else t.to(t.dtype.opmath) for t in tensors]


def check_sampler(input: Tensor, grid: Tensor, mode: int, padding: int, ndims: Sequence[int]) -> None:
    name = "grid_sampler()"
    check(
        input.dtype is grid.dtype,
        f"{name}: expected input and grid to have same dtype, but input has "
        f"{input.dtype.name} and grid has {grid.dtype.name}",
    )
    check(
        input.ndim in ndims and input.ndim == grid.ndim,
        f"{name}: expected "
        f"{' or '.join(f'{n}D' for n in ndims)} input and grid with same number of dimensions, but got "
        f"input "
        f"with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}",
    )
    check(
        input.shape[0] == grid.shape[0],
        f"{name}: expected grid and input to have same batch size, but "
        f"got "
        f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}",
    )
    check(
        grid.shape[-1] == input.ndim - 2,
        f"{name}: expected grid to have size {input.ndim - 2} in last "
        f"dimension, but got grid with sizes {list(grid.shape)}",
    )
    check(
        min(input.shape[2:]) > 0,
        f"{name}: expected input to have non-empty spatial dimensions, but got "
        f"input with sizes {list(input.shape)}",
    )
    check(input.ndim == 4 or mode != BICUBIC, f"{name}: bicubic interpolation only supports 4D input")
    check(
        0 <= mode <= 2 and 0 <= padding <= 2,
        f"{name}: interpolation_mode and padding_mode are 0, 1 or 2, not {mode} and {padding}",
    )
    check(
        input.dtype in GRADED,
        f"\"grid_sampler\" not implemented for '{input.dtype.torch_name}'",
        NotImplementedError,
    )


def flattened(image: Tensor) -> Tensor:
    """(batch, channels, places)."""
    return image.reshape((*image.shape[:2], numel(image.shape[2:])))


def sampled(input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    check_sampler(input, grid, mode, padding, (4, 5))
    x, places = compute_of(input, grid)
    sampling = Sampling(x, places, mode, padding, align_corners)
    flat = flattened(x)
    total = None
    for taps, index, valid in sampling.combinations():
        part = flat.gather(2, sampling.wide(index))
        part = counted(part, None if valid is None else valid.unsqueeze(1))
        weight = weight_of(taps)
        assert weight is not None
        if mode != NEAREST:
            part = part * weight.unsqueeze(1)
        total = part if total is None else total + part
    assert total is not None
    return total.reshape((*input.shape[:2], *grid.shape[1:-1])).to(input.dtype)


def sampled_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    mode: int,
    padding: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    check_sampler(input, grid, mode, padding, (4, 5))
    x, places, grad = compute_of(input, grid, grad_output)
    sampling = Sampling(x, places, mode, padding, align_corners)
    flat, grad = flattened(x), flattened(grad)
    to_input, rank = flat.new_zeros(flat.shape), len(sampling.sizes)
    # Zeros that are a function of the gradient, also where nothing is added to them: they have a derivative.
    zeros = grad.sum(1).masked_fill(
        run_name("ones_like", sampling.taps[0][0].index, BOOL, None, None, None, None), 0.0
    )
    to_grid = [zeros] * rank
    for taps, index, valid in sampling.combinations():
        wide = sampling.wide(index)
        weight = weight_of(taps)
        assert weight is not None
        if output_mask[0]:
            to_input = to_input.scatter_add(2, wide, grad * counted(weight, valid).unsqueeze(1))
        if output_mask[1] and mode != NEAREST:
            along = counted((grad * flat.gather(2, wide)).sum(1), valid)
            for at in range(rank):
                slope = weight_of(taps, at)
                if slope is not None:
                    to_grid[at] = to_grid[at] + along * slope
    grid_gradient = run_name("stack", tuple(to_grid[::-1]), -1).reshape(grid.shape).to(grid.dtype)
    return (
        to_input.reshape(input.shape).to(input.dtype) if output_mask[0] else None,
        grid_gradient if output_mask[1] else None,
    )


_PLACES = "Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners"


@composite(
    f"grid_sampler_2d({_PLACES}) -> Tensor",
    f"_grid_sampler_2d_cpu_fallback({_PLACES}) -> Tensor",
    f"grid_sampler_3d({_PLACES}) -> Tensor",
    api=FUNCTION,
)
def grid_sampler_nd(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    return sampled(input, grid, interpolation_mode, padding_mode, align_corners)


@composite(f"grid_sampler({_PLACES}) -> Tensor", api=FUNCTION)
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    check_sampler(input, grid, interpolation_mode, padding_mode, (4, 5))
    return run_name(
        f"grid_sampler_{input.ndim - 2}d", input, grid, interpolation_mode, padding_mode, align_corners
    )


@composite(
    *[
        f"grid_sampler_{n}d_backward(Tensor grad_output, {_PLACES}, bool[2] output_mask) -> (Tensor, Tensor)"
        for n in (2, 3)
    ],
    api=INTERNAL,
)
def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    return sampled_backward(
        grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask
    )


@composite(
    f"_grid_sampler_2d_cpu_fallback_backward(Tensor grad_output, {_PLACES}) -> (Tensor, Tensor)", api=INTERNAL
)
def grid_sampler_fallback_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> tuple[Tensor | None, Tensor | None]:
    return sampled_backward(
        grad_output, input, grid, interpolation_mode, padding_mode, align_corners, (True, True)
    )


# Grids of affine maps.


def base_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """The places of an image in (1, places, dimensions + 1): last dimension first, and ones at the end."""
    sides, rank = tuple(size[2:]), len(size) - 2
    columns = []
    for d in range(rank - 1, -1, -1):
        n = sides[d]
        line = run_name("arange", n, theta.dtype.opmath, None, theta.device, None)
        if n == 1:
            line = line * 0
        else:
            line = line * (2 / (n - 1)) - 1
            line = line if align_corners else line * ((n - 1) / n)
        columns.append(line.reshape([n if k == d else 1 for k in range(rank)]).expand(sides))
    columns.append(run_name("ones", sides, theta.dtype.opmath, None, theta.device, None))
    return run_name("stack", tuple(columns), -1).reshape((1, -1, rank + 1)).to(theta.dtype)


def check_affine(theta: Tensor, size: Sequence[int]) -> None:
    check(
        len(size) in (4, 5),
        "affine_grid_generator: AffineGridGenerator needs 4d (spatial) or 5d "
        f"(volumetric) inputs, but got size {list(size)}",
    )


@composite("affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", api=FUNCTION)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    check_affine(theta, size)
    rank = len(size) - 2
    check(
        tuple(theta.shape) == (size[0], rank, rank + 1),
        "affine_grid_generator: expected theta of shape "
        f"{[size[0], rank, rank + 1]} for size {list(size)}, but got {list(theta.shape)}",
    )
    grid = base_grid(theta, size, align_corners).matmul(theta.transpose(1, 2))
    return grid.reshape((size[0], *size[2:], rank))


@composite(
    "affine_grid_generator_backward(Tensor grad, SymInt[] size, bool align_corners) -> Tensor", api=INTERNAL
)
def affine_grid_generator_backward(grad: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    check_affine(grad, size)
    flat = grad.reshape((size[0], numel(size[2:]), len(size) - 2))
    return flat.transpose(1, 2).matmul(base_grid(grad, size, align_corners))

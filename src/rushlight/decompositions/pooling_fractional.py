"""Maxima of windows at random places, in terms of simpler operators."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import check
from ..core.registry import INTERNAL, composite
from ..core.shapes import Shape, numel
from ..core.tensor import Tensor
from ..ops.dtype_sets import FLOATS
from ..ops.pooling import check_input
from .pooling import INT64, chosen, counted, to_places


def fractional_places(samples: Tensor, size: int, kernel: int, count: int) -> Tensor:
    """Starts [batch, channels, count] of windows at about equal distances, from one random number each."""
    if count == 1:
        return (samples * 0).to(INT64).unsqueeze(-1) + (size - kernel)
    alpha = samples.new_zeros(()) + (size - kernel)
    alpha = alpha / (count - 1)
    number = counted(count, samples)
    first = (samples * alpha).to(INT64).unsqueeze(-1)
    moved = ((samples.unsqueeze(-1) + number.to(samples.dtype)) * alpha).to(INT64) - first
    return moved.where(number < count - 1, moved.new_full((), size - kernel))


def fractional(
    self: Tensor, kernel_size: Shape, output_size: Shape, random_samples: Tensor, rank: int
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{rank}d"
    for word, given in (("kernel_size", kernel_size), ("output_size", output_size)):
        check(
            len(given) == rank,
            f"{name}: {word} must either be a single int or a tuple of {rank} ints, but got {list(given)}",
        )
    check(min(kernel_size) > 0, f"{name}: kernel_size must be greater than zero, but got {list(kernel_size)}")
    check(min(output_size) >= 0, f"{name}: output_size must not be negative, but got {list(output_size)}")
    check_input(self, rank, FLOATS, name)
    space = self.shape[-rank:]
    words = ("time", "height", "width")[-rank:]
    for word, o, k, n in zip(words, output_size, kernel_size, space, strict=True):
        check(
            n - (o + k - 1) >= rank - 2,
            f"{name}: pool {word} {k} too large relative to input {word} {n} for an output {word} of {o}",
        )
    check(
        random_samples.dtype is self.dtype,
        f"{name}: Expect _random_samples to have the same dtype as "
        f"input, {self.dtype.name}, but got {random_samples.dtype.name}",
    )
    if 0 in output_size:
        empty = self.new_empty((*self.shape[:-rank], *output_size))
        return empty, empty.to(INT64)
    batch = self if self.ndim == rank + 2 else self.unsqueeze(0)
    images, channels = batch.shape[:2]
    check(
        random_samples.ndim == 3
        and random_samples.shape[0] >= images
        and random_samples.shape[1] >= channels
        and random_samples.shape[2] == rank,
        f"{name}: Expect _random_samples of shape [{images}, {channels}, {rank}], but got "
        f"{list(random_samples.shape)}",
    )
    samples = random_samples.narrow(0, 0, images).narrow(1, 0, channels)
    order = range(rank) if rank == 3 else (1, 0)  # in two dimensions the first number is that of the width
    flat = None
    for dim, number in enumerate(order):
        starts = fractional_places(samples.select(2, number), space[dim], kernel_size[dim], output_size[dim])
        shape = [1] * rank
        shape[dim] = output_size[dim]
        starts = starts.reshape((images, channels, *shape))
        flat = starts if flat is None else flat * space[dim] + starts
    assert flat is not None
    values, indices = _maxima_from(batch.flatten(2), flat, space, kernel_size)
    if self.ndim == rank + 2:
        return values, indices
    return values.squeeze(0), indices.squeeze(0)


def _maxima_from(
    planes: Tensor, starts: Tensor, space: Sequence[int], kernel: Shape
) -> tuple[Tensor, Tensor]:
    """Maxima of windows that start at flat positions."""
    found = where = None
    for tap in range(numel(kernel)):
        offset, rest, width = 0, tap, 1
        for size, count in zip(reversed(space), reversed(kernel), strict=True):
            offset, rest, width = offset + rest % count * width, rest // count, width * size
        at = starts + offset
        value = planes.gather(2, at.flatten(2)).reshape(at.shape)
        if found is None or where is None:
            found, where = value, at
            continue
        better = (value > found) | value.isnan()
        found, where = chosen(better, value, found), chosen(better, at, where)
    assert found is not None
    assert where is not None
    return found, where


def _declare_fractional(rank: int) -> None:
    name = f"fractional_max_pool{rank}d"

    @composite(
        f"{name}(Tensor self, int[{rank}] kernel_size, int[{rank}] output_size, Tensor "
        "random_samples) -> (Tensor, Tensor)",
        api=INTERNAL,
    )
    def fractional_max_pool(
        self: Tensor, kernel_size: Shape, output_size: Shape, random_samples: Tensor
    ) -> tuple[Tensor, Tensor]:
        return fractional(self, kernel_size, output_size, random_samples, rank)

    @composite(
        f"{name}_backward(Tensor grad_output, Tensor self, int[{rank}] kernel_size, int[{rank}] "
        "output_size, Tensor indices) -> Tensor",
        api=INTERNAL,
    )
    def backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        return to_places(grad_output, indices, self, rank)


for _rank in (2, 3):
    _declare_fractional(_rank)

"""Padding, rolling and triangles in terms of index, index_put and masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core.registry import decomposition
from ..core.tensor import Tensor
from .creation_basic import counted
from .indexing_basic import picked, put

# Padding: every place of the result reads one place of the input, along each of the last dimensions.


def reflected(places: Tensor, size: int) -> Tensor:
    return (size - 1) - ((size - 1) - places.abs()).abs()


def repeated(places: Tensor, size: int) -> Tensor:
    return places.clamp(0, size - 1)


def sources(
    self: Tensor, padding: Sequence[int], place: Callable[[Tensor, int], Tensor]
) -> list[tuple[int, Tensor]]:
    """For each padded dimension, which place of the input each place of the result is."""
    found = []
    for i in range(len(padding) // 2):
        dim, (before, after) = self.ndim - 1 - i, padding[2 * i : 2 * i + 2]
        size = self.shape[dim]
        found.append((dim, place(counted(before + size + after, self.device) - before, size)))
    return found


def padded(self: Tensor, padding: Sequence[int], place: Callable[[Tensor, int], Tensor]) -> Tensor:
    result = self
    for dim, index in sources(self, padding, place):
        result = picked(result, dim, index)
    return result


def padded_backward(
    grad_output: Tensor, self: Tensor, padding: Sequence[int], place: Callable[[Tensor, int], Tensor]
) -> Tensor:
    grad = grad_output.to(grad_output.dtype.opmath)
    for dim, index in sources(self, padding, place):
        shape = (*grad.shape[:dim], self.shape[dim], *grad.shape[dim + 1 :])
        grad = put(grad.new_zeros(shape), dim, index, grad, True)
    return grad.to(grad_output.dtype)


for _n in (1, 2, 3):
    decomposition(f"reflection_pad{_n}d")(lambda self, padding: padded(self, padding, reflected))
    decomposition(f"replication_pad{_n}d")(lambda self, padding: padded(self, padding, repeated))
    decomposition(f"reflection_pad{_n}d_backward")(
        lambda grad_output, self, padding: padded_backward(grad_output, self, padding, reflected)
    )
    decomposition(f"replication_pad{_n}d_backward")(
        lambda grad_output, self, padding: padded_backward(grad_output, self, padding, repeated)
    )


# Rolling.


@decomposition("roll")
def roll(self: Tensor, shifts: Sequence[int], dims: Sequence[int]) -> Tensor:
    if self.numel() == 0:
        return self.clone()
    if not dims:
        return roll(self.reshape((-1,)), shifts, (0,)).reshape(self.shape)
    result = self.clone()
    for shift, dim in zip(shifts, dims, strict=True):
        size = self.shape[dim]
        result = picked(result, dim, (counted(size, self.device) - shift).remainder(size))
    return result


# Triangles.


def triangle(self: Tensor, dropped: Tensor) -> Tensor:
    return self.masked_fill(dropped, 0)


def distances(self: Tensor) -> Tensor:
    """Column minus row."""
    return counted(self.shape[-1], self.device) - counted(self.shape[-2], self.device).unsqueeze(1)


decomposition("tril")(lambda self, diagonal: triangle(self, distances(self) > diagonal))
decomposition("triu")(lambda self, diagonal: triangle(self, distances(self) < diagonal))

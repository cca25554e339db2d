"""Padding on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.registry import kernel
from ..core.shapes import Spec
from .creation import allocate, filled


@kernel("constant_pad_nd")
def constant_pad_nd(self: np.ndarray, pad: tuple[int, ...], value: Any, out: Spec) -> np.ndarray:
    result = filled(out, value)
    target, source = [slice(None)] * self.ndim, [slice(None)] * self.ndim
    for i in range(len(pad) // 2):
        dim, before, after = self.ndim - 1 - i, pad[2 * i], pad[2 * i + 1]
        target[dim] = slice(max(before, 0), result.shape[dim] - max(after, 0))
        source[dim] = slice(max(-before, 0), self.shape[dim] - max(-after, 0))
    result[tuple(target)] = self[tuple(source)]
    return result


def border_sources(name: str, size: int, before: int, after: int) -> np.ndarray:
    """For each element of a padded dimension, the element of the unpadded one that it shows."""
    position = np.arange(-before, size + after)
    if name.startswith("replication"):
        return np.clip(position, 0, size - 1)
    position = np.abs(position)
    return np.where(position < size, position, 2 * (size - 1) - position)


def padded_dims(padding: tuple[int, ...], rank: int) -> list[tuple[int, int, int]]:
    """(dimension, before, after) for the dimensions that are padded at all."""
    found = [(rank - 1 - i, padding[2 * i], padding[2 * i + 1]) for i in range(len(padding) // 2)]
    return [(dim, before, after) for dim, before, after in found if before or after]


def border_padded(name: str, self: np.ndarray, padding: tuple[int, ...], out: Spec) -> np.ndarray:
    values = self
    for dim, before, after in padded_dims(padding, self.ndim):
        values = np.take(values, border_sources(name, self.shape[dim], before, after), dim)
    result = allocate(out)
    np.copyto(result, values)
    return result


def border_padded_backward(
    name: str, grad_output: np.ndarray, padding: tuple[int, ...], out: Spec
) -> np.ndarray:
    """Each element of the input receives the sum of the gradients of those that show it."""
    shape = out.known_shape()
    grad = grad_output
    for dim, before, after in padded_dims(padding, len(shape)):
        source = border_sources(name, shape[dim], before, after)
        order = np.argsort(source, kind="stable")
        shown, starts = np.unique(source[order], return_index=True)
        sums = np.add.reduceat(np.take(grad, order, dim), starts, dim)
        grad = np.zeros((*grad.shape[:dim], shape[dim], *grad.shape[dim + 1 :]), grad.dtype)
        grad[(slice(None),) * dim + (shown,)] = sums
    return grad


def _attach(name: str) -> None:
    kernel(name, lambda self, padding, out: border_padded(name, self, padding, out))
    kernel(
        f"{name}_backward",
        lambda grad_output, padding, out: border_padded_backward(name, grad_output, padding, out),
    )


for _dims in (1, 2, 3):
    _attach(f"reflection_pad{_dims}d")
    _attach(f"replication_pad{_dims}d")

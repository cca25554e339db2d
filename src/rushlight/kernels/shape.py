"""Joining, reordering and masking elements on NumPy arrays."""

from __future__ import annotations

import numpy as np

from ..core.errors import check
from ..core.registry import kernel
from ..core.shapes import Spec
from .creation import allocate, cast


@kernel("cat")
def cat(tensors: tuple[np.ndarray, ...], dim: int, out: Spec) -> np.ndarray:
    result = allocate(out)
    joined = [cast(array, result.dtype) for array in tensors if array.shape != (0,)]
    return np.concatenate(joined, dim, out=result) if joined else result


@kernel("flip")
def flip(self: np.ndarray, dims: tuple[int, ...], out: Spec) -> np.ndarray:
    result = allocate(out)
    np.copyto(result, np.flip(self, dims) if self.ndim else self)
    return result


@kernel("roll")
def roll(self: np.ndarray, shifts: tuple[int, ...], dims: tuple[int, ...], out: Spec) -> np.ndarray:
    result = allocate(out)
    np.copyto(result, np.roll(self, shifts if dims else shifts[0], dims or None) if self.size else self)
    return result


def _clipped(diagonal: int, shape: tuple[int, ...]) -> int:
    """`diagonal` where it is near the matrix: beyond its corners all of it, or nothing, is inside."""
    return min(max(diagonal, -shape[-2] - 1), shape[-1] + 1)


kernel("tril", lambda self, diagonal: np.tril(self, _clipped(diagonal, self.shape)))
kernel("triu", lambda self, diagonal: np.triu(self, _clipped(diagonal, self.shape)))
kernel("tril_indices", lambda row, col, offset: np.stack(np.tril_indices(row, offset, col)))
kernel("triu_indices", lambda row, col, offset: np.stack(np.triu_indices(row, offset, col)))


@kernel("repeat_interleave.Tensor")
def repeat_interleave(repeats: np.ndarray, output_size: int | None) -> np.ndarray:
    check(not (repeats < 0).any(), "repeats can not be negative")
    total = int(repeats.sum())
    check(output_size in (None, total), "repeat_interleave: allocated size does not match required size: "
          f"output_size is {output_size}, the repeats sum to {total}")
    return np.repeat(np.arange(len(repeats), dtype=repeats.dtype), repeats)

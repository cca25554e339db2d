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


def _index_pairs(rows: np.ndarray, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(i, first[i]), (i, first[i] + 1), ... for each of `rows`, as two rows of indices."""
    before = np.cumsum(counts) - counts
    columns = np.arange(counts.sum()) + np.repeat(first - before, counts)
    return np.stack((np.repeat(rows, counts), columns))


@kernel("tril_indices")
def tril_indices(row: int, col: int, offset: int) -> np.ndarray:
    offset = _clipped(offset, (row, col))
    rows = np.arange(min(max(-offset, 0), row) if col else row, row)
    return _index_pairs(rows, np.zeros_like(rows), np.minimum(rows + (offset + 1), col))


@kernel("triu_indices")
def triu_indices(row: int, col: int, offset: int) -> np.ndarray:
    offset = _clipped(offset, (row, col))
    rows = np.arange(min(row, max(col - offset, 0)) if col else 0)
    first = np.maximum(rows + offset, 0)
    return _index_pairs(rows, first, col - first)


@kernel("repeat_interleave.Tensor")
def repeat_interleave(repeats: np.ndarray, output_size: int | None) -> np.ndarray:
    check(not (repeats < 0).any(), "repeats can not be negative")
    total = int(repeats.sum())
    check(
        output_size in (None, total),
        "repeat_interleave: allocated size does not match required size: "
        f"output_size is {output_size}, the repeats sum to {total}",
    )
    return np.repeat(np.arange(len(repeats), dtype=repeats.dtype), repeats)

"""Packed sequences: eager kernels on NumPy arrays."""

from __future__ import annotations

import numpy as np

from ..core.errors import check
from ..core.registry import kernel
from ..core.shapes import Spec


def present(batch_sizes: np.ndarray, batch: int) -> np.ndarray:
    """Whether each sequence (column) reaches each step (row)."""
    return np.arange(batch) < batch_sizes[:, None]


@kernel("_pack_padded_sequence")
def pack_padded_sequence(
    input: np.ndarray, lengths: np.ndarray, batch_first: bool
) -> tuple[np.ndarray, np.ndarray]:
    name = "_pack_padded_sequence"
    steps = input.swapaxes(0, 1) if batch_first else input
    check(
        (lengths > 0).all(),
        f"{name}: Length of all samples has to be greater than 0, but found an "
        f"element "
        "in 'lengths' that is <= 0",
    )
    check(
        (lengths[1:] <= lengths[:-1]).all(),
        f"{name}: `lengths` array must be sorted in decreasing order "
        "when `enforce_sorted` is True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or "
        "pack_sequence to sidestep this requirement if you do not need ONNX exportability.",
    )
    check(
        lengths[0] <= len(steps),
        f"{name}: Expected every length to be at most the number of steps, "
        f"{len(steps)}, but got {lengths[0]}",
    )
    batch_sizes = (lengths > np.arange(lengths[0])[:, None]).sum(1)
    return steps[: len(batch_sizes)][present(batch_sizes, len(lengths))], batch_sizes


@kernel("_pack_padded_sequence_backward")
def pack_padded_sequence_backward(
    grad: np.ndarray, batch_sizes: np.ndarray, batch_first: bool, out: Spec
) -> np.ndarray:
    result = np.zeros(out.known_shape(), grad.dtype)
    steps = result.swapaxes(0, 1) if batch_first else result
    steps[: len(batch_sizes)][present(batch_sizes, steps.shape[1])] = grad
    return result


@kernel("_pad_packed_sequence")
def pad_packed_sequence(
    data: np.ndarray, batch_sizes: np.ndarray, batch_first: bool, padding_value: complex, total_length: int
) -> tuple[np.ndarray, np.ndarray]:
    batch = int(batch_sizes[0])
    there = present(batch_sizes, batch)
    steps = np.full((max(total_length, len(there)), batch, *data.shape[1:]), padding_value, data.dtype)
    steps[: len(there)][there] = data
    return steps.swapaxes(0, 1) if batch_first else steps, there.sum(0)

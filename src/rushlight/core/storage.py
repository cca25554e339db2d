"""Memory shared by tensors: the byte buffer, and the counter that tells when it was written.

A fresh tensor owns its NumPy array and has neither object yet; both are made when a view, a detached alias or
an in-place write first needs them, and are then shared by all aliases.
"""

from __future__ import annotations

import numpy as np


class VersionCounter:
    """How many in-place writes the aliases that share it have seen."""

    __slots__ = ("value",)

    def __init__(self, value: int = 0) -> None:
        self.value = value


class Storage:
    """One allocation. `buffer` is a 1-D uint8 array, or None for a tensor on the meta device."""

    __slots__ = ("_meta_bytes", "buffer")

    def __init__(self, buffer: np.ndarray | None, meta_bytes: int = 0) -> None:
        self.buffer = buffer
        self._meta_bytes = meta_bytes

    @classmethod
    def of_array(cls, array: np.ndarray) -> Storage:
        """The storage of the memory that `array` spans; `array` begins at its offset 0."""
        if array.flags.c_contiguous:
            buffer = array.reshape(-1).view(np.uint8)
        else:
            # Another memory order, or an array with gaps: take its whole span of bytes.
            low, high = np.lib.array_utils.byte_bounds(array)
            first = np.lib.stride_tricks.as_strided(_lowest(array), (1,), (array.itemsize,))
            buffer = np.lib.stride_tricks.as_strided(first.view(np.uint8), (high - low,), (1,))
        return cls(buffer)

    def nbytes(self) -> int:
        return self._meta_bytes if self.buffer is None else self.buffer.nbytes

    size = nbytes

    def __len__(self) -> int:
        return self.nbytes()

    def data_ptr(self) -> int:
        return 0 if self.buffer is None else int(self.buffer.__array_interface__["data"][0])

    def __repr__(self) -> str:
        return f"<rushlight storage of {self.nbytes()} bytes>"


def _lowest(array: np.ndarray) -> np.ndarray:
    """The element of `array` with the lowest address, as a view of one element."""
    index = tuple(slice(-1, None) if stride < 0 else slice(0, 1) for stride in array.strides)
    return array[index].reshape(1)

"""A compiled program that can be called: native segments and library calls over one block of addresses.

`run(inputs)` takes the input arrays in order and returns the output arrays. The workspace belongs to the
executable and is used by one call at a time; a call that finds it taken (from another thread, or from
itself) uses a workspace of its own.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .engine import Library
from .threads import ThreadPool


@dataclass(frozen=True)
class Slot:
    """A buffer of the block.

    `shape` and `strides` (in bytes) of the array an output or temporary is seen as.
    """

    number: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0  # in the workspace, of a temporary


class Executable:
    """Native code with its memory."""

    def __init__(
        self,
        library: Library,
        segments: Sequence[str | Callable[..., None]],
        inputs: Sequence[int | None],
        outputs: Sequence[Slot],
        temporaries: Sequence[Slot],
        workspace_size: int,
        slots: int,
        pool: ThreadPool,
        reports: Sequence[str] = (),
    ) -> None:
        self._library = library
        self._pool = pool
        native = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self._segments: list[tuple[bool, Callable[..., Any]]] = [
            (True, native(library.addresses[s])) if isinstance(s, str) else (False, s) for s in segments]
        self.inputs = list(inputs)
        self.outputs = [(output.number, allocator(output)) for output in outputs]
        self.temporaries = list(temporaries)
        self.workspace_size = workspace_size
        self._block_type = ctypes.c_int64 * slots
        self.reports = list(reports)
        self._lock = threading.Lock()
        self._workspace = aligned_bytes(workspace_size)
        self._native = all(native for native, _ in self._segments)
        self._template = self._block_over(self._workspace)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        own = self._lock.acquire(blocking=False)
        try:
            workspace = self._workspace if own else aligned_bytes(self.workspace_size)
            return self._run(inputs, workspace)
        finally:
            if own:
                self._lock.release()

    def _run(self, inputs: Sequence[np.ndarray], workspace: np.ndarray) -> list[np.ndarray]:
        """Fill in the block, run the segments in order, and give the outputs."""
        template = self._template if workspace is self._workspace else self._block_over(workspace)
        block = self._block_type.from_buffer_copy(template)
        error = ctypes.c_int64(0)
        block[1] = ctypes.addressof(error)
        for slot, array in zip(self.inputs, inputs, strict=True):
            if slot is not None:
                block[slot] = array.__array_interface__["data"][0]
        outputs = []
        for number, allocate in self.outputs:
            array = allocate()
            block[number] = array.__array_interface__["data"][0]
            outputs.append(array)
        arrays = None if self._native else self._arrays(inputs, outputs, workspace)
        address = ctypes.addressof(block)
        for native, segment in self._segments:
            segment(address if native else arrays)
            if error.value:
                raise IndexError(f"{self.reports[error.value - 1]}: index out of range")
        return outputs

    def _block_over(self, workspace: np.ndarray) -> Any:
        """A block with the addresses that are the same in every call that uses `workspace`."""
        block = self._block_type()
        block[0] = self._pool.address
        base = workspace.__array_interface__["data"][0]
        for temporary in self.temporaries:
            block[temporary.number] = base + temporary.offset
        return block

    def _arrays(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray],
                workspace: np.ndarray) -> dict[int, np.ndarray]:
        """The buffers as arrays, for segments that are not native."""
        arrays = {slot: array for slot, array in zip(self.inputs, inputs, strict=True) if slot is not None}
        arrays.update((number, array) for (number, _), array in zip(self.outputs, outputs, strict=True))
        for t in self.temporaries:
            arrays[t.number] = np.ndarray(t.shape, t.dtype, workspace, t.offset, t.strides)
        return arrays


def aligned_bytes(size: int, alignment: int = 64) -> np.ndarray:
    """Uninitialised bytes at an aligned address."""
    memory = np.empty(size + alignment, np.uint8)
    start = -memory.__array_interface__["data"][0] % alignment
    return memory[start:start + size]


def allocator(slot: Slot) -> Callable[[], np.ndarray]:
    """A function that makes a new array for an output, in its memory order, aligned where that pays."""
    shape, dtype, strides = slot.shape, slot.dtype, slot.strides
    count = math.prod(shape)
    if count * dtype.itemsize < 4096:
        if strides is None or count == 0:
            return lambda: np.empty(shape, dtype)
        return lambda: np.ndarray(shape, dtype, np.empty(count, dtype), 0, strides)
    size = count * dtype.itemsize
    return lambda: np.ndarray(shape, dtype, aligned_bytes(size), 0, strides)

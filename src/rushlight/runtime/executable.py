"""A compiled program that can be called: native segments and library calls over one block of addresses.

`run(inputs)` takes the input arrays in order and returns the output arrays. The workspace belongs to the
executable and is used by one call at a time; a call that finds it taken (from another thread, or from
itself) uses a workspace of its own.
"""

from __future__ import annotations

import ctypes
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
        self.outputs = list(outputs)
        self.temporaries = list(temporaries)
        self.workspace_size = workspace_size
        self.slots = slots
        self.reports = list(reports)
        self._lock = threading.Lock()
        self._workspace = aligned_bytes(workspace_size)

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        own = self._lock.acquire(blocking=False)
        try:
            workspace = self._workspace if own else aligned_bytes(self.workspace_size)
            return self._run(inputs, workspace)
        finally:
            if own:
                self._lock.release()

    def _run(self, inputs: Sequence[np.ndarray], workspace: np.ndarray) -> list[np.ndarray]:
        block = (ctypes.c_int64 * self.slots)()
        block[0] = self._pool.address
        error = ctypes.c_int64(0)
        block[1] = ctypes.addressof(error)
        arrays: dict[int, np.ndarray] = {}
        for slot, array in zip(self.inputs, inputs, strict=True):
            if slot is not None:
                block[slot] = array.__array_interface__["data"][0]
                arrays[slot] = array
        outputs = []
        for output in self.outputs:
            array = empty_strided(output)
            block[output.number] = array.__array_interface__["data"][0]
            arrays[output.number] = array
            outputs.append(array)
        base = workspace.__array_interface__["data"][0]
        for temporary in self.temporaries:
            block[temporary.number] = base + temporary.offset
            if len(self._segments) > 1:
                arrays[temporary.number] = np.ndarray(
                    temporary.shape, temporary.dtype, workspace, temporary.offset, temporary.strides
                )
        address = ctypes.addressof(block)
        for native, segment in self._segments:
            segment(address if native else arrays)
            if error.value:
                raise IndexError(f"{self.reports[error.value - 1]}: index out of range")
        return outputs


def aligned_bytes(size: int, alignment: int = 64) -> np.ndarray:
    """Uninitialised bytes at an aligned address."""
    memory = np.empty(size + alignment, np.uint8)
    start = -memory.__array_interface__["data"][0] % alignment
    return memory[start:start + size]


def empty_strided(slot: Slot) -> np.ndarray:
    """A new array with the memory order of a slot, aligned where that pays."""
    count = int(np.prod(slot.shape, dtype=np.int64))
    if count * slot.dtype.itemsize < 4096:
        flat = np.empty(count, slot.dtype)
    else:
        flat = aligned_bytes(count * slot.dtype.itemsize).view(slot.dtype)
    if slot.strides is None or count == 0:
        return flat.reshape(slot.shape)
    return np.ndarray(slot.shape, slot.dtype, flat, 0, slot.strides)

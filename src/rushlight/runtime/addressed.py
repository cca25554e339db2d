"""Calls of a program over memory of others: addresses in, nothing out.

Whoever calls has the tensors, of whatever library, and allocates the outputs; `AddressedCall` fills in the block
of addresses and runs the segments. Several threads may call at a time: one has the block and the workspace that
are kept, the others make their own.
"""

from __future__ import annotations

import ctypes
import operator
import struct
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .executable import Executable, aligned_bytes

EMPTY = aligned_bytes(256)  # where an input without elements is


class _Room(NamedTuple):
    """What one call at a time uses."""

    block: Any
    address: int
    error: ctypes.c_int64
    workspace: np.ndarray
    fixed: list[int]  # the words of the block that are the same in every call


class AddressedCall:
    """A program for fixed sizes. `dtypes` are those of its inputs; `used` are the inputs whose addresses it asks
    for."""

    def __init__(self, executable: Executable, dtypes: Sequence[np.dtype]) -> None:
        self._executable, self._dtypes = executable, list(dtypes)
        self._lock = threading.Lock()
        self._room: _Room | None = None
        self.used = [i for i, slot in enumerate(executable.inputs) if slot is not None]
        inputs = [slot for slot in executable.inputs if slot is not None]
        self._slots = inputs + [output.number for output in executable.output_slots]
        # words of the block in order, each from the addresses of a call followed by the fixed words
        self._fixed = [slot for slot in range(executable.slots) if slot not in set(self._slots)]
        place = {slot: i for i, slot in enumerate((*self._slots, *self._fixed))}
        self._in_order = operator.itemgetter(*[place[slot] for slot in range(executable.slots)])
        self._pack = struct.Struct(f"{executable.slots}q").pack_into

    def _make_room(self) -> _Room:
        executable = self._executable
        workspace = aligned_bytes(executable.workspace_size)
        block, error = executable._block_over(workspace), ctypes.c_int64(0)
        block[1] = ctypes.addressof(error)
        return _Room(block, ctypes.addressof(block), error, workspace, [block[slot] for slot in self._fixed])

    def __call__(self, addresses: list[int]) -> None:
        """Run on the addresses of the used inputs and of the outputs."""
        if not self._lock.acquire(blocking=False):
            self._run(self._make_room(), addresses)
            return
        try:
            if self._room is None:
                self._room = self._make_room()
            self._run(self._room, addresses)
        finally:
            self._lock.release()

    def _run(self, room: _Room, addresses: list[int]) -> None:
        self._pack(room.block, 0, *self._in_order(addresses + room.fixed))
        executable, error = self._executable, room.error
        arrays = None if executable.native else self._arrays(addresses, room.workspace)
        for native, segment in executable.segments:
            segment(room.address if native else arrays)
            if error.value:
                number, error.value = error.value, 0
                self._room = None  # messages that are on their way may still be written to it
                executable.report(number, room)

    def _arrays(self, addresses: Sequence[int], workspace: np.ndarray) -> dict[int, np.ndarray]:
        """The buffers as arrays, for segments that are not native and know the layouts."""
        executable = self._executable
        dtypes = [self._dtypes[i] for i in self.used] + [o.dtype for o in executable.output_slots]
        arrays = {
            slot: np.ndarray(
                1, dtype, memoryview((ctypes.c_char * dtype.itemsize).from_address(address)).cast("B")
            )
            for slot, address, dtype in zip(self._slots, addresses, dtypes, strict=True)
        }
        for t in executable.temporaries:
            arrays[t.number] = np.ndarray(t.shape, t.dtype, workspace, t.offset, t.strides)
        return arrays

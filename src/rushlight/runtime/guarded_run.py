"""A call of a compiled program between red zones (runtime/redzones.py)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import InternalError
from .redzones import PATTERN, ZONE

if TYPE_CHECKING:
    from .executable import Executable


class Guarded:
    """Memory for one buffer between two zones."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.memory = np.full(size + 2 * ZONE + 64, PATTERN, np.uint8)
        self.start = ZONE + (-(self.memory.ctypes.data + ZONE)) % 64
        self.end = self.start + size

    @property
    def address(self) -> int:
        return int(self.memory.ctypes.data) + self.start

    @property
    def inside(self) -> np.ndarray:
        return self.memory[self.start : self.end]

    def check(self, when: str) -> None:
        for side, zone in (("before", self.memory[: self.start]), ("behind", self.memory[self.end :])):
            touched = np.flatnonzero(zone != PATTERN)
            if touched.size:
                raise InternalError(f"{when} wrote {touched.size} bytes {side} {self.name}")


class _Input(Guarded):
    """A copy of an input, which must not change unless it is updated."""

    def __init__(self, name: str, array: np.ndarray, updated: bool) -> None:
        low, high = (
            np.lib.array_utils.byte_bounds(array) if array.size else (array.ctypes.data, array.ctypes.data)
        )
        super().__init__(name, high - low)
        if high > low:
            ctypes.memmove(self.address, low, high - low)
        self.first = self.address + (array.ctypes.data - low)
        self.before = None if updated else self.inside.copy()

    def seen_as(self, array: np.ndarray) -> np.ndarray:
        """The copy, laid out as `array`, of which it is one."""
        at = self.first - self.address
        return np.ndarray(array.shape, array.dtype, self.inside, at, array.strides) if array.size else array

    def check(self, when: str) -> None:
        super().check(when)
        if self.before is not None and not np.array_equal(self.inside, self.before):
            raise InternalError(f"{when} wrote to {self.name}")


def run_guarded(program: Executable, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """One call of `program` between guard zones."""
    block = program.new_block()
    error = ctypes.c_int64(0)
    block[1] = ctypes.addressof(error)
    zones: list[Guarded] = []
    arrays: dict[int, np.ndarray] = {}
    updated: dict[int, _Input | None] = dict.fromkeys(program.updates.values())
    for i, (slot, array) in enumerate(zip(program.inputs, inputs, strict=True)):
        if slot is not None:
            given = _Input(f"input {i}", array, i in updated)
            if i in updated:
                updated[i] = given
            block[slot] = given.first
            zones.append(given)
            arrays[slot] = given.seen_as(array)
    outputs = []
    for kind, slots in (("output", program.output_slots), ("temporary", program.temporaries)):
        for place in slots:
            size = int(np.prod(place.shape, dtype=np.int64)) * place.dtype.itemsize
            zone = Guarded(f"{kind} {place.number}", size)
            block[place.number] = zone.address
            zones.append(zone)
            strides = place.strides if size else None
            view = np.ndarray(place.shape, place.dtype, zone.inside, 0, strides)
            arrays[place.number] = view
            if kind == "output":
                outputs.append(view)
    for number, (native, segment) in enumerate(program.segments):
        segment(ctypes.addressof(block) if native else arrays)
        for zone in zones:
            zone.check(f"segment {number}")
        if error.value:
            program.report(error.value, zones)
    for i, memory in updated.items():
        if memory is not None and inputs[i].size:
            ctypes.memmove(inputs[i].ctypes.data, memory.first, inputs[i].nbytes)
    return [output.copy(order="K") for output in outputs]

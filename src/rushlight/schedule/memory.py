"""Where temporary buffers lie in the workspace: buffers that do not live at the same time share memory.

In: stages of kernels in order, and the temporaries they use. Out: an offset for each, 64-byte aligned, and
the workspace's size. The placement is first fit in order of first use, which is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..loops.nest import Buffer, Call, Kernel, Place

ALIGNMENT = 64


@dataclass
class Workspace:
    offsets: dict[Buffer, int]
    size: int


def buffers_of(kernel: Kernel) -> list[Buffer]:
    """The buffers a kernel reads or writes, each once."""
    if isinstance(kernel, Call):
        found = [*kernel.inputs, *kernel.outputs]
    else:
        found = [access.buffer for access in (*kernel.reads(), *kernel.writes())]
    return list(dict.fromkeys(found))


def bytes_of(buffer: Buffer) -> int:
    count = buffer.size.constant_value()
    if count is None:
        raise NotImplementedError("a buffer whose size is not known at compile time")
    return count * buffer.dtype.itemsize


def plan_memory(stages: list[list[Kernel]]) -> Workspace:
    """Offsets of the temporaries of kernels; those of a stage run at the same time."""
    used = [list(dict.fromkeys(
        b for kernel in stage for b in buffers_of(kernel) if b.place is Place.TEMPORARY)) for stage in stages]
    last_use = {buffer: at for at, buffers in enumerate(used) for buffer in buffers}
    offsets: dict[Buffer, int] = {}
    live: list[tuple[int, int, Buffer]] = []  # (start, end, buffer), sorted by start
    size = 0
    for at, buffers in enumerate(used):
        for buffer in buffers:
            if buffer in offsets:
                continue
            length = -(-max(bytes_of(buffer), 1) // ALIGNMENT) * ALIGNMENT
            start = _first_gap(live, length)
            offsets[buffer] = start
            live.append((start, start + length, buffer))
            live.sort(key=lambda item: item[0])
            size = max(size, start + length)
        live = [item for item in live if last_use[item[2]] > at]
    return Workspace(offsets, size)


def _first_gap(live: list[tuple[int, int, Buffer]], length: int) -> int:
    start = 0
    for low, high, _ in live:
        if low - start >= length:
            break
        start = max(start, high)
    return start

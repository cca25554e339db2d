"""The memory that kernels use."""

from __future__ import annotations

from ..core.symbols import hint_of, size_of
from ..loops.kernels import Kernel
from ..loops.nest import Buffer, MemoryKind
from ..loops.plans import LoopPlan
from ..loops.program import Program, name_in, renamed, steps_of


def buffers_of(kernel: Kernel | LoopPlan) -> list[Buffer]:
    """The buffers a kernel reads or writes, each once."""
    return list(dict.fromkeys((*kernel.inputs, *kernel.outputs)))


def bytes_of(buffer: Buffer) -> int:
    """The size of a buffer; one that changes from call to call is a size."""
    return size_of(buffer.size) * buffer.dtype.itemsize


def bytes_hint(buffer: Buffer) -> int:
    """The size of a buffer in the call that was captured."""
    return hint_of(buffer.size) * buffer.dtype.itemsize


def moved_bytes(program: Program) -> dict[str, int]:
    """Bytes that each kernel reads and writes, counting every buffer once."""
    return {
        name_in(unit, step): sum(
            bytes_of(b) for b in renamed(unit, buffers_of(step)) if b.memory is not MemoryKind.ROW
        )
        for stage in program.stages
        for unit in stage.units
        for step in steps_of(unit)
    }

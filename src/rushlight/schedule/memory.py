"""The memory that kernels use."""

from __future__ import annotations

from ..loops.extents import constant
from ..loops.kernels import Kernel
from ..loops.nest import Buffer
from ..loops.plans import LoopPlan


def buffers_of(kernel: Kernel | LoopPlan) -> list[Buffer]:
    """The buffers a kernel reads or writes, each once."""
    return list(dict.fromkeys((*kernel.inputs, *kernel.outputs)))


def bytes_of(buffer: Buffer) -> int:
    return constant(buffer.size) * buffer.dtype.itemsize

"""The memory that kernels use."""

from __future__ import annotations

from ..core.symbols import hint_of, size_of
from ..loops.kernels import Kernel
from ..loops.nest import Buffer
from ..loops.plans import LoopPlan


def buffers_of(kernel: Kernel | LoopPlan) -> list[Buffer]:
    """The buffers a kernel reads or writes, each once."""
    return list(dict.fromkeys((*kernel.inputs, *kernel.outputs)))


def bytes_of(buffer: Buffer) -> int:
    """The size of a buffer; one that changes from call to call is a size."""
    return size_of(buffer.size) * buffer.dtype.itemsize


def bytes_hint(buffer: Buffer) -> int:
    """The size of a buffer in the call that was captured."""
    return hint_of(buffer.size) * buffer.dtype.itemsize

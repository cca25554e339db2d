"""Random numbers by native code: the same bits as those of core/generator.py, many times quicker."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np

from ..codegen.llvm.random_streams import STEP, STREAMS, emit_streams
from ..core import generator
from ..core.dtypes import DTYPES, DType
from ..eager import worker
from .engine import engine

_MOST = 1 << 62  # offsets beyond this one are left to NumPy
_kept: list[Any] = []


class _Short(threading.local):
    """Memory of a thread for one step of a stream, and its address."""

    def __init__(self) -> None:
        self.known: dict[DType, tuple[np.ndarray, int]] = {}

    def of(self, dtype: DType, step: int) -> tuple[np.ndarray, int]:
        found = self.known.get(dtype)
        if found is None:
            memory = np.empty(step, dtype.numpy)
            found = self.known[dtype] = memory, memory.__array_interface__["data"][0]
        return found


_short = _Short()


def install_in_background() -> None:
    """`install`, while the program goes on."""
    worker.submit(install)


def install() -> None:
    """Let draws come from native code from now on."""
    library = engine().build_named("streams", lambda: emit_streams(engine().target), STREAMS)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    functions = {
        (name, DTYPES[dtype]): kind(library.addresses[f"{name}_{dtype}"])
        for name, _, dtype in (symbol.partition("_") for symbol in STREAMS)
    }

    _kept.append(library)  # which frees its code otherwise

    def stream(name: str, seed: int, offset: int, count: int, dtype: DType) -> np.ndarray | None:
        """`count` numbers of a stream; None: NumPy is to draw them."""
        fill = functions.get((name, dtype))
        if fill is None or offset % 4 or offset >= _MOST:
            return None
        step = STEP * 16 // dtype.itemsize
        low = seed & 0xFFFFFFFFFFFFFFFF
        signed = low if low < 1 << 63 else low - (1 << 64)
        if count < step:
            memory, address = _short.of(dtype, step)
            fill(address, signed, offset // 4, STEP)
        else:
            memory = np.empty(-(-count // step) * step, dtype.numpy)
            fill(memory.__array_interface__["data"][0], signed, offset // 4, memory.nbytes // 16)
        return memory if len(memory) == count else memory[:count].copy()

    generator.install_streams(stream)

"""Random numbers by native code: the same bits as those of core/generator.py, many times quicker."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen.llvm.random_streams import STEP, STREAMS, emit_streams
from ..core import generator
from ..core.dtypes import DType
from ..eager import worker
from .engine import engine

_MOST = 1 << 62  # offsets beyond this one are left to NumPy
_kept: list[Any] = []


def install_in_background() -> None:
    """`install`, while the program goes on."""
    worker.submit(install)


def install() -> None:
    """Let draws come from native code from now on."""
    library = engine().build_named("streams", lambda: emit_streams(engine().target), STREAMS)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    functions = {name: kind(library.addresses[name]) for name in STREAMS}

    _kept.append(library)  # which frees its code otherwise

    def stream(name: str, seed: int, offset: int, count: int, dtype: DType) -> Any:
        return _drawn(functions.get(f"{name}_{dtype.name}"), seed, offset, count, dtype)

    generator.install_streams(stream)


def _drawn(
    fill: Callable[..., None] | None, seed: int, offset: int, count: int, dtype: DType
) -> np.ndarray | None:
    """`count` numbers of the stream; None: NumPy is to draw them."""
    if fill is None or offset % 4 or offset >= _MOST:
        return None
    size = dtype.itemsize
    step = STEP * 16 // size
    memory = np.empty(-(-count // step) * step, dtype.numpy)
    signed = (seed & 0xFFFFFFFFFFFFFFFF) - ((seed & 1 << 63) << 1)
    fill(memory.ctypes.data, signed, offset // 4, len(memory) * size // 16)
    return memory if len(memory) == count else memory[:count].copy()

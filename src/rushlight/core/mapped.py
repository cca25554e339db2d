"""Memory that comes from a file or that several processes share.

Out: `Mapping`, a row of bytes over mapped memory, with what another process needs to map the same bytes: a
file descriptor, and the path where the memory has a name.

A mapping ends when its last array does: NumPy holds the map, the map holds the memory. Names of shared memory
are removed when the process that made them lets go of it.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

import numpy as np

from .errors import check
from .lazy import LazyModule

mmap = LazyModule("mmap")
tempfile = LazyModule("tempfile")

_SHARED_FOLDER = "/dev/shm"  # where POSIX shared memory has its names


class Mapping:
    """Mapped bytes. `descriptor` is open as long as the mapping lives, or -1."""

    def __init__(
        self,
        buffer: np.ndarray,
        shared: bool,
        descriptor: int = -1,
        path: str | None = None,
        filename: str | None = None,
    ) -> None:
        self.buffer, self.shared, self.descriptor = buffer, shared, descriptor
        self.path, self.filename = path, filename
        if descriptor >= 0:
            weakref.finalize(self, os.close, descriptor)


def anonymous(size: int) -> Mapping:
    """New shared memory without a name: its descriptor is the way to reach it."""
    return _mapped(_new_descriptor(), size)


def named(size: int) -> Mapping:
    """New shared memory with a name, which lasts as long as this process keeps the memory."""
    folder = _SHARED_FOLDER if os.path.isdir(_SHARED_FOLDER) else None
    descriptor, path = tempfile.mkstemp(prefix="rushlight_", dir=folder)
    mapping = _mapped(descriptor, size, path)
    weakref.finalize(mapping, _remove, path, os.getpid())
    return mapping


def attached(descriptor: int, size: int, path: str | None = None) -> Mapping:
    """Shared memory that another process made, by a descriptor of it, which is duplicated."""
    held = os.fstat(descriptor).st_size
    check(held >= size, f"the shared memory has {held} bytes, not {size}")
    own = os.dup(descriptor)
    return Mapping(_bytes_of(own, size, True), True, own, path)


def of_file(filename: str, shared: bool, size: int) -> Mapping:
    """The first `size` bytes of a file. With `shared` writes reach it, and it is made long enough."""
    check(size >= 0, f"from_file: cannot map {size} bytes")
    flags = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    try:
        descriptor = os.open(filename, flags, 0o600)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{filename}>: {error.strerror} ({error.errno})") from None
    try:
        length = os.fstat(descriptor).st_size
        if length < size:
            check(shared, f"file <{filename}> has {length} bytes, fewer than the {size} to be mapped")
            os.ftruncate(descriptor, size)
        buffer = _bytes_of(descriptor, size or length, shared)
    finally:
        os.close(descriptor)
    return Mapping(buffer, False, filename=filename if shared else None)


def _new_descriptor() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rushlight", os.MFD_CLOEXEC)
    descriptor, path = tempfile.mkstemp(prefix="rushlight_")
    os.unlink(path)
    return int(descriptor)


def _mapped(descriptor: int, size: int, path: str | None = None) -> Mapping:
    try:
        os.ftruncate(descriptor, size)
        return Mapping(_bytes_of(descriptor, size, True), True, descriptor, path)
    except (OSError, ValueError, OverflowError) as error:
        os.close(descriptor)
        raise RuntimeError(f"cannot share {size} bytes of memory: {error}") from None


def _bytes_of(descriptor: int, size: int, shared: bool) -> np.ndarray:
    if size == 0:
        return np.empty(0, np.uint8)  # there is no map of no bytes
    access: Any = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
    return np.frombuffer(mmap.mmap(descriptor, size, access=access), np.uint8)


def _remove(path: str, owner: int) -> None:
    """Remove a name, in the process that made it: a child that inherited the mapping does not."""
    if os.getpid() == owner and os.path.exists(path):
        os.unlink(path)

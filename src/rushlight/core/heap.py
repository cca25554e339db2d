"""How the C library treats memory that tensors no longer need, and when Python looks for garbage.

By default glibc gives large blocks back to the system as soon as they are freed, and the next result, of the
same size more often than not, costs thousands of page faults: for results of a few megabytes that is more
than what is computed. Here it is told to keep what is freed, up to a limit, for the next one. Who has told it
otherwise, in the environment, has the last word; other C libraries are left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Iterator

KEPT = 128 << 20  # bytes that may be free at the end of the heap
LARGEST = 32 << 20  # bytes of a block on the heap: glibc allows no more; larger ones come from the system
SETTINGS = (
    "GLIBC_TUNABLES",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_MMAP_MAX_",
)

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # glibc's numbers


def keep_freed_memory() -> bool:
    """Have freed memory kept for what comes next; says whether that is so."""
    if any(name in os.environ for name in SETTINGS) or os.name != "posix":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return False
    return bool(library.mallopt(MMAP_THRESHOLD, LARGEST) and library.mallopt(TRIM_THRESHOLD, KEPT))


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without Python's cyclic garbage collector: for work that makes many objects, all of which stay. They are
    old at once, so that the next collection does not look for garbage among them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if not gc.get_freeze_count():  # nobody else has frozen what unfreeze would let go
                gc.freeze()
                gc.unfreeze()
            gc.enable()

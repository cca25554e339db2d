"""How the C library treats memory that tensors no longer need, and when Python looks for garbage.

By default glibc gives large blocks back to the system as soon as they are freed, and the next result, of the
same size more often than not, costs thousands of page faults: for results of a few megabytes that is more
than what is computed. Here it is told to keep what is freed, up to a limit, for the next one. Who has told it
otherwise, in the environment, has the last word; other C libraries are left alone.

The first results of a process still cost these page faults. A process that knows how much it will need, since an
earlier one of the same program needed it, can `grow` the heap and have the pages made by another thread.
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
POPULATE_WRITE = 23  # Linux's number of the advice to make pages as if they were written to
MOST_GROWN = KEPT // 2  # bytes; more would not be kept
AT_ONCE = 2 << 20  # bytes whose pages are made before others get a turn to change what memory there is

_keeps = False  # whether freed memory is kept


def keep_freed_memory() -> bool:
    """Have freed memory kept for what comes next; says whether that is so."""
    if any(name in os.environ for name in SETTINGS) or os.name != "posix":
        return False
    global _keeps
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return False
    _keeps = bool(library.mallopt(MMAP_THRESHOLD, LARGEST) and library.mallopt(TRIM_THRESHOLD, KEPT))
    return _keeps


def end_of_heap() -> int:
    """The address where the heap of the first thread ends; 0 where freed memory is not kept."""
    if not _keeps:
        return 0
    library = ctypes.CDLL(None)
    library.sbrk.restype, library.sbrk.argtypes = ctypes.c_void_p, (ctypes.c_ssize_t,)
    end: int = library.sbrk(0)
    return end


def grow(size: int) -> tuple[int, int]:
    """Have so many bytes on the heap of this thread, free for whoever asks first: from where to where it grew.
    There are no pages yet."""
    size = min(size, MOST_GROWN)
    before = end_of_heap()
    if not before or size <= 0:
        return 0, 0
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    library.free.restype, library.free.argtypes = None, (ctypes.c_void_p,)
    parts = -(-size // (LARGEST // 2))
    blocks = [library.malloc(size // parts) for _ in range(parts)]
    for block in reversed(blocks):
        library.free(block)
    return before, end_of_heap()


def make_pages(start: int, end: int) -> bool:
    """Make the pages between two addresses, whatever is there meanwhile; says whether the system does that."""
    library = ctypes.CDLL(None)
    library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    page = os.sysconf("SC_PAGESIZE")
    for place in range(-(-start // page) * page, end // page * page, AT_ONCE):
        if library.madvise(place, min(AT_ONCE, end // page * page - place), POPULATE_WRITE):
            return False
    return True


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


OBJECTS = 4  # that Python's collector counts of a recorded call, where it counts one under PyTorch


def collect_by_operators() -> None:
    """Have Python's collector look for garbage after as many operators as in a program under PyTorch, whose nodes
    and versions it does not count; and not among what there is by now, which stays.

    Of the programs in tests/run/libraries, those that make most objects (MAML, Gaussian processes by L-BFGS) had
    3.5 to 4.3 times as many collections in a step as under PyTorch, counted by `gc.callbacks`.
    """
    young, *older = gc.get_threshold()
    gc.set_threshold(OBJECTS * young, *older)
    gc.freeze()

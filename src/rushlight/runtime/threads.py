"""The thread pool: `parallel_for(function, argument, count)` from native code, without a C compiler or
OpenMP.

Everything that runs in a worker is generated (codegen/llvm/thread_pool.py); threads come from pthread_create
through ctypes and never touch Python. A job is a function `void(ptr argument, i64 task)` and a number of tasks.
The tasks are counted down atomically, so a late worker takes a task of the current job or none, and the caller
waits only for tasks that were taken: it finishes alone when workers are busy, descheduled or gone after a fork.
The caller takes the first tasks and the workers the last ones: in one job after another a thread has much the
same part of the data, which is in its cache then. A nested or concurrent job runs serially in its caller. Which
thread runs a task never changes its result.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading

from ..codegen.llvm.thread_pool import FUTEX, FUTEX_WAKE_PRIVATE, PoolState, emit_thread_pool
from ..core.errors import check
from ..core.once import Once
from .engine import Library, engine

SPIN_ITERATIONS = 4000


class ThreadPool:
    """Workers that serve `parallel_for`. `size` counts the caller too."""

    def __init__(self, size: int) -> None:
        self._library: Library = engine().build_named(
            "pool", lambda: emit_thread_pool(engine().target), ("worker", "parallel_for"), _libc_symbols()
        )
        self._memory = ctypes.create_string_buffer(PoolState.byte_count() + 64)
        self.address = (ctypes.addressof(self._memory) + 63) & ~63
        self.parallel_for_address = self._library.addresses["parallel_for"]
        self._lock = threading.Lock()
        self._threads: list[ctypes.c_ulong] = []
        self.size = size
        self._start()
        os.register_at_fork(after_in_child=self._restart_after_fork)
        atexit.register(self.close)

    def _word(self, field: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.address + PoolState.offset_of(field))

    def _start(self) -> None:
        ctypes.memset(self.address, 0, PoolState.byte_count())
        self._word("spin").value = SPIN_ITERATIONS
        self._word("active").value = self.size
        create = ctypes.CDLL(None).pthread_create
        for _ in range(self.size - 1):
            thread = ctypes.c_ulong()
            error = create(
                ctypes.byref(thread),
                None,
                ctypes.c_void_p(self._library.addresses["worker"]),
                ctypes.c_void_p(self.address),
            )
            if error:
                break  # no more threads to be had: the caller does the work
            self._threads.append(thread)

    def _restart_after_fork(self) -> None:
        """Threads do not survive a fork: the child starts its own."""
        self._lock = threading.Lock()
        self._threads = []
        self._start()

    def resize(self, size: int) -> None:
        """Change the number of threads; waits for the workers to leave first."""
        check(size > 0, f"the number of threads must be positive, got {size}")
        with self._lock:
            if size != self.size:
                self._stop()
                self.size = size
                self._start()

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if not self._threads:
            return
        ctypes.c_int32.from_address(self.address + PoolState.offset_of("stop")).value = 1
        ctypes.c_int32.from_address(self.address + PoolState.offset_of("generation")).value += 1
        process = ctypes.CDLL(None)
        process.syscall(ctypes.c_long(FUTEX), ctypes.c_void_p(self.address), FUTEX_WAKE_PRIVATE, 2**31 - 1)
        for thread in self._threads:
            process.pthread_join(thread, None)
        self._threads = []
        self._word("active").value = 1


def _libc_symbols() -> dict[str, int]:
    function = ctypes.CDLL(None).syscall
    return {"syscall": ctypes.cast(function, ctypes.c_void_p).value or 0}


@Once
def pool() -> ThreadPool:
    """The process's pool, as large as the machine or as RUSHLIGHT_NUM_THREADS says."""
    check(sys.platform == "linux", "the thread pool needs Linux", NotImplementedError)
    asked = os.environ.get("RUSHLIGHT_NUM_THREADS", "")
    return ThreadPool(int(asked) if asked.isdigit() and int(asked) > 0 else len(os.sched_getaffinity(0)))

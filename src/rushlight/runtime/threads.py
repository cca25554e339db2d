"""The thread pool: `parallel_for(function, argument, count)` from native code, without a C compiler or
OpenMP.

Everything that runs in a worker is LLVM IR; threads come from pthread_create through ctypes and never touch
Python. A job is a function `void(ptr argument, i64 task)` and a number of tasks. The tasks are counted
down atomically, so a late worker takes a task of the current job or none, and the caller waits only for tasks
that were taken: it finishes alone when workers are busy, descheduled or gone after a fork. The caller takes
the first tasks and the workers the last ones: in one job after another a thread has much the same part of the
data, which is in its cache then. A nested or concurrent job runs serially in its caller. Which thread runs a
task never changes its result.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
from typing import Any

from ..core.errors import check
from ..core.lazy import LazyModule
from .engine import Callee, Library, engine

ir = LazyModule("llvmlite.ir")

# Fields of the pool's memory, in 8-byte units; hot ones have a cache line of their own.
# LAST is the number after that of the last task which no worker has taken.
GENERATION, REMAINING, FINISHED, FUNCTION, ARGUMENT, BUSY, SLEEPERS, STOP, SPIN, ACTIVE, LAST = (
    0,
    8,
    16,
    24,
    25,
    32,
    40,
    48,
    56,
    57,
    64,
)
POOL_BYTES = 72 * 8
SPIN_ITERATIONS = 4000
YIELD_AFTER = 2000
_FUTEX, _SCHED_YIELD = {"x86_64": (202, 24), "aarch64": (98, 124)}.get(os.uname().machine, (0, 0))
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129


class _Emitter:
    """Builds the functions `drain`, `worker` and `parallel_for` of the pool."""

    def __init__(self) -> None:
        self.module = ir.Module("rushlight_pool")
        self.i32, self.i64 = ir.IntType(32), ir.IntType(64)
        self.pointer = ir.PointerType()
        self.void = ir.VoidType()
        self.syscall = ir.Function(
            self.module, ir.FunctionType(self.i64, [self.i64], var_arg=True), "syscall"
        )
        self.task_type = ir.FunctionType(self.void, [self.pointer, self.i64])

    def field(self, builder: Any, pool: Any, index: int) -> Any:
        return builder.gep(pool, [self.i64(index)], source_etype=self.i64)

    def pause(self, builder: Any) -> None:
        text = "pause" if os.uname().machine == "x86_64" else "yield"
        builder.asm(ir.FunctionType(self.void, []), text, "~{memory}", [], True)

    def publish(self, builder: Any, value: Any, address: Any) -> None:
        """An atomic store (as an exchange: llvmlite's store_atomic does not know opaque pointers)."""
        builder.atomic_rmw("xchg", address, value, "acq_rel")

    def build(self) -> str:
        self.first_tasks, self.last_tasks = self._drain("first_tasks"), self._drain("last_tasks")
        self._worker()
        self._parallel_for()
        return str(self.module)

    def _function(self, name: str, result: Any, arguments: list[Any]) -> tuple[Any, Any]:
        function = ir.Function(self.module, ir.FunctionType(result, arguments), name)
        return function, ir.IRBuilder(function.append_basic_block("entry"))

    def _drain(self, name: str) -> Any:
        """Run tasks of the current job until none is left: from the first one on, or from the last one back.

        Who takes one of those that remain may run the next of his: the two sides meet when none remains.
        """
        function, b = self._function(name, self.void, [self.pointer])
        function.linkage = "internal"
        pool = function.args[0]
        remaining, finished = self.field(b, pool, REMAINING), self.field(b, pool, FINISHED)
        forward = name == "first_tasks"
        if forward:  # only the caller runs it, once a job
            place = b.alloca(self.i64)
            b.store(self.i64(0), place)
        look, take, run, done = (function.append_basic_block(n) for n in ("look", "take", "run", "done"))
        b.branch(look)
        b.position_at_end(look)  # a plain load first: do not take the cache line when there is nothing to do
        left = b.load_atomic(remaining, "monotonic", 8, typ=self.i64)
        b.cbranch(b.icmp_signed(">", left, self.i64(0)), take, done)
        b.position_at_end(take)
        old = b.atomic_rmw("sub", remaining, self.i64(1), "acq_rel")
        b.cbranch(b.icmp_signed(">", old, self.i64(0)), run, done)
        b.position_at_end(run)
        task = b.load(self.field(b, pool, FUNCTION), typ=self.pointer)
        argument = b.load(self.field(b, pool, ARGUMENT), typ=self.pointer)
        if forward:
            number = b.load(place, typ=self.i64)
            b.store(b.add(number, self.i64(1)), place)
        else:
            last = b.atomic_rmw("sub", self.field(b, pool, LAST), self.i64(1), "acq_rel")
            number = b.sub(last, self.i64(1))
        self._call_task(b, task, argument, number)
        b.atomic_rmw("add", finished, self.i64(1), "acq_rel")
        b.branch(look)
        b.position_at_end(done)
        b.ret_void()
        return function

    def _call_task(self, b: Any, task: Any, argument: Any, index: Any) -> None:
        """Call a task through its pointer."""
        b.call(Callee(task, self.task_type), [argument, index])

    def _worker(self) -> None:
        """Wait for a new generation: spin a while, then sleep; leave when told to stop."""
        function, b = self._function("worker", self.pointer, [self.pointer])
        pool = function.args[0]
        names = ("top", "spin", "again", "sleep", "job", "work", "leave")
        top, spin, again, sleep, job, work, leave = (function.append_basic_block(n) for n in names)
        entry = b.block
        b.branch(top)
        b.position_at_end(top)
        seen = b.phi(self.i32)
        # not the current generation: a late starter must still see a stop
        seen.add_incoming(self.i32(0), entry)
        limit = b.load(self.field(b, pool, SPIN), typ=self.i64)
        b.branch(spin)
        b.position_at_end(spin)
        count = b.phi(self.i64)
        count.add_incoming(self.i64(0), top)
        generation = b.load_atomic(self.field(b, pool, GENERATION), "acquire", 4, typ=self.i32)
        b.cbranch(b.icmp_signed("!=", generation, seen), job, again)
        b.position_at_end(again)
        self.pause(b)
        following = b.add(count, self.i64(1))
        count.add_incoming(following, again)
        b.cbranch(b.icmp_signed("<", following, limit), spin, sleep)
        # announced before the kernel compares the generation again: no wake-up is lost
        b.position_at_end(sleep)
        sleepers = self.field(b, pool, SLEEPERS)
        b.atomic_rmw("add", sleepers, self.i32(1), "seq_cst")
        b.call(
            self.syscall, [self.i64(_FUTEX), pool, self.i32(_FUTEX_WAIT_PRIVATE), seen, self.pointer(None)]
        )
        b.atomic_rmw("sub", sleepers, self.i32(1), "seq_cst")
        seen.add_incoming(seen, sleep)
        b.branch(top)
        b.position_at_end(job)
        stop = b.load_atomic(self.field(b, pool, STOP), "acquire", 4, typ=self.i32)
        b.cbranch(b.icmp_signed("!=", stop, self.i32(0)), leave, work)
        b.position_at_end(work)
        b.call(self.last_tasks, [pool])
        seen.add_incoming(generation, work)
        b.branch(top)
        b.position_at_end(leave)
        b.ret(self.pointer(None))

    def _parallel_for(self) -> None:
        function, b = self._function(
            "parallel_for", self.void, [self.pointer, self.pointer, self.pointer, self.i64]
        )
        pool, task, argument, count = function.args
        names = (
            "claim",
            "serial",
            "loop",
            "out",
            "own",
            "wake",
            "work",
            "wait",
            "idle",
            "give_way",
            "finish",
        )
        blocks = {name: function.append_basic_block(name) for name in names}
        several = b.icmp_signed(">", count, self.i64(1))
        active = b.load_atomic(self.field(b, pool, ACTIVE), "monotonic", 8, typ=self.i64)
        b.cbranch(b.and_(several, b.icmp_signed(">", active, self.i64(1))), blocks["claim"], blocks["serial"])
        b.position_at_end(blocks["claim"])
        busy = b.atomic_rmw("xchg", self.field(b, pool, BUSY), self.i32(1), "acq_rel")
        b.cbranch(b.icmp_signed("==", busy, self.i32(0)), blocks["own"], blocks["serial"])
        self._serial(b, blocks, task, argument, count)
        self._own_job(b, blocks, pool, task, argument, count)
        b.position_at_end(blocks["out"])
        b.ret_void()

    def _serial(self, b: Any, blocks: dict[str, Any], task: Any, argument: Any, count: Any) -> None:
        b.position_at_end(blocks["serial"])
        b.cbranch(b.icmp_signed(">", count, self.i64(0)), blocks["loop"], blocks["out"])
        b.position_at_end(blocks["loop"])
        index = b.phi(self.i64)
        index.add_incoming(self.i64(0), blocks["serial"])
        self._call_task(b, task, argument, index)
        following = b.add(index, self.i64(1))
        index.add_incoming(following, blocks["loop"])
        b.cbranch(b.icmp_signed("<", following, count), blocks["loop"], blocks["out"])

    def _own_job(
        self, b: Any, blocks: dict[str, Any], pool: Any, task: Any, argument: Any, count: Any
    ) -> None:
        b.position_at_end(blocks["own"])
        b.store(task, self.field(b, pool, FUNCTION))
        b.store(argument, self.field(b, pool, ARGUMENT))
        finished = self.field(b, pool, FINISHED)
        self.publish(b, self.i64(0), finished)
        self.publish(b, count, self.field(b, pool, LAST))
        self.publish(b, count, self.field(b, pool, REMAINING))
        b.atomic_rmw("add", pool, self.i32(1), "seq_cst")
        sleepers = b.load_atomic(self.field(b, pool, SLEEPERS), "seq_cst", 4, typ=self.i32)
        b.cbranch(b.icmp_signed(">", sleepers, self.i32(0)), blocks["wake"], blocks["work"])
        b.position_at_end(blocks["wake"])
        b.call(self.syscall, [self.i64(_FUTEX), pool, self.i32(_FUTEX_WAKE_PRIVATE), self.i32(2**31 - 1)])
        b.branch(blocks["work"])
        b.position_at_end(blocks["work"])
        b.call(self.first_tasks, [pool])
        b.branch(blocks["wait"])
        b.position_at_end(blocks["wait"])
        spins = b.phi(self.i64)
        spins.add_incoming(self.i64(0), blocks["work"])
        spins.add_incoming(self.i64(0), blocks["give_way"])
        done = b.load_atomic(finished, "acquire", 8, typ=self.i64)
        b.cbranch(b.icmp_signed("==", done, count), blocks["finish"], blocks["idle"])
        b.position_at_end(blocks["idle"])
        self.pause(b)
        following = b.add(spins, self.i64(1))
        spins.add_incoming(following, blocks["idle"])
        b.cbranch(b.icmp_signed(">", following, self.i64(YIELD_AFTER)), blocks["give_way"], blocks["wait"])
        # the worker with the last task was descheduled: offer it this core
        b.position_at_end(blocks["give_way"])
        b.call(self.syscall, [self.i64(_SCHED_YIELD)])
        b.branch(blocks["wait"])
        b.position_at_end(blocks["finish"])
        self.publish(b, self.i32(0), self.field(b, pool, BUSY))
        b.branch(blocks["out"])


class ThreadPool:
    """Workers that serve `parallel_for`. `size` counts the caller too."""

    def __init__(self, size: int) -> None:
        self._library: Library = engine().build_named(
            "pool", lambda: _Emitter().build(), ("worker", "parallel_for"), _libc_symbols()
        )
        self._memory = ctypes.create_string_buffer(POOL_BYTES + 64)
        self.address = (ctypes.addressof(self._memory) + 63) & ~63
        self.parallel_for_address = self._library.addresses["parallel_for"]
        self._lock = threading.Lock()
        self._threads: list[ctypes.c_ulong] = []
        self.size = size
        self._start()
        os.register_at_fork(after_in_child=self._restart_after_fork)
        atexit.register(self.close)

    def _word(self, index: int) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.address + 8 * index)

    def _start(self) -> None:
        ctypes.memset(self.address, 0, POOL_BYTES)
        self._word(SPIN).value = SPIN_ITERATIONS
        self._word(ACTIVE).value = self.size
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
        ctypes.c_int32.from_address(self.address + 8 * STOP).value = 1
        ctypes.c_int32.from_address(self.address).value += 1
        process = ctypes.CDLL(None)
        process.syscall(ctypes.c_long(_FUTEX), ctypes.c_void_p(self.address), _FUTEX_WAKE_PRIVATE, 2**31 - 1)
        for thread in self._threads:
            process.pthread_join(thread, None)
        self._threads = []
        self._word(ACTIVE).value = 1


def _libc_symbols() -> dict[str, int]:
    function = ctypes.CDLL(None).syscall
    return {"syscall": ctypes.cast(function, ctypes.c_void_p).value or 0}


@functools.cache
def pool() -> ThreadPool:
    """The process's pool, as large as the machine or as RUSHLIGHT_NUM_THREADS says."""
    check(sys.platform == "linux", "the thread pool needs Linux", NotImplementedError)
    asked = os.environ.get("RUSHLIGHT_NUM_THREADS", "")
    return ThreadPool(int(asked) if asked.isdigit() and int(asked) > 0 else len(os.sched_getaffinity(0)))

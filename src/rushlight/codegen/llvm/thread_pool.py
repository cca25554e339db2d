"""The code of the thread pool: `parallel_for(pool, function, argument, count)` and what its workers run.

A job is a function `void(ptr argument, i64 task)` and a number of tasks, which are counted down atomically. The
caller takes the first tasks and the workers the last ones. Everything that a worker runs is here: threads come
from pthread_create (runtime/threads.py) and never touch Python.
"""

from __future__ import annotations

import os
from typing import Any

from ...core.lazy import LazyModule
from ...runtime.target import Target
from .emitter import Emitter
from .struct import I64, I32Line, I64Line, Ptr, PtrLine, Struct, StructInMemory
from .types import Callee

ir = LazyModule("llvmlite.ir")


class PoolState(Struct):
    """The memory of a pool; what threads write often has a cache line of its own."""

    generation: I32Line  # how many jobs there were; workers sleep on it
    remaining: I64Line  # tasks that nobody has taken
    finished: I64Line  # tasks that are done
    function: PtrLine
    argument: Ptr
    busy: I32Line  # whether a job is under way
    sleepers: I32Line
    stop: I32Line  # whether workers are to leave
    spin: I64Line  # how often a worker looks for a job before it sleeps
    active: I64  # how many threads there are, the caller included
    last: I64Line  # the number after that of the last task which no worker has taken


YIELD_AFTER = 2000  # times that the caller looks for the end of the last tasks before it offers its core
FUTEX, SCHED_YIELD = {"x86_64": (202, 24), "aarch64": (98, 124)}.get(os.uname().machine, (0, 0))
FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE = 128, 129


def emit_thread_pool(target: Target) -> str:
    """The text of a module with `worker` and `parallel_for`."""
    module = ir.Module("rushlight_pool")
    first_tasks, last_tasks = (_drain(module, target, name) for name in ("first_tasks", "last_tasks"))
    _worker(module, target, last_tasks)
    _parallel_for(module, target, first_tasks)
    return str(module)


class PoolEmitter(Emitter):
    """Emits a function of the pool, whose state is its first argument."""

    state_address: Any
    state: StructInMemory

    def pause(self) -> None:
        text = "pause" if os.uname().machine == "x86_64" else "yield"
        self.builder.asm(ir.FunctionType(ir.VoidType(), []), text, "~{memory}", [], True)

    def read(self, field: str, order: str, kind: Any) -> Any:
        """Read a field atomically."""
        return self.builder.load_atomic(self.state.address_of(field), order, kind.width // 8, typ=kind)

    def update(self, operation: str, field: str, value: Any, order: str = "acq_rel") -> Any:
        """Change a field atomically; what it was. An exchange serves as an atomic store, too: llvmlite's
        store_atomic does not know opaque pointers."""
        return self.builder.atomic_rmw(operation, self.state.address_of(field), value, order)

    def syscall(self, *arguments: Any) -> None:
        kind = ir.FunctionType(self.i64, [self.i64], var_arg=True)
        function = self.module.globals.get("syscall") or ir.Function(self.module, kind, "syscall")
        self.call(function, list(arguments))

    def run_task(self, task: Any, argument: Any, number: Any) -> None:
        """Call a task through its pointer."""
        kind = ir.FunctionType(ir.VoidType(), [self.pointer, self.i64])
        self.call(Callee(task, kind), [argument, number])

    def blocks(self, *names: str) -> list[Any]:
        return [self.builder.append_basic_block(name) for name in names]


def _function(
    module: Any, target: Target, name: str, result: Any, more: list[Any]
) -> tuple[Any, PoolEmitter]:
    function = ir.Function(module, ir.FunctionType(result, [ir.PointerType(), *more]), name)
    e = PoolEmitter(ir.IRBuilder(function.append_basic_block("entry")), target)
    e.state_address, e.state = function.args[0], PoolState.at(e, function.args[0])
    return function, e


def _drain(module: Any, target: Target, name: str) -> Any:
    """Run tasks of the current job until none is left: from the first one on, or from the last one back.

    Who takes one of those that remain may run the next of his: the two sides meet when none remains.
    """
    function, e = _function(module, target, name, ir.VoidType(), [])
    function.linkage = "internal"
    b = e.builder
    forward = name == "first_tasks"
    if forward:  # only the caller runs it, once a job
        place = e.local(e.i64)
        e.store(e.i64(0), place)
    look, take, run, done = e.blocks("look", "take", "run", "done")
    b.branch(look)
    b.position_at_end(look)  # a plain load first: do not take the cache line when there is nothing to do
    b.cbranch(e.compare(">", e.read("remaining", "monotonic", e.i64), 0), take, done)
    b.position_at_end(take)
    b.cbranch(e.compare(">", e.update("sub", "remaining", e.i64(1)), 0), run, done)
    b.position_at_end(run)
    task, argument = e.state.function, e.state.argument
    if forward:
        number = e.load(place, e.i64)
        e.store(e.add(number, 1), place)
    else:
        number = e.sub(e.update("sub", "last", e.i64(1)), 1)
    e.run_task(task, argument, number)
    e.update("add", "finished", e.i64(1))
    b.branch(look)
    b.position_at_end(done)
    b.ret_void()
    return function


def _worker(module: Any, target: Target, last_tasks: Any) -> None:
    """Wait for a new generation: spin a while, then sleep; leave when told to stop."""
    _, e = _function(module, target, "worker", ir.PointerType(), [])
    b = e.builder
    top, spin, again, sleep, job, work, leave = e.blocks(
        "top", "spin", "again", "sleep", "job", "work", "leave"
    )
    entry = b.block
    b.branch(top)
    b.position_at_end(top)
    seen = b.phi(e.i32)
    seen.add_incoming(e.i32(0), entry)  # not the current generation: a late starter must still see a stop
    limit = e.state.spin
    b.branch(spin)
    b.position_at_end(spin)
    count = b.phi(e.i64)
    count.add_incoming(e.i64(0), top)
    generation = e.read("generation", "acquire", e.i32)
    b.cbranch(e.compare("!=", generation, seen), job, again)
    b.position_at_end(again)
    e.pause()
    following = e.add(count, 1)
    count.add_incoming(following, again)
    b.cbranch(e.compare("<", following, limit), spin, sleep)
    b.position_at_end(sleep)
    # announced before the kernel compares the generation again: no wake-up is lost
    e.update("add", "sleepers", e.i32(1), "seq_cst")
    e.syscall(e.i64(FUTEX), e.state_address, e.i32(FUTEX_WAIT_PRIVATE), seen, e.zero(e.pointer))
    e.update("sub", "sleepers", e.i32(1), "seq_cst")
    seen.add_incoming(seen, sleep)
    b.branch(top)
    b.position_at_end(job)
    b.cbranch(e.compare("!=", e.read("stop", "acquire", e.i32), 0), leave, work)
    b.position_at_end(work)
    e.call(last_tasks, [e.state_address])
    seen.add_incoming(generation, work)
    b.branch(top)
    b.position_at_end(leave)
    b.ret(e.zero(e.pointer))


def _parallel_for(module: Any, target: Target, first_tasks: Any) -> None:
    """Run a job: serially if there is one task, one thread, or another job under way."""
    pointer = ir.PointerType()
    function, e = _function(module, target, "parallel_for", ir.VoidType(), [pointer, pointer, ir.IntType(64)])
    b = e.builder
    _, task, argument, count = function.args
    claim, serial, own, out = e.blocks("claim", "serial", "own", "out")
    several = e.compare(">", count, 1)
    threads = e.read("active", "monotonic", e.i64)
    b.cbranch(e.and_(several, e.compare(">", threads, 1)), claim, serial)
    b.position_at_end(claim)
    busy = e.update("xchg", "busy", e.i32(1))
    b.cbranch(e.compare("==", busy, 0), own, serial)
    b.position_at_end(serial)
    with e.loop(0, count) as i:
        e.run_task(task, argument, i)
    b.branch(out)
    b.position_at_end(own)
    _start_job(e, task, argument, count)
    e.call(first_tasks, [e.state_address])
    _await_workers(e, count)
    e.update("xchg", "busy", e.i32(0))
    b.branch(out)
    b.position_at_end(out)
    b.ret_void()


def _start_job(e: PoolEmitter, task: Any, argument: Any, count: Any) -> None:
    """Publish a job, and wake the workers that sleep."""
    e.state.put(function=task, argument=argument)
    e.update("xchg", "finished", e.i64(0))
    e.update("xchg", "last", count)
    e.update("xchg", "remaining", count)
    e.update("add", "generation", e.i32(1), "seq_cst")
    with e.when(e.compare(">", e.read("sleepers", "seq_cst", e.i32), 0)):
        e.syscall(e.i64(FUTEX), e.state_address, e.i32(FUTEX_WAKE_PRIVATE), e.i32(2**31 - 1))


def _await_workers(e: PoolEmitter, count: Any) -> None:
    """Wait for the tasks that workers have taken."""
    b = e.builder
    before = b.block
    wait, idle, give_way, finish = e.blocks("wait", "idle", "give_way", "finish")
    b.branch(wait)
    b.position_at_end(wait)
    spins = b.phi(e.i64)
    spins.add_incoming(e.i64(0), before)
    spins.add_incoming(e.i64(0), give_way)
    b.cbranch(e.compare("==", e.read("finished", "acquire", e.i64), count), finish, idle)
    b.position_at_end(idle)
    e.pause()
    following = e.add(spins, 1)
    spins.add_incoming(following, idle)
    b.cbranch(e.compare(">", following, YIELD_AFTER), give_way, wait)
    # the worker with the last task was descheduled: offer it this core
    b.position_at_end(give_way)
    e.syscall(e.i64(SCHED_YIELD))
    b.branch(wait)
    b.position_at_end(finish)

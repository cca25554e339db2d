"""Clocks around launches and tasks, for programs that are to tell where their time goes (runtime/profile.py)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...core.lazy import LazyModule
from ...core.symbols import hint
from ...loops.kernels import Product
from ...loops.nest import MemoryKind
from ...loops.plans import LoopPlan
from ...loops.program import Step
from ...runtime.profile import CLOCK, EVENT_WORDS, LOG, LOG_HEAD, THREAD, TIMES, Timer
from ...runtime.target import Target
from ...schedule.memory import buffers_of, bytes_of
from ...schedule.work import operations_of
from .constants import literal
from .emitter import Emitter
from .launch import Task
from .records import task_function

ir = LazyModule("llvmlite.ir")

MONOTONIC = 1


class Timers:
    """The timers of one module, and the code that reads the clock."""

    def __init__(self, module: Any, target: Target) -> None:
        self.module, self.target = module, target
        self.timers: list[Timer] = []

    def task(self, task: Task, step: Step, name: str = "") -> Task:
        """A task that runs `task` and adds the time it takes to that of a step's kernel."""
        timed = f"timed.{len(self.timers)}.{task.name}"
        function, e = task_function(self.module, timed, self.target)
        self.timers.append(_timer(step, name))
        start = self.now(e)
        e.call(self.module.globals[task.name], function.args)
        self.add(e, len(self.timers), start)
        e.builder.ret_void()
        return replace(task, name=timed)

    def launch(self, name: str, call: int = -1) -> int:
        """A timer for a launch, or for a call at a place of the table of calls: its number."""
        self.timers.append(Timer(name, launch=True, call=call))
        return len(self.timers)

    def now(self, e: Emitter) -> Any:
        """Nanoseconds."""
        if CLOCK not in self.module.globals:
            ir.Function(self.module, ir.FunctionType(e.i32, [e.i32, e.pointer]), CLOCK)
        pair = e.local(ir.ArrayType(e.i64, 2))
        e.call(self.module.globals[CLOCK], [e.i32(MONOTONIC), pair])
        seconds, rest = (e.load(e.address(pair, i, e.i64), e.i64) for i in range(2))
        return e.add(e.mul(seconds, 10**9), rest)

    def add(self, e: Emitter, number: int, start: Any) -> None:
        """Add the time since `start` to timer `number`, from 1 on, and tell the log of events."""
        end = self.now(e)
        self._count(e, number, e.sub(end, start))
        log = e.load(literal(e.pointer, f'@"{LOG}"'), e.pointer)
        with e.builder.if_then(e.builder.icmp_unsigned("!=", log, ir.Constant(e.pointer, None))):
            place = e.builder.atomic_rmw("add", log, e.i64(1), "monotonic")
            with e.builder.if_then(e.compare("<", place, e.load(e.address(log, 1, e.i64), e.i64))):
                times = literal(e.pointer, f'@"{TIMES}"')
                timer = e.builder.ptrtoint(e.address(times, number, e.i64), e.i64)
                thread = e.call(self._thread(e), [])
                first = e.add(e.mul(place, EVENT_WORDS), LOG_HEAD)
                for word, value in enumerate((timer, start, end, thread)):
                    e.builder.store(value, e.address(log, e.add(first, word), e.i64), align=8)

    def _thread(self, e: Emitter) -> Any:
        if THREAD not in self.module.globals:
            ir.Function(self.module, ir.FunctionType(e.i64, []), THREAD)
        return self.module.globals[THREAD]

    def count_call(self, e: Emitter) -> None:
        self._count(e, 0, e.i64(1))

    def _count(self, e: Emitter, place: int, value: Any) -> None:
        times = literal(e.pointer, f'@"{TIMES}"')
        e.builder.atomic_rmw("add", e.address(times, place, e.i64), value, "monotonic")

    def finish(self) -> None:
        """Define the array, once the number of timers is known."""
        kind = ir.ArrayType(ir.IntType(64), 1 + len(self.timers))
        ir.GlobalVariable(self.module, kind, TIMES).initializer = ir.Constant(kind, None)
        pointer = ir.PointerType()
        ir.GlobalVariable(self.module, pointer, LOG).initializer = ir.Constant(pointer, None)


def _timer(step: Step, part: str) -> Timer:
    """Of sizes that change: what a call like the one that was captured does."""
    moved = hint(sum(bytes_of(b) for b in buffers_of(step) if b.memory is not MemoryKind.ROW))
    done = operations_of(step)
    if isinstance(step, LoopPlan):
        written = ", ".join(str(b) for b in step.outputs if b.memory is not MemoryKind.ROW)
        return Timer(f"{step.nest.name} -> {written}", False, done, moved, step.name)
    if part:
        return Timer(f"{step.name} {part}", False, kernel=step.name)
    if not isinstance(step, Product):
        return Timer(step.name, False, done, moved, step.name)
    return Timer(f"{step.name} {step.shape}", False, done, moved, step.name)

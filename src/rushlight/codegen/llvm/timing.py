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
from ...runtime.profile import CLOCK, TIMES, Timer
from ...runtime.target import Target
from ...schedule.memory import buffers_of, bytes_of
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

    def launch(self, name: str) -> int:
        """A timer for a launch: its number."""
        self.timers.append(Timer(name, launch=True))
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
        """Add the time since `start` to timer `number`, from 1 on."""
        self._count(e, number, e.sub(self.now(e), start))

    def count_call(self, e: Emitter) -> None:
        self._count(e, 0, e.i64(1))

    def _count(self, e: Emitter, place: int, value: Any) -> None:
        times = literal(e.pointer, f'@"{TIMES}"')
        e.builder.atomic_rmw("add", e.address(times, place, e.i64), value, "monotonic")

    def finish(self) -> None:
        """Define the array, once the number of timers is known."""
        kind = ir.ArrayType(ir.IntType(64), 1 + len(self.timers))
        ir.GlobalVariable(self.module, kind, TIMES).initializer = ir.Constant(kind, None)


def _timer(step: Step, part: str) -> Timer:
    """Of sizes that change: what a call like the one that was captured does."""
    moved = hint(sum(bytes_of(b) for b in buffers_of(step) if b.memory is not MemoryKind.ROW))
    if isinstance(step, LoopPlan):
        written = ", ".join(str(b) for b in step.outputs if b.memory is not MemoryKind.ROW)
        return Timer(f"{step.nest.name} -> {written}", launch=False, moved=moved)
    if not isinstance(step, Product) or part:
        return Timer(f"{step.name} {part}".strip(), launch=False, moved=moved if not part else 0)
    product = step.shape
    operations = hint(2 * product.size * product.depth)
    return Timer(f"{step.name} {product}", launch=False, operations=operations, moved=moved)

"""How kernels are started: tasks that know their buffers, and stages whose tasks run side by side.

A task is a function `void(block, number)`, which takes the buffers' addresses from the block and works out
its share of the loops. Kernels that differ in their buffers alone share one function. The kernels of a stage
do not depend on each other: their tasks are numbered through and given to the thread pool in one launch. A
chain of kernels is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.lazy import LazyModule
from ...loops.nest import Buffer
from ...plan.nest import NestPlan
from ...plan.program import PlannedProgram
from ...runtime.target import Target
from .emitter import Emitter
from .nests import NestEmitter, Reports, emit_nest, outside_buffers
from .values import ValueEmitter

ir = LazyModule("llvmlite.ir")


@dataclass(frozen=True)
class Task:
    """A function of the module and how often it runs, with the numbers from 0 on."""

    name: str
    count: int


class Kernels:
    """The functions of the nests of one module."""

    def __init__(
        self, module: Any, program: PlannedProgram, slots: Mapping[Buffer, int], reports: Reports
    ) -> None:
        self.module = module
        self.program = program
        self.slots = slots
        self.reports = reports
        self._functions: dict[str, Any] = {}

    def task(self, plan: NestPlan) -> Task:
        """The task of a nest; adds its function to the module unless an equal nest has done so."""
        code, target = self.program.code_of[plan.name], self.program.target
        buffers = outside_buffers(plan.nest)
        function = self._functions.get(code)
        if function is None:
            function = emit_nest(self.module, plan, target, buffers, self.reports, self.program.shared)
            self._functions[code] = function
        return emit_task(self.module, plan, target, function, [self.slots[b] for b in buffers])


def emit_template(
    module: Any,
    plan: NestPlan,
    target: Target,
    slots: Mapping[Buffer, int],
    reports: Reports,
    emitter: Callable[[ValueEmitter, Any], NestEmitter],
) -> Task:
    """Add the function of a nest that has an emitter of its own, and its task."""
    buffers = outside_buffers(plan.nest)
    function = emit_nest(module, plan, target, buffers, reports, emitter=emitter)
    return emit_task(module, plan, target, function, [slots[b] for b in buffers])


def emit_task(module: Any, plan: NestPlan, target: Target, function: Any, slots: Sequence[int]) -> Task:
    name = f"{plan.nest.name}.task"
    task, e = task_function(module, name, target)
    block, number = task.args
    pointers = [e.load(e.address(block, slot, e.i64), e.pointer) for slot in slots]
    extent = plan.nest.outer[0].extent.constant_value() if plan.nest.outer else 1
    begin, end = e.i64(0), e.i64(extent)
    if plan.tasks > 1:
        begin = e.mul(number, plan.rows_per_task)
        end = e.minimum(e.add(begin, plan.rows_per_task), end)
    e.call(function, [*pointers, begin, end, e.i64(extent)])
    e.builder.ret_void()
    return Task(name, plan.tasks)


def task_function(module: Any, name: str, target: Target) -> tuple[Any, Emitter]:
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), ir.IntType(64)])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    return function, Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)


def emit_chain(module: Any, target: Target, name: str, tasks: Sequence[Task], shares: int) -> Task:
    """One task for each of `shares` shares of `tasks`, of which it runs one after the other."""
    function, e = task_function(module, name, target)
    block, number = function.args
    for task in tasks:
        parts = task.count // shares
        first = e.mul(number, parts)
        with e.loop(first, e.add(first, parts)) as part:
            e.call(module.globals[task.name], [block, part])
    e.builder.ret_void()
    return Task(name, shares)


def emit_stage(module: Any, target: Target, name: str, tasks: Sequence[Task]) -> Task:
    """One task for all of `tasks`: the first half of each, then the second halves in the opposite order. The
    caller of a launch goes through the numbers from the first one on, workers from the last one back: so each
    meets its part of the data in every task, and in every launch, and the large tasks come first for both.
    """
    if len(tasks) == 1:
        return tasks[0]
    function, e = task_function(module, name, target)
    block, number = function.args
    parts = [(task.name, 0, -(-task.count // 2)) for task in tasks]
    parts += [(task.name, -(-task.count // 2), task.count) for task in reversed(tasks) if task.count > 1]
    starts = [0]
    for _, first, last in parts:
        starts.append(starts[-1] + last - first)

    def choose(low: int, high: int) -> tuple[()]:
        """Run the task with the number, known to be one of parts[low:high]."""
        if high - low == 1:
            task, first, _ = parts[low]
            e.call(module.globals[task], [block, e.add(e.sub(number, starts[low]), first)])
            return ()
        middle = (low + high) // 2
        e.branch(
            e.compare("<", number, starts[middle]), lambda: choose(low, middle), lambda: choose(middle, high)
        )
        return ()

    choose(0, len(parts))
    e.builder.ret_void()
    return Task(name, starts[-1])

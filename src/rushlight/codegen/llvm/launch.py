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
from ...core.symbols import is_size, size_of
from ...loops.nest import SIZES, Buffer
from ...plan.nest import NestPlan
from ...plan.program import PlannedProgram
from ...runtime.target import Target
from .emitter import Emitter
from .nests import NestEmitter, Reports, emit_nest, outside_buffers
from .sizes import BlockSizes, SizeTable
from .values import ValueEmitter

ir = LazyModule("llvmlite.ir")


@dataclass(frozen=True)
class Task:
    """A function of the module and how often it runs, with the numbers from 0 on: a number, or where in the table
    of sizes that is."""

    name: str
    count: int | Position

    def emit_count(self, sizes: BlockSizes) -> Any:
        """The count: a Python number, or an i64."""
        return sizes.at(self.count.at) if isinstance(self.count, Position) else self.count


@dataclass(frozen=True)
class Position:
    """A place in the table of sizes."""

    at: int


class Kernels:
    """The functions of the nests of one module."""

    def __init__(
        self,
        module: Any,
        program: PlannedProgram,
        slots: Mapping[Buffer, int],
        reports: Reports,
        table: SizeTable,
    ) -> None:
        self.module = module
        self.table = table
        self.program = program
        self.slots = slots
        self.reports = reports
        self._functions: dict[str, Any] = {}

    def task(self, plan: NestPlan) -> Task:
        """The task of a nest; adds its function to the module unless an equal nest has done so."""
        code, target = self.program.code_of[plan.name], self.program.target
        buffers = outside_buffers(plan.nest, sized=SIZES in self.slots)
        function = self._functions.get(code)
        if function is None:
            function = emit_nest(self.module, plan, target, buffers, self.reports, self.program.shared)
            self._functions[code] = function
        return emit_task(self, plan, function, buffers)

    def template(self, plan: NestPlan, emitter: Callable[[ValueEmitter, Any], NestEmitter]) -> Task:
        """Add the function of a nest that has an emitter of its own, and its task."""
        buffers = outside_buffers(plan.nest, sized=SIZES in self.slots)
        target = self.program.target
        function = emit_nest(self.module, plan, target, buffers, self.reports, emitter=emitter)
        return emit_task(self, plan, function, buffers)


def emit_task(kernels: Kernels, plan: NestPlan, function: Any, buffers: Sequence[Buffer]) -> Task:
    """The task of a nest: it works out its share of the outermost loop and calls the function."""
    name = f"{plan.nest.name}.task"
    task, e = task_function(kernels.module, name, kernels.program.target)
    block, number = task.args
    pointers = [e.load(e.address(block, kernels.slots[b], e.i64), e.pointer) for b in buffers]
    sizes = BlockSizes(e, block, kernels.slots.get(SIZES), kernels.table)
    extent = e.value(sizes.value(size_of(plan.nest.outer[0].extent)) if plan.nest.outer else 1, e.i64)
    count, rows = _share(plan, sizes)
    begin, end = e.i64(0), extent
    if count != 1:
        begin = e.mul(number, rows)
        end = e.minimum(e.add(begin, rows), end)
    e.call(function, [*pointers, begin, end, extent])
    e.builder.ret_void()
    return Task(name, count)


def _share(plan: NestPlan, sizes: BlockSizes) -> tuple[int | Position, Any]:
    """How many tasks share a nest, and how many points of the outermost loop each has."""
    if plan.split is not None and plan.split.changes:
        tasks, rows = sizes.table.split(plan.split)
        return Position(tasks), sizes.at(rows)
    count = Position(sizes.table.number(plan.tasks)) if is_size(plan.tasks) else plan.tasks
    return count, sizes.value(plan.rows_per_task)


def task_function(module: Any, name: str, target: Target) -> tuple[Any, Emitter]:
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), ir.IntType(64)])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    return function, Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)


def emit_chain(kernels: Kernels, name: str, tasks: Sequence[Task], shares: int) -> Task:
    """One task for each of `shares` shares of `tasks`, of which it runs one after the other."""
    module = kernels.module
    function, e = task_function(module, name, kernels.program.target)
    block, number = function.args
    sizes = BlockSizes(e, block, kernels.slots.get(SIZES), kernels.table)
    count = Position(kernels.table.number(shares)) if is_size(shares) else shares
    for task in tasks:
        if isinstance(task.count, int) and isinstance(count, int):
            parts: Any = task.count // count
        else:
            whole = e.value(task.emit_count(sizes), e.i64)
            parts = e.builder.udiv(whole, e.value(sizes.value(shares), e.i64))
        first = e.mul(number, parts)
        with e.loop(first, e.add(first, parts)) as part:
            e.call(module.globals[task.name], [block, part])
    e.builder.ret_void()
    return Task(name, count)


def emit_stage(kernels: Kernels, name: str, tasks: Sequence[Task]) -> Task:
    """One task for all of `tasks`: the first half of each, then the second halves in the opposite order. The
    caller of a launch goes through the numbers from the first one on, workers from the last one back: so each
    meets its part of the data in every task, and in every launch, and the large tasks come first for both.
    """
    if len(tasks) == 1:
        return tasks[0]
    module = kernels.module
    function, e = task_function(module, name, kernels.program.target)
    block, number = function.args
    if any(isinstance(task.count, Position) for task in tasks):
        return _sized_stage(kernels, function, e, tasks)
    counts = [(task.name, task.count) for task in tasks if isinstance(task.count, int)]
    parts = [(task, 0, -(-count // 2)) for task, count in counts]
    parts += [(task, -(-count // 2), count) for task, count in reversed(counts) if count > 1]
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


def _sized_stage(kernels: Kernels, function: Any, e: Emitter, tasks: Sequence[Task]) -> Task:
    """One task for all of `tasks`, whose counts change from call to call: the number goes down by each count
    until it is below one."""
    block, number = function.args
    sizes = BlockSizes(e, block, kernels.slots.get(SIZES), kernels.table)
    total = kernels.table.sum([t.count.at if isinstance(t.count, Position) else -t.count for t in tasks])
    for task in tasks:
        count = e.value(task.emit_count(sizes), e.i64)
        with e.builder.if_then(e.compare("<", number, count)):
            e.call(kernels.module.globals[task.name], [block, number])
            e.builder.ret_void()
        number = e.sub(number, count)
    e.builder.ret_void()
    return Task(function.name, Position(total))

"""How kernels are started: tasks that know their buffers, and stages whose tasks run side by side.

A task is a function `void(block, number, record)`, which takes the buffers' addresses from the block and works
out its share of the loops. The record (records.py) says all by which it differs from others of its kind. Kernels
that differ in their buffers alone share one function. The kernels of a stage do not depend on each other: their
tasks are numbered through and given to the thread pool in one launch. A chain of kernels is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.index import as_index
from ...core.lazy import LazyModule
from ...core.symbols import size_of
from ...loops.nest import SIZES, Buffer
from ...loops.tasks import stage_numbers
from ...plan.nest import NestPlan
from ...plan.program import PlannedProgram
from .emitter import Emitter
from .nests import NestEmitter, Reports, emit_nest, nest_type, outside_buffers
from .records import Number, Position, Reader, RecordArgs, Records, Word, word_of
from .routines import routine
from .sizes import SizeTable
from .types import Callee
from .values import ValueEmitter

ir = LazyModule("llvmlite.ir")


@dataclass(frozen=True)
class Task:
    """A function of the module, how often it runs, with the numbers from 0 on, and its record. `kernel`: what it
    runs, by name."""

    name: str
    count: Number
    record: int | None = None
    kernel: str = ""

    def words(self, records: Records) -> tuple[Word, Word]:
        """The addresses of its function and record, in another record."""
        return records.function(self.name), records.word(self.record)


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
        self.records = Records(module, program.target, sized=SIZES in slots)
        self._functions: dict[str, Any] = {}
        self._buffers: dict[str, list[Buffer]] = {}  # that a nest takes, by the name of its plan
        self.epilogues: dict[str, tuple[Any, list[Buffer]]] = {}  # of products, by the names of their plans
        self.uses: dict[
            str, dict[str, None]
        ] = {}  # the functions of each kernel, for people who look for them

    def number(self, size: Any) -> Number:
        """A size, or where in the table of sizes it is."""
        constant = as_index(size).constant_value()
        return Position(self.table.number(size)) if constant is None else constant

    def task(self, plan: NestPlan) -> Task:
        """The task of a nest; adds its function to the module unless an equal nest has done so."""
        code, target = self.program.code_of[plan.name], self.program.target
        buffers = self._buffers.get(plan.name)  # a plan may serve many layers, each with slots of its own
        if buffers is None:
            buffers = self._buffers[plan.name] = outside_buffers(plan.nest, sized=SIZES in self.slots)
        function = self._functions.get(code)
        if function is None:
            function = emit_nest(self.module, plan, target, buffers, self.reports, self.program.shared)
            self._functions[code] = function
        return self._task(plan, function, buffers)

    def template(self, plan: NestPlan, emitter: Callable[[ValueEmitter, Any], NestEmitter]) -> Task:
        """Add the function of a nest that has an emitter of its own, and its task."""
        buffers = outside_buffers(plan.nest, sized=SIZES in self.slots)
        target = self.program.target
        function = emit_nest(self.module, plan, target, buffers, self.reports, emitter=emitter)
        return self._task(plan, function, buffers)

    def _task(self, plan: NestPlan, function: Any, buffers: Sequence[Buffer]) -> Task:
        """A task that works out its share of the outermost loop and calls the function."""
        extent = self.number(size_of(plan.nest.outer[0].extent)) if plan.nest.outer else 1
        count, rows = self._share(plan)
        own = [word_of(extent), word_of(extent if count == 1 else rows), *(self.slots[b] for b in buffers)]
        self.uses[plan.name] = {function.name: None}
        record = self.records.record([self.records.function(function.name), *own])
        return Task(self.records.routine("nest", len(buffers)).name, count, record, plan.name)

    def _share(self, plan: NestPlan) -> tuple[Number, Number]:
        """How many tasks share a nest, and how many points of the outermost loop each has."""
        if plan.split is not None and plan.split.changes:
            tasks, rows = self.table.split(plan.split)
            return Position(tasks), Position(rows)
        return self.number(plan.tasks), self.number(plan.rows_per_task)


def emit_chain(kernels: Kernels, tasks: Sequence[Task], shares: int) -> Task:
    """One task for each of `shares` shares of `tasks`, of which it runs one after the other."""
    records, count = kernels.records, kernels.number(shares)

    def part(task: Task) -> Number:
        if isinstance(task.count, int) and isinstance(count, int):
            return task.count // count
        return Position(kernels.table.quotient(word_of(task.count), word_of(count)))

    links = [word for task in tasks for word in (*task.words(records), word_of(part(task)))]
    record = records.record([len(tasks), *links])
    return Task(records.routine("chain").name, count, record, "+".join(task.kernel for task in tasks))


def emit_stage(kernels: Kernels, tasks: Sequence[Task]) -> Task:
    """One task for all of `tasks`: the first half of each, then the second halves in the opposite order. The
    caller of a launch goes through the numbers from the first one on, workers from the last one back: so each
    meets its part of the data in every task, and in every launch, and the large tasks come first for both.
    """
    if len(tasks) == 1:
        return tasks[0]
    counts = [task.count for task in tasks]
    known = [count for count in counts if isinstance(count, int)]
    found: list[Number]
    if len(known) == len(counts):
        found = [*stage_numbers(known)]
    else:
        at = kernels.table.stage([word_of(count) for count in counts])
        found = [Position(at + n) for n in range(1 + 4 * len(tasks))]
    total, *numbers = found
    parts = [*tasks, *reversed(tasks)]
    starts, shifts = numbers[: len(parts)], numbers[len(parts) :]
    records = kernels.records
    words = [
        word
        for task, shift in zip(parts, shifts, strict=True)
        for word in (*task.words(records), word_of(shift))
    ]
    record = records.record([len(parts), len(parts).bit_length(), *map(word_of, starts), *words])
    return Task(records.routine("stage").name, total, record, "+".join(t.kernel for t in tasks))


# What the tasks run.


@routine("nest", RecordArgs, quick=True)
def run_nest(e: Emitter, args: RecordArgs, buffers: int, sized: int) -> None:
    """Call the function of a nest for a share of its outermost loop."""
    given = Reader(e, args.block, args.record, sized=bool(sized))
    extent, rows = given.number(1), given.number(2)
    pointers = [given.buffer(3 + n) for n in range(buffers)]
    begin = e.mul(args.number, rows)
    end = e.minimum(e.add(begin, rows), extent)
    e.call(Callee(given.pointer(0), nest_type(buffers)), [*pointers, begin, end, extent])


@routine("chain", RecordArgs, quick=True)
def run_chain(e: Emitter, args: RecordArgs, sized: int) -> None:
    """Run a share of every task of a chain."""
    given = Reader(e, args.block, args.record, sized=bool(sized))
    with e.loop(0, given.word(0)) as link:
        own = given.at(e.add(e.mul(link, 3), 1))
        parts = own.number(2)
        first = e.mul(args.number, parts)
        with e.loop(first, e.add(first, parts)) as share:
            own.run(0, share)


@routine("stage", RecordArgs, quick=True)
def run_stage(e: Emitter, args: RecordArgs, sized: int) -> None:
    """Run the task with a number: of the last part that starts at or before it, found by halving."""
    number, given = args.number, Reader(e, args.block, args.record, sized=bool(sized))
    count, halvings = given.word(0), given.word(1)
    starts = given.at(2)

    def halved(_: Any, low: Any, length: Any) -> tuple[Any, Any]:
        half = e.shift_right(length, 1)
        middle = e.add(low, half)
        return e.select(e.compare("<=", starts.number(middle), number), middle, low), e.sub(length, half)

    low, _ = e.fold(0, halvings, 1, (e.i64(0), count), halved)
    own = starts.at(e.add(count, e.mul(low, 3)))
    own.run(0, e.sub(number, own.number(2)))

"""Segments: functions that run the stages of a program one after the other.

Stages are rows of a table that a loop goes through: what a compiler has to do does not grow with their number.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.lazy import LazyModule
from .emitter import Emitter
from .launch import Task
from .records import Number, Reader, Records, call_task, word_of
from .timing import Timers

ir = LazyModule("llvmlite.ir")

POOL_SLOT, ERROR_SLOT = 0, 1
FIELDS = 4  # words of a stage in a table


@dataclass(frozen=True)
class Pending:
    """A stage to run: whether its tasks are worth more than one thread, and whether it, and all after it,
    runs only if no error was found."""

    task: Task
    parallel: Number  # 0 or 1
    unless_failed: bool = False
    timer: int = 0


def emit_segment(
    records: Records, name: str, stages: Sequence[Pending], timers: Timers | None, *, first: bool
) -> None:
    """Add the function `name(block)` that runs stages; `first`: it is the first one of its program."""
    function = ir.Function(records.module, ir.FunctionType(ir.VoidType(), [ir.PointerType()]), name)
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), records.target)
    segment = _Segment(e, records, function.args[0])
    if timers is not None and first:
        timers.count_call(e)
    checked = [n for n, stage in enumerate(stages) if stage.unless_failed]
    cuts = range(len(stages)) if timers is not None else checked
    for begin, end in itertools.pairwise(sorted({0, *cuts, len(stages)})):
        if begin in checked:
            segment.leave_if_failed()
        start = None if timers is None else timers.now(e)
        segment.run(stages[begin:end])
        if timers is not None:
            timers.add(e, stages[begin].timer, start)
    e.builder.ret_void()


class _Segment:
    def __init__(self, e: Emitter, records: Records, block: Any) -> None:
        self.e, self.records, self.block = e, records, block
        self.pool = e.load(e.address(block, POOL_SLOT, e.i64), e.pointer)
        self.parallel = e.declare("parallel_for", ir.VoidType(), [e.pointer, e.pointer, e.pointer, e.i64])
        # what threads are given: a function, its record, the block
        self.launch = e.local(ir.ArrayType(e.i64, 3))

    def leave_if_failed(self) -> None:
        e = self.e
        error = e.load(e.load(e.address(self.block, ERROR_SLOT, e.i64), e.pointer), e.i64)
        with e.builder.if_then(e.compare("!=", error, 0)):
            e.builder.ret_void()

    def run(self, stages: Sequence[Pending]) -> None:
        """Run the tasks of stages, on all threads where they are worth it."""
        e, records = self.e, self.records
        rows = [
            word
            for stage in stages
            for word in (*stage.task.words(records), word_of(stage.task.count), word_of(stage.parallel))
        ]
        table = records.pointer(e, records.record(rows))
        with e.loop(0, len(stages)) as number:
            row = Reader(e, records, self.block, table).at(e.mul(number, FIELDS))
            count, parallel = row.number(2), row.number(3)
            several = e.and_(e.compare("!=", parallel, 0), e.compare(">", count, 1))
            e.branch(several, lambda: self._on_all_threads(row, count), lambda: self._on_this(row, count))

    def _on_this(self, row: Reader, count: Any) -> tuple[()]:
        with self.e.loop(0, count) as number:
            row.run(0, number)
        return ()

    def _on_all_threads(self, row: Reader, count: Any) -> tuple[()]:
        e = self.e
        for place, address in enumerate((row.pointer(0), row.pointer(1), self.block)):
            e.builder.store(address, e.address(self.launch, place, e.i64), align=8)
        e.call(self.parallel, [self.pool, self._started(), self.launch, count])
        return ()

    def _started(self) -> Any:
        """What a thread runs: the task that it is given, with a number."""
        e, module = self.e, self.records.module
        found = module.globals.get("run.launched")
        if found is None:
            found = ir.Function(module, ir.FunctionType(ir.VoidType(), [e.pointer, e.i64]), "run.launched")
            found.linkage = "internal"
            found.attributes.add("nounwind")
            inside = Emitter(ir.IRBuilder(found.append_basic_block("entry")), self.records.target)
            launch, number = found.args
            function, record, block = (
                inside.load(inside.address(launch, n, inside.i64), inside.pointer) for n in range(3)
            )
            call_task(inside, function, block, number, record)
            inside.builder.ret_void()
        return found

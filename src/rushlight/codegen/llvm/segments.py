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
from .records import ERROR_SLOT, POOL_SLOT, Number, Reader, Records, call_task, word_of
from .routines import routine
from .struct import I64, Ptr, Struct
from .timing import Timers
from .types import Callee

ir = LazyModule("llvmlite.ir")

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
        self.parallel = e.declare("parallel_for", ir.VoidType(), [e.pointer, e.pointer, e.pointer, e.i64])

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
        e.call(records.routine("stages"), [self.block, table, e.i64(len(stages)), self.parallel])


class StagesArgs(Struct):
    """What runs stages is given: where their rows are, and how many."""

    block: Ptr
    rows: Ptr
    count: I64
    parallel_for: Ptr


@routine("stages", StagesArgs, quick=True)
def run_stages(e: Emitter, args: StagesArgs, sized: int) -> None:
    """Run stages in order, each on all threads if it is worth it."""
    launch = e.local(ir.ArrayType(e.i64, 3))  # what threads are given: a function, its record, the block
    first = Reader(e, args.block, args.rows, sized=bool(sized))
    launched = _launched(e)

    def on_this_thread(row: Reader, count: Any) -> tuple[()]:
        with e.loop(0, count) as number:
            row.run(0, number)
        return ()

    def on_all_threads(row: Reader, count: Any) -> tuple[()]:
        for place, address in enumerate((row.pointer(0), row.pointer(1), args.block)):
            e.builder.store(address, e.address(launch, place, e.i64), align=8)
        pool = e.load(e.address(args.block, POOL_SLOT, e.i64), e.pointer)
        kind = ir.FunctionType(ir.VoidType(), [e.pointer, e.pointer, e.pointer, e.i64])
        e.call(Callee(args.parallel_for, kind), [pool, launched, launch, count])
        return ()

    with e.loop(0, args.count) as number:
        row = first.at(e.mul(number, FIELDS))
        count, parallel = row.number(2), row.number(3)
        several = e.and_(e.compare("!=", parallel, 0), e.compare(">", count, 1))
        e.branch(several, lambda: on_all_threads(row, count), lambda: on_this_thread(row, count))


def _launched(e: Emitter) -> Any:
    """What a thread runs: the task that it is given, with a number."""
    kind = ir.FunctionType(ir.VoidType(), [e.pointer, e.i64])
    function = ir.Function(e.builder.module, kind, f"{e.builder.function.name}.launched")
    function.linkage = "internal"
    function.attributes.add("nounwind")
    inside = Emitter(ir.IRBuilder(function.append_basic_block("entry")), e.target)
    launch, number = function.args
    task, record, block = (
        inside.load(inside.address(launch, n, inside.i64), inside.pointer) for n in range(3)
    )
    call_task(inside, task, block, number, record)
    inside.builder.ret_void()
    return function

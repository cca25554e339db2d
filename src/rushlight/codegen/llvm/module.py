"""A schedule as one LLVM module: a function for every nest and product, an entry for every run of them.

`entry0(block)` runs the steps of the first segment in order. The block is an array of addresses: slot 0 the
thread pool, slot 1 the number of an error, then the buffers. Segments end where the schedule calls a
routine that is not native code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.lazy import LazyModule
from ...loops.nest import ERRORS, Buffer, Call, Place
from ...loops.product import MATMUL
from ...runtime.target import Target
from ...schedule.memory import buffers_of
from ...schedule.schedule import Schedule
from .emitter import Emitter
from .math import imports
from .matmul import emit_product
from .nests import Reports, emit_nest

ir = LazyModule("llvmlite.ir")

POOL_SLOT, ERROR_SLOT = 0, 1


@dataclass
class NativeModule:
    """The text of a module and how to run it."""

    text: str
    segments: list[str | Call]  # entry names and calls, in order
    slots: dict[Buffer, int]
    imports: dict[str, int]  # addresses of library routines, by the names under which the code calls them
    # the operators whose checks may fail; the error slot holds the number of one, counted from 1
    reports: list[str]


def emit_module(schedule: Schedule, target: Target) -> NativeModule:
    """Generate the code of `schedule`."""
    module = ir.Module("rushlight")
    slots = _slots(schedule)
    segments: list[str | Call] = []
    pending: list[tuple[str, int]] = []  # tasks and how many of each
    reports = Reports()
    for step in schedule.steps:
        if isinstance(step, Call) and step.routine == MATMUL:
            pending.append(emit_product(module, step, target, slots))
        elif isinstance(step, Call):
            _close_segment(module, target, pending, segments)
            segments.append(step)
        else:
            pending.append((emit_nest(module, step, target, slots, reports), step.tasks))
    _close_segment(module, target, pending, segments)
    return NativeModule(str(module), segments, slots, imports(module), reports.places)


def _slots(schedule: Schedule) -> dict[Buffer, int]:
    slots: dict[Buffer, int] = {ERRORS: ERROR_SLOT}
    for step in schedule.steps:
        for buffer in buffers_of(step if isinstance(step, Call) else step.nest):
            if buffer.place is not Place.ROW and buffer not in slots:
                slots[buffer] = 1 + len(slots)
    return slots


def _close_segment(module: Any, target: Target, pending: list[tuple[str, int]],
                   segments: list[str | Call]) -> None:
    if not pending:
        return
    name = f"entry{len(segments)}"
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()]), name)
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
    block = function.args[0]
    parallel = e.declare("parallel_for", ir.VoidType(), [e.pointer, e.pointer, e.pointer, e.i64])
    pool = e.load(e.address(block, POOL_SLOT, e.i64), e.pointer)
    for task, count in pending:
        if count == 1:
            e.call(module.globals[task], [block, e.i64(0)])
        else:
            e.call(parallel, [pool, module.globals[task], block, e.i64(count)])
    e.builder.ret_void()
    segments.append(name)
    pending.clear()

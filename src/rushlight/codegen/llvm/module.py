"""A schedule as one LLVM module: a function for every nest and product, an entry for every run of them.

`entry0(block)` runs the steps of the first segment in order. The block is an array of addresses: slot 0 the
thread pool, slot 1 the number of an error, then the buffers. Segments end where the schedule calls a
routine that is not native code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...core.dtypes import DTYPES
from ...core.lazy import LazyModule
from ...loops.index import as_index
from ...loops.kernels import Extern, Product, Scan, Scatter, Sort
from ...loops.nest import ERRORS, Buffer, MemoryKind
from ...loops.plans import LoopPlan
from ...runtime import profile
from ...runtime.target import Target
from ...schedule.memory import buffers_of
from ...schedule.schedule import Schedule
from ...schedule.stages import Chain, Step
from .emitter import Emitter
from .launch import Kernels, Task, emit_chain, emit_stage
from .math import imports
from .matmul import Scratch, emit_product, place_scratch, routine_imports
from .nests import Reports
from .reach import reaches
from .scan import emit_scan
from .scatter import emit_scatter
from .sort import emit_sort
from .timing import Timers

ir = LazyModule("llvmlite.ir")

POOL_SLOT, ERROR_SLOT = 0, 1

# Kernels whose emitters give (the task's name, the number of tasks) themselves.
TEMPLATES: dict[type, Callable[..., tuple[str, int]]] = {
    Scan: emit_scan,
    Scatter: emit_scatter,
    Sort: emit_sort,
}


@dataclass
class NativeModule:
    """The text of a module and how to run it."""

    text: str
    segments: list[str | Extern]  # entry names and calls, in order
    slots: dict[Buffer, int]
    imports: dict[str, int]  # addresses of library routines, by the names under which the code calls them
    # what checks may find; the error slot holds the number of one, counted from 1
    reports: list[tuple[type[Exception], str]]
    timers: list[profile.Timer]  # of a program that keeps times


@dataclass(frozen=True)
class Pending:
    """A stage to run: whether its tasks are worth more than one thread, and whether it, and all after it,
    runs only if no error was found."""

    task: Task
    parallel: bool
    unless_failed: bool = False
    timer: int = 0


def emit_module(schedule: Schedule, target: Target) -> NativeModule:
    """Generate the code of `schedule`."""
    module = ir.Module("rushlight")
    slots = _slots(schedule)
    products = [[step for step in stage.steps if isinstance(step, Product)] for stage in schedule.stages]
    workspace = schedule.workspace
    tops = workspace.tops or [workspace.size] * len(products)
    offsets, scratch_size = place_scratch(products, tops, target)
    scratch = _add_scratch(schedule, slots, scratch_size)
    segments: list[str | Extern] = []
    pending: list[Pending] = []
    reports = Reports()
    careful = True  # until the first stage that writes to memory of the caller which has contents
    updated = set(schedule.updates.values())
    plans = [step for step in schedule.steps if isinstance(step, LoopPlan)]
    near = reaches(schedule.steps, target)
    kernels = Kernels(module, target, slots, reports, plans, near)
    timers = Timers(module, target) if profile.enabled() else None

    def timed(task: Task, step: Step, part: str = "") -> Task:
        return task if timers is None else timers.task(task, step, part)

    def launched(name: str) -> int:
        return 0 if timers is None else timers.launch(name)

    def phases(step: Step, shares: int = 0) -> list[Task]:
        """The tasks of a step, in order: copies of operands, and its own."""
        if isinstance(step, LoopPlan):
            return [timed(kernels.task(step), step)]
        if isinstance(step, Product):
            place = Scratch(scratch, offsets[step.name])
            *packs, own = (
                Task(*phase)
                for phase in emit_product(module, step, target, slots, place, near.get(step.result), shares)
            )
            return [*(timed(pack, step, pack.name) for pack in packs), timed(own, step)]
        template = TEMPLATES[type(step)]
        return [timed(Task(*template(module, step, target, slots, reports)), step)]

    for number, stage in enumerate(schedule.stages):
        first = stage.units[0]
        if isinstance(first, Extern):
            _close_segment(module, target, pending, segments, timers)
            segments.append(first)
            continue
        tasks: list[Task] = []
        packing: list[Task] = []  # copies of operands, which the products of the stage wait for
        for unit in stage.units:
            if isinstance(unit, Chain):
                links = [task for step in unit.steps for task in phases(step, unit.shares)]
                tasks.append(emit_chain(module, target, f"chain{number}", links, unit.shares))
            else:
                *packs, own = phases(unit)
                packing.extend(packs)
                tasks.append(own)
        if packing:
            pending.append(
                Pending(
                    emit_stage(module, target, f"packing{number}", packing),
                    stage.parallel,
                    timer=launched(f"packing{number}"),
                )
            )
        updates = any(b in updated for step in stage.steps for b in step.outputs)
        pending.append(
            Pending(
                emit_stage(module, target, f"stage{number}", tasks),
                stage.parallel,
                unless_failed=careful and updates and bool(reports.errors),
                timer=launched(f"stage{number}: {', '.join(task.name for task in tasks)}"),
            )
        )
        careful = careful and not updates
    _close_segment(module, target, pending, segments, timers)
    addresses = imports(module) | routine_imports(module, target)
    if timers is not None:
        timers.finish()
        addresses[profile.CLOCK] = profile.clock_address()
    return NativeModule(
        str(module), segments, slots, addresses, reports.errors, [] if timers is None else timers.timers
    )


def _add_scratch(schedule: Schedule, slots: dict[Buffer, int], size: int) -> int:
    """Memory for copies of operands, all of the workspace: its slot."""
    slot = 1 + len(slots)
    scratch = Buffer("scratch", DTYPES["uint8"], as_index(size), MemoryKind.TEMPORARY)
    slots[scratch] = slot
    if size:
        workspace = schedule.workspace
        workspace.offsets[scratch] = 0
        workspace.size = max(workspace.size, size)
    return slot


def _slots(schedule: Schedule) -> dict[Buffer, int]:
    slots: dict[Buffer, int] = {ERRORS: ERROR_SLOT}
    for step in schedule.steps:
        for buffer in buffers_of(step):
            if buffer.memory is not MemoryKind.ROW and buffer not in slots:
                slots[buffer] = 1 + len(slots)
    return slots


def _close_segment(
    module: Any, target: Target, pending: list[Pending], segments: list[str | Extern], timers: Timers | None
) -> None:
    if not pending:
        return
    name = f"entry{len(segments)}"
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [ir.PointerType()]), name)
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
    block = function.args[0]
    parallel = e.declare("parallel_for", ir.VoidType(), [e.pointer, e.pointer, e.pointer, e.i64])
    pool = e.load(e.address(block, POOL_SLOT, e.i64), e.pointer)
    if timers is not None and not any(isinstance(segment, str) for segment in segments):
        timers.count_call(e)
    for stage in pending:
        task = stage.task
        run = module.globals[task.name]
        if stage.unless_failed:
            error = e.load(e.load(e.address(block, ERROR_SLOT, e.i64), e.pointer), e.i64)
            with e.builder.if_then(e.compare("!=", error, 0)):
                e.builder.ret_void()
        start = None if timers is None else timers.now(e)
        if task.count == 1:
            e.call(run, [block, e.i64(0)])
        elif stage.parallel:
            e.call(parallel, [pool, run, block, e.i64(task.count)])
        else:
            with e.loop(0, task.count) as number:
                e.call(run, [block, number])
        if timers is not None:
            timers.add(e, stage.timer, start)
    e.builder.ret_void()
    segments.append(name)
    pending.clear()

"""A planned program as one LLVM module: a function for every kernel, an entry for every run of them.

`entry0(block)` runs the steps of the first segment in order. The block is an array of addresses: slot 0 the
thread pool, slot 1 the number of an error, then the buffers. Segments end where the program calls a
routine that is not native code.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from typing import Any

from ...core.lazy import LazyModule
from ...core.symbols import is_size
from ...core.traits import Trait
from ...loops.control_flow import ControlFlow
from ...loops.kernels import Extern
from ...loops.nest import CALLS, ERRORS, SIZES, Buffer, MemoryKind
from ...loops.program import Chain, Repeated, Stage, Step, Unit, name_in, steps_of
from ...plan.nest import NestPlan
from ...plan.product import ProductPlan
from ...plan.program import PlannedProgram
from ...plan.scan import ScanPlan
from ...plan.scatter import ScatterPlan
from ...plan.sorting import SortPlan
from ...runtime import profile
from .control_flow import emit_control_flow, routines_of
from .launch import Kernels, Task, emit_chain, emit_stage
from .math import imports
from .matmul import driver, pack  # noqa: F401  their routines are found by name
from .matmul.emit import Scratch, emit_product
from .nests import Reports
from .records import ERROR_SLOT, SIZES_SLOT, Number, Position
from .routines import begin_routines
from .scan import ScanEmitter
from .scatter import ScatterEmitter
from .segments import Pending, emit_segment
from .sizes import SizeTable
from .sort import emit_sort
from .timing import Timers

ir = LazyModule("llvmlite.ir")


@dataclass
class NativeModule:
    """The text of a module and how to run it."""

    text: str
    segments: list[str | Extern]  # entry names and calls, in order
    calls: list[Extern]  # collectives, in order: the code calls them through the table in the slot of CALLS
    slots: dict[Buffer, int]
    imports: list[str]  # names of the routines that the code calls
    # what checks may find; the error slot holds the number of one, counted from 1
    reports: list[tuple[type[Exception], str]]
    timers: list[profile.Timer]  # of a program that keeps times
    derived: list[list[Any]]  # what the table of sizes holds besides the symbols (codegen/llvm/sizes.py)
    functions: dict[str, dict[str, None]]  # those of each kernel, routines included


def emit_module(program: PlannedProgram) -> NativeModule:
    """Generate the code of a program."""
    return _ModuleEmitter(program).emit()


class _ModuleEmitter:
    def __init__(self, program: PlannedProgram) -> None:
        self.program, self.target = program, program.target
        self.module = ir.Module("rushlight")
        self.slots = _slots(program)
        self.reports = Reports()
        self.table = SizeTable(program.schedule.symbols)
        self.kernels = Kernels(self.module, program, self.slots, self.reports, self.table)
        self.timers = Timers(self.module, self.target) if profile.enabled() else None
        self.products: dict[str, list[Task]] = {}  # the tasks of each, in order
        self.segments: list[str | Extern] = []
        self.calls: list[Extern] = []
        self.under_way = 0  # collectives
        self.pending: list[Pending] = []
        self.updated = set(program.schedule.updates.values())
        self.check = False  # whether the next stage runs only if no collective has failed
        self.careful = True  # until the first stage that writes to memory of the caller which has contents

    def emit(self) -> NativeModule:
        for unit in (unit for stage in self.program.stages for unit in stage.units):
            self._rename(unit)
            for step in steps_of(unit):
                plan = self.program.plans.get(step.name)
                if isinstance(plan, ProductPlan):
                    name = name_in(unit, step)
                    self.products[name] = emit_product(self.kernels, plan, self._scratch(name))
        begin_routines(self.module, self.target)
        for number, stage in enumerate(self.program.stages):
            first = stage.units[0]
            if isinstance(first, Extern) and first.node.op.traits & Trait.COLLECTIVE:
                self._collective(number, first)
            elif isinstance(first, Extern) and not isinstance(first, ControlFlow):
                self._close_segment()
                self.segments.append(first)
            else:
                self._stage(number, stage)
        self._close_segment()
        self.kernels.records.finish()
        routines = [*imports(self.module), *begin_routines(self.module, self.target)]
        bodies = [b for step in self.program.steps if isinstance(step, ControlFlow) for b in step.bodies]
        routines += routines_of(self.module, bodies) if bodies else ()
        timers: list[profile.Timer] = []
        if self.timers is not None:
            self.timers.finish()
            routines += profile.imports()
            timers = self.timers.timers
        return NativeModule(
            str(self.module),
            self.segments,
            self.calls,
            self.slots,
            routines,
            self.reports.errors,
            timers,
            self.table.derived,
            self.kernels.uses,
        )

    def _stage(self, number: int, stage: Stage) -> None:
        """Add the tasks of a stage to those that the segment runs."""
        tasks: list[Task] = []
        packing: list[Task] = []  # copies of operands, which the products of the stage wait for
        for unit in stage.units:
            self._rename(unit)
            kernel = unit.unit if isinstance(unit, Repeated) else unit
            if isinstance(kernel, Chain):
                links = [task for step in kernel.steps for task in self._phases(unit, step)]
                tasks.append(emit_chain(self.kernels, links, kernel.shares))
            else:
                *packs, own = self._phases(unit, kernel)
                packing.extend(packs)
                tasks.append(own)
        if packing:
            task = emit_stage(self.kernels, packing)
            timer = self._launched(f"packing{number}")
            self.pending.append(Pending(task, self._parallel(stage), timer=timer))
        updates = any(b in self.updated for unit in stage.units for b in unit.outputs)
        self.pending.append(
            Pending(
                emit_stage(self.kernels, tasks),
                self._parallel(stage),
                unless_failed=self.check or (self.careful and updates and bool(self.reports.errors)),
                timer=self._launched(f"stage{number}: {', '.join(task.kernel for task in tasks)}"),
            )
        )
        self.careful, self.check = self.careful and not updates, False
        if self.under_way:
            self._call(0, "progress", f"progress{number}")

    def _collective(self, number: int, call: Extern) -> None:
        """Begin a collective, or wait for one; between the two, messages are looked after behind every stage."""
        waits = call.node.op.schema.name == "wait_tensor"
        self.calls.append(call)
        self._call(len(self.calls), call.name, f"stage{number}: {call.name}")
        self.under_way = max(0, self.under_way + (-1 if waits else 1))
        self.check = self.check or waits

    def _call(self, place: int, kernel: str, timer: str) -> None:
        """Call what stands at a place of the table of calls."""
        records = self.kernels.records
        record = records.record([self.slots[CALLS], place])
        task = Task(records.routine("external").name, 1, record, kernel)
        self.pending.append(Pending(task, 0, unless_failed=self.check, timer=self._launched(timer, place)))
        self.check = False

    def _parallel(self, stage: Stage) -> Number:
        """Whether a stage is worth other threads, 0 or 1: known now, or a place in the table of sizes."""
        if is_size(stage.work):
            return Position(self.table.parallel(stage.work, stage.enough))
        return int(stage.parallel)

    def _rename(self, unit: Unit) -> None:
        """Take the slots of the buffers that a unit touches."""
        self.kernels.slots = self.slots
        if isinstance(unit, Repeated):
            self.kernels.slots = ChainMap(
                {old: self.slots[new] for old, new in unit.names.items()}, self.slots
            )

    def _phases(self, unit: Unit, step: Step) -> list[Task]:
        """The tasks of a step, in order: copies of operands, and its own."""
        if isinstance(step, ControlFlow):
            task = emit_control_flow(self.module, step, self.target, self.slots, self.reports)
            return [self._timed(task, step)]
        plan = self.program.plan_of(step)
        if isinstance(plan, ProductPlan):
            *packs, own = self.products[name_in(unit, step)]
            return [*(self._timed(pack, step, pack.kernel) for pack in packs), self._timed(own, step)]
        return [self._timed(self._task(plan), step)]

    def _scratch(self, name: str) -> Scratch:
        """The scratch memory of a product."""
        own = self.program.scratches.get(name)
        if own is not None:
            return Scratch(self.slots[own], 0)
        return Scratch(self.slots[self.program.scratch], self.program.scratch_offsets[name])

    def _task(self, plan: NestPlan | SortPlan) -> Task:
        if isinstance(plan, ScanPlan):
            return self.kernels.template(plan, ScanEmitter)
        if isinstance(plan, ScatterPlan):
            return self.kernels.template(plan, ScatterEmitter)
        if isinstance(plan, SortPlan):
            task = emit_sort(self.module, plan, self.target, self.slots, self.reports)
            self.kernels.uses[plan.name] = {task.name: None}
            return task
        return self.kernels.task(plan)

    # Times.

    def _timed(self, task: Task, step: Step, part: str = "") -> Task:
        return task if self.timers is None else self.timers.task(task, step, part)

    def _launched(self, name: str, call: int = -1) -> int:
        return 0 if self.timers is None else self.timers.launch(name, call)

    # Segments.

    def _close_segment(self) -> None:
        if self.pending:
            first = not any(isinstance(segment, str) for segment in self.segments)
            name = f"entry{len(self.segments)}"
            emit_segment(self.kernels.records, name, self.pending, self.timers, first=first)
            self.segments.append(name)
            self.pending.clear()


def _slots(program: PlannedProgram) -> dict[Buffer, int]:
    slots: dict[Buffer, int] = {ERRORS: ERROR_SLOT}
    if program.schedule.symbols is not None:
        slots[SIZES] = SIZES_SLOT
    if any(isinstance(s, Extern) and s.node.op.traits & Trait.COLLECTIVE for s in program.steps):
        slots[CALLS] = 1 + len(slots)
    for stage in program.stages:
        for buffer in program.buffers_in(stage):
            if buffer.memory is not MemoryKind.ROW and buffer not in slots:
                slots[buffer] = 1 + len(slots)
    for buffer in (program.scratch, *program.scratches.values()):
        slots[buffer] = 1 + len(slots)
    return slots

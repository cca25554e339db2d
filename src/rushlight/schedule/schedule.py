"""From a program of definitions to kernels in order, and which of them run together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..loops.definitions import Definition, Map, Reduction
from ..loops.expr import Recorder
from ..loops.kernels import Copy, Extern, Product, Routine, Scan, Scatter, Sort
from ..loops.nest import Buffer, MemoryKind
from ..loops.spec import verify_kernel
from ..lowering.lower import Program
from .causal_bounds import limit_rows
from .chains import form_chains
from .forward_copies import write_through
from .fusion import Forms, Fuser, Group, small_first
from .loops import merge_loops, plan_loops
from .nests import build_nest
from .nontemporal_stores import stream_results
from .products import epilogue_obstacle, transpose_products, with_epilogue
from .rematerialize import compute_again
from .reuse_memory import reuse_memory
from .save_derived_values import keep_functions
from .split_reductions import split_reductions
from .stages import Chain, Stage, Step, form_stages
from .templates import scan_obstacle, with_maps, without_unread
from .update_in_place import update_in_place


@dataclass
class Schedule:
    """What runs, in order: loop plans and calls, and which of them run together."""

    steps: list[Step]
    notes: list[str] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    # outputs that are written to the memory of an input, which has their contents then
    updates: dict[Buffer, Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stages = self.stages or form_stages(self.steps)


def verify_schedule(schedule: Schedule) -> None:
    """Raise InternalError if a step breaks a rule of the loop IR."""
    for step in schedule.steps:
        verify_kernel(step, schedule.updates.values())


def schedule(program: Program, recorder: Recorder) -> Schedule:
    """Fuse, and say which kernels run together."""
    fuser = Fuser(recorder, _joins_routine)
    definitions = keep_functions(recorder, write_through(recorder, program.definitions))
    definitions = compute_again(recorder, definitions)
    definitions = small_first(split_reductions(recorder, definitions))
    groups = fuser.run(transpose_products(recorder, definitions))
    readers: dict[Buffer, set[int]] = {}
    for number, group in enumerate(groups):
        for buffer in group.reads():
            readers.setdefault(buffer, set()).add(number)
    steps: list[Step] = []
    notes: list[str] = []
    for number, group in enumerate(groups):
        steps.append(_step(fuser.forms, group, number, readers))
        notes.extend(f"kernel {number}: {note}" for note in group.notes)
    notes.extend(limit_rows(recorder, steps))
    reused = reuse_memory(recorder, steps)
    stages, updates = update_in_place(steps, program.updates, form_chains)
    stream_results(stages)
    notes.extend(f"{new} is written in place of {old}" for new, old in [*reused, *updates])
    notes.extend(
        f"one after the other, share by share: {', '.join(step.name for step in unit.steps)}"
        for stage in stages
        for unit in stage.units
        if isinstance(unit, Chain)
    )
    steps = [step for stage in stages for step in stage.steps]
    return Schedule(steps, notes, stages, dict(updates))


def _step(forms: Forms, group: Group, number: int, readers: dict[Buffer, set[int]]) -> Step:
    def needed(buffer: Buffer) -> bool:
        return buffer.memory is MemoryKind.OUTPUT or bool(readers.get(buffer, set()) - {number})

    first = group.members[0]
    if not isinstance(first, Map | Reduction):
        maps = [member for member in group.members[1:] if isinstance(member, Map)]
        return _routine_step(forms.recorder, first, maps, needed)
    return plan_loops(forms.recorder, build_nest(forms, group, f"kernel{number}", needed))


def _joins_routine(kernel: Routine, written: set[Buffer], definition: Definition) -> str:
    """Why `definition` cannot run together with `kernel`; empty if it can."""
    if isinstance(kernel, Scan):
        return scan_obstacle(kernel, written, definition)
    if isinstance(kernel, Product):
        return epilogue_obstacle(kernel, written, definition)
    return f"{type(kernel).__name__.lower()} is a call"


def _routine_step(
    recorder: Recorder, kernel: Routine, maps: list[Map], needed: Callable[[Buffer], bool]
) -> Step:
    match kernel:
        case Scan():
            scan = with_maps(recorder, kernel, maps, needed)
            return replace(scan, plan=plan_loops(recorder, scan.nest))
        case Copy():
            return replace(plan_loops(recorder, kernel.nest), part=True, overwrites=kernel.overwrites)
        case Scatter():
            return replace(kernel, nest=merge_loops(recorder, kernel.nest))
        case Sort():
            return without_unread(kernel, needed)
        case Product():
            return with_epilogue(recorder, kernel, maps, needed) if maps else kernel
        case Extern():
            return kernel

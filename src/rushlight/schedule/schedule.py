"""From a program of definitions to kernels in order, with their loops planned and their memory laid out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..loops.expr import Recorder
from ..loops.nest import Buffer, Call, Place
from ..loops.templates import COPY, SCAN, SCATTER, SORT, nest_of
from ..lowering.lower import Program
from ..lowering.lowered import Definition, Map
from .causal_bounds import limit_rows
from .chains import form_chains
from .forward_copies import write_through
from .fusion import Forms, Fuser, Group, small_first
from .loops import LoopPlan, plan_loops
from .memory import Workspace, plan_memory
from .nests import build_nest
from .nontemporal_stores import stream_results
from .products import epilogue_obstacle, turn_products, with_epilogue
from .rematerialize import compute_again
from .reuse_memory import reuse_memory
from .save_derived_values import keep_functions
from .split_reductions import split_reductions
from .stages import Chain, Stage, form_stages, name_of
from .templates import plan_sort, planned, scan_obstacle, with_maps
from .update_in_place import update_in_place


@dataclass
class Schedule:
    """What runs, in order: loop plans and calls, and which of them run together."""

    steps: list[LoopPlan | Call]
    workspace: Workspace
    notes: list[str] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    # outputs that are written to the memory of an input, which has their contents then
    updates: dict[Buffer, Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stages = self.stages or form_stages(self.steps)


def schedule(program: Program, recorder: Recorder) -> Schedule:
    """Fuse, plan loops, lay out memory."""
    fuser = Fuser(recorder, _joins_call)
    definitions = keep_functions(recorder, write_through(recorder, program.definitions))
    definitions = compute_again(recorder, definitions)
    definitions = small_first(split_reductions(recorder, definitions))
    groups = fuser.run(turn_products(recorder, definitions))
    readers: dict[Buffer, set[int]] = {}
    for number, group in enumerate(groups):
        for buffer in group.reads():
            readers.setdefault(buffer, set()).add(number)
    steps: list[LoopPlan | Call] = []
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
        f"one after the other, share by share: {', '.join(map(name_of, unit.steps))}"
        for stage in stages
        for unit in stage.units
        if isinstance(unit, Chain)
    )
    kernels = [[step if isinstance(step, Call) else step.nest for step in stage.steps] for stage in stages]
    return Schedule(
        [step for stage in stages for step in stage.steps], plan_memory(kernels), notes, stages, dict(updates)
    )


def _step(forms: Forms, group: Group, number: int, readers: dict[Buffer, set[int]]) -> LoopPlan | Call:
    def needed(buffer: Buffer) -> bool:
        return buffer.place is Place.OUTPUT or bool(readers.get(buffer, set()) - {number})

    first = group.members[0]
    if isinstance(first, Call):
        maps = [member for member in group.members[1:] if isinstance(member, Map)]
        return _call_step(forms.recorder, first, maps, needed)
    return plan_loops(forms.recorder, build_nest(forms, group, f"kernel{number}", needed))


def _joins_call(call: Call, written: set[Buffer], definition: Definition) -> str:
    """Why `definition` cannot run together with `call`; empty if it can."""
    obstacle = scan_obstacle if call.routine == SCAN else epilogue_obstacle
    return obstacle(call, written, definition)


def _call_step(
    recorder: Recorder, call: Call, maps: list[Map], needed: Callable[[Buffer], bool]
) -> LoopPlan | Call:
    if call.routine == SCAN:
        return planned(recorder, with_maps(recorder, call, maps, needed))
    if call.routine == COPY:
        return replace(plan_loops(recorder, nest_of(call)), part=True)
    if call.routine == SCATTER:
        return planned(recorder, call)
    if call.routine == SORT:
        return plan_sort(call, needed)
    return with_epilogue(recorder, call, maps, needed) if maps else call

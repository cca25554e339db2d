"""From a program of definitions to kernels in order, with their loops planned and their memory laid out."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..loops.expr import Recorder
from ..loops.nest import Buffer, Call, Kernel, Place
from ..lowering.lower import Program
from ..lowering.lowered import Map
from .groups import Fuser, Group
from .loops import LoopPlan, plan_loops
from .memory import Workspace, plan_memory
from .nests import build_nest
from .products import epilogue_obstacle, with_epilogue


@dataclass
class Schedule:
    """What runs, in order: loop plans and calls."""

    steps: list[LoopPlan | Call]
    workspace: Workspace
    notes: list[str] = field(default_factory=list)


def schedule(program: Program, recorder: Recorder) -> Schedule:
    """Fuse, plan loops, lay out memory."""
    groups = Fuser(recorder, epilogue_obstacle).run(program.definitions)
    readers: dict[Buffer, set[int]] = {}
    for number, group in enumerate(groups):
        for buffer in group.reads():
            readers.setdefault(buffer, set()).add(number)
    steps: list[LoopPlan | Call] = []
    notes: list[str] = []
    for number, group in enumerate(groups):
        steps.append(_step(recorder, group, number, readers))
        notes.extend(f"kernel {number}: {note}" for note in group.notes)
    kernels: list[Kernel] = [step if isinstance(step, Call) else step.nest for step in steps]
    return Schedule(steps, plan_memory(kernels), notes)


def _step(recorder: Recorder, group: Group, number: int, readers: dict[Buffer, set[int]]) -> LoopPlan | Call:
    def needed(buffer: Buffer) -> bool:
        return buffer.place is Place.OUTPUT or bool(readers.get(buffer, set()) - {number})

    first = group.members[0]
    if isinstance(first, Call):
        maps = [member for member in group.members[1:] if isinstance(member, Map)]
        return with_epilogue(recorder, first, maps, needed) if maps else first
    return plan_loops(recorder, build_nest(recorder, group, f"kernel{number}", needed))

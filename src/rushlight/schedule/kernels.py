"""From groups of definitions to the kernels that run them, each with its loops planned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..loops.definitions import Map, Reduction
from ..loops.expr import Recorder
from ..loops.kernels import Copy, Extern, Product, Routine, Scan, Scatter, Sort
from ..loops.nest import Buffer, MemoryKind
from ..loops.program import Group, Program, Step
from .loops import merge_loops, plan_loops
from .nests import build_nest
from .products import with_epilogue
from .templates import with_maps, without_unread


def build_kernels(program: Program) -> Program:
    """Make a step of every group; what nobody outside of a group reads is not stored."""
    readers: dict[Buffer, set[int]] = {}
    for number, group in enumerate(program.groups):
        for buffer in group.reads:
            readers.setdefault(buffer, set()).add(number)

    def step(number: int, group: Group) -> Step:
        def needed(buffer: Buffer) -> bool:
            return buffer.memory is MemoryKind.OUTPUT or bool(readers.get(buffer, set()) - {number})

        first = group.members[0]
        if isinstance(first, Map | Reduction):
            nest = build_nest(program.recorder, group, f"kernel{number}", needed)
            return plan_loops(program.recorder, nest)
        maps = [member for member in group.members[1:] if isinstance(member, Map)]
        return _routine_step(program.recorder, first, maps, needed)

    steps = tuple(step(number, group) for number, group in enumerate(program.groups))
    notes = (f"kernel {n}: {note}" for n, group in enumerate(program.groups) for note in group.notes)
    return replace(program, steps=steps).note(*notes)


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

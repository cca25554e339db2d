"""Unfolding: the kernels of a graph with few layers (lowering/folding.py) as those of all its layers.

The units of the stages of the small program are a sequence in which layers repeat (core/repetition.py): what they
touch follows from the number of the layer. The units of a layer that was left out are those of one in the middle,
on other buffers; nothing is planned for them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields, replace

from ..core.repetition import PLAIN, Instance, Item, Place, Repetition, find_repetition
from ..core.symbols import exact
from ..loops.kernels import Extern
from ..loops.nest import Buffer, MemoryKind
from ..loops.program import Chain, Program, Repeated, Stage, Step, Unit, steps_of
from ..lowering.folding import Folded
from ..schedule.stages import with_units
from .nest import NestPlan
from .product import EpiloguePlan, ProductPlan
from .program import PlannedProgram
from .sharing import kernel_key


class _Apart(Exception):
    """Two buffers that are one in the layer that others are made from."""


def unfold(program: PlannedProgram, folded: Folded) -> PlannedProgram | None:
    """The program of the whole graph; None if the kernels do not follow its layers."""
    if any(isinstance(step, Extern) for step in program.steps):
        return None
    given = _homes(program.schedule, folded)
    units = [
        (stage, unit) for stage in program.stages for unit in stage.units if not isinstance(unit, Repeated)
    ]
    items = [
        Item(_label(program, stage, unit), [b for step in steps_of(unit) for b in _touched(program, step)])
        for stage, unit in units
    ]
    found = find_repetition(items, given, folded.numbering)
    if found is None:
        return None
    try:
        return _Unfolding(program, folded, found, units).run()
    except _Apart:
        return None


def _homes(schedule: Program, folded: Folded) -> dict[Buffer, Place]:
    """Where inputs and outputs are at home among the layers of the folded graph."""
    given = {schedule.inputs[value]: place for value, place in folded.inputs.items()}
    for buffer, place in zip(schedule.outputs, folded.outputs, strict=True):
        given.setdefault(buffer, place)
    return given


def _touched(program: PlannedProgram, step: Step) -> list[Buffer]:
    """The buffers of a step in the order in which its code takes them; kernels with the same label take others in
    the same order."""
    plan = program.plan_of(step)
    if not isinstance(plan, ProductPlan):
        return [b for b in program.buffers_of(step) if b.memory is not MemoryKind.ROW]
    epilogue, product = plan.epilogue, plan.product
    nest = [] if epilogue.nest is None else [*epilogue.nest.nest.inputs, *epilogue.nest.nest.outputs]
    row = [finish.buffer for finish in epilogue.finish]
    return [
        *(product.left, product.right, product.result),
        *(() if product.groups is None else (product.groups,)),
        *(*row, *epilogue.prefetched, *epilogue.streamed),
        *(b for b in nest if b.memory is not MemoryKind.ROW),
    ]


def _label(program: PlannedProgram, stage: Stage, unit: Step | Chain) -> Hashable:
    """What units have in common that run the same code on other buffers."""
    chained = unit.shares if isinstance(unit, Chain) else None
    steps = tuple(_step_label(program, step) for step in steps_of(unit))
    return unit is stage.units[0], stage.parallel, stage.enough, chained, steps


def _step_label(program: PlannedProgram, step: Step) -> Hashable:
    plan = program.plan_of(step)
    buffers = tuple([(b.dtype, b.size, b.memory) for b in _touched(program, step)])
    if isinstance(plan, ProductPlan):
        own = tuple(getattr(plan, f.name) for f in fields(plan) if f.name not in ("product", "epilogue"))
        near = plan.product.near_diagonal
        return plan.shape, near, own, _epilogue_label(plan.epilogue), buffers
    if type(plan) is NestPlan:
        extents = tuple(var.extent for var in plan.nest.outer)
        tasks = exact(plan.tasks), exact(plan.rows_per_task)
        return program.code_of[plan.name], extents, tasks, plan.split, buffers
    return step  # equal to itself alone


def _epilogue_label(epilogue: EpiloguePlan) -> Hashable:
    nest = epilogue.nest
    return (
        epilogue.mode,
        None if nest is None else (kernel_key(nest), nest.outer),
        tuple((step.op, step.operand) for step in epilogue.finish),
        len(epilogue.prefetched),
        len(epilogue.streamed),
    )


class _Unfolding:
    """Places are those of the sequence of units; in it, the runs of the graph come after those of the units."""

    def __init__(
        self,
        program: PlannedProgram,
        folded: Folded,
        found: Repetition,
        units: list[tuple[Stage, Step | Chain]],
    ) -> None:
        self.program, self.folded, self.found, self.units = program, folded, found, units
        self.layers = folded.layers
        self.schedule = program.schedule
        self.known = {found.place(buffer): buffer for buffer in found.symbols}
        self.found_at: dict[Place, Buffer] = {}  # of the whole program; memory of the caller from the start
        self.inputs = dict(self.schedule.inputs)
        given = {self._here(place): self.inputs[value] for value, place in folded.inputs.items()}
        for place, value in folded.whole_inputs.items():
            here = self._here(place)
            if value not in self.inputs:
                before, _ = found.origin(here, self.layers)
                self.inputs[value] = replace(given[before], name=value.name)
            if place.run != PLAIN:
                self.found_at[here] = self.inputs[value]
        outputs = dict(zip(map(self._here, folded.outputs), self.schedule.outputs, strict=True))
        self.outputs: list[Buffer] = []
        self.updates: dict[Buffer, Buffer] = {}
        for number, place in enumerate(map(self._here, folded.whole_outputs)):
            before, new = self.found.origin(place, self.layers)
            like = outputs[before]
            buffer = _another(like, place) if new else like
            self.outputs.append(buffer)
            if place.run != PLAIN:
                self.found_at[place] = buffer
            if like in self.schedule.updates:
                self.updates[buffer] = self.inputs[folded.whole.inputs[folded.whole.updates[number]]]

    def _here(self, place: Place) -> Place:
        return (
            place if place.run == PLAIN else Place(place.run + len(self.found.runs), place.turn, place.slot)
        )

    def run(self) -> PlannedProgram:
        stages: list[tuple[Stage, list[Unit]]] = []
        for number, instance in enumerate(self.found.resized(self.layers)):
            stage, unit = self.units[instance.item]
            if unit is stage.units[0]:
                stages.append((stage, []))
            stages[-1][1].append(self._unit(instance, unit, number))
        schedule = replace(
            self.schedule,
            inputs=self.inputs,
            outputs=tuple(self.outputs),
            stages=tuple(with_units(stage, units) for stage, units in stages),
            updates=self.updates,
        )
        return replace(self.program, schedule=schedule)

    def _unit(self, instance: Instance, unit: Step | Chain, number: int) -> Unit:
        """A unit on the buffers of an instance."""
        names: dict[Buffer, Buffer] = {}
        for old, place in zip(self.found.items[instance.item].uses, instance.uses, strict=True):
            new = self._buffer(place)
            if names.setdefault(old, new) is not new:
                raise _Apart
        names = {old: new for old, new in names.items() if old is not new}
        return Repeated(unit, names, number) if names else unit

    def _buffer(self, place: Place) -> Buffer:
        """What is at a place of the whole program."""
        buffer = self.found_at.get(place)
        if buffer is None:
            before, new = self.found.origin(place, self.layers)
            buffer = self.known[before]
            self.found_at[place] = buffer = _another(buffer, place) if new else buffer
        return buffer


def _another(buffer: Buffer, place: Place) -> Buffer:
    return Buffer(f"{buffer.name}.{place.turn}", buffer.dtype, buffer.size, buffer.memory)

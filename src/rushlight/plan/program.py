"""A program whose every kernel has a plan and whose memory is laid out: what code generation takes.

`str(program)` shows each kernel's loops and its plan; `verify` checks every plan, and that no two things that
live at the same time share memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..core.dtypes import DTYPES
from ..core.errors import InternalError
from ..core.index import as_index
from ..loops.kernels import Extern
from ..loops.nest import Buffer, MemoryKind
from ..loops.plans import LoopPlan
from ..loops.program import Program, Repeated, Stage, Step, Unit, name_in, renamed, steps_of
from ..runtime.target import Target
from ..schedule.memory import buffers_of, bytes_hint
from .nest import NestPlan
from .product import ProductPlan
from .scan import ScanPlan
from .scatter import ScatterPlan
from .sharing import Instructions
from .sorting import SortPlan
from .workspace import Workspace

KernelPlan = NestPlan | ProductPlan | ScanPlan | ScatterPlan | SortPlan


@dataclass(frozen=True)
class PlannedProgram:
    """A schedule for a target, and the plans that passes have made so far."""

    schedule: Program
    target: Target
    plans: Mapping[str, KernelPlan] = field(default_factory=dict)  # by the kernel's name
    code_of: Mapping[str, str] = field(default_factory=dict)  # by a nest's name: the first with the same code
    shared: Instructions = frozenset()  # long instructions whose code the program has once
    workspace: Workspace = field(default_factory=lambda: Workspace({}, 0))
    # Memory for packed operands, over all of the workspace, and where that of each product begins in it.
    scratch: Buffer = field(
        default_factory=lambda: Buffer("scratch", DTYPES["uint8"], as_index(0), MemoryKind.TEMPORARY)
    )
    scratch_offsets: Mapping[str, int] = field(default_factory=dict)
    scratches: Mapping[str, Buffer] = field(default_factory=dict)  # of each product, where sizes change

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.schedule.stages

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.schedule.steps

    def plan_of(self, step: Step) -> KernelPlan:
        return self.plans[step.name]

    def with_plans(self, plans: Mapping[str, KernelPlan]) -> PlannedProgram:
        """The program with more plans, or others for the same kernels."""
        return replace(self, plans={**self.plans, **plans})

    def buffers_of(self, step: Step) -> list[Buffer]:
        """The buffers a kernel reads or writes, each once, and the scratch memory of its plan."""
        plan = self.plans.get(step.name)
        return buffers_of(step) + ([plan.scratch] if isinstance(plan, SortPlan) else [])

    def buffers_in(self, stage: Stage) -> list[Buffer]:
        """The buffers that a stage reads or writes."""
        return [b for unit in stage.units for s in steps_of(unit) for b in renamed(unit, self.buffers_of(s))]

    def products_in(self, stage: Stage) -> Iterator[tuple[str, ProductPlan]]:
        """The plans of the products of a stage, with names that no other product has."""
        for unit in stage.units:
            for step in steps_of(unit):
                plan = self.plans.get(step.name)
                if isinstance(plan, ProductPlan):
                    yield name_in(unit, step), plan

    def verify_plans(self) -> None:
        """Raise InternalError if a plan that was made so far breaks an invariant."""
        for plan in self.plans.values():
            plan.verify()

    def verify(self) -> None:
        """Raise InternalError if a kernel has no plan, or a plan or the layout of memory breaks an
        invariant."""
        for step in self.steps:
            if step.name not in self.plans and not isinstance(step, Extern):
                raise InternalError(f"{step.name} has no plan")
        self.verify_plans()
        self._verify_order()
        self._verify_memory()

    def _verify_order(self) -> None:
        """What a stage reads of the workspace has been written before, or is written by the same unit."""
        written: set[Buffer] = set()
        for stage in self.stages:
            for unit in stage.units:
                for buffer in set(unit.inputs).difference(written, unit.outputs):
                    if buffer.memory is MemoryKind.TEMPORARY:
                        names = "+".join(name_in(unit, step) for step in steps_of(unit))
                        raise InternalError(f"{names} reads {buffer}, which nobody has written")
            written.update(buffer for unit in stage.units for buffer in unit.outputs)

    def _verify_memory(self) -> None:
        """What is in use in a stage lies inside of the workspace, each apart from the others."""
        first: dict[Buffer, int] = {}
        last: dict[Buffer, int] = {}
        for number, stage in enumerate(self.stages):
            for buffer in self.buffers_in(stage):
                if buffer.memory is MemoryKind.TEMPORARY:
                    first.setdefault(buffer, number)
                    last[buffer] = number
        for number, stage in enumerate(self.stages):
            here = [b for b in first if first[b] <= number <= last[b]]
            used = [(self.workspace.offsets[b], bytes_hint(b), str(b)) for b in here]
            for name, plan in self.products_in(stage):
                if plan.scratch_bytes and not self.scratches:
                    used.append(
                        (self.scratch_offsets[name], plan.scratch_bytes, f"the scratch memory of {name}")
                    )
            ordered = [*sorted(used), (self.workspace.size, 0, "the end")]
            for (offset, size, name), (end, _, _) in pairwise(ordered):
                if offset + size > end:
                    raise InternalError(f"stage {number}: {name} reaches over byte {end} of the workspace")

    def __str__(self) -> str:
        return "\n".join(
            self._shown(unit, step)
            for stage in self.stages
            for unit in stage.units
            for step in steps_of(unit)
        )

    def _shown(self, unit: Unit, step: Step) -> str:
        """A kernel with its plan, if it has one already; a repeated one, with what it touches instead."""
        if isinstance(unit, Repeated):
            names = ", ".join(f"{new} for {old}" for old, new in unit.names.items())
            return f"{name_in(unit, step)}: {step.name}, with {names}"
        kernel = step.nest if isinstance(step, LoopPlan) else step
        return str(self.plans.get(step.name, kernel))

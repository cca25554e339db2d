"""A program whose every kernel has a plan and whose memory is laid out: what code generation takes.

`str(program)` shows each kernel's loops and its plan; `verify` checks every plan, and that no two things that
live at the same time share memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..core.dtypes import DTYPES
from ..core.errors import InternalError
from ..loops.index import as_index
from ..loops.kernels import Extern
from ..loops.nest import Buffer, MemoryKind
from ..loops.plans import LoopPlan, SortPlan
from ..runtime.target import Target
from ..schedule.memory import Workspace
from ..schedule.schedule import Schedule
from ..schedule.stages import Stage, Step
from .nest import NestPlan
from .product import ProductPlan
from .sharing import Instructions
from .templates import ScanPlan, ScatterPlan

KernelPlan = NestPlan | ProductPlan | ScanPlan | ScatterPlan | SortPlan


@dataclass(frozen=True)
class PlannedProgram:
    """A schedule for a target, and the plans that passes have made so far."""

    schedule: Schedule
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

    @property
    def stages(self) -> list[Stage]:
        return self.schedule.stages

    @property
    def steps(self) -> list[Step]:
        return self.schedule.steps

    def plan_of(self, step: Step) -> KernelPlan:
        return self.plans[step.name]

    def with_plans(self, plans: Mapping[str, KernelPlan]) -> PlannedProgram:
        """The program with more plans, or others for the same kernels."""
        return replace(self, plans={**self.plans, **plans})

    def products(self) -> list[ProductPlan]:
        return [plan for plan in self.plans.values() if isinstance(plan, ProductPlan)]

    def verify_plans(self) -> None:
        """Raise InternalError if a plan that was made so far breaks an invariant."""
        for plan in self.plans.values():
            if not isinstance(plan, SortPlan):
                plan.verify()

    def verify(self) -> None:
        """Raise InternalError if a kernel has no plan, or a plan or the layout of memory breaks an
        invariant."""
        for step in self.steps:
            if step.name not in self.plans and not isinstance(step, Extern):
                raise InternalError(f"{step.name} has no plan")
        self.verify_plans()
        end = self.scratch.size.constant_value() or 0
        for product in self.products():
            start = self.scratch_offsets[product.name]
            if product.scratch_bytes and start + product.scratch_bytes > end:
                raise InternalError(f"the scratch memory of {product.name} ends after {end} bytes")
        for buffer, offset in self.workspace.offsets.items():
            size = (buffer.size.constant_value() or 0) * buffer.dtype.itemsize
            if offset + size > self.workspace.size:
                raise InternalError(f"{buffer} ends outside of the workspace of {self.workspace.size} bytes")

    def __str__(self) -> str:
        return "\n".join(map(self._shown, self.steps))

    def _shown(self, step: Step) -> str:
        """A kernel with its plan, if it has one already."""
        plan = self.plans.get(step.name)
        kernel = step.nest if isinstance(step, LoopPlan) else step
        if plan is None:
            return str(kernel)
        return f"{kernel}\n  -- {plan}" if isinstance(plan, SortPlan) else str(plan)

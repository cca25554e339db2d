"""The program: the one object that lowering makes and every pass of scheduling takes and gives.

It fills up as it goes: lowering gives definitions, fusion the groups of definitions that become one kernel,
kernel building the steps, and staging which steps run together. A pass never changes a program; it gives
another one (`replace`, `note`). `readers` and `writers` are of what the program has reached: steps once there
are any, definitions before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..core.symbols import Symbols
from ..graph.ir import Value
from .definitions import Definition, Structured, read, written
from .expr import Recorder
from .kernels import Routine
from .nest import Buffer
from .plans import LoopPlan

Step = LoopPlan | Routine


@dataclass(frozen=True, eq=False)
class Group:
    """Definitions that become one kernel.

    `rows` is the extent of the outer loop; None if they run element by element.
    """

    members: tuple[Definition, ...]
    rows: int | None
    forms: tuple[Structured, ...] = ()  # the members by rows, if there are rows
    notes: tuple[str, ...] = ()

    @functools.cached_property
    def reads(self) -> frozenset[Buffer]:
        return frozenset(buffer for member in self.members for buffer in read(member))


@dataclass(frozen=True, eq=False)
class Chain:
    """Steps that run one after the other on each of `shares` shares of their work, which do not depend on
    each other."""

    steps: tuple[Step, ...]
    shares: int

    @functools.cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        return tuple(b for step in self.steps for b in step.inputs)

    @functools.cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        return tuple(b for step in self.steps for b in step.outputs)


@dataclass(frozen=True, eq=False)
class Repeated:
    """A unit once more, on other buffers: that of an equal layer (plan/unfolding.py)."""

    unit: Step | Chain
    names: Mapping[Buffer, Buffer]  # what it touches in place of what
    number: int  # among all units

    @functools.cached_property
    def inputs(self) -> tuple[Buffer, ...]:
        return renamed(self, self.unit.inputs)

    @functools.cached_property
    def outputs(self) -> tuple[Buffer, ...]:
        return renamed(self, self.unit.outputs)


Unit = Step | Chain | Repeated


def renamed(unit: Unit, buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """What a unit touches where its steps say these."""
    if not isinstance(unit, Repeated):
        return tuple(buffers)
    return tuple([unit.names.get(buffer, buffer) for buffer in buffers])


def name_in(unit: Unit, step: Step) -> str:
    """The name of a step of a unit, which no step of another one has."""
    return f"{step.name}.{unit.number}" if isinstance(unit, Repeated) else step.name


@dataclass(frozen=True, eq=False)
class Stage:
    """Units that may run at the same time; `parallel` if their work is worth waking other threads."""

    units: tuple[Unit, ...]
    parallel: bool = False
    work: int = 0  # rough instructions, and from how many on it is worth it: where the work changes from call
    enough: int = 0  # to call, so does `parallel`

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """All steps, those of chains too."""
        return tuple(step for unit in self.units for step in steps_of(unit))


def steps_of(unit: Unit) -> tuple[Step, ...]:
    if isinstance(unit, Repeated):
        return steps_of(unit.unit)
    return unit.steps if isinstance(unit, Chain) else (unit,)


Pair = tuple[Buffer, Buffer]  # an output, and the input whose contents it replaces


@dataclass(frozen=True, eq=False)
class Program:
    """What there is to compute, and how far it has been decided how."""

    recorder: Recorder
    definitions: tuple[Definition, ...] = ()
    inputs: Mapping[Value, Buffer] = field(default_factory=dict)
    outputs: tuple[Buffer, ...] = ()
    # outputs and the inputs whose contents they replace, where both lie alike
    requested_updates: tuple[Pair, ...] = ()
    groups: tuple[Group, ...] = ()
    steps: tuple[Step, ...] = ()  # kernels in an order in which they may run
    stages: tuple[Stage, ...] = ()
    # outputs that are written to the memory of an input, which has their contents then
    updates: Mapping[Buffer, Buffer] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what was decided and why, for `explain`
    symbols: Symbols | None = None  # of sizes that change from call to call

    def note(self, *notes: str) -> Program:
        return replace(self, notes=(*self.notes, *notes)) if notes else self

    def readers(self, buffer: Buffer) -> tuple[Definition | Step, ...]:
        """Who reads a buffer, in order, each once."""
        return self._readers.get(buffer, ())

    def writers(self, buffer: Buffer) -> tuple[Definition | Step, ...]:
        return self._writers.get(buffer, ())

    def writer(self, buffer: Buffer) -> Definition | Step | None:
        """Who writes a buffer, if there is exactly one."""
        found = self.writers(buffer)
        return found[0] if len(found) == 1 else None

    @functools.cached_property
    def _readers(self) -> dict[Buffer, tuple[Definition | Step, ...]]:
        return _table([(kernel, _reads(kernel)) for kernel in self.steps or self.definitions])

    @functools.cached_property
    def _writers(self) -> dict[Buffer, tuple[Definition | Step, ...]]:
        return _table([(kernel, _writes(kernel)) for kernel in self.steps or self.definitions])


def _reads(kernel: Definition | Step) -> tuple[Buffer, ...]:
    return kernel.inputs if isinstance(kernel, LoopPlan) else read(kernel)


def _writes(kernel: Definition | Step) -> tuple[Buffer, ...]:
    return kernel.outputs if isinstance(kernel, LoopPlan) else written(kernel)


def _table(
    kernels: list[tuple[Definition | Step, tuple[Buffer, ...]]],
) -> dict[Buffer, tuple[Definition | Step, ...]]:
    found: dict[Buffer, list[Definition | Step]] = {}
    for kernel, buffers in kernels:
        for buffer in dict.fromkeys(buffers):
            found.setdefault(buffer, []).append(kernel)
    return {buffer: tuple(users) for buffer, users in found.items()}

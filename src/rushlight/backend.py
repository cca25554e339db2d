"""A graph becomes an executable: the compiler below capture, pass by pass.

    graph passes -> lower -> schedule -> code generation -> JIT

`compile_graph` returns an `Artifact`, which keeps what every stage made, with its time, for `explain` to
show.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import lowering  # noqa: F401  fills in the lowering rules
from .codegen.llvm.instructions import supports
from .codegen.llvm.module import NativeModule, emit_module
from .core.construct import from_numpy
from .core.dispatch import call
from .core.shapes import contiguous_strides
from .graph.ir import Graph, Node, map_values, verify
from .graph.passes import PASSES
from .loops.nest import Buffer, Call, Place
from .lowering.lower import Program, lower
from .runtime.engine import engine
from .runtime.executable import Executable, Slot
from .runtime.threads import pool
from .schedule.memory import Workspace, bytes_of
from .schedule.schedule import Schedule, schedule


@dataclass
class Artifact:
    """An executable and what it was made from."""

    graph: Graph
    program: Program
    schedule: Schedule
    module: NativeModule
    executable: Executable
    seconds: dict[str, float] = field(default_factory=dict)


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        start = time.perf_counter()
        result = function(*args)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        return result


def compile_graph(graph: Graph) -> Artifact:
    """Compile a functional graph for the host."""
    clock = _Clock()
    for name, run in PASSES:
        clock(name, run, graph)
        verify(graph)
    program = clock("lower", lower, graph, supports)
    plan = clock("schedule", schedule, program, program.recorder)
    native = clock("emit", emit_module, plan, engine().target)
    threads = pool()
    entries = [s for s in native.segments if isinstance(s, str)]
    imports = {"parallel_for": threads.parallel_for_address, **native.imports}
    library = clock("build", engine().build, native.text, entries, imports)
    executable = _executable(graph, program, plan.workspace, native, library, threads)
    return Artifact(graph, program, plan, native, executable, clock.seconds | {
        f"llvm {step}": seconds for step, seconds in library.seconds.items()})


def _executable(graph: Graph, program: Program, workspace: Workspace, native: NativeModule, library: Any,
                threads: Any) -> Executable:
    slots = native.slots
    segments = [s if isinstance(s, str) else _extern(s, slots) for s in native.segments]
    inputs = [slots.get(program.inputs[value]) for value in graph.inputs]
    extra = 1 + len(slots)
    outputs = []
    for value, buffer in zip(graph.outputs, program.outputs, strict=True):
        number = slots.get(buffer)
        if number is None:  # an output without elements is written by nobody
            number, extra = extra, extra + 1
        outputs.append(_slot(number, buffer, value.shape, value.spec.known_strides()))
    temporaries = [_slot(slots[b], b, (b.size.constant_value() or 0,), None, offset)
                   for b, offset in workspace.offsets.items()]
    return Executable(library, segments, inputs, outputs, temporaries, workspace.size, extra, threads,
                      native.reports)


def _slot(number: int, buffer: Buffer, shape: tuple[int, ...], strides: tuple[int, ...] | None,
          offset: int = 0) -> Slot:
    dtype: np.dtype = buffer.dtype.numpy
    steps = None if strides is None or strides == contiguous_strides(shape) else tuple(
        s * dtype.itemsize for s in strides)
    return Slot(number, dtype, shape, steps, offset)


def _extern(step: Call, slots: dict[Buffer, int]) -> Callable[[dict[int, np.ndarray]], None]:
    """A call of an operator's eager kernel on the buffers of the block."""
    node: Node = step.attributes["node"]
    layouts = step.attributes["layouts"]
    sources = [slots[b] for b in step.inputs]
    targets = [slots[b] for b in step.outputs]
    several = node.returns_list

    def run(arrays: dict[int, np.ndarray]) -> None:
        tensors = iter(
            [from_numpy(_seen_as(arrays[s], *layout)) for s, layout in zip(sources, layouts, strict=True)]
        )
        result = call(node.op, map_values(node.args, lambda _: next(tensors)))
        for target, output in zip(targets, result if several else (result,), strict=True):
            values = output.numpy_array()
            _seen_as(arrays[target], values.shape, contiguous_strides(values.shape))[...] = values

    return run


def _seen_as(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """The memory of `array` under another shape and strides (in elements)."""
    if 0 in shape:
        return np.empty(shape, array.dtype)
    return np.lib.stride_tricks.as_strided(array, shape, tuple(s * array.itemsize for s in strides))


def moved_bytes(artifact: Artifact) -> dict[str, int]:
    """Bytes that each kernel reads and writes, counting every buffer once."""
    moved = {}
    for step in artifact.schedule.steps:
        if isinstance(step, Call):
            moved[step.name] = sum(bytes_of(b) for b in (*step.inputs, *step.outputs))
        else:
            nest = step.nest
            touched = {a.buffer for a in nest.reads()} | {a.buffer for a in nest.writes()}
            moved[nest.name] = sum(bytes_of(b) for b in touched if b.place is not Place.ROW)
    return moved

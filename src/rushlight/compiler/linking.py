"""Native code as an executable: described as plain data, which the program cache keeps, and linked.

In: what the passes made of a graph. Out: an `Executable`. A description holds nothing but JSON's types, so that
reading one executes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..codegen.llvm.module import NativeModule
from ..core.autocast import autocast_off
from ..core.construct import from_numpy
from ..core.dispatch import call
from ..core.index_data import evaluate_data, guard_admits, to_data
from ..core.shapes import contiguous_strides
from ..core.symbols import Symbols
from ..core.tensor import Tensor
from ..graph.ir import Graph, Node, Value, map_values
from ..graph.subgraph import subgraphs_in
from ..loops.kernels import Extern
from ..loops.nest import CALLS, SIZES, Buffer, MemoryKind
from ..loops.program import Program
from ..plan.program import PlannedProgram
from ..runtime.engine import Library
from ..runtime.executable import CallsInMemory, Executable, SharedWorkspace, SizesInMemory
from ..runtime.linking import executable_of, with_sizes
from ..runtime.sized import SizedExecutable
from .collective_calls import CollectiveCalls, entry_of, numbers_in, seen_as


@dataclass(frozen=True)
class DataSizes:
    """Of a program with sizes that are data: its symbols, what is assumed of them besides what its description
    says, and what compiles it for sizes of which that does not hold."""

    symbols: Sequence[str]
    guards: Sequence[Any]
    compiled: Callable[[Mapping[str, int]], Executable]


def describe(
    graph: Graph, program: Program, plan: PlannedProgram, native: NativeModule, symbols: Symbols | None
) -> dict[str, Any]:
    slots = native.slots
    number_of = {id(node): i for i, node in enumerate(graph.nodes)}
    extra = 1 + len(slots)
    outputs = []
    updates: list[tuple[int, int]] = []  # outputs that are the memory of an input, which has them then
    for position, (value, buffer) in enumerate(zip(graph.outputs, program.outputs, strict=True)):
        if buffer in plan.schedule.updates:
            updates.append((position, graph.updates[position]))
            continue
        number = slots.get(buffer)
        if number is None:  # an output without elements is written by nobody
            number, extra = extra, extra + 1
        outputs.append(_slot(number, buffer, value.shape, value.spec.known_strides()))
    temporaries = [
        _slot(slots[b], b, (b.size,), None, offset) for b, offset in plan.workspace.offsets.items()
    ]
    segments = [s if isinstance(s, str) else _described_call(s, number_of, slots) for s in native.segments]
    return {
        "segments": segments,
        "calls": [_described_call(call, number_of, slots) for call in native.calls],
        "calls_slot": slots.get(CALLS),
        "inputs": [slots.get(program.inputs[value]) for value in graph.inputs],
        "outputs": outputs,
        "temporaries": temporaries,
        "workspace": plan.workspace.size,
        "slots": extra,
        "reports": [[kind.__name__, message] for kind, message in native.reports],
        "imports": native.imports,
        "updates": updates,
        "timers": [timer.to_words() for timer in native.timers],
        "symbols": [] if symbols is None else [dim.name for dim in symbols.hints],
        "sizes": slots.get(SIZES),
        "derived": native.derived,
        "lives": [] if symbols is None else [plan.workspace.lives[b] for b in plan.workspace.offsets],
        "bodies": {s.program.name: s.program.layout() for s in subgraphs_in(graph) if s.program is not None},
    }


def _described_call(
    call: Extern, number_of: Mapping[int, int], slots: Mapping[Buffer, int]
) -> dict[str, Any]:
    return {
        "node": number_of[id(call.node)],
        "layouts": [[list(map(to_data, part)) for part in layout] for layout in call.layouts],
        "inputs": [slots[b] for b in call.inputs],
        "outputs": [slots[b] for b in call.outputs],
        "temporary": all(b.memory is MemoryKind.TEMPORARY for b in call.outputs),
    }


def make_executable(
    graph: Graph, description: dict[str, Any], library: Library, data: DataSizes | None = None
) -> Executable | SizedExecutable:
    """The program that a description is of; one for all sizes, if it has sizes that change."""
    updates = dict(description["updates"])
    if not description["symbols"] and data is None:
        return _executable(graph, description, library, {})
    guards = [] if data is None else [*description["guards"], *data.guards]

    def make(sizes: Mapping[str, int], table: np.ndarray, workspace: SharedWorkspace) -> Executable:
        if data is not None and not all(guard_admits(guard, sizes) for guard in guards):
            return data.compiled(sizes)
        found = with_sizes(description, sizes)
        return _executable(
            graph, found, library, sizes, SizesInMemory(description["sizes"], table, workspace)
        )

    symbols = description["symbols"] if data is None else data.symbols
    return SizedExecutable(symbols, description["derived"], make, updates)


def _executable(
    graph: Graph,
    description: dict[str, Any],
    library: Library,
    sizes: Mapping[str, int],
    table: SizesInMemory | None = None,
) -> Executable:
    segments = [
        s if isinstance(s, str) else _extern(graph.nodes[s["node"]], s, sizes)
        for s in description["segments"]
    ]
    entries = [entry_of(graph.nodes[call["node"]], call, sizes) for call in description["calls"]]
    calls = CallsInMemory(description["calls_slot"], CollectiveCalls(entries)) if entries else None
    return executable_of(description, library, segments, table, calls)


def _slot(
    number: int, buffer: Buffer, shape: tuple[Any, ...], strides: tuple[int, ...] | None, offset: int = 0
) -> list[Any]:
    size = buffer.dtype.itemsize
    steps = None if strides is None or strides == contiguous_strides(shape) else [s * size for s in strides]
    sizes = list(map(to_data, shape))
    return [number, buffer.dtype.name, sizes, None if steps is None else list(map(to_data, steps)), offset]


def _extern(
    node: Node, segment: dict[str, Any], sizes: Mapping[str, int]
) -> Callable[[dict[int, np.ndarray]], None]:
    """A call of an operator's eager kernel on the buffers of the block."""
    several = node.returns_list
    sources, targets = segment["inputs"], segment["outputs"]
    layouts = [[[evaluate_data(n, sizes) for n in part] for part in layout] for layout in segment["layouts"]]
    args = numbers_in(node.args, sizes)
    shapes = [numbers_in(value.shape, sizes) for value in node.outputs]

    def run(arrays: dict[int, np.ndarray]) -> None:
        tensors = iter(
            [
                from_numpy(seen_as(arrays[s], tuple(shape), tuple(strides)))
                for s, (shape, strides) in zip(sources, layouts, strict=True)
            ]
        )
        with autocast_off():  # the graph has its casts
            result = call(node.op, map_values(args, lambda value: _argument(value, next(tensors))))
        for target, output, value, shape in zip(
            targets, result if several else (result,), node.outputs, shapes, strict=True
        ):
            if output.shape != shape or output.dtype is not value.dtype:
                raise RuntimeError(
                    f"{node.op.name} returned {output.dtype.name}{list(output.shape)} where its shape rule "
                    f"(or fake kernel) promised {value.dtype.name}{list(shape)}"
                )
            values = output.numpy_array()
            seen_as(arrays[target], values.shape, contiguous_strides(values.shape))[...] = values

    return run


def _argument(value: Value, tensor: Tensor) -> Any:
    return tensor if value.number is None else tensor.item()

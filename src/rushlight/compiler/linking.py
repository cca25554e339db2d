"""Native code as an executable: described as plain data, which the program cache keeps, and linked.

In: what the passes made of a graph. Out: an `Executable`. A description holds nothing but JSON's types, so that
reading one executes nothing.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..codegen.llvm.math.extern import import_address
from ..codegen.llvm.matmul import routine_imports
from ..codegen.llvm.module import NativeModule
from ..core.autocast import autocast_off
from ..core.construct import from_numpy
from ..core.dispatch import call
from ..core.dtypes import DTYPES
from ..core.errors import InternalError
from ..core.shapes import contiguous_strides
from ..core.tensor import Tensor
from ..graph.ir import Graph, Node, Value, map_values
from ..loops.nest import Buffer
from ..loops.program import Program
from ..plan.program import PlannedProgram
from ..runtime import invoke, profile
from ..runtime.engine import Library, engine
from ..runtime.executable import BlockMemory, Executable, Slot
from ..runtime.threads import pool


def link(description: dict[str, Any], code: bytes) -> Library:
    """Make object code callable, together with what calls it and what it calls."""
    invoke.prepare()
    entries = [s for s in description["segments"] if isinstance(s, str)]
    entries += [profile.TIMES] if description["timers"] else []
    addresses: dict[str, int] = {
        "parallel_for": pool().parallel_for_address,
        profile.CLOCK: profile.clock_address(),
    }
    names = description["imports"]
    addresses.update(routine_imports(SimpleNamespace(globals=names), engine().target))
    for name in names:
        address = addresses.get(name) or import_address(name)
        if address is None:
            raise InternalError(f"there is no routine {name} to link with")
        addresses[name] = address
    library = engine().link(code, entries, addresses)
    if description["timers"]:
        profile.add_program(
            [profile.Timer(*words) for words in description["timers"]], library.addresses[profile.TIMES]
        )
    return library


def describe(graph: Graph, program: Program, plan: PlannedProgram, native: NativeModule) -> dict[str, Any]:
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
        _slot(slots[b], b, (b.size.constant_value() or 0,), None, offset)
        for b, offset in plan.workspace.offsets.items()
    ]
    segments = [
        s
        if isinstance(s, str)
        else {
            "node": number_of[id(s.node)],
            "layouts": s.layouts,
            "inputs": [slots[b] for b in s.inputs],
            "outputs": [slots[b] for b in s.outputs],
        }
        for s in native.segments
    ]
    return {
        "segments": segments,
        "inputs": [slots.get(program.inputs[value]) for value in graph.inputs],
        "outputs": outputs,
        "temporaries": temporaries,
        "workspace": plan.workspace.size,
        "slots": extra,
        "reports": [[kind.__name__, message] for kind, message in native.reports],
        "imports": list(native.imports),
        "updates": updates,
        "timers": [timer.to_words() for timer in native.timers],
    }


def make_executable(graph: Graph, description: dict[str, Any], library: Library) -> Executable:
    segments = [
        s if isinstance(s, str) else _extern(graph.nodes[s["node"]], s["layouts"], s["inputs"], s["outputs"])
        for s in description["segments"]
    ]
    outputs, temporaries = (
        [_slot_of(words) for words in description[name]] for name in ("outputs", "temporaries")
    )
    reports = [(getattr(builtins, kind), message) for kind, message in description["reports"]]
    return Executable(
        library,
        segments,
        description["inputs"],
        outputs,
        BlockMemory(description["slots"], temporaries, description["workspace"]),
        pool(),
        reports,
        dict(description["updates"]),
    )


def _slot(
    number: int, buffer: Buffer, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int = 0
) -> list[Any]:
    size = buffer.dtype.itemsize
    steps = None if strides is None or strides == contiguous_strides(shape) else [s * size for s in strides]
    return [number, buffer.dtype.name, list(shape), steps, offset]


def _slot_of(words: list[Any]) -> Slot:
    number, dtype, shape, steps, offset = words
    return Slot(number, DTYPES[dtype].numpy, tuple(shape), None if steps is None else tuple(steps), offset)


def _extern(
    node: Node, layouts: list[Any], sources: list[int], targets: list[int]
) -> Callable[[dict[int, np.ndarray]], None]:
    """A call of an operator's eager kernel on the buffers of the block."""
    several = node.returns_list

    def run(arrays: dict[int, np.ndarray]) -> None:
        tensors = iter(
            [
                from_numpy(_seen_as(arrays[s], tuple(shape), tuple(strides)))
                for s, (shape, strides) in zip(sources, layouts, strict=True)
            ]
        )
        with autocast_off():  # the graph has its casts
            result = call(node.op, map_values(node.args, lambda value: _argument(value, next(tensors))))
        for target, output, value in zip(
            targets, result if several else (result,), node.outputs, strict=True
        ):
            if output.shape != value.shape or output.dtype is not value.dtype:
                raise RuntimeError(
                    f"{node.op.name} returned {output.dtype.name}{list(output.shape)} where its shape rule "
                    f"(or fake kernel) promised {value.dtype.name}{list(value.shape)}"
                )
            values = output.numpy_array()
            _seen_as(arrays[target], values.shape, contiguous_strides(values.shape))[...] = values

    return run


def _argument(value: Value, tensor: Tensor) -> Any:
    return tensor if value.number is None else tensor.item()


def _seen_as(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """The memory of `array` under another shape and strides (in elements)."""
    if 0 in shape:
        return np.empty(shape, array.dtype)
    words = array.view(f"V{array.itemsize}")  # NumPy's interface has no name for every dtype
    seen = np.lib.stride_tricks.as_strided(words, shape, tuple(s * array.itemsize for s in strides))
    return seen.view(array.dtype)

"""A graph becomes an executable: the compiler below capture, pass by pass.

    graph passes -> lower -> schedule -> code generation -> JIT

`compile_graph` returns an `Artifact`, which keeps what every stage made, with its time, for `explain` to
show. A program that was compiled before, by this process or another, comes from the cache
(compiler/program_cache.py) and skips everything between the graph passes and linking.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import lowering  # noqa: F401  fills in the lowering rules
from ..codegen.llvm.instructions import supports
from ..codegen.llvm.math.extern import import_address
from ..codegen.llvm.matmul import routine_imports
from ..codegen.llvm.module import NativeModule, emit_module
from ..core.autocast import autocast_off
from ..core.construct import from_numpy
from ..core.dispatch import call
from ..core.dtypes import DTYPES
from ..core.errors import InternalError
from ..core.shapes import contiguous_strides
from ..core.tensor import Tensor
from ..graph.ir import Graph, Node, Value, map_values, verify
from ..graph.passes import PASSES
from ..logs import logger, wanted
from ..loops.nest import Buffer, Call, Place
from ..lowering.lower import Program, lower
from ..runtime import profile
from ..runtime.engine import Library, engine
from ..runtime.executable import Executable, Slot
from ..runtime.threads import pool
from ..schedule.memory import bytes_of
from ..schedule.schedule import Schedule, schedule
from .program_cache import pack, program_key, unpack


@dataclass
class Artifact:
    """An executable and the graph it computes.

    What the stages in between made is kept, or, for a program that came from the cache, made again when
    somebody wants to see it.
    """

    graph: Graph
    executable: Executable
    seconds: dict[str, float] = field(default_factory=dict)
    stages: tuple[Program, Schedule, NativeModule] | None = None

    def _stages(self) -> tuple[Program, Schedule, NativeModule]:
        if self.stages is None:
            self.stages = _generate(self.graph, Clock())
        return self.stages

    @property
    def program(self) -> Program:
        return self._stages()[0]

    @property
    def schedule(self) -> Schedule:
        return self._stages()[1]

    @property
    def module(self) -> NativeModule:
        return self._stages()[2]


class Clock:
    """Runs passes and keeps their times."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        start = time.perf_counter()
        result = function(*args)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        return result


def compile_graph(graph: Graph, *, use_cache: bool = True) -> Artifact:
    """Compile a functional graph for the host, or find it among those compiled before."""
    clock = Clock()
    for name, run in PASSES:
        clock(name, run, graph)
        verify(graph)
    logger("graph").info("after passes\n%s", graph)
    key = clock("key", program_key, graph)
    known = clock("cache", _recall, key) if use_cache else None
    if known is not None:
        description, library = known
        artifact = Artifact(graph, _executable(graph, description, library), clock.seconds)
    else:
        stages = _generate(graph, clock)
        native = stages[2]
        code, steps = clock("build", engine().compile, native.text)
        description = _describe(graph, *stages)
        library = clock("link", _link, description, code)
        if key is not None:
            engine().cache.store(key, pack(description, code))
            _remember(key, description, library)
        seconds = clock.seconds | {f"llvm {step}": value for step, value in steps.items()}
        artifact = Artifact(graph, _executable(graph, description, library), seconds, stages)
    _tell(artifact, cached=known is not None)
    if use_cache:
        artifact.stages = None  # they take more memory than the program; `explain` makes its own
    return artifact


def _generate(graph: Graph, clock: Clock) -> tuple[Program, Schedule, NativeModule]:
    program = clock("lower", lower, graph, supports)
    plan = clock("schedule", schedule, program, program.recorder)
    return program, plan, clock("emit", emit_module, plan, engine().target)


# Programs compiled before.

_MOST_REMEMBERED = 256
_remembered: dict[str, tuple[dict[str, Any], Library]] = {}


def _remember(key: str, description: dict[str, Any], library: Library) -> None:
    _remembered[key] = description, library
    if len(_remembered) > _MOST_REMEMBERED:
        _remembered.pop(next(iter(_remembered)), None)


def _recall(key: str | None) -> tuple[dict[str, Any], Library] | None:
    """The program with this key from this process or from disk."""
    if key is None:
        return None
    known = _remembered.get(key)
    if known is not None:
        return known
    data = engine().cache.load(key)
    logger("cache").info("%s: %s", key[:16], "miss" if data is None else f"hit, {len(data)} bytes")
    if data is None:
        return None
    description, code = unpack(data)
    known = description, _link(description, code)
    _remember(key, *known)
    return known


def _link(description: dict[str, Any], code: bytes) -> Library:
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


def _tell(artifact: Artifact, *, cached: bool) -> None:
    """What RUSHLIGHT_LOG asks to see of a program."""
    if wanted("loops"):
        logger("loops").info(
            "%s", "\n".join(str(s if isinstance(s, Call) else s.nest) for s in artifact.schedule.steps)
        )
    if wanted("fusion"):
        logger("fusion").info("%s", "\n".join(artifact.schedule.notes))
    if wanted("llvm"):
        logger("llvm").info("%s", artifact.module.text)
    if wanted("assembly"):
        logger("assembly").info("%s", engine().assembly(artifact.module.text))
    if wanted("time"):
        lines = [f"  {name:32} {1e3 * value:9.2f} ms" for name, value in artifact.seconds.items()]
        lines += [f"  {name:32} {count:12,} bytes" for name, count in moved_bytes(artifact).items()]
        logger("time").info("%s\n%s", "from the cache" if cached else "compiled", "\n".join(lines))


# The executable as plain data, and from it.


def _describe(graph: Graph, program: Program, plan: Schedule, native: NativeModule) -> dict[str, Any]:
    slots = native.slots
    number_of = {id(node): i for i, node in enumerate(graph.nodes)}
    extra = 1 + len(slots)
    outputs = []
    updates: list[tuple[int, int]] = []  # outputs that are the memory of an input, which has them then
    for position, (value, buffer) in enumerate(zip(graph.outputs, program.outputs, strict=True)):
        if buffer in plan.updates:
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
            "node": number_of[id(s.attributes["node"])],
            "layouts": s.attributes["layouts"],
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


def _executable(graph: Graph, description: dict[str, Any], library: Library) -> Executable:
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
        temporaries,
        description["workspace"],
        description["slots"],
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
        for target, output in zip(targets, result if several else (result,), strict=True):
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

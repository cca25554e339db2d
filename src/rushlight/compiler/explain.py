"""What the compiler makes of a function, pass by pass.

`explain(function, *args)` compiles the function for these arguments and returns an `Explanation`: what every
pass of the pipeline made, as text, how long it took, the bytes that each kernel moves, what was fused and why
not. Printing it shows all of it but the machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..capture.environment import environment_of
from ..core.passes import PassLog
from ..plan.passes import PLAN_PASSES
from .build import build_specialization
from .call_key import key_of_call, leaves_of
from .changing_sizes import ChangingSizes
from .pipeline import CAPTURE, PROGRAM_PASSES, CallToCapture, compile_call, moved_bytes
from .specialization import Specialization

LAST_PLAN_PASS = PLAN_PASSES[-1].name
LAST_GRAPH_PASS = [step.name for step in PROGRAM_PASSES if step.topic == "graph"][-1]
LAST_SCHEDULE_PASS = next(step.name for step in PROGRAM_PASSES if step.topic == "loops")


@dataclass(frozen=True)
class StageReport:
    """One pass of one program (`program` is "", "forward " or "backward "; "" also for the whole call)."""

    program: str
    name: str
    seconds: float
    text: str

    @property
    def title(self) -> str:
        return self.program + self.name


@dataclass(frozen=True)
class Explanation:
    """The passes of one compiled call, in the order in which they ran.

    Those over the whole call come first, then those of each program: of the forward one, and of the backward
    one where results require grad.
    """

    stages: list[StageReport]
    fusion: list[str]  # what joined which kernel, and what did not
    symbols: list[str]  # sizes that change, what they were in this call and what they may be
    guards: list[str]  # what must hold for a call to be served by this specialization
    call_path: str  # how such a call runs
    seconds: dict[str, float]
    bytes_moved: dict[str, int]

    def after(self, name: str) -> str:
        """What the pass `name` made, of all programs."""
        return "\n\n".join(stage.text for stage in self.stages if stage.name == name)

    @property
    def captured(self) -> str:
        """The graph as it was captured, gradients included."""
        return self.after("capture")

    @property
    def decomposed(self) -> str:
        """In terms of operators that have code of their own."""
        return self.after("decompose")

    @property
    def graph(self) -> str:
        """After the graph passes, cut into a forward and a backward one."""
        return self.after(LAST_GRAPH_PASS)

    @property
    def loops(self) -> str:
        """Kernels as loop nests."""
        return self.after(LAST_SCHEDULE_PASS)

    @property
    def plan(self) -> str:
        """Kernels with how each runs: tile, packing, tasks, vectors, prefetches, and where an epilogue runs."""
        return self.after(LAST_PLAN_PASS)

    @property
    def llvm(self) -> str:
        return self.after("emit")

    @property
    def assembly(self) -> str:
        return self.after("assemble")

    def __str__(self) -> str:
        seconds = "\n".join(f"  {name:40} {1e3 * value:9.2f} ms" for name, value in self.seconds.items())
        moved = "\n".join(f"  {name:40} {value:12,} bytes" for name, value in self.bytes_moved.items())
        parts = {
            "captured graph": self.captured,
            "decomposed graph": self.decomposed,
            "graph after passes": self.graph,
            "kernels": self.plan,
            "fusion": "\n".join(f"  {note}" for note in self.fusion),
            "symbols": "\n".join(f"  {symbol}" for symbol in self.symbols),
            "guards": "\n".join(f"  {guard}" for guard in self.guards),
            "calls": f"  {self.call_path}",
            "time": seconds,
            "memory traffic": moved,
        }
        return "\n\n".join(f"== {title}\n{text}" for title, text in parts.items() if text)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compile `function` for a call with these arguments and tell what became of it.

    The function is not run on them.
    """
    sizes = getattr(function, "sizes", ChangingSizes())
    function = getattr(function, "function", function)  # a compiled function explains what it compiles
    leaves, structure = leaves_of(args, kwargs)
    key = key_of_call(leaves, structure)
    if not sizes.watching:  # nor has a call shown which sizes change: marks and `dynamic` say so
        sizes = ChangingSizes(sizes.dynamic, unbacked=sizes.unbacked)
        sizes.learn(key, leaves)
    environment = environment_of(function, (args, kwargs))
    log = PassLog(keep=True)
    request = CallToCapture(function, args, kwargs, environment, changing=sizes.changing(key))
    compiled = compile_call(log.run(CAPTURE, request).call, use_cache=False, log=log)
    made = build_specialization(compiled, leaves, environment, key=sizes.key(key))
    return _explanation(log, made)


def _explanation(log: PassLog, made: Specialization) -> Explanation:
    programs = {"": made.artifact}
    if made.backward is not None:
        programs = {"forward ": made.artifact, "backward ": made.backward}
    stages = _reports("", log)
    for prefix, artifact in programs.items():
        stages += _reports(prefix, artifact.log)
    seconds = dict(log.seconds)
    for prefix, artifact in programs.items():
        seconds |= {prefix + name: value for name, value in artifact.seconds.items()}
    moved = {
        prefix + name: count
        for prefix, artifact in programs.items()
        for name, count in moved_bytes(artifact).items()
    }
    notes = [prefix + note for prefix, artifact in programs.items() for note in artifact.schedule.notes]
    symbols, guards = made.live.symbols_in_words(), [str(guard) for guard in made.guards]
    return Explanation(stages, notes, symbols, guards, made.path.value, seconds, moved)


def _reports(program: str, log: PassLog) -> list[StageReport]:
    return [StageReport(program, name, log.seconds[name], log.texts.get(name, "")) for name in log.names]

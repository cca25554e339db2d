"""What the compiler makes of a function, pass by pass.

`explain(function, *args)` compiles the function for these arguments and returns an `Explanation`: what every
pass of the pipeline made, as text, how long it took, the bytes that each kernel moves, what was fused and why
not. Printing it shows all of it but the machine code; `save("page.html")` writes a page with all of it, in which
each stage leads to the others, and `measured()` adds how it ran.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..autograd.anomaly_mode import set_detect_anomaly
from ..capture.environment import environment_of
from ..capture.errors import CaptureError
from ..core.passes import PassLog
from ..plan.passes import PLAN_PASSES
from ..schedule.memory import moved_bytes
from .anatomy import Anatomy, anatomy
from .build import build_specialization
from .call_key import key_of_call, leaves_of
from .changing_sizes import ChangingSizes
from .explain_page import render_page
from .measure import Measurement, measure
from .pipeline import CAPTURE, PROGRAM_PASSES, Artifact, CallToCapture, compile_call
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
    name: str = "function"
    # why the function has no graph: what, where, and what to do; there are no stages then
    breaks: list[dict[str, Any]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)  # why a compiled function was compiled, each time
    call: tuple[Callable[..., Any], Any, Any] | None = None
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    measurement: Measurement | None = None

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

    @functools.cached_property
    def programs(self) -> list[Anatomy]:
        """Each program taken apart: nodes, kernels and functions, with links between them (anatomy.py)."""
        return [anatomy(name, artifact) for name, artifact in self.artifacts.items()]

    def measured(self, calls: int = 10) -> Explanation:
        """The same, with how it ran: the function is called a few times, with all that it does."""
        if self.call is None or not self.programs:
            raise RuntimeError("measured(): there is no compiled program to run")
        function, args, kwargs = self.call
        told = replace(self, measurement=measure(function, args, kwargs, self.programs, calls))
        told.__dict__["programs"] = self.programs
        return told

    def page(self) -> str:
        """One HTML file that needs nothing else."""
        return render_page(self)

    def save(self, path: str | Path) -> Path:
        """Write the page to a file; gives its path."""
        path = Path(path)
        path.write_text(self.page(), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        """In a notebook: the page, in a frame of its own."""
        frame = 'style="width:100%;height:720px;border:1px solid #8884;border-radius:6px"'
        return f'<iframe srcdoc="{html.escape(self.page())}" {frame}></iframe>'

    def __str__(self) -> str:
        seconds = "\n".join(f"  {name:40} {1e3 * value:9.2f} ms" for name, value in self.seconds.items())
        moved = "\n".join(f"  {name:40} {value:12,} bytes" for name, value in self.bytes_moved.items())
        breaks = "\n".join(f"  {found['text']}" for found in self.breaks)
        parts = {
            "graph break": breaks,
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

    The function is not run on them. What is printed are the passes; in a notebook, or with `save`, it is a page:

        rushlight.explain(step, x).save("step.html")
        rushlight.explain(step, x).measured().save("step.html")  # this calls it
    """
    sizes, reasons = getattr(function, "sizes", ChangingSizes()), list(getattr(function, "reasons", ()))
    function = getattr(function, "function", function)  # a compiled function explains what it compiles
    name = getattr(function, "__qualname__", type(function).__name__)
    leaves, structure = leaves_of(args, kwargs)
    key = key_of_call(leaves, structure)
    if not sizes.watching:  # nor has a call shown which sizes change: marks and `dynamic` say so
        sizes = ChangingSizes(sizes.dynamic, unbacked=sizes.unbacked)
        sizes.learn(key, leaves)
    environment = environment_of(function, (args, kwargs))
    log = PassLog(keep=True)
    request = CallToCapture(function, args, kwargs, environment, changing=sizes.changing(key))
    try:
        with set_detect_anomaly(
            True, check_nan=False
        ):  # so that nodes of gradients know the line of the forward operator
            captured = log.run(CAPTURE, request).call
    except CaptureError as error:
        return Explanation([], [], [], [], "", {}, {}, name, [_break(error, function)], reasons)
    compiled = compile_call(captured, use_cache=False, log=log)
    made = build_specialization(compiled, leaves, environment, key=sizes.key(key))
    told = _explanation(log, made)
    return replace(told, name=name, reasons=reasons, call=(function, args, kwargs))


def _break(error: CaptureError, function: Callable[..., Any]) -> dict[str, Any]:
    error.locate(function)
    file, _, line = error.place.rpartition(":")
    return {
        "what": error.what,
        "file": file,
        "line": int(line) if line.isdigit() else 0,
        "remedy": error.problem.remedy,
        "example": error.problem.example,
        "text": str(error),
    }


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
        for name, count in moved_bytes(artifact.schedule).items()
    }
    notes = [prefix + note for prefix, artifact in programs.items() for note in artifact.schedule.notes]
    symbols, guards = made.live.symbols_in_words(), [str(guard) for guard in made.guards]
    return Explanation(
        stages, notes, symbols, guards, made.path.value, seconds, moved, artifacts=_pieces(programs)
    )


def _pieces(programs: dict[str, Artifact]) -> dict[str, Artifact]:
    """The programs by name; those that are compiled in pieces, piece by piece."""
    found = {}
    for prefix, artifact in programs.items():
        for number, piece in enumerate(artifact.pieces or (artifact,), 1):
            part = f"piece {number}" if artifact.pieces else ""
            found[f"{prefix}{part}".strip() or "program"] = piece
    return found


def _reports(program: str, log: PassLog) -> list[StageReport]:
    return [StageReport(program, name, log.seconds[name], log.texts.get(name, "")) for name in log.names]

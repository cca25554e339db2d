"""What the compiler makes of a function, stage by stage.

`explain(function, *args)` compiles the function for these arguments and returns an `Explanation`: every stage
as text, the time of each pass, the bytes that each kernel moves, what was fused and why not. Printing it
shows all of it but the machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..capture.guards import environment_of
from ..capture.program import capture_call
from ..core.pytree import flatten
from ..core.tensor import Tensor
from ..graph.ir import print_graph
from ..loops.nest import Call
from ..runtime.engine import engine
from .pipeline import Artifact, Clock, moved_bytes
from .specialization import Entry, build_entry, decompose_call


@dataclass(frozen=True)
class Explanation:
    """The stages of one compiled call.

    Those of the backward program, where there is one, follow the forward ones.
    """

    captured: str  # the graph as it was captured, gradients included
    decomposed: str  # in terms of operators that have code of their own
    graph: str  # after the graph passes, cut into a forward and a backward one
    loops: str  # kernels as loop nests
    fusion: list[str]  # what joined which kernel, and what did not
    llvm: str
    assembly: str
    seconds: dict[str, float]
    bytes_moved: dict[str, int]

    def __str__(self) -> str:
        seconds = "\n".join(f"  {name:32} {1e3 * value:9.2f} ms" for name, value in self.seconds.items())
        moved = "\n".join(f"  {name:32} {value:12,} bytes" for name, value in self.bytes_moved.items())
        parts = {
            "captured graph": self.captured,
            "decomposed graph": self.decomposed,
            "graph after passes": self.graph,
            "kernels": self.loops,
            "fusion": "\n".join(f"  {note}" for note in self.fusion),
            "time": seconds,
            "memory traffic": moved,
        }
        return "\n\n".join(f"== {title}\n{text}" for title, text in parts.items() if text)


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compile `function` for a call with these arguments and tell what became of it.

    The function is not run on them.
    """
    function = getattr(function, "function", function)  # a compiled function explains what it compiles
    leaves, _ = flatten((args, kwargs), records=True)
    clock = Clock()
    call = clock("capture", capture_call, function, args, kwargs, environment_of(function, (args, kwargs)))
    captured = "\n".join([print_graph(call.graph), *(f"then, eagerly: {late.name}" for late in call.late)])
    clock("decompose", decompose_call, call)
    decomposed = print_graph(call.graph)
    entry = build_entry(call, [leaf for leaf in leaves if isinstance(leaf, Tensor)], use_cache=False)
    return _explanation(captured, decomposed, clock.seconds, entry)


def _explanation(captured: str, decomposed: str, seconds: dict[str, float], entry: Entry) -> Explanation:
    named = (
        [("", entry.artifact)]
        if entry.backward is None
        else [("forward ", entry.artifact), ("backward ", entry.backward)]
    )
    artifacts = [artifact for _, artifact in named]
    return Explanation(
        captured,
        decomposed,
        "\n\n".join(print_graph(artifact.graph) for artifact in artifacts),
        "\n\n".join(_kernels(artifact) for artifact in artifacts),
        [prefix + note for prefix, artifact in named for note in artifact.schedule.notes],
        "\n\n".join(artifact.module.text for artifact in artifacts),
        "\n\n".join(engine().assembly(artifact.module.text) for artifact in artifacts),
        seconds
        | {prefix + name: value for prefix, artifact in named for name, value in artifact.seconds.items()},
        {prefix + name: count for prefix, artifact in named for name, count in moved_bytes(artifact).items()},
    )


def _kernels(artifact: Artifact) -> str:
    texts = []
    for step in artifact.schedule.steps:
        if isinstance(step, Call):
            texts.append(f"call {step}")
        else:
            vectors = "outer loop" if step.vector_outer else "inner loops"
            end = "" if step.limit is None else f", up to {step.limit}"
            texts.append(f"{step.nest}\n  -- {step.tasks} tasks, vectors along the {vectors}{end}")
    return "\n".join(texts)

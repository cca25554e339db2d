"""Control flow as a kernel: compiled bodies that native code calls.

In: the programs of the bodies (graph/subgraph.py). Out: a `ControlFlow`, which runs alone on the thread that runs
the program, as a library call does; the bodies start their own parallel loops. Their blocks of addresses, their
workspaces and what a loop carries lie in one scratch buffer, the last of its outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..graph.subgraph import BodyProgram
from .kernels import Extern

ALIGNMENT = 64


@dataclass(frozen=True)
class BodyMemory:
    """Where the memory of a body lies in the scratch buffer, in bytes."""

    block: int
    workspace: int
    error: int  # one word
    discarded: tuple[int, ...]  # for each of the body's discarded outputs


@dataclass(frozen=True, eq=False)
class ControlFlow(Extern):
    """Compiled bodies in the order of the operator's arguments, and their memory.

    `carried` are the sizes, in bytes, of what a loop carries; `turns` has two places in the scratch buffer for
    each.
    """

    bodies: tuple[BodyProgram, ...] = ()
    memory: tuple[BodyMemory, ...] = ()
    carried: tuple[int, ...] = ()
    turns: tuple[tuple[int, int], ...] = ()
    flag: int = 0  # of a condition, 8 bytes in the scratch buffer

    def __str__(self) -> str:
        names = ", ".join(body.name for body in self.bodies)
        sources, targets = (", ".join(map(str, buffers)) for buffers in (self.inputs, self.outputs))
        return f"{targets} = {self.node.op.schema.name}({sources}; {names})"


@dataclass(frozen=True)
class ScratchLayout:
    """Where everything lies in the scratch buffer of a kernel, and its size."""

    memory: tuple[BodyMemory, ...]
    turns: tuple[tuple[int, int], ...]
    flag: int
    size: int


def lay_out_scratch(bodies: Sequence[BodyProgram], carried: Sequence[int]) -> ScratchLayout:
    end = 0

    def take(size: int) -> int:
        nonlocal end
        start, end = end, end + -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        return start

    memory = tuple(
        BodyMemory(
            take(8 * body.slots),
            take(body.workspace),
            take(8),
            tuple(take(size) for _, size in body.discarded),
        )
        for body in bodies
    )
    turns = tuple((take(size), take(size)) for size in carried)
    return ScratchLayout(memory, turns, take(8), end)

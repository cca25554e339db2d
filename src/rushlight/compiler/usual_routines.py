"""Routines that most programs with products of float32 call, compiled while the first such one is lowered.

They depend on the machine alone. From then on they are on disk.
"""

from __future__ import annotations

import functools

from ..codegen.llvm.matmul.kernels import NOTHING
from ..codegen.llvm.routines import prepare_routine
from ..eager.worker import submit
from ..graph.ir import Graph
from ..plan.tiling import usual_tiles
from ..runtime.engine import engine

ELEMENT, SIZE = "float", 4
BUFFERS = range(2, 6)  # of a nest
FAMILIES = {"matmul", "conv"}  # of operators that become products


def prepare_routines_of(graph: Graph) -> None:
    """Begin at once, where a program is to be compiled that has products."""
    if any(node.op.family in FAMILIES for node in graph.nodes):
        prepare_usual_routines()


@functools.cache
def prepare_usual_routines() -> None:
    """Have them compiled in the background: once a process."""
    submit(_prepare)


def _prepare() -> None:
    """A job for each, those first that take longest."""
    target = engine().target
    lanes = target.lanes(SIZE)
    first, *others = usual_tiles(target)
    prepare_routine(target, "tile", ELEMENT, *first, 0, NOTHING)
    prepare_routine(target, "transpose", ELEMENT)
    for tile in others:
        prepare_routine(target, "tile", ELEMENT, *tile, 0, NOTHING)
    for _, vectors in (first, *others):
        prepare_routine(target, "copy", ELEMENT, vectors, lanes)
    for kind in ("product", "packing", "move", "clear"):
        prepare_routine(target, kind)
    prepare_routine(target, "tile", ELEMENT, *first, 0, "addrow")  # a linear layer
    for sized in (0, 1):
        prepare_routine(target, "stages", sized)
        for count in BUFFERS:
            prepare_routine(target, "nest", count, sized)

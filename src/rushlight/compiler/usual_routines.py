"""Routines that most programs with products of float32 call, compiled while the first such one is captured and
lowered.

They depend on the machine alone. From then on they are on disk.
"""

from __future__ import annotations

import functools

from ..capture.trace import TOLD
from ..codegen.llvm.matmul.kernels import NOTHING
from ..codegen.llvm.routines import prepare_routine
from ..eager.worker import submit
from ..graph.ir import Graph
from ..plan.tiling import usual_tiles
from ..runtime.engine import engine

ELEMENT, SIZE = "float", 4
BUFFERS = range(2, 6)  # of a nest
FAMILIES = {"matmul", "conv"}  # of operators that become products


def prepare_routines_of(graph: Graph, *, sized: bool) -> None:
    """Begin now, where a program is to be compiled that has products. `sized`: its sizes may change."""
    if any(node.op.family in FAMILIES for node in graph.nodes):
        prepare_usual_routines(sized)


@functools.cache
def prepare_usual_routines(sized: bool) -> None:
    """Have them compiled in the background: once a process."""
    submit(functools.partial(_prepare, sized))


TOLD.update(dict.fromkeys(FAMILIES, prepare_usual_routines))


def _prepare(sized: bool) -> None:
    """A job for each, those first that most programs call."""
    target = engine().target
    lanes = target.lanes(SIZE)
    first, *others = usual_tiles(target)
    prepare_routine(target, "tile", ELEMENT, *first, 0, NOTHING)
    prepare_routine(target, "transpose", ELEMENT)
    for tile in others:
        prepare_routine(target, "tile", ELEMENT, *tile, 0, NOTHING)
    for kind in ("product", "packing", "move", "clear"):
        prepare_routine(target, kind)
    prepare_routine(target, "stages", int(sized))
    for count in BUFFERS:
        prepare_routine(target, "nest", count, int(sized))
    for _, vectors in (first, *others):
        prepare_routine(target, "copy", ELEMENT, vectors, lanes)
    prepare_routine(target, "tile", ELEMENT, *first, 0, "addrow")  # a linear layer

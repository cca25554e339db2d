"""The bodies of control flow, compiled: each is a program of its own, which native code of the program around it
calls (codegen/llvm/control_flow.py).

In: a graph with subgraphs among its nodes' arguments. Out: every `Subgraph` has its `BodyProgram`. Equal bodies,
those of equal layers or of two programs, are compiled once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..capture.checks import keep_checks
from ..capture.decompose import decompose
from ..capture.partition import extract
from ..core.index import as_index
from ..graph.ir import Graph, simplify_sizes, symbols_of
from ..graph.subgraph import BodyProgram, Subgraph, subgraphs_in
from ..runtime.executable import Executable
from .program_cache import program_key

_numbers = itertools.count()


def compile_bodies(graph: Graph, compile_graph: Callable[[Graph], Any]) -> dict[str, BodyProgram]:
    """Compile the subgraphs of a graph that are not yet; their programs by name."""
    found: dict[str, BodyProgram] = {}
    subgraphs = subgraphs_in(graph)
    symbols = symbols_of(graph) if subgraphs else None
    if symbols is not None:  # loops have no form for sizes that change: guards say what they are
        for dim in symbols.hints:
            symbols.number(as_index(dim))
        simplify_sizes(graph)
    for subgraph in subgraphs:
        if subgraph.program is None:
            subgraph.program = _compiled(subgraph, compile_graph)
        found[subgraph.program.name] = subgraph.program
    return found


def _compiled(subgraph: Subgraph, compile_graph: Callable[[Graph], Any]) -> BodyProgram:
    own = subgraph.graph
    graph = extract(own, own.inputs, own.outputs)  # the body itself stays as it is, for derivatives of it
    simplify_sizes(graph)
    decompose(graph)
    keep_checks(graph, [])
    artifact = compile_graph(graph)
    key = program_key(artifact.graph, symbols_of(artifact.graph))
    name = f"body_{next(_numbers)}" if key is None else f"body_{key[:32]}"
    return _program(name, key is not None, artifact.executable, len(own.outputs))


def _program(name: str, cached: bool, executable: Executable, outputs: int) -> BodyProgram:
    addresses = executable.entries
    if not executable.native or executable.calls is not None or len(addresses) > 1:
        return BodyProgram(name, cached, native=False)
    slots = [slot.number for slot in executable.output_slots]
    checks = executable.output_slots[outputs:]
    return BodyProgram(
        name,
        cached,
        native=True,
        address=addresses[0] if addresses else 0,
        slots=executable.slots,
        inputs=tuple(executable.inputs),
        outputs=tuple(slots[:outputs]),
        discarded=tuple((slot.number, slot.nbytes) for slot in checks),
        temporaries=tuple((slot.number, slot.offset) for slot in executable.temporaries),
        workspace=executable.workspace_size,
        reports=tuple(executable.reports),
        keep=executable,
    )

"""Every decomposition of the registry: it is its operator, it comes to an end, and that end can be compiled.

Each operator runs on its witness, small tensors on which it is defined. The conformance variant `decomposed`
says the first of the three on PyTorch's samples, too.
"""

from __future__ import annotations

import functools
import warnings
from graphlib import TopologicalSorter
from typing import Any

import pytest

import rushlight as rl
from rushlight.capture.decompose import decompose
from rushlight.capture.errors import CaptureError
from rushlight.capture.program import capture_call
from rushlight.core.registry import REGISTRY, Kind, OpDef
from rushlight.lowering.declare import LibraryCall
from rushlight.testing.decomposition_checks import decomposed
from rushlight.testing.measure import measure_decomposition, witness_text
from rushlight.testing.witness import OK, Witness

DEFINED = [op for op in REGISTRY if op.decomposition is not None]
STRUCTURAL = [op for op in DEFINED if op.kind is Kind.STRUCTURAL]
FAMILIES = sorted({op.family for op in DEFINED})

# What fullgraph=True refuses, by the words it says.
NO_GRAPH = (
    "the shape of the result of",
    "the program reads a value",
    "the program needs the number",  # how long the rows of a packed sequence are, which is data
    "makes or takes a sparse tensor",
    "looks at the structure of a sparse tensor",
    "quantized tensor",
)


@functools.cache
def witness(name: str) -> Witness | None:
    """A call of the operator that runs; None where its arguments do not follow from its schema."""
    try:
        with warnings.catch_warnings(), rl.no_grad():
            warnings.simplefilter("ignore")
            found = Witness(REGISTRY[name], False, witness_text(REGISTRY[name], False))
            found(*found.leaves)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None
    return found


def test_which_are_looked_at() -> None:
    """All that have a kernel, too; of those that are nothing but their decomposition, most."""
    assert len(STRUCTURAL) > 90
    assert not [op.name for op in STRUCTURAL if witness(op.name) is None]
    assert sum(witness(op.name) is not None for op in DEFINED) > 700


def test_every_structural_operator_compiles_in_a_way_that_is_said() -> None:
    silent = [
        op.name
        for op in REGISTRY
        if op.kind is Kind.STRUCTURAL and op.lowering is None and op.decomposition is None
    ]
    assert not silent


@pytest.mark.parametrize("family", sorted({op.family for op in STRUCTURAL}))
def test_it_equals_the_kernel(family: str) -> None:
    """In values, dtypes and shapes."""
    ops = [op for op in STRUCTURAL if op.family == family]
    wrong = {op.name: outcome for op in ops if (outcome := measure_decomposition(op)) != OK}
    assert not wrong


def test_no_operator_is_part_of_itself() -> None:
    calls = {name: witness(name) for name in (op.name for op in DEFINED)}  # before decompositions take over
    with decomposed() as parts, warnings.catch_warnings(), rl.no_grad():
        warnings.simplefilter("ignore")
        for call in calls.values():
            if call is not None:
                call(*call.leaves)
    assert len(parts) > 300
    TopologicalSorter(parts).prepare()  # raises for a cycle, naming it


def ends(op: OpDef) -> set[str]:
    """The operators that are left of a captured call when everything is decomposed."""
    call = witness(op.name)
    assert call is not None

    def function(*tensors: Any) -> Any:
        return call.with_tensors(dict(zip([id(t) for t in call.tensors], tensors, strict=True)))

    with warnings.catch_warnings(), rl.no_grad():
        warnings.simplefilter("ignore")
        graph = capture_call(function, tuple(t.detach() for t in call.tensors), {}).graph
    decompose(graph)
    return {node.op.name for node in graph.nodes}


@pytest.mark.parametrize("family", FAMILIES)
def test_it_ends_in_operators_that_compile(family: str) -> None:
    """Scalar bodies, views, lowering rules, and what is said to stay a library call."""
    open_ends: dict[str, set[str]] = {}
    for op in DEFINED:
        if op.family != family or witness(op.name) is None:
            continue
        try:
            found = {REGISTRY[name] for name in ends(op)}
        except CaptureError as error:
            if any(text in str(error) for text in NO_GRAPH):
                continue
            raise
        left = {
            end.name
            for end in found
            if end.kind not in (Kind.POINTWISE, Kind.VIEW)
            and not callable(end.lowering)
            and not isinstance(end.lowering, LibraryCall)
        }
        if left:
            open_ends[op.name] = left
    assert not open_ends

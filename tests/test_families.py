"""One operator, one room: every stage of an operator is declared in a file of the operator's family.

A family is the first word of a file's name (ops/view.py and ops/view_scatter.py: view), the same on every floor.
How an operator treats sparse or quantized tensors is in the rooms of those.
"""

from __future__ import annotations

import pytest

import rushlight
import rushlight.batching.rules
import rushlight.lowering
from rushlight.core.binding import family_of
from rushlight.core.registry import REGISTRY, Kind

FLOORS = {
    "definition": ("ops", "decompositions"),
    "kernel": ("kernels",),
    "derivative": ("derivatives",),
    "decomposition": ("decompositions",),
    "lowering": ("lowering",),
    "batching": ("batching",),
    "sparse": ("kernels", "decompositions"),
    "quantized": ("kernels", "decompositions"),
}
ROOMS = {"sparse": "sparse", "quantized": "quantization"}  # of operators of any family


@pytest.mark.parametrize("stage", FLOORS)
def test_a_stage_is_in_the_room_of_its_operator(stage: str) -> None:
    declared = [(op, op.declared[stage]) for op in REGISTRY if stage in op.declared]
    assert declared
    strays = [
        f"{op.name} ({op.family}): {module}"
        for op, module in declared
        if family_of(module) != ROOMS.get(stage, op.family) or module.partition(".")[0] not in FLOORS[stage]
    ]
    assert not strays, "\n".join(strays)


def test_every_stage_says_where_it_is() -> None:
    for op in REGISTRY:
        present = {
            "definition": True,
            "kernel": op.kernel is not None,
            "derivative": op.derivative is not None,
            "decomposition": op.decomposition is not None and op.kind is not Kind.COMPOSITE,
            "lowering": op.lowering is not None,
            "batching": op.batching is not None,
            "sparse": op.sparse is not None,
            "quantized": op.quantized is not None,
        }
        assert {stage for stage, there in present.items() if there} == set(op.declared), op.name


def test_operators_of_one_name_are_in_one_room() -> None:
    """Overloads, and the backward operators of a function; max and min are two functions each."""
    families: dict[str, set[str]] = {}
    for op in REGISTRY:
        if op.schema.name not in ("max", "min"):
            stem = op.schema.name.strip("_").removesuffix("_backward").removesuffix("_backward_data")
            families.setdefault(stem, set()).add(op.family)
    assert {name: found for name, found in families.items() if len(found) > 1} == {}


def test_rooms_of_programs_are_not_the_packages() -> None:
    with rushlight.library._scoped_library("families", "FRAGMENT") as library:
        rushlight.library.pointwise("families::same(Tensor self) -> Tensor", lib=library)(
            lambda ops, self: self
        )
        assert rushlight.ops.families.same.default.op.family == "library"

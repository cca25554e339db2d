"""Elementwise operators by their bodies on tensors, and the table of decompositions beside PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch._decomp import core_aten_decompositions as torch_core

import rushlight as rl
from rushlight._decomp import (
    core_aten_decompositions,
    decomposition_table,
    get_decompositions,
    register_decomposition,
    remove_decompositions,
)
from rushlight.core.dispatch import call
from rushlight.core.registry import REGISTRY
from rushlight.decompositions.elementwise import is_composed, run_composed
from rushlight.testing.measure import witness_text
from rushlight.testing.witness import Witness

COMPOSED = [op.name for op in REGISTRY if is_composed(op)]
aten = rl.ops.aten


def test_most_elementwise_operators_are_composed() -> None:
    assert len(COMPOSED) > 70


@pytest.mark.parametrize("name", COMPOSED)
def test_a_body_on_tensors_is_the_operator(name: str) -> None:
    op = REGISTRY[name]
    witness = Witness(op, False, witness_text(op, False))
    with warnings.catch_warnings(), rl.no_grad():
        warnings.simplefilter("ignore")
        expected, found = call(op, witness.values), run_composed(op, witness.values)
    for a, b in zip(
        found if isinstance(found, tuple) else (found,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def _name(overload: Any) -> str:
    return overload.name().removeprefix("aten::")


def _is_here(name: str) -> bool:
    short, _, overload = name.partition(".")
    return hasattr(aten, short) and hasattr(getattr(aten, short), overload or "default")


def test_d25_the_core_table_has_the_operators_of_pytorchs() -> None:
    overloads = [o for o in torch_core() if isinstance(o, torch._ops.OpOverload) and o.namespace == "aten"]
    wanted = {name for name in map(_name, overloads) if _is_here(name)}
    found = {_name(o) for o in core_aten_decompositions()}
    assert found <= wanted
    assert len(wanted - found) <= 12 and "aten::add.Tensor" not in found


def test_d25_decompositions_of_packets_include_their_forms() -> None:
    found = get_decompositions([aten.addcmul, aten.addcmul_, aten.t])
    assert set(found) == {aten.addcmul.default, aten.addcmul.out, aten.addcmul_.default, aten.t.default}
    x, y, z = rl.ones(3), rl.full((3,), 2.0), rl.full((3,), 3.0)
    assert found[aten.addcmul.default](x, y, z, value=2).tolist() == [13.0] * 3
    out = rl.empty(3)
    assert found[aten.addcmul.out](x, y, z, out=out) is out and out.tolist() == [7.0] * 3
    assert found[aten.addcmul_.default](x, y, z) is x and x.tolist() == [7.0] * 3
    assert found[aten.t.default](rl.ones(2, 3)).shape == (3, 2)


def test_registering_and_removing() -> None:
    table: dict[Any, Any] = {}

    @register_decomposition([aten.erfinv, aten.cos.default], table)
    def function(x: Any) -> Any:
        return x

    assert table[aten.cos.default] is function and aten.erfinv.default in table
    with pytest.raises(RuntimeError):
        register_decomposition(aten.cos.default, table)(function)
    remove_decompositions(table, [aten.erfinv])
    assert set(table) == {aten.cos.default}
    assert aten.addmm.default in decomposition_table and len(decomposition_table) > 600
    with pytest.raises(ValueError):
        get_decompositions([aten.t], type="other")

"""Operators by name: entries 22 and 25 of the list of defects."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight.core.aten import OUT, overload
from rushlight.core.registry import REGISTRY, Kind
from rushlight.testing.coverage_rows import is_reachable, rows
from rushlight.testing.measure import witness_text
from rushlight.testing.witness import Witness

aten = rl.ops.aten


def test_d22_operators_are_copied_and_pickled() -> None:
    for operator in (aten.add, aten.add.Tensor, aten.add_.Tensor, aten.add.out, rl.ops.prims.add):
        assert copy.deepcopy(operator) is copy.copy(operator) is operator
        assert pickle.loads(pickle.dumps(operator)) is operator
    for function in (rl.tanh, rl.linalg.inv, rl.special.expit, rl.Tensor.add_, rl.Tensor.new_zeros):
        assert copy.deepcopy(function) is function
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("dtype", ["int64", "float16", "float32"])
def test_d22_a_number_in_the_place_of_a_tensor(name: str, dtype: str) -> None:
    results = []
    for lib in (rl, torch):
        packet = getattr(lib.ops.aten, name)
        operator = packet.Tensor
        x = lib.tensor([5, 7, 9], dtype=getattr(lib, dtype))
        results.append(operator(x, 2.0))
    assert results[0].dtype.name == str(results[1].dtype).removeprefix("torch.")
    np.testing.assert_allclose(results[0].float().numpy(), results[1].float().numpy(), rtol=1e-3)
    with pytest.raises(TypeError):
        aten.maximum.default(rl.ones(2), 1.0)


def test_d25_every_form_that_is_counted_can_be_called_by_name() -> None:
    present = [line for line in rows() if line.present and line.table != "derivatives"]
    assert sum(line.form == "out=" for line in present) > 700
    assert not [line.row for line in present if not is_reachable(line.row)]
    assert sum(line.row.startswith("prims.") for line in present) > 130


def _has_out(op: Any) -> bool:
    return (
        op.kind not in (Kind.VIEW, Kind.SPARSE, Kind.QUANTIZED)
        and len(op.schema.returns) == 1
        and op.schema.returns[0].type.is_tensor
        and not op.random
        and not op.schema.mutable_arguments
        and (op.schema.namespace or "aten") == "aten"
        and op.family not in ("sparse", "nested", "quantization")
    )


@pytest.mark.parametrize("family", sorted({op.family for op in REGISTRY if _has_out(op)}))
def test_d25_out_overloads_write_what_the_operator_computes(family: str) -> None:
    wrong: dict[str, str] = {}
    tried = 0
    for op in REGISTRY:
        if op.family != family or not _has_out(op):
            continue
        try:
            with warnings.catch_warnings(), rl.no_grad():
                warnings.simplefilter("ignore")
                witness = Witness(op, False, witness_text(op, False))
                expected = witness(*witness.leaves)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
            continue  # no witness
        if (
            not isinstance(expected, rl.Tensor)
            or expected.layout is not rl.strided
            or expected.is_nested
            or expected.is_quantized
        ):
            continue
        form = overload(op, OUT)
        kept = set(form.schema.argument_names)
        given = {
            name: value
            for name, value in zip(op.schema.argument_names, witness.values, strict=True)
            if name in kept
        }
        target = form.schema.arguments[-1].name
        out = rl.empty(0, dtype=expected.dtype, device=expected.device)
        tried += 1
        try:
            with warnings.catch_warnings(), rl.no_grad():
                warnings.simplefilter("ignore")
                result = form(**given, **{target: out})
            assert result is out
            if not out.is_meta and not op.schema.name.startswith(("empty", "new_empty", "resize")):
                torch_like = np.asarray(out.detach().resolve_conj().resolve_neg().to(rl.complex128).numpy())
                other = np.asarray(expected.detach().resolve_conj().resolve_neg().to(rl.complex128).numpy())
                np.testing.assert_allclose(torch_like, other, rtol=1e-5, atol=1e-6)
        except Exception as error:
            wrong[op.name] = f"{type(error).__name__}: {error}"[:200]
    assert not wrong
    assert tried


def test_d25_names_of_forms_are_those_of_aten() -> None:
    for ours, theirs in (
        (aten.add.out, torch.ops.aten.add.out),
        (aten.sort.values, torch.ops.aten.sort.values),
        (aten.max.dim_max, torch.ops.aten.max.dim_max),
        (aten.tanh_backward.grad_input, torch.ops.aten.tanh_backward.grad_input),
        (aten.pow_.Scalar, torch.ops.aten.pow_.Scalar),
        (aten.__iand__.Tensor, torch.ops.aten.__iand__.Tensor),
        (aten.sum.IntList_out, torch.ops.aten.sum.IntList_out),
    ):
        assert str(ours._schema) == str(theirs._schema)
        assert ours.name() == theirs.name() and str(ours) == str(theirs)


def test_d25_prims_are_operators() -> None:
    for name in dir(rl.ops.prims):
        theirs = getattr(torch.ops.prims, name, None)
        if theirs is not None:
            assert str(getattr(rl.ops.prims, name).default._schema) == str(theirs.default._schema)
    results = []
    for lib in (rl, torch):
        prims = lib.ops.prims
        x, y = lib.arange(6.0).reshape(2, 3), lib.full((2, 3), 2.0)
        results.append(
            [
                prims.add(x, y),
                prims.sum(x, [0]),
                prims.broadcast_in_dim(x, (2, 4, 3), (0, 2)),
                prims.convert_element_type(x, lib.int32),
                prims.div(x.int(), y.int()),
                prims.iota(4, start=1, step=2, dtype=lib.int64, device="cpu", requires_grad=False),
                prims.var(x, [1], 1),
                prims.rev(x, [1]),
                prims.copy_strided(x, (1, 2)),
            ]
        )
    for ours, theirs in zip(*results, strict=True):
        assert ours.stride() == theirs.stride() and ours.dtype.name == str(theirs.dtype).partition(".")[2]
        np.testing.assert_allclose(ours.numpy(), theirs.numpy())
    for bad in ((rl.ones(3), rl.ones(1)), (rl.ones(3), rl.ones(3, dtype=rl.int64))):
        with pytest.raises(RuntimeError):
            rl.ops.prims.add(*bad)

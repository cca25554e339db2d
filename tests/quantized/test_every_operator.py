"""Every operator with quantized arguments: it gives what it gives for their values, or refuses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import dispatch
from rushlight.core.registry import REGISTRY, Kind, OpDef
from rushlight.testing.plain_calls import plain_outcome, result_tensors

SCALE = 0.25
VALUES = (np.arange(24).reshape(4, 6) % 5 * 0.5 - 0.75).astype(np.float32)
# Whose results are memory as it was found, or tell of tensors and not of values.
UNCOMPARED = ("empty", "new_empty", "_nested", "histogramdd")
FAMILIES = sorted(
    {op.family for op in REGISTRY if op.tensor_positions or op.list_positions} - {"quantization"}
)


def outcome(op: OpDef, first: Any, rest: Any) -> Any:
    return plain_outcome(op, lambda n: rest if n else first, rl.float32)


def agree(mine: Any, theirs: Any) -> bool:
    if tuple(mine.shape) != tuple(theirs.shape):
        return False
    if mine.is_quantized:
        near = np.abs(mine.dequantize().numpy() - theirs.numpy()) <= 0.5 * mine.q_scale() + 1e-6
        return bool(np.all(near))
    equal_nan = mine.dtype.is_floating_point
    return mine.dtype is theirs.dtype and np.array_equal(mine.numpy(), theirs.numpy(), equal_nan=equal_nan)


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_the_values(family):
    dense = rl.tensor(VALUES)
    given = rl.quantize_per_tensor(dense, SCALE, 3, rl.qint8)
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in [op for op in REGISTRY if op.family == family and not op.random]:
            if not (op.tensor_positions or op.list_positions) or op.schema.name.startswith(UNCOMPARED):
                continue
            pairs = {"all": (given, given)}
            if len(op.tensor_positions) + len(op.list_positions) > 1:
                pairs |= {"first": (given, dense), "rest": (dense, given)}
            for which, pair in pairs.items():
                found = outcome(op, *pair)
                expected = None if found is None else outcome(op, dense, dense)
                if found is not None and expected is None:
                    wrong.append(f"{op.name} {which}: refuses the values")
                elif found is not None and not all(
                    map(agree, result_tensors(found), result_tensors(expected))
                ):
                    wrong.append(f"{op.name} {which}")
    assert not wrong


def test_every_quantized_operator_has_a_kernel():
    assert not [op.name for op in REGISTRY if op.kind is Kind.QUANTIZED and op.quantized is None]
    assert not [op.name for op in REGISTRY if op.kind is Kind.QUANTIZED and op.body is not None]


def test_plain_calls_do_not_look_at_grids(monkeypatch):
    """The way of plain tensors through dispatch is what it was: the branch is behind their keys."""
    monkeypatch.setattr(dispatch, "_run_quantized", lambda *args: pytest.fail("looked at grids"))
    x = rl.ones(3, requires_grad=True)
    (x * 2 + 1).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]

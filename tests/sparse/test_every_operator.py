"""Every operator with sparse arguments: it gives what it gives for strided ones, or refuses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import dispatch
from rushlight.core.registry import REGISTRY, Kind, OpDef
from rushlight.testing.plain_calls import REFUSALS, plain_arguments, plain_outcome, result_tensors

VALUES = np.arange(24).reshape(4, 6) % 3 * 1.0
# Whose results are memory as it was found, or not tensors; or which fill what is stored, as in PyTorch.
UNCOMPARED = ("empty", "new_empty", "_nested", "_fused", "histogramdd", "ones_like", "full_like")
FAMILIES = sorted({op.family for op in REGISTRY if op.tensor_positions or op.list_positions})


def outcome(op: OpDef, sparse: Any, dense: Any, which: int | str) -> Any:
    """Of a call with `sparse` for all tensors or for the one numbered `which`."""
    return plain_outcome(op, lambda n: sparse if which in ("all", n) else dense, rl.float64)


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_strided_tensors(family):
    dense = rl.tensor(VALUES)
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in [op for op in REGISTRY if op.family == family and not op.random]:
            if not (op.tensor_positions or op.list_positions) or op.schema.name.startswith(UNCOMPARED):
                continue
            for layout, which in ((rl.sparse_coo, "all"), (rl.sparse_coo, 1), (rl.sparse_csr, "all")):
                found = outcome(op, dense.to_sparse(layout=layout), dense, which)
                expected = None if found is None else outcome(op, dense, dense, which)
                if expected is None:
                    continue
                for mine, theirs in zip(result_tensors(found), result_tensors(expected), strict=True):
                    mine, theirs = (t.to_dense().resolve_conj().resolve_neg() for t in (mine, theirs))
                    if mine.shape != theirs.shape or not np.allclose(
                        mine.numpy(), theirs.numpy(), equal_nan=True
                    ):
                        wrong.append(f"{op.name} {layout} {which}")
    assert not wrong


@pytest.mark.parametrize("layout", [rl.sparse_coo, rl.sparse_bsr], ids=str)
def test_backward_gives_a_gradient_or_refuses(layout):
    """Of every operator that runs on a sparse leaf, some gradient comes back or is refused in words."""
    dense = rl.tensor(VALUES)
    block = (2, 3) if layout is rl.sparse_bsr else None
    reached = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in [op for op in REGISTRY if op.tensor_positions and not op.random]:
            leaf = dense.to_sparse(layout=layout, blocksize=block).requires_grad_()
            try:
                result = dispatch.call(
                    op, plain_arguments(op, lambda n, leaf=leaf: dense.clone() if n else leaf, rl.float64)
                )
                for tensor in result_tensors(result):
                    if tensor.requires_grad and not tensor.is_nested:
                        tensor.backward(rl.ones(tuple(tensor.shape), dtype=tensor.dtype), retain_graph=True)
                        reached += leaf.grad is not None
            except REFUSALS:
                continue
    assert reached > 50


def test_a_refusal_says_what_to_do():
    sparse = rl.tensor(VALUES).to_sparse()
    with pytest.raises(
        NotImplementedError, match=r"exp is not implemented for .*sparse_coo; call \.to_dense\(\)"
    ):
        sparse.exp()
    with pytest.raises(NotImplementedError, match=r"permute is not implemented for .*sparse_csr"):
        sparse.to_sparse_csr().permute(1, 0)


def test_every_sparse_operator_has_a_kernel():
    assert not [op.name for op in REGISTRY if op.kind is Kind.SPARSE and op.sparse is None]
    assert not [op.name for op in REGISTRY if op.kind is Kind.SPARSE and op.body is not None]


def test_strided_calls_do_not_look_at_layouts(monkeypatch):
    """The way of plain tensors through dispatch is what it was: the sparse branch is behind their keys."""
    monkeypatch.setattr(dispatch, "_run_sparse", lambda *args: pytest.fail("looked at layouts"))
    x = rl.ones(3, requires_grad=True)
    (x * 2 + 1).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]

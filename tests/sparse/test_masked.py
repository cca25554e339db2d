"""Masked reductions of sparse tensors, against PyTorch."""

from __future__ import annotations

import itertools

import pytest
import torch

import rushlight as rl

MASK = [
    [True, True, False, False, True, False],
    [True, False, False, True, False, False],
    [False, False, False, False, False, False],
    [False, True, True, True, False, True],
]
NAMES = ("sum", "prod", "amax", "amin", "mean")
CALLS = list(itertools.product(NAMES, (None, 0, 1, -1, (0, 1)), (False, True)))


def reduce(L, name, tensor, dim, keepdim, mask=None, dtype=None):
    options = {} if mask is None else {"mask": mask}
    return getattr(L.masked, name)(tensor, dim, keepdim=keepdim, dtype=dtype, **options)


@pytest.mark.parametrize("masked_by", ["strided", "coo", "csr"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("kind", ["coo", "csr", "uncoalesced"])
def test_reductions_with_a_mask(kind, dtype, masked_by, make, agree_or_refuse):
    def scenario(L, name, dim, keepdim):
        mask = L.tensor(MASK)
        mask = mask if masked_by == "strided" else mask.to_sparse(layout=getattr(L, f"sparse_{masked_by}"))
        return reduce(L, name, make(L, kind, dtype), dim, keepdim, mask)

    compared = [call for call in CALLS if agree_or_refuse(scenario, *call)]
    names = {name for name, *_ in compared}
    if masked_by in ("strided", kind):
        assert len(compared) >= (16 if kind == "csr" else 40)
        assert {"sum", "prod", "amax", "amin"} <= names


@pytest.mark.parametrize("kind", ["coo", "csr", "uncoalesced", "hybrid", "none"])
def test_sums_without_a_mask(kind, make, agree_or_refuse):
    compared = [
        agree_or_refuse(lambda L, d=d, k=k: reduce(L, "sum", make(L, kind), d, k))
        for d, k in itertools.product((None, 0, 1, (0, 1)), (False, True))
    ]
    assert sum(compared) == (4 if kind == "csr" else 8)


def test_other_dtypes(make, agree):
    agree(lambda L: reduce(L, "sum", make(L, "coo", "int64"), 0, True, L.tensor(MASK), L.float64))
    agree(lambda L: reduce(L, "prod", make(L, "csr", "float64"), 1, True, L.tensor(MASK), L.float32))


def test_what_is_refused(make, refuse_alike):
    for name in ("prod", "amax", "amin", "mean"):
        refuse_alike(lambda L, name=name: reduce(L, name, make(L, "csr"), 0, True))
    for kind in ("csc", "bsr"):
        refuse_alike(lambda L, kind=kind: reduce(L, "sum", make(L, kind), 0, True))
    refuse_alike(lambda L: reduce(L, "sum", make(L, "csr"), 0, False))
    refuse_alike(lambda L: L.masked.norm(make(L, "coo"), 2, 0))


def test_gradients_flow_to_the_stored_elements():
    """Beyond PyTorch, whose sparse ones have none."""
    values = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    places = [[0, 0, 1, 3], [0, 1, 3, 2]]
    for name in ("sum", "prod", "amax", "mean"):
        dense = torch.zeros(4, 6, dtype=torch.float64)
        leaf = values.clone().requires_grad_()
        dense[places[0], places[1]] = leaf
        getattr(torch.masked, name)(dense, 1, mask=torch.tensor(MASK))[[0, 1, 3]].sum().backward()
        mine = rl.sparse_coo_tensor(places, values.tolist(), (4, 6), dtype=rl.float64).coalesce()
        mine.requires_grad_()
        getattr(rl.masked, name)(mine, 1, mask=rl.tensor(MASK)).to_dense().sum().backward()
        assert mine.grad.to_dense()[places[0], places[1]].tolist() == leaf.grad.tolist(), name

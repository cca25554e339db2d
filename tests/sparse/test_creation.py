"""zeros, empty and their kin with a sparse layout, and like a sparse tensor, against PyTorch."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.capture.errors import CaptureError

MADE = {
    "zeros coo": lambda L: L.zeros(2, 3, layout=L.sparse_coo),
    "zeros coo dtype": lambda L: L.zeros((2, 3), dtype=L.int64, layout=L.sparse_coo),
    "zeros coo 0-d": lambda L: L.zeros((), layout=L.sparse_coo),
    "zeros coo empty": lambda L: L.zeros(0, 2, layout=L.sparse_coo),
    "zeros csr": lambda L: L.zeros(2, 3, layout=L.sparse_csr),
    "zeros csc": lambda L: L.zeros(2, 3, layout=L.sparse_csc, dtype=L.complex128),
    "zeros csr batch": lambda L: L.zeros(2, 3, 4, layout=L.sparse_csr),
    "zeros csr no rows": lambda L: L.zeros(0, 4, layout=L.sparse_csr),
    "zeros strided": lambda L: L.zeros(2, 3, layout=L.strided),
    "empty coo": lambda L: L.empty(2, 3, layout=L.sparse_coo),
    "zeros_like strided coo": lambda L: L.zeros_like(L.ones(2, 3), layout=L.sparse_coo),
    "zeros_like strided csc": lambda L: L.zeros_like(L.ones(2, 3), layout=L.sparse_csc, dtype=L.int64),
    "new_zeros strided coo": lambda L: L.ones(2, 3).new_zeros((3, 4), layout=L.sparse_coo),
    "zeros + sparse": lambda L: L.zeros(2, 3, layout=L.sparse_coo) + L.ones(2, 3).to_sparse(),
    "empty csr with": lambda L: L.zeros(2, 3, layout=L.sparse_csr) @ L.ones(3, 2),
}
REFUSED = {
    "bsr": lambda L: L.zeros(2, 3, layout=L.sparse_bsr),
    "empty bsr": lambda L: L.empty(2, 3, layout=L.sparse_bsr),
    "csr of one dimension": lambda L: L.zeros(3, layout=L.sparse_csr),
    "negative size": lambda L: L.zeros(-1, 2, layout=L.sparse_coo),
    "negative rows": lambda L: L.zeros(-1, 2, layout=L.sparse_csr),
    "text": lambda L: L.zeros(2, 3, layout="sparse_coo"),
    "rand": lambda L: L.rand(2, 3, layout=L.sparse_coo),
    "eye": lambda L: L.eye(2, 3, layout=L.sparse_coo),
    "ones_like": lambda L: L.ones_like(L.ones(2, 3), layout=L.sparse_coo),
    "empty_like": lambda L: L.empty_like(L.ones(2, 3), layout=L.sparse_coo),
}
LIKE = {
    "zeros_like": lambda L, s: L.zeros_like(s),
    "zeros_like dtype": lambda L, s: L.zeros_like(s, dtype=L.complex64),
    "zeros_like coo": lambda L, s: L.zeros_like(s, layout=L.sparse_coo),
    "zero_": lambda L, s: s.clone().zero_(),
    "ones_like": lambda L, s: L.ones_like(s),
    "full_like": lambda L, s: L.full_like(s, 2),
    "new_zeros": lambda L, s: s.new_zeros((2, 2)),
    "new_zeros strided": lambda L, s: s.new_zeros((2, 2), layout=L.strided),
    "new_zeros coo": lambda L, s: s.new_zeros((2, 2), layout=L.sparse_coo, dtype=L.int64),
    "new_zeros csc": lambda L, s: s.new_zeros((2, 2), layout=L.sparse_csc),
}


@pytest.mark.parametrize("name", MADE)
def test_made(name, agree):
    agree(MADE[name], members=True)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, refuse_alike):
    refuse_alike(REFUSED[name])


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr", "bsc", "hybrid"])
def test_like_a_sparse_tensor(kind, make, agree_or_refuse):
    compared = [
        name
        for name, scenario in LIKE.items()
        if agree_or_refuse(
            lambda library, scenario=scenario: scenario(library, make(library, kind)), members=True
        )
    ]
    assert {"zeros_like", "zeros_like dtype", "zero_", "new_zeros strided"} <= set(compared)
    assert ("ones_like" in compared) is (kind not in ("coo", "hybrid"))


def test_compressed_batches_are_emptied(agree):
    agree(lambda L: L.zeros_like(L.ones(2, 3, 4).to_sparse_csr()), members=True)
    agree(lambda L: L.ones(2, 4, 4).to_sparse_bsr((2, 2)).zero_(), members=True)


def test_requires_grad(agree):
    def scenario(L):
        made = L.zeros(2, 3, layout=L.sparse_coo, requires_grad=True)
        return made.is_leaf, made.requires_grad, (made * 2).requires_grad

    agree(scenario)


def test_a_sparse_result_has_no_place_in_a_graph():
    compiled = rl.compile(lambda x: rl.zeros(2, 3, layout=rl.sparse_coo).to_dense() + x)
    assert compiled(rl.ones(2, 3)).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert len(compiled.eager) == 1
    whole = rl.compile(lambda x: x + rl.zeros(2, 3, layout=rl.sparse_csr).to_dense(), fullgraph=True)
    with pytest.raises(CaptureError, match="zeros makes or takes a sparse tensor"):
        whole(rl.ones(2, 3))


def test_there_are_none_on_the_meta_device():
    with pytest.raises(NotImplementedError, match="meta"):
        rl.zeros(2, 3, layout=rl.sparse_coo, device="meta")
    with pytest.raises(NotImplementedError, match="meta"):
        rl.zeros_like(rl.ones(2, 3), layout=rl.sparse_csr, device="meta")

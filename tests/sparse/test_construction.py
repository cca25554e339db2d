"""Making, printing and changing sparse tensors, against PyTorch."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import rushlight as rl

CSR = ([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0])

CONSTRUCTIONS = {
    "coo": lambda L: L.sparse_coo_tensor(L.tensor([[0, 1, 1], [2, 0, 2]]), L.tensor([3.0, 4.0, 5.0]), (2, 3)),
    "coo lists": lambda L: L.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3, 4, 5], (2, 4), dtype=L.float64),
    "coo inferred": lambda L: L.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0]),
    "coo duplicates": lambda L: L.sparse_coo_tensor(
        [[1, 1, 0], [2, 2, 0]], [3.0, 4.0, 5.0], (2, 3)
    ).coalesce(),
    "coo said": lambda L: L.sparse_coo_tensor([[0, 1], [1, 0]], [1, 2], (2, 2), is_coalesced=True),
    "coo hybrid": lambda L: L.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)),
    "coo dense only": lambda L: L.sparse_coo_tensor(
        L.zeros((0, 2), dtype=L.int64), [[1.0, 2.0], [3.0, 4.0]], (2,)
    ),
    "coo empty": lambda L: L.sparse_coo_tensor((2, 3)),
    "coo 0 size": lambda L: L.sparse_coo_tensor((2, 0, 3)),
    "coo no elements": lambda L: L.sparse_coo_tensor(L.zeros((2, 0), dtype=L.int64), L.zeros(0), (2, 3)),
    "coo scalar": lambda L: L.sparse_coo_tensor(L.zeros((0, 1), dtype=L.int64), [2.0], ()),
    "coo bool": lambda L: L.sparse_coo_tensor([[0, 0]], [True, True], (2,)).coalesce(),
    "coo complex": lambda L: L.sparse_coo_tensor([[0, 1]], [1 + 2j, 3j], (2,), dtype=L.complex128),
    "csr": lambda L: L.sparse_csr_tensor(*CSR, (2, 3)),
    "csr inferred": lambda L: L.sparse_csr_tensor(*CSR),
    "csr dtype": lambda L: L.sparse_csr_tensor(*CSR, (2, 3), dtype=L.complex128),
    "csr names": lambda L: L.sparse_csr_tensor(
        crow_indices=[0, 1], col_indices=[0], values=[1.0], size=(1, 2)
    ),
    "csr int32": lambda L: L.sparse_csr_tensor(
        *[L.tensor(i, dtype=L.int32) for i in CSR[:2]], L.tensor(CSR[2]), (2, 3)
    ),
    "csr batch": lambda L: L.sparse_csr_tensor(
        [[0, 1, 2], [0, 0, 2]], [[0, 1], [0, 1]], [[1, 2], [3, 4]], (2, 2, 2)
    ),
    "csr dense": lambda L: L.sparse_csr_tensor([0, 1, 2], [0, 1], [[1.0, 2.0], [3.0, 4.0]], (2, 2, 2)),
    "csc": lambda L: L.sparse_csc_tensor([0, 1, 1, 2], [1, 0], [1.0, 2.0], (2, 3)),
    "bsr": lambda L: L.sparse_bsr_tensor([0, 1, 2], [1, 0], L.arange(8).reshape(2, 2, 2), (4, 4)),
    "bsc": lambda L: L.sparse_bsc_tensor([0, 1, 2], [1, 0], L.arange(12).reshape(2, 2, 3), (4, 6)),
    "compressed": lambda L: L.sparse_compressed_tensor(*CSR, (2, 3), layout=L.sparse_csr),
    "spdiags": lambda L: L.sparse.spdiags(L.arange(9.0).reshape(3, 3) + 1, L.tensor([0, -1, 2]), (3, 4)),
    "spdiags csr": lambda L: L.sparse.spdiags(L.ones(2, 3), L.tensor([0, 1]), (3, 3), L.sparse_csr),
    "to_sparse": lambda L: L.eye(3).to_sparse(),
    "to_sparse 1": lambda L: L.eye(3).to_sparse(1),
    "to_sparse dense_dim": lambda L: L.ones(2, 3, 2).to_sparse_csr(dense_dim=1),
    "to_sparse layout": lambda L: L.eye(4).to_sparse(layout=L.sparse_bsc, blocksize=(2, 2)),
    "to_sparse batch": lambda L: L.stack([L.eye(3), 2 * L.eye(3)]).to_sparse_csc(),
    "to_sparse nothing": lambda L: L.zeros(3, 4).to_sparse_csr(),
    "0 rows": lambda L: L.zeros(0, 4).to_sparse_csr(),
    "0-d": lambda L: L.tensor(2.0).to_sparse(),
    "empty coo": lambda L: L.zeros(0, 3).to_sparse(),
    "float indices": lambda L: L.sparse_coo_tensor(L.tensor([[0.0, 1.0]]), [1.0, 2.0], (2,)),
    "nan": lambda L: L.tensor([0.0, float("nan"), -0.0, 1.0]).to_sparse(),
}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_construction(name, agree):
    agree(lambda L: CONSTRUCTIONS[name](L), members=True)
    agree(lambda L: [made.sparse_dim() for made in [CONSTRUCTIONS[name](L)]])
    agree(
        lambda L: [
            f(made)
            for made in [CONSTRUCTIONS[name](L)]
            for f in (
                lambda t: t.dense_dim(),
                lambda t: t._nnz(),
                lambda t: t.is_sparse,
                lambda t: t.is_sparse_csr,
                lambda t: t.numel(),
                lambda t: t.dim(),
                lambda t: t.is_coalesced() if t.is_sparse else None,
            )
        ]
    )


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_repr(name):
    assert repr(CONSTRUCTIONS[name](rl)).replace("rushlight.", "torch.") == repr(CONSTRUCTIONS[name](torch))


def test_repr_of_history():
    for library in (torch, rl):
        leaf = CONSTRUCTIONS["coo"](library).requires_grad_()
        assert repr(leaf).endswith("requires_grad=True)")
        assert "grad_fn=<" in repr(leaf * 2)


REFUSED = {
    "negative index": lambda L: L.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (2,), check_invariants=True),
    "index too large": lambda L: L.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (2,), check_invariants=True),
    "not coalesced": lambda L: L.sparse_coo_tensor(
        [[0, 0]], [1.0, 2.0], (2,), is_coalesced=True, check_invariants=True
    ),
    "numbers differ": lambda L: L.sparse_coo_tensor([[0, 1]], [1.0, 2.0, 3.0], (2,)),
    "dims differ": lambda L: L.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2, 3)),
    "1-d indices": lambda L: L.sparse_coo_tensor(L.tensor([0, 1]), [1.0, 2.0], (2,)),
    "csr start": lambda L: L.sparse_csr_tensor(
        [1, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3), check_invariants=True
    ),
    "csr end": lambda L: L.sparse_csr_tensor(
        [0, 1, 2], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3), check_invariants=True
    ),
    "csr falls": lambda L: L.sparse_csr_tensor(
        [0, 2, 1, 3], [0, 1, 2], [3.0, 4.0, 5.0], (3, 3), check_invariants=True
    ),
    "csr column": lambda L: L.sparse_csr_tensor(
        [0, 1, 3], [2, 0, 3], [3.0, 4.0, 5.0], (2, 3), check_invariants=True
    ),
    "csr unsorted": lambda L: L.sparse_csr_tensor(
        [0, 1, 3], [2, 2, 0], [3.0, 4.0, 5.0], (2, 3), check_invariants=True
    ),
    "csr twice": lambda L: L.sparse_csr_tensor(
        [0, 1, 3], [2, 1, 1], [3.0, 4.0, 5.0], (2, 3), check_invariants=True
    ),
    "csr rows": lambda L: L.sparse_csr_tensor(
        [0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (3, 3), check_invariants=True
    ),
    "bsr blocks": lambda L: L.sparse_bsr_tensor([0, 1], [0], L.ones(1, 2, 2), (2, 3), check_invariants=True),
    "batch lengths": lambda L: L.stack([L.eye(2), L.ones(2, 2)]).to_sparse_csr(),
    "blocks": lambda L: L.ones(3, 4).to_sparse_bsr((2, 2)),
    "1-d csr": lambda L: L.ones(3, 2).to_sparse_csr(dense_dim=1),
    "no blocksize": lambda L: L.ones(4, 4).to_sparse(layout=L.sparse_bsr),
    "values": lambda L: L.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,)).values(),
    "indices": lambda L: L.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,)).indices(),
    "crow of coo": lambda L: L.eye(2).to_sparse().crow_indices(),
    "indices of csr": lambda L: L.eye(2).to_sparse_csr().indices(),
    "of strided": lambda L: L.eye(2).values(),
    "coalesce": lambda L: L.eye(2).to_sparse_csr().coalesce(),
    "is_coalesced": lambda L: L.eye(2).is_coalesced(),
    "numpy": lambda L: L.eye(2).to_sparse().numpy(),
    "_nnz": lambda L: L.eye(2)._nnz(),
    "storage": lambda L: L.eye(2).to_sparse().untyped_storage(),
    "data_ptr": lambda L: L.eye(2).to_sparse().data_ptr(),
    "csr stride": lambda L: L.eye(2).to_sparse_csr().stride(),
    "item": lambda L: L.eye(2).to_sparse().item(),
    "eq": lambda L: L.eye(2).to_sparse() == 1,
    "reshape": lambda L: L.eye(2).to_sparse().reshape(4),
    "add number": lambda L: L.eye(2).to_sparse() + 1,
    "add dense": lambda L: L.eye(2).to_sparse() + L.eye(2),
    "add sizes": lambda L: L.eye(2).to_sparse() + L.eye(3).to_sparse(),
    "pow 0": lambda L: L.eye(2).to_sparse() ** 0,
    "div": lambda L: L.eye(2).to_sparse() / L.ones(2, 2),
    "mm sizes": lambda L: L.eye(2).to_sparse() @ L.ones(3, 2),
    "mm dtypes": lambda L: L.eye(2).to_sparse() @ L.ones(2, 2, dtype=L.float64),
    "select": lambda L: L.eye(2).to_sparse()[2],
    "copy_": lambda L: L.eye(2).to_sparse().copy_(L.eye(2)),
    "sum dim": lambda L: L.eye(2).to_sparse().sum(2),
    "csr sum": lambda L: L.eye(2).to_sparse_csr().sum(0),
    "softmax": lambda L: L.sparse.softmax(L.eye(2).to_sparse(), 2),
    "mask sizes": lambda L: L.eye(2).sparse_mask(L.eye(3).to_sparse()),
    "shrink": lambda L: L.eye(3).to_sparse().sparse_resize_((2, 3), 2, 0),
    "permute": lambda L: L.eye(2).to_sparse(1).permute(1, 0),
    "cat dense": lambda L: L.cat([L.eye(2).to_sparse(), L.eye(2)]),
    "int leaf": lambda L: L.eye(2, dtype=L.int64).to_sparse().requires_grad_(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_of_the_same_type(name, refuse_alike):
    refuse_alike(REFUSED[name])


def test_invariants_are_checked_when_asked():
    wrong = [[0, 5]], [1.0, 2.0], (2,)
    assert not rl.sparse.check_sparse_tensor_invariants.is_enabled()
    made = rl.sparse_coo_tensor(*wrong)  # nobody asked
    with pytest.raises(IndexError, match="index 5 in dimension 0"):
        made.to_dense()
    with rl.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="found index 5"):
        rl.sparse_coo_tensor(*wrong)
    with rl.sparse.check_sparse_tensor_invariants():
        rl.sparse_coo_tensor(*wrong, check_invariants=False)
    assert not rl.sparse.check_sparse_tensor_invariants.is_enabled()

    @rl.sparse.check_sparse_tensor_invariants()
    def build():
        return rl.sparse_coo_tensor(*wrong)

    with pytest.raises(RuntimeError, match="found index 5"):
        build()
    rl.sparse.check_sparse_tensor_invariants.enable()
    try:
        with pytest.raises(RuntimeError, match="plain_indices"):
            rl.sparse_csr_tensor([0, 1], [7], [1.0], (1, 2))
    finally:
        rl.sparse.check_sparse_tensor_invariants.disable()


def test_wrong_compressed_indices_never_reach_a_library():
    for starts, columns in (([0, 9], [0]), ([0, 1], [7]), ([1, 1], [0]), ([0, 1], [-1])):
        wrong = rl.sparse_csr_tensor(starts, columns, [1.0], (1, 2))
        with pytest.raises(RuntimeError, match="sparse_csr tensor"):
            wrong @ rl.ones(2, 2)
        with pytest.raises(RuntimeError, match="sparse_csr tensor"):
            wrong.to_dense()


def test_members_share_memory(agree):
    def scenario(library):
        made = CONSTRUCTIONS["coo"](library).coalesce()
        made._values().mul_(2)
        made.values().add_(1)
        return made, made.detach()

    agree(scenario)


def test_resize(agree):
    def scenario(library):
        made = library.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
        grown = made.clone().sparse_resize_((4, 2), 1, 1)
        cleared = made.clone().sparse_resize_and_clear_((2, 2, 2), 2, 1)
        like = library.sparse_coo_tensor((5, 2)).sparse_resize_((5, 2), 1, 1).resize_as_sparse_(grown)
        return grown, cleared, like

    agree(scenario, members=True)


@pytest.mark.parametrize("name", ["coo", "csr", "csc", "bsr", "bsc", "coo hybrid"])
def test_copies(name):
    made = CONSTRUCTIONS[name](rl)
    again = pickle.loads(pickle.dumps(made))
    deep = copy.deepcopy(made)
    for other in (again, deep, made.clone(), made.detach().clone()):
        assert other.layout is made.layout and other.shape == made.shape and other.dtype is made.dtype
        assert other.to_dense().tolist() == made.to_dense().tolist()
    deep.mul_(2)
    assert made.to_dense().tolist() == again.to_dense().tolist()
    made.data = made * 3
    assert made.to_dense().tolist() == (again * 3).to_dense().tolist()

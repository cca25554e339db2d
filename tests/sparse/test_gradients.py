"""Gradients of sparse tensors: against PyTorch, layouts included, and against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "to_dense": lambda L, s, d: (s.to_dense() * d).sum(),
    "to_dense masked": lambda L, s, d: (s.to_dense(masked_grad=True) * d).sum(),
    "to_dense unmasked": lambda L, s, d: (s.to_dense(masked_grad=False) * d).sum(),
    "values": lambda L, s, d: (s.values() ** 2).sum(),
    "sum": lambda L, s, d: s.sum(),
    "sparse.mm": lambda L, s, d: (L.sparse.mm(s, d.t()) ** 2).sum(),
    "mm": lambda L, s, d: (s @ d.t()).sum(),
    "mv": lambda L, s, d: (s @ d[0]).sum(),
    "addmm": lambda L, s, d: L.addmm(d[:, :4], s, d.t()).sum(),
    "sparse.addmm": lambda L, s, d: L.sparse.addmm(d[:, :4], s, d.t(), beta=2.0, alpha=3.0).sum(),
    "sparse.mm ss": lambda L, s, d: L.sparse.mm(s, s.t()).to_dense().sum(),
    "mul scalar": lambda L, s, d: ((s * 3).to_dense() * d).sum(),
    "neg": lambda L, s, d: ((-s).to_dense() * d).sum(),
    "add": lambda L, s, d: (d + s).sum(),
    "s + s": lambda L, s, d: ((s + s * 2).to_dense() * d).sum(),
    "mul": lambda L, s, d: ((s * d).to_dense() * d).sum(),
    "mul ss": lambda L, s, d: (s * s).to_dense().sum(),
    "t": lambda L, s, d: (s.t().to_dense() * d.t()).sum(),
    "clone": lambda L, s, d: s.clone().to_dense().sum(),
    "cast": lambda L, s, d: s.to(L.float32).to_dense().sum(),
    "abs": lambda L, s, d: s.abs().to_dense().sum(),
    "sparse.sum": lambda L, s, d: (L.sparse.sum(s, 0).to_dense() ** 2).sum(),
    "sparse.sum all": lambda L, s, d: L.sparse.sum(s) ** 2,
    "softmax": lambda L, s, d: (L.sparse.softmax(s, 1).to_dense() * d).sum(),
    "log_softmax": lambda L, s, d: (L.sparse.log_softmax(s, 0).to_dense() * d).sum(),
    "sparse_mask": lambda L, s, d: ((d * d).sparse_mask(s.detach()).to_dense() * d).sum(),
    "to_sparse": lambda L, s, d: ((d * d).to_sparse().to_dense() * d).sum(),
    "to_sparse_csr": lambda L, s, d: ((d * d).to_sparse_csr().to_dense() * d).sum(),
    "csr of s": lambda L, s, d: (s.to_sparse_csr().to_dense() * d).sum(),
    "coo of s": lambda L, s, d: (s.to_sparse().to_dense() * d).sum(),
    "detached": lambda L, s, d: L.sparse.mm(s, d.t().detach()).sum(),
    "sampled": lambda L, s, d: (L.sparse.sampled_addmm(s, d[:, :4], d, beta=2.0).to_dense() * d).sum(),
    "index_select": lambda L, s, d: s.index_select(0, L.tensor([1, 1, 3])).to_dense().sum(),
    "cat": lambda L, s, d: (L.cat([s, s * 2]).to_dense() ** 2).sum(),
    "constructor": lambda L, s, d: rebuilt(L, s, d[0, :3]),
}


def rebuilt(library: Any, sparse: Any, values: Any) -> Any:
    """A function of the values of a tensor of coordinates."""
    made = library.sparse_coo_tensor(library.tensor([[0, 1, 1], [2, 0, 0]]), values, (2, 3))
    return (made.to_dense() ** 2).sum() + sparse.to_dense().sum()


@pytest.mark.parametrize("kind", (*LAYOUTS, "uncoalesced"))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_torch(name, kind, make, agree_or_refuse):
    def scenario(library):
        sparse = make(library, kind).clone().requires_grad_()
        dense = (make(library, "strided") + 1).requires_grad_()
        FUNCTIONS[name](library, sparse, dense).backward()
        return sparse.grad if sparse.grad is None else sparse.grad.to_dense(), dense.grad

    agree_or_refuse(scenario)


def test_gradients_that_torch_gives_are_many(make, agree_or_refuse):
    def scenario(library, name):
        sparse = make(library, "coo").clone().requires_grad_()
        dense = (make(library, "strided") + 1).requires_grad_()
        FUNCTIONS[name](library, sparse, dense).backward()
        return [sparse.grad, dense.grad]

    compared = [name for name in FUNCTIONS if agree_or_refuse(scenario, name)]
    assert len(compared) > 25, sorted(set(FUNCTIONS) - set(compared))


# Finite differences.


def leaf(kind: str, dtype: Any, make: Callable[..., Any]) -> Any:
    if kind == "hybrid":
        return make(rl, "hybrid", "float64", (2, 2, 3)).to(dtype).requires_grad_()
    if kind == "batch":
        return make(rl, "csr", "float64", (2, 2, 3)).to(dtype).requires_grad_()
    dense = rl.tensor([[0.4, 0.0, -0.7, 0.2], [0.0, 0.9, 0.0, -0.3]], dtype=dtype)
    if kind == "uncoalesced":
        found = dense.to_sparse()
        return rl.sparse_coo_tensor(
            rl.cat([found.indices()] * 2, 1), rl.cat([found.values()] * 2), (2, 4)
        ).requires_grad_()
    block = (1, 2) if kind in ("bsr", "bsc") else None
    return dense.to_sparse(layout=getattr(rl, f"sparse_{kind}"), blocksize=block).requires_grad_()


UNARY_CHECKS: dict[str, Callable[[Any], Any]] = {
    "sin": lambda s: s.sin(),
    "in place": lambda s: s.clone().tanh_().mul_(2),
    "pow": lambda s: s**3,
    "sum of products": lambda s: s * s + s,
    "transposed": lambda s: s.transpose(
        *((1, 2) if s.layout is rl.sparse_csr and s.ndim == 3 else (0, 1))
    ).sin(),
    "values": lambda s: s.coalesce().values().exp() if s.is_sparse else s.values().exp(),
    "dense": lambda s: s.to_dense().exp(),
    "unmasked": lambda s: s.to_dense(masked_grad=False).sin(),
    "sum": lambda s: s.sum() ** 2,
    "coordinates": lambda s: s.to_sparse_coo().sin(),
    "halved": lambda s: s / 2,
    "norm": lambda s: s.norm(),
    "select": lambda s: s[1],
}


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kind", (*LAYOUTS, "uncoalesced", "hybrid", "batch"))
def test_functions_of_one_tensor(kind, masked, make):
    for dtype in (rl.float64, rl.complex128):
        for name, function in UNARY_CHECKS.items():
            inputs = (leaf(kind, dtype, make),)
            assert gradcheck(function, inputs, masked=masked, check_forward_ad=True, fast_mode=True), name
            assert gradgradcheck(function, inputs, masked=masked, fast_mode=True), name


@pytest.mark.parametrize("kind", (*LAYOUTS, "uncoalesced"))
def test_functions_of_two_tensors(kind, make):
    sparse = leaf(kind, rl.float64, make)
    tall = rl.tensor([[0.1, 0.2], [0.5, -0.3], [0.7, 0.9], [-0.2, 0.4]], dtype=rl.float64, requires_grad=True)
    same = rl.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]], dtype=rl.float64, requires_grad=True)
    for function, inputs in {
        "mm": (lambda s, d: s @ d, (sparse, tall)),
        "masked mm": (rl.sparse.mm, (sparse, tall)),
        "mul": (lambda s, d: s * d, (sparse, same)),
        "sub": (lambda s, d: d - s, (sparse, same)),
        "mask": (lambda s, d: d.sparse_mask(s.detach()), (sparse, same)),
        "ss": (lambda s, d: rl.sparse.mm(s, s.t()), (sparse, same)),
    }.values():
        assert gradcheck(function, inputs, masked=True, check_forward_ad=True)
        assert gradgradcheck(function, inputs, masked=True, fast_mode=True)
        assert gradgradcheck(
            function, inputs, masked=True, fast_mode=True, check_fwd_over_rev=True, check_rev_over_rev=False
        )


def test_gradients_accumulate():
    """Sparse on sparse stays sparse; a strided one makes the sum strided, whichever comes first."""
    for library in (torch, rl):
        for order in (1, -1):
            table = library.ones(4, 2, requires_grad=True)
            steps = [
                lambda t=table, L=library: L.nn.functional.embedding(L.tensor([1, 1]), t, sparse=True).sum(),
                lambda t=table: (t * t).sum(),
            ]
            for step in steps[::order]:
                step().backward()
            assert not table.grad.is_sparse and table.grad[1, 0].item() == 4.0
        table = library.ones(4, 2, requires_grad=True)
        for _ in range(2):
            library.nn.functional.embedding(library.tensor([1, 3]), table, sparse=True).sum().backward()
        assert table.grad.is_sparse and table.grad.to_dense()[:, 0].tolist() == [0.0, 2.0, 0.0, 2.0]


def test_a_write_after_the_structure_was_used_does_no_harm():
    """PyTorch refuses this backward, though it needs nothing that was overwritten."""
    values = rl.tensor([1.0, 2.0, 3.0], requires_grad=True)
    made = rl.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], values * 2, (2, 3), is_coalesced=True)
    made.mul_(3)
    made.to_dense().pow(2).sum().backward()
    assert values.grad.tolist() == [72.0, 144.0, 216.0]


def test_a_write_to_what_was_saved_is_noticed():
    values = rl.tensor([1.0, 2.0], requires_grad=True)
    made = rl.sparse_coo_tensor([[0, 1], [2, 0]], values * 2, (2, 3), is_coalesced=True)
    result = made.sin().to_dense().sum()
    made._values().mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()

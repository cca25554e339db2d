"""Operators on sparse tensors of every layout and dtype, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
KINDS = (*LAYOUTS, "uncoalesced", "hybrid", "none")
DTYPES = ("float64", "complex128", "float32", "int64", "bool")

# Functions of a library, a sparse tensor of shape (4, 6), and a strided one of the same shape.
UNARY = (
    "abs",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "deg2rad",
    "erf",
    "erfinv",
    "expm1",
    "floor",
    "frac",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "log1p",
    "neg",
    "nan_to_num",
    "positive",
    "rad2deg",
    "relu",
    "round",
    "sgn",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "conj_physical",
    "coalesce",
    "clone",
    "detach",
    "to_dense",
    "t",
    "any",
    "norm",
    "sum",
    "angle",
    "is_coalesced",
    "values",
    "indices",
    "_values",
    "_indices",
    "crow_indices",
    "row_indices",
    "_nnz",
    "sparse_dim",
    "dense_dim",
    "to_sparse_csr",
    "to_sparse_csc",
    "to_sparse_coo",
    "resolve_conj",
    "square",
    "absolute",
    "negative",
    "double",
    "cdouble",
    "contiguous",
    "numel",
    "unbind",
    "dim",
    "isreal",
    "exp",
    "cos",
    "is_complex",
    "is_floating_point",
    "layout",
    "is_sparse",
    "is_sparse_csr",
    "shape",
    "max",
    "mean",
    "flip",
    "T",
)

OPERATIONS: dict[str, Callable[..., Any]] = {
    "s * 2": lambda L, s, d: s * 2,
    "s * 2.5": lambda L, s, d: s * 2.5,
    "s / 2": lambda L, s, d: s / 2,
    "s // 2": lambda L, s, d: s // 2,
    "s ** 2": lambda L, s, d: s**2,
    "s ** 0.5": lambda L, s, d: s**0.5,
    "s * 0-d": lambda L, s, d: s * L.tensor(3),
    "s / 0-d": lambda L, s, d: s / L.tensor(2.0),
    "s * d": lambda L, s, d: s * d,
    "d * s": lambda L, s, d: d * s,
    "s * row": lambda L, s, d: s * d[0],
    "s * batch": lambda L, s, d: s * L.stack([d, d + d]),
    "batch * s": lambda L, s, d: L.stack([d, d + d]).unsqueeze(0) * s,
    "d + s": lambda L, s, d: d + s,
    "d - s": lambda L, s, d: d - s,
    "s + d": lambda L, s, d: s + d,
    "s + s": lambda L, s, d: s + s,
    "s - s": lambda L, s, d: s - s,
    "s * s": lambda L, s, d: s * s,
    "s + 2s": lambda L, s, d: L.add(s, s * 2, alpha=3),
    "s + 1": lambda L, s, d: s + 1,
    "mixed": lambda L, s, d: s + s.to(L.complex128),
    "s + t": lambda L, s, d: s + other(L, s),
    "s * t": lambda L, s, d: s * other(L, s),
    "s - t": lambda L, s, d: s - other(L, s),
    "s.add_(s)": lambda L, s, d: s.clone().add_(s),
    "s.mul_(2)": lambda L, s, d: s.clone().mul_(2),
    "s.div_(2)": lambda L, s, d: s.clone().div_(2),
    "d.add_(s)": lambda L, s, d: d.clone().add_(s),
    "d.mul_(s)": lambda L, s, d: d.clone().mul_(s),
    "s.neg_()": lambda L, s, d: s.clone().neg_(),
    "s.zero_()": lambda L, s, d: s.clone().zero_(),
    "s.copy_(t)": lambda L, s, d: s.clone().copy_(s * 3),
    "zeros_like": lambda L, s, d: L.zeros_like(s),
    "new_zeros": lambda L, s, d: s.new_zeros((2, 3)),
    "float": lambda L, s, d: s.to(L.float32),
    "dense dtype": lambda L, s, d: s.to_dense(L.complex128),
    "sum 0": lambda L, s, d: s.sum(0),
    "sum 1 keepdim": lambda L, s, d: s.sum(1, keepdim=True),
    "sum both": lambda L, s, d: s.sum((0, 1)),
    "sum dtype": lambda L, s, d: s.sum(dtype=L.float64),
    "sum kept both": lambda L, s, d: s.sum((0, 1), keepdim=True),
    "sparse.sum": lambda L, s, d: L.sparse.sum(s),
    "sparse.sum 0": lambda L, s, d: L.sparse.sum(s, 0),
    "sparse.sum dims": lambda L, s, d: L.sparse.sum(s, (0, 1)),
    "sparse.sum dtype": lambda L, s, d: L.sparse.sum(s, 1, dtype=L.float64),
    "softmax 0": lambda L, s, d: L.sparse.softmax(s, 0),
    "softmax 1": lambda L, s, d: L.sparse.softmax(s, 1),
    "log_softmax": lambda L, s, d: L.sparse.log_softmax(s, 1, dtype=L.float64),
    "s @ d": lambda L, s, d: s @ d.t(),
    "d @ s": lambda L, s, d: d.t() @ s,
    "mv": lambda L, s, d: s @ d[0],
    "s @ s.t": lambda L, s, d: s @ s.t(),
    "s.mm": lambda L, s, d: s.mm(d.t()),
    "s.mv": lambda L, s, d: s.mv(d[0]),
    "sparse.mm": lambda L, s, d: L.sparse.mm(s, d.t()),
    "sparse.mm ss": lambda L, s, d: L.sparse.mm(s, s.t()),
    "addmm": lambda L, s, d: L.addmm(d[:, :4], s, d.t()),
    "sparse.addmm": lambda L, s, d: L.sparse.addmm(d[:, :4], s, d.t(), beta=2, alpha=3),
    "smm": lambda L, s, d: L.smm(s, d.t()),
    "transpose": lambda L, s, d: s.transpose(0, 1),
    "permute": lambda L, s, d: s.permute(1, 0),
    "unsqueeze": lambda L, s, d: s.unsqueeze(1),
    "unsqueeze -1": lambda L, s, d: s.unsqueeze(-1),
    "select": lambda L, s, d: s[1],
    "select -1": lambda L, s, d: s.select(1, -1),
    "select 0 -2": lambda L, s, d: s.select(0, -2),
    "index_select": lambda L, s, d: s.index_select(0, L.tensor([2, 0, 2])),
    "index_select 1": lambda L, s, d: s.index_select(1, L.tensor([5, 0, 0, 1])),
    "narrow_copy": lambda L, s, d: s.narrow_copy(1, 2, 3),
    "cat 0": lambda L, s, d: L.cat([s, s * 2]),
    "cat 1": lambda L, s, d: L.cat([s, s * 2], 1),
    "stack": lambda L, s, d: L.stack([s, s]),
    "sparse_mask": lambda L, s, d: d.sparse_mask(s),
    "sparse_mask s": lambda L, s, d: (s * 2).sparse_mask(s),
    "bsr": lambda L, s, d: s.to_sparse_bsr((2, 2)),
    "bsc": lambda L, s, d: s.to_sparse_bsc((2, 2)),
    "to_sparse": lambda L, s, d: s.to_sparse(),
    "to_sparse 2": lambda L, s, d: s.to_sparse(2),
    "hspmm": lambda L, s, d: L.hspmm(s, d.t()),
    "new tensor": lambda L, s, d: s.new_tensor([1.0]),
    "deepcopy": lambda L, s, d: __import__("copy").deepcopy(s),
    "slice": lambda L, s, d: s[0:2],
    "s == s": lambda L, s, d: s == s,
    "s > 0": lambda L, s, d: s > 0,
    "reshape": lambda L, s, d: s.reshape(6, 4),
    **{name: (lambda L, s, d, name=name: called(s, name)) for name in UNARY},
}


def called(tensor: Any, name: str) -> Any:
    value = getattr(tensor, name)
    return value() if callable(value) else value


def other(library: Any, tensor: Any) -> Any:
    """A tensor of the same layout with other places."""
    dense = tensor.to_dense().flip(0)
    layout = tensor.layout
    if layout == library.sparse_coo:
        return dense.to_sparse(tensor.sparse_dim())
    block = tuple(tensor.values().shape[1:3]) if tensor.values().ndim > 1 else None
    return dense.to_sparse(layout=layout, blocksize=block)


# Functions of one tensor act on values: a few layouts stand for all.
CASES = [
    (name, kind)
    for name in OPERATIONS
    for kind in (("coo", "uncoalesced", "csr", "bsc") if name in UNARY else KINDS)
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_operator(name, kind, make, agree_or_refuse):
    def scenario(library, dtype):
        return OPERATIONS[name](
            library,
            make(library, kind, dtype),
            make(library, "strided", dtype) + 1 if dtype != "bool" else make(library, "strided", dtype),
        )

    for dtype in DTYPES if kind in ("coo", "csr") else DTYPES[:2]:
        if not agree_or_refuse(scenario, dtype) and dtype == "float64":
            return


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
@pytest.mark.parametrize("kind", (*KINDS, "batch"))
def test_layouts_of_all_dtypes(kind, dtype, make, agree_or_refuse):
    """What every layout and dtype has: conversion, products and sums, with members compared."""

    def scenario(library, operation):
        if kind == "batch":
            source = make(library, "csr", "float64", (2, 4, 6)).to(getattr(library, dtype))
        else:
            source = make(library, kind).to(getattr(library, dtype))
        return operation(library, source)

    for operation in (
        lambda L, s: s,
        lambda L, s: s.to_dense(),
        lambda L, s: s * s,
        lambda L, s: s * 2,
        lambda L, s: s.sum(),
        lambda L, s: s.transpose(-1, -2),
        lambda L, s: s.to(L.float64),
        lambda L, s: s.abs(),
        lambda L, s: s.to_dense() + s,
    ):
        agree_or_refuse(scenario, operation, members=kind != "uncoalesced")


def test_most_operators_are_compared(make, agree_or_refuse):
    """The table is no list of refusals: of coordinates and compressed rows most of it is compared."""

    def scenario(library, name, kind):
        return OPERATIONS[name](library, make(library, kind), make(library, "strided") + 1)

    assert sum(agree_or_refuse(scenario, name, "coo") for name in OPERATIONS) > 120
    assert sum(agree_or_refuse(scenario, name, "csr") for name in OPERATIONS) > 90

"""Products of several operands: einsum, chains and powers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name

from .products import check, sample, to_torch

# --- einsum -------------------------------------------------------------------------------------------

EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,kj->ki", (2, 3), (4, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("ijij->ij", (2, 3, 2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,i->i", (3,), (3,)),
    ("i,i", (3,), (3,)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
    ("i...->...", (2, 3)),
    ("...", (2, 3)),
    ("...j", (2, 3)),
    ("...i->i...", (4, 2, 3)),
    ("b...,b...->b", (5, 2), (5, 3, 2)),
    ("i...,j...->i...", (5, 2), (4, 2)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,kj,lj->ikl", (2, 3), (4, 3), (5, 3)),
    ("ab,bc,ca->", (2, 3), (3, 4), (4, 2)),
    ("ij,jk->k", (2, 3), (3, 4)),
    ("Aa,aB", (2, 3), (3, 4)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
    (",", (), ()),
    ("", ()),
    ("->", ()),
    (",ij", (), (2, 3)),
    ("ij,jk", (2, 3), (1, 4)),
    ("ij,jk->ik", (2, 1), (3, 4)),
    ("ij,ij->ij", (2, 3), (1, 3)),
    ("ij,j->i", (2, 0), (0,)),
    ("ij,j->i", (0, 3), (3,)),
    ("abcd,cbe->ade", (2, 3, 4, 5), (4, 3, 6)),
    ("i,ij,j", (2,), (2, 3), (3,)),
    ("...a,...b->...ab", (3, 2), (3, 4)),
    ("ii,ii->i", (3, 3), (3, 3)),
]


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: case[0])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_einsum(case, dtype):
    equation, *shapes = case
    tensors = [sample(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    check(lambda m, *t: m.einsum(equation, *t), *tensors, exact=True)


def test_einsum_takes_sublists_and_lists():
    a, b = sample(2, 3), sample(3, 4, seed=1)
    check(lambda m, x, y: m.einsum(x, [0, 1], y, [1, 2], [0, 2]), a, b, exact=True)
    check(lambda m, x, y: m.einsum(x, [0, 1], y, [1, 2]), a, b, exact=True)
    check(lambda m, x: m.einsum(x, [..., 1], [...]), a, exact=True)
    check(lambda m, x: m.einsum(x, [30, 51], [51, 30]), a, exact=True)
    check(lambda m, x, y: m.einsum("ij,jk", [x, y]), a, b, exact=True)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
def test_einsum_sums_integers_as_sum_does(dtype):
    a = sample(2, 3, dtype=dtype)
    check(lambda m, x: m.einsum("ij->i", x), a, exact=True)


def test_einsum_follows_a_given_path():
    tensors = tuple(sample(3, 3, seed=i) for i in range(4))
    expected = rushlight.einsum("ab,bc,cd,de->ae", *tensors)
    for path in [(0, 1, 0, 1, 0, 1), (2, 3, 0, 1, 0, 1), (0, 3, 0, 1, 0, 1)]:
        result = rushlight._api.link.REGISTRY["einsum"].body(("ab,bc,cd,de->ae", tensors, path))
        np.testing.assert_array_equal(result.numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("ij,jk->ik", (2, 3), (2, 3)), RuntimeError, "subscript j has size 2"),
        (("ij,jk", (2, 3)), RuntimeError, "fewer"),
        (("ij", (2, 3), (2, 3)), RuntimeError, "more operands"),
        (("ij->ijj", (2, 3)), RuntimeError, "more than once"),
        (("ii", (2, 3)), RuntimeError, "repeated"),
        (("ij->k", (2, 3)), RuntimeError, "does not appear"),
        (("ij..", (2, 3)), RuntimeError, "not part of any ellipsis"),
        (("i......", (2, 3)), RuntimeError, "already found"),
        (("i1", (2, 3)), RuntimeError, "invalid subscript"),
        (("ij->i->j", (2, 3)), RuntimeError, "invalid subscript"),
        (("ijk", (2, 3)), RuntimeError, "number of subscripts"),
        (("i", (2, 3)), RuntimeError, "number of subscripts"),
    ],
)
def test_einsum_errors(arguments, error, message):
    equation, *shapes = arguments
    with pytest.raises(error, match=message):
        rushlight.einsum(equation, *[rushlight.ones(shape) for shape in shapes])
    with pytest.raises(error):
        torch.einsum(equation, *[torch.ones(shape) for shape in shapes])


def test_einsum_argument_errors():
    a = sample(2, 3)
    for arguments in (("ij",), (a,), (a, [0, 52])):
        with pytest.raises(ValueError, match="einsum"):
            rushlight.einsum(*arguments)


# --- chains and powers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3), (3, 4)],
        [(3,), (3, 4)],
        [(2, 3), (3,)],
        [(3,), (3,)],
        [(3,), (3, 4), (4,)],
        [(2, 0), (0, 3), (3, 4)],
        [(10, 2), (2, 30), (30, 3), (3, 7)],
        [(4,), (4, 5), (5, 6), (6, 2)],
    ],
)
def test_multi_dot(shapes):
    tensors = [sample(*shape, seed=i) for i, shape in enumerate(shapes)]
    result = run_name("linalg_multi_dot", tuple(tensors))
    np.testing.assert_array_equal(
        result.numpy(), torch.linalg.multi_dot([to_torch(t) for t in tensors]).numpy()
    )


def test_multi_dot_takes_the_cheapest_order(monkeypatch):
    from rushlight.decompositions.matmul import cheapest_splits

    # (10 x 100)(100 x 5)(5 x 50): 7500 multiplications from the left, 75000 from the right
    assert cheapest_splits([10, 100, 5, 50])[0, 2] == 1
    assert cheapest_splits([50, 5, 100, 10])[0, 2] == 0


@pytest.mark.parametrize("n", range(9))
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (0, 0), (0, 2, 2)])
def test_matrix_power(n, shape):
    a = sample(*shape, dtype="int64")
    result = check(lambda m, x: m.matrix_power(x, n), a, exact=True)
    assert result is not a and not np.may_share_memory(result.numpy(), a.numpy())

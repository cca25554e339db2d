"""Indexing where OpInfo's small samples do not reach: many indices that meet in one place, in every layout;
writes that are refused, aliasing, and the operators of gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name

DTYPES = ["float32", "float64", "bfloat16", "int64", "int8", "bool", "complex64"]


def both(array: np.ndarray, dtype: str) -> tuple[rushlight.Tensor, torch.Tensor]:
    values = array.tolist()
    ours = rushlight.tensor(values, dtype=getattr(rushlight, dtype))
    return ours, torch.tensor(values, dtype=getattr(torch, dtype))


def assert_equal(actual: rushlight.Tensor, expected: torch.Tensor) -> None:
    assert f"torch.{actual.dtype.name}" == str(expected.dtype)
    ours = torch.tensor(actual.tolist(), dtype=expected.dtype)
    # Half floats are added in float32 here and rounded once; PyTorch rounds after every addition.
    loose = {"rtol": 3e-2, "atol": 3e-2} if expected.dtype is torch.bfloat16 else {}
    torch.testing.assert_close(ours, expected, equal_nan=True, **loose)


def samples(dtype: str, shape: tuple[int, ...], seed: int) -> tuple[rushlight.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return both(rng.integers(-3, 4, shape) if dtype != "bool" else rng.integers(0, 2, shape), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter_add_of_many(dtype: str, dim: int) -> None:
    shape = [7, 6, 5]
    (a, b) = samples(dtype, tuple(shape), 1)
    index = np.random.default_rng(2).integers(0, shape[dim], (7, 6, 5))
    (c, d) = samples(dtype, (7, 6, 5), 3)
    i, j = both(index, "int64")
    assert_equal(a.scatter_add(dim, i, c), b.scatter_add(dim, j, d))
    assert_equal(
        a.transpose(0, 2).scatter_add(dim, i.transpose(0, 2) % a.shape[2 - dim], c.transpose(0, 2)),
        b.transpose(0, 2).scatter_add(dim, j.transpose(0, 2) % b.shape[2 - dim], d.transpose(0, 2)),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("width", [1, 4])
def test_index_add_of_many(dtype: str, dim: int, width: int) -> None:
    shape, index = [5, 5], np.random.default_rng(0).integers(0, 5, 40)
    shape[1 - dim] = width
    many = list(shape)
    many[dim] = 40
    (a, b), (c, d) = samples(dtype, tuple(shape), 1), samples(dtype, tuple(many), 2)
    i, j = both(index, "int64")
    assert_equal(a.index_add(dim, i, c), b.index_add(dim, j, d))
    assert_equal(
        a.index_put((i,), c, accumulate=True) if dim == 0 else a,
        b.index_put((j,), d, accumulate=True) if dim == 0 else b,
    )


@pytest.mark.filterwarnings("ignore:index_reduce.* is in beta")  # PyTorch's, at the first call
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_reductions_of_many(reduce: str, include_self: bool, dtype: str) -> None:
    (a, b), (c, d) = samples(dtype, (4, 6), 1), samples(dtype, (9, 6), 2)
    i, j = both(np.random.default_rng(3).integers(0, 4, (9, 6)), "int64")
    rows, lines = both(np.random.default_rng(4).integers(0, 3, 9), "int64")
    assert_equal(
        a.scatter_reduce(0, i, c, reduce, include_self=include_self),
        b.scatter_reduce(0, j, d, reduce, include_self=include_self),
    )
    if reduce != "sum" and dtype == "float32":
        assert_equal(
            a.index_reduce(0, rows, c, reduce, include_self=include_self),
            b.index_reduce(0, lines, d, reduce, include_self=include_self),
        )


def test_nan_wins_in_amax_and_amin() -> None:
    x, y = rushlight.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0])
    for reduce in ("amax", "amin"):
        assert_equal(
            x.scatter_reduce(0, rushlight.tensor([0, 0]), rushlight.tensor([float("nan"), 2.0]), reduce),
            y.scatter_reduce(0, torch.tensor([0, 0]), torch.tensor([float("nan"), 2.0]), reduce),
        )


WRITES = [
    "x.scatter_(0, T([[0, 9]]), x.clone())",
    "x.scatter_add_(0, T([[0, 9]]), x.clone())",
    "x.index_add_(0, T([0, 9]), x[:2].clone())",
    "x.index_copy_(0, T([0, 9]), x[:2].clone())",
    "x.index_fill_(0, T([0, 9]), 5.)",
    "x.put_(T([0, 99]), x[0, :2].clone())",
    "x.index_put_((T([0, 9]),), T(5.))",
    "x.scatter_reduce_(0, T([[0, 9]]), x.clone(), 'amax')",
    "x.masked_scatter_(x >= 0, T([1., 2.]))",
    "x.__setitem__(T([0, 9]), 5.)",
]


@pytest.mark.parametrize("write", WRITES)
def test_an_index_out_of_range_writes_nothing(write: str) -> None:
    x = rushlight.arange(12.0).reshape(3, 4)
    before, version = x.tolist(), x._version
    with pytest.raises((IndexError, RuntimeError)):
        eval(write, {"x": x, "T": rushlight.tensor})
    assert x.tolist() == before
    assert x._version == version


def test_results_do_not_alias_their_input() -> None:
    x = rushlight.arange(4.0)
    empty = rushlight.zeros(0, dtype=rushlight.int64)
    for result in (
        x.scatter(0, empty, 1.0),
        x.index_add(0, empty, x[:0]),
        x[rushlight.tensor([2])],
        x.take(rushlight.tensor([1])),
        x.index_fill(0, empty, 3.0),
        x.put(empty, x[:0]),
        x.gather(0, rushlight.tensor([0])),
    ):
        result.fill_(7)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


BACKWARD = {
    "gather_backward": lambda T: (
        T([[1.0, 2.0], [3.0, 4.0]]),
        T([[0.0] * 3] * 3),
        0,
        T([[0, 1], [0, 2]]),
        False,
    ),
    "index_select_backward": lambda T: (T([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [4, 2], 0, T([1, 3, 1])),
    "value_selecting_reduction_backward": lambda T: (T([1.0, 2.0]), 1, T([2, 0]), [2, 3], False),
    "masked_select_backward": lambda T: (
        T([1.0, 2.0, 3.0]),
        T([[0.0, 0.0], [0.0, 0.0]]),
        T([[True, False], [True, True]]),
    ),
    "masked_scatter_backward": lambda T: (T([[1.0, 2.0], [3.0, 4.0]]), T([[True, False], [True, True]]), [5]),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_named_gradients(name: str) -> None:
    arguments = BACKWARD[name]
    actual = run_name(name, *(tuple(a) if isinstance(a, list) else a for a in arguments(rushlight.tensor)))
    assert_equal(actual, getattr(torch.ops.aten, name)(*arguments(torch.tensor)))


def test_named_gradients_of_scalars() -> None:
    for keepdim in (True, False):
        actual = run_name(
            "value_selecting_reduction_backward", rushlight.tensor(2.0), 0, rushlight.tensor(0), (), keepdim
        )
        assert actual.item() == 2.0

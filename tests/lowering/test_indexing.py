"""Reading and writing at positions that are data: values, the order of equal positions, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.dispatch import run_name

from .programs import check, check_raises, tensor


def indices(*shape: int, below: int, seed: int = 0, dtype: Any = np.int64) -> rl.Tensor:
    return rl.tensor(np.random.default_rng(seed).integers(0, below, shape).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool"])
def test_reading(dtype: str) -> None:
    x = tensor(6, 7, 5, dtype=dtype)
    i, j = indices(4, below=6), indices(3, 1, below=5)
    check(
        lambda x, i, j: (
            x[i],
            x[:, :, j],
            x[i[:3], :, j],
            x[i - 6, 2],
            x.index_select(1, i),
            x.take(i * 7),
            x.gather(1, j.reshape(3, 1, 1).expand(3, 1, 5)),
        ),
        x,
        i,
        j,
    )
    check(lambda x, j: x.take_along_dim(j.reshape(1, 3, 1), 2), x[:, :3], j)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter(dtype: str, dim: int) -> None:
    x, source = tensor(6, 7, 5, dtype=dtype), tensor(6, 7, 5, seed=1, dtype=dtype)
    at = indices(5, 4, 3, below=x.shape[dim])
    check(
        lambda x, i, s: (x.scatter(dim, i, s), x.scatter(dim, i, 1), x.scatter_add(dim, i, s)), x, at, source
    )
    reductions = ["sum", "prod", "amax", "amin"] + (["mean"] if dtype != "bool" else [])
    for include in (True, False):
        check(
            lambda x, i, s, include=include: tuple(
                x.scatter_reduce(dim, i, s, r, include_self=include) for r in reductions
            ),
            x,
            at,
            source,
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_slices(dtype: str, dim: int) -> None:
    x = tensor(6, 7, 5, dtype=dtype)
    i = indices(4, below=x.shape[dim])
    source = tensor(*(4 if d == dim else n for d, n in enumerate(x.shape)), seed=1, dtype=dtype)
    check(
        lambda x, i, s: (
            x.index_add(dim, i, s),
            x.index_add(dim, i, s, alpha=2),
            x.index_copy(dim, i, s),
            x.index_fill(dim, i, 3),
            x.index_fill(dim, i, s.sum()),
        ),
        x,
        i,
        source,
    )
    for include in (True, False):
        check(
            lambda x, i, s, include=include: tuple(
                x.index_reduce(dim, i, s, r, include_self=include) for r in ("prod", "mean", "amax", "amin")
            ),
            x,
            i,
            source,
            rtol=1e-5,
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_writing(dtype: str) -> None:
    x = tensor(6, 7, 5, dtype=dtype)
    i, j, values = indices(4, below=6), indices(4, below=5), tensor(4, 7, seed=1, dtype=dtype)
    for accumulate in (False, True):
        check(
            lambda x, i, j, v, a=accumulate: (
                x.index_put((i, None, j), v, accumulate=a),
                x.index_put((None, i, j), v[:, 0], accumulate=a),
                x.index_put((i - 6, i), v[0, :5], accumulate=a),
                x.put(i * 7, v[:, 0], a),
            ),
            x,
            i,
            j,
            values,
        )


def test_masks() -> None:
    x, mask = tensor(6, 7), tensor(6, 7, seed=1, dtype="bool")

    def f(x: rl.Tensor, mask: rl.Tensor) -> Any:
        y = x.clone()
        y[mask] = 0
        z = x.clone()
        z[mask[:, 0]] = x[0]
        return y, z, x.masked_fill(mask, 2.0), x.masked_scatter(mask, x * 2 + 1)

    check(f, x, mask)
    check(lambda x: (rl.nonzero_static(x, size=5), rl.nonzero_static(x, size=60, fill_value=-2)), mask)


def test_numbers_and_nothing() -> None:
    zero = rl.tensor(0)
    check(
        lambda x, i: (
            x.scatter(0, i, x * 2),
            x.scatter_add(0, i, x),
            x.gather(0, i),
            x.index_select(0, i),
            x.index_fill(0, i, 2),
            x.take(i),
        ),
        rl.tensor(3.0),
        zero,
    )
    none = rl.zeros(0, dtype=rl.int64)
    check(
        lambda x, i: (x.scatter_add(0, i, x), x.index_add(0, i, x[:0]), x.gather(0, i), x.take(i)),
        tensor(5),
        none,
    )


@pytest.mark.parametrize("wrong", [-7, 6, 2**40])
def test_indices_out_of_range_raise(wrong: int) -> None:
    x, source = tensor(6, 5), tensor(2, 5, seed=1)
    i = rl.tensor([1, wrong])
    wide = i.reshape(2, 1).expand(2, 5).contiguous()
    for f in (
        lambda x, i, w, s: x[i],
        lambda x, i, w, s: x.gather(0, w),
        lambda x, i, w, s: x.scatter(0, w, s),
        lambda x, i, w, s: x.scatter_add(0, w, s),
        lambda x, i, w, s: x.index_add(0, i, s),
        lambda x, i, w, s: x.index_copy(0, i, s),
        lambda x, i, w, s: x.index_fill(0, i, 1),
        lambda x, i, w, s: x.index_put((i,), s),
        lambda x, i, w, s: x.index_select(0, i),
        lambda x, i, w, s: x.take(i * 10),
        lambda x, i, w, s: x[:, 0].index_add(0, i, s[:, 0]),
        lambda x, i, w, s: rl.nn.functional.embedding(i, x),
    ):
        check_raises(f, x, i, wide, source)


def test_negative_indices_count_from_the_end_only_where_eager_code_lets_them() -> None:
    x, i = tensor(6, 5), rl.tensor([[-1, 0]])
    check_raises(lambda x, i: x.gather(0, i), x, i)
    check_raises(lambda x, i: x.index_select(0, i[0]), x, i)
    check(lambda x, i: (x[i[0]], x.take(i), x.index_fill(0, i[0], 2)), x, i)


def test_a_mask_with_more_elements_than_the_source_raises() -> None:
    check_raises(lambda x, s: x.masked_scatter(x == x, s), tensor(6), tensor(5))


def test_last_of_equal_positions_wins_and_sums_do_not_depend_on_threads() -> None:
    x, source = tensor(300, 700), tensor(4000, 700, seed=1)
    i = indices(4000, below=300)
    f = rl.compile(lambda x, i, s: (x.index_copy(0, i, s), x.index_add(0, i, s)), fullgraph=True)
    before = rl.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 4):
            rl.set_num_threads(threads)
            results.append([r.numpy().tobytes() for r in f(x, i, source)])
    finally:
        rl.set_num_threads(before)
    assert results[0] == results[1] == results[2]
    assert results[0][0] == x.index_copy(0, i, source).numpy().tobytes()


def test_embeddings() -> None:
    table, at, grad = tensor(10, 6), indices(3, 4, below=10), tensor(3, 4, 6, seed=2)
    check(lambda w, i: rl.nn.functional.embedding(i, w), table, at)
    check(lambda i: rl.nn.functional.one_hot(i, 11), at)
    check_raises(lambda i: rl.nn.functional.one_hot(i, 5), at)
    for frequent in (False, True):
        check(lambda g, i, f=frequent: run_name("embedding_dense_backward", g, i, 10, 3, f), grad, at)


def test_gradients() -> None:
    i, j = indices(4, below=6), indices(4, 5, below=6)

    def loss(x: rl.Tensor) -> rl.Tensor:
        picked = x[i].sin().sum() + x.gather(0, j).exp().sum() + x.index_select(1, i % 5).square().sum()
        added = x.scatter_add(0, j, x[:4] * 2).square() + x.index_add(0, i, x[:4]).square()
        return picked + added.sum()

    x = tensor(6, 5) / 3
    gradients = []
    for f in (loss, rl.compile(loss, fullgraph=True)):
        leaf = x.clone().requires_grad_()
        f(leaf).backward()
        gradients.append(leaf.grad)
    np.testing.assert_allclose(gradients[0].numpy(), gradients[1].numpy(), rtol=1e-4, atol=1e-4)

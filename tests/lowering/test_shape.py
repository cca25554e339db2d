"""Joining, moving and padding elements in native code, small and large: as one choice or part by part."""

from __future__ import annotations

import pytest

import rushlight as rl

from .programs import check, tensor

DTYPES = ["float32", "bfloat16", "int64", "bool", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [3, 60])
def test_cat(rows: int, dtype: str) -> None:
    x, y = tensor(rows, 7), tensor(rows, 5, seed=1)
    x, y = (t.to(getattr(rl, dtype)) for t in (x, y))
    check(
        lambda x, y: (rl.cat((x, y), 1), rl.cat((x, x), 0), rl.stack((x, x), 2), rl.cat((x, y, x, y, x), 1)),
        x,
        y,
    )


def test_cat_computes_its_parts_where_they_go() -> None:
    x = tensor(64, 33)
    text = check(lambda x: rl.cat((x * 2, x.t().reshape(64, 33), x + 1), 1), x)
    assert text.count("kernel ") == 3
    check(lambda x: rl.cat([x[k : k + 1] for k in range(20)]), x)
    check(lambda x: rl.cat((x, x.to(rl.float64), rl.zeros(0)), 0), x)
    check(lambda x: rl.cat((x.t(), x.t()), 1).sum(0), x, rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 5), (40, 50), (3, 4, 5), (1, 1), (0, 3)])
def test_moved(shape: tuple[int, ...]) -> None:
    x = tensor(*shape)
    check(
        lambda x: (
            x.roll(1),
            x.roll(2, 1),
            x.roll((-1, 3), (0, 1)),
            x.flip(0),
            x.flip((0, 1)),
            x.tril(1),
            x.triu(-1),
            x.repeat(2, 3, *[1] * (x.ndim - 2)),
        ),
        x,
    )


@pytest.mark.parametrize("shape", [(2, 3, 7, 6), (2, 3, 20, 30)])
def test_padding(shape: tuple[int, ...]) -> None:
    pad = rl.nn.functional.pad
    x = tensor(*shape)
    check(
        lambda x: (
            pad(x, (1, 2)),
            pad(x, (2, -1, 0, 3)),
            pad(x, (-1, -2)),
            pad(x, (0, 0, 0, 0, 1, 0), value=3),
        ),
        x,
    )
    check(
        lambda x: (
            pad(x, (3, 2, 1, 4), "reflect"),
            pad(x, (3, 2, 1, 4), "replicate"),
            pad(x, (3, 2, 1, 4), "circular"),
            pad(x[0], (-1, 4), "replicate"),
        ),
        x,
    )


def test_gradients_of_borders() -> None:
    pad = rl.nn.functional.pad

    def gradients(x: rl.Tensor) -> rl.Tensor:
        leaf = x.clone().requires_grad_()
        sums = [pad(leaf, (3, 2, 1, 4), mode).square().sum() for mode in ("reflect", "replicate", "circular")]
        return rl.autograd.grad(sum(sums), leaf)[0]

    check(gradients, tensor(2, 3, 7, 6), rtol=1e-5)


@pytest.mark.parametrize(
    "rows,cols,offset", [(4, 6, 0), (6, 4, 2), (5, 5, -3), (1, 9, 4), (7, 3, -9), (3, 3, 9)]
)
def test_triangle_indices(rows: int, cols: int, offset: int) -> None:
    check(lambda: (rl.tril_indices(rows, cols, offset), rl.triu_indices(rows, cols, offset)))


@pytest.mark.parametrize("rows", [4, 50])
def test_twins_of_views(rows: int) -> None:
    x, row = tensor(rows, 12), tensor(12, seed=1)
    check(
        lambda x, r: (
            x.select_scatter(r, 0, 1),
            x.select_scatter(x[:, 0], 1, -1),
            x.slice_scatter(x[:, :4] * 2, 1, 3, 11, 2),
            x.slice_scatter(x[:2], 0, 1, 3),
            x.diagonal_scatter(x.diagonal() * 2),
            x.diagonal_scatter(x.diagonal(2) + 1, 2),
        ),
        x,
        row,
    )


@pytest.mark.parametrize("rows", [4, 50])
def test_writes_through_views(rows: int) -> None:
    def f(x: rl.Tensor) -> rl.Tensor:
        y = x * 1
        y[1:3] = 0
        y[:, 2:8:3] += x[:, :2]
        y.t()[4] = x[:, 0]
        y.diagonal().mul_(3)
        return y

    check(f, tensor(rows, 12))

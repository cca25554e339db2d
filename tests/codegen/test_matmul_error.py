"""The rounding error of products over a long depth is at most torch's, on the same data."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight as rl


def error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2)))


@pytest.mark.parametrize("depth", [192, 512, 1024, 3000, 4096])
def test_error_is_not_greater_than_that_of_torch(depth: int) -> None:
    random = np.random.default_rng(depth)
    a = random.normal(size=(64, depth)).astype(np.float32)
    b = random.normal(size=(depth, 96)).astype(np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    ours = rl.compile(lambda x, y: x @ y, fullgraph=True)(rl.tensor(a), rl.tensor(b)).numpy()
    theirs = (torch.tensor(a) @ torch.tensor(b)).numpy()
    assert error(ours, exact) <= 1.1 * error(theirs, exact)


def test_large_product_of_a_part_of_a_product() -> None:
    """As test_cat_extern_kernel of PyTorch's tests, whose results differ between eager and compiled code."""
    random = np.random.default_rng(0)
    given = [
        random.normal(size=shape).astype(np.float32)
        for shape in ((256, 256), (256, 1024), (1024, 1600), (100, 256))
    ]

    def program(x1, x2, x3, x4):
        library = rl if isinstance(x1, rl.Tensor) else torch
        narrow = library.narrow(library.mm(x2, x3), 1, 0, 100)
        return library.cat((library.mm(narrow, x4), x1), 1)

    exact = program(*[torch.tensor(a).double() for a in given]).numpy()
    ours = rl.compile(program, fullgraph=True)(*map(rl.tensor, given)).numpy()
    assert error(ours, exact) <= 1.1 * error(program(*map(torch.tensor, given)).numpy(), exact)


def test_causal_product_does_not_depend_on_where_tiles_begin() -> None:
    """Runs are counted from the beginning of the depth, not from where a triangle begins."""
    scores = rl.randn(2, 700, 700)
    values = rl.randn(2, 700, 24)

    def attended(s, v):
        mask = rl.ones(700, 700, dtype=rl.bool).tril()
        return s.masked_fill(~mask, -float("inf")).softmax(-1) @ v

    expected = attended(scores.double(), values.double())
    found = rl.compile(attended, fullgraph=True)(scores, values)
    rl.testing.assert_close(found.double(), expected, rtol=2e-5, atol=2e-6)

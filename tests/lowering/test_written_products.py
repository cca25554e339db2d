"""What is written in place through a view of a matrix product is what later maps read, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl

VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "transposed": lambda x: x.mT,
    "permuted twice": lambda x: x.mT.mT,
    "rows": lambda x: x[3:40],
    "every other column": lambda x: x[:, ::2],
    "transposed rows": lambda x: x.mT[5:],
    "diagonal": lambda x: x.diagonal(),
    "split": lambda x: x.unflatten(0, (8, -1)).transpose(0, 1),
    "column": lambda x: x[:, 3],
}
WRITES: dict[str, Callable[[Any], Any]] = {
    "mul_": lambda x: x.mul_(2),
    "add_": lambda x: x.add_(x.sum(-1)[..., None]),
}


def program(view: str, write: str, read_view: bool) -> Callable[..., Any]:
    def run(a: Any, b: Any, c: Any) -> Any:
        product = a @ b
        shown = VIEWS[view](product)
        if write == "add_" and shown.ndim == 1:
            shown.add_(shown.sum())
        else:
            WRITES[write](shown)
        return c + (product.mT.mT if read_view else product), shown * 3

    return run


@pytest.mark.parametrize("size", [(64, 64, 128), (8, 8, 8)])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_reader_sees_what_was_written(view: str, write: str, size: tuple[int, int, int]) -> None:
    rows, depth, columns = size
    draw = np.random.default_rng(0).standard_normal
    arrays = [draw(shape).astype(np.float32) for shape in ((rows, depth), (depth, columns), (rows, columns))]
    if view == "rows" and rows < 40:
        arrays[0] = np.tile(arrays[0], (8, 1))
        arrays[2] = np.tile(arrays[2], (8, 1))
    for read_view in (False, True):
        wanted = program(view, write, read_view)(*map(torch.from_numpy, arrays))
        compiled = rl.compile(program(view, write, read_view))
        for _ in range(2):
            found = compiled(*map(rl.from_numpy, arrays))
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-4, atol=2e-4)

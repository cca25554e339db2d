"""Reductions over long axes are as accurate as PyTorch's, along every axis and in every layout.

Errors are random, so root mean squares over many results are compared, with room for chance; what the tests
look for (rows added one after another) is off by a factor of 3 and more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl

CHANCE = 1.3
LAYOUTS: dict[str, tuple[tuple[int, ...], Any, Callable[[Any], Any]]] = {
    "first": ((400, 500), 0, lambda x: x),
    "first, few columns": ((20000, 40), 0, lambda x: x),
    "first, little": ((100, 70), 0, lambda x: x),
    "last": ((500, 400), 1, lambda x: x),
    "last, short": ((2000, 100), 1, lambda x: x),
    "middle": ((20, 700, 30), 1, lambda x: x),
    "several": ((60, 50, 200), (0, 2), lambda x: x),
    "several, first": ((30, 40, 300), (0, 1), lambda x: x),
    "transposed": ((400, 500), 1, lambda x: x.t()),
    "rows apart": ((800, 500), 0, lambda x: x[::2]),
    "columns apart": ((500, 800), 1, lambda x: x[:, ::2]),
    "channels last": ((8, 20, 20, 300), (0, 2, 3), lambda x: x.permute(0, 3, 1, 2)),
}
DATA: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: rng.random(shape),
    "mixed": lambda rng, shape: rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 3, shape),
}
OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda lib, x, dim: x.sum(dim),
    "nansum": lambda lib, x, dim: lib.nansum(x, dim),
    "mean": lambda lib, x, dim: x.mean(dim),
    "var": lambda lib, x, dim: x.var(dim),
    "std": lambda lib, x, dim: x.std(dim),
    "norm": lambda lib, x, dim: lib.linalg.vector_norm(x, 2, dim),
    "norm of order 1": lambda lib, x, dim: lib.linalg.vector_norm(x, 1, dim),
    "norm of order 3": lambda lib, x, dim: lib.linalg.vector_norm(x, 3, dim),
    "logsumexp": lambda lib, x, dim: lib.logsumexp(x / 100, dim),
    "cumsum": lambda lib, x, dim: lib.cumsum(x, dim if isinstance(dim, int) else dim[0]),
    "prod": lambda lib, x, dim: lib.prod(1 + x * 1e-4, dim if isinstance(dim, int) else dim[0]),
    "softmax": lambda lib, x, dim: lib.softmax(x / 100, dim if isinstance(dim, int) else dim[0]),
}


def root_mean_square(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.abs(error) ** 2)))


def errors(operator: str, layout: str, data: str, dtype: str) -> tuple[float, float]:
    """Of rushlight and of torch, against double precision."""
    rng = np.random.default_rng(7)
    shape, dim, view = LAYOUTS[layout]
    values = DATA[data](rng, shape)
    if dtype == "complex64":
        values = values + 1j * DATA[data](rng, shape)
    wide = torch.complex128 if dtype == "complex64" else torch.float64
    given = torch.tensor(values).to(getattr(torch, dtype))
    run = OPERATORS[operator]
    exact = run(torch, view(given.to(wide)), dim).numpy()
    ours = run(rl, view(rl.from_numpy(given.to(wide).numpy()).to(getattr(rl, dtype))), dim)
    theirs = run(torch, view(given), dim)
    return (
        root_mean_square(ours.to(rl.complex128 if ours.is_complex() else rl.float64).numpy() - exact),
        root_mean_square(theirs.to(wide).numpy() - exact),
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("data", DATA)
def test_d14_sum(layout: str, dtype: str, data: str) -> None:
    ours, theirs = errors("sum", layout, data, dtype)
    assert ours <= theirs * CHANCE


@pytest.mark.parametrize("operator", [name for name in OPERATORS if name != "sum"])
@pytest.mark.parametrize("layout", ["first", "last, short", "middle", "several", "transposed"])
def test_d14_reductions(operator: str, layout: str) -> None:
    ours, theirs = errors(operator, layout, "positive", "float32")
    assert ours <= theirs * CHANCE


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "complex64"])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_d14_every_reduction(operator: str, dtype: str, data: str, layout: str) -> None:
    if dtype == "complex64" and operator in ("nansum", "var", "std"):
        pytest.skip("not an operator of complex tensors, or a real result of them that the others cover")
    if dtype == "float16" and data == "mixed":
        pytest.skip("sums of these values overflow in half precision")
    ours, theirs = errors(operator, layout, data, dtype)
    assert ours <= theirs * CHANCE


@pytest.mark.parametrize("layout", ["row", "column", "between"])
def test_d14_a_million_terms_of_mixed_magnitude(layout: str) -> None:
    rng = np.random.default_rng(3)
    values = (rng.standard_normal((1_000_000, 3)) * 10.0 ** rng.uniform(-6, 6, (1_000_000, 3))).astype("f4")
    exact = np.array([math.fsum(column) for column in values.T])
    given = {"row": values.T.copy(), "column": values, "between": values.T.reshape(3, 1000, 1000, 1)}[layout]
    dim = {"row": (1,), "column": (0,), "between": (1, 2)}[layout]
    ours = rl.from_numpy(given).sum(dim).numpy().reshape(-1)
    theirs = torch.from_numpy(given).sum(dim).numpy().reshape(-1)
    bound = np.spacing(np.abs(values).sum(0).astype("f4"))  # one unit in the last place of the sum of sizes
    assert (np.abs(ours - exact) <= bound).all()
    assert root_mean_square(ours - exact) <= max(root_mean_square(theirs - exact), bound.max() / 8)


@pytest.mark.parametrize("operator", ["dot", "mv", "mm", "bmm"])
def test_d14_products(operator: str) -> None:
    rng = np.random.default_rng(5)
    shapes = {
        "dot": ((20000,), (20000,)),
        "mv": ((300, 3000), (3000,)),
        "mm": ((40, 3000), (3000, 40)),
        "bmm": ((4, 20, 2000), (4, 2000, 20)),
    }[operator]
    ours: list[np.ndarray] = []
    theirs: list[np.ndarray] = []
    for _ in range(30 if operator == "dot" else 1):
        left, right = (rng.standard_normal(shape).astype("f4") for shape in shapes)
        exact = left.astype("f8") @ right.astype("f8")
        for lib, found in (rl, ours), (torch, theirs):
            product = getattr(lib, operator)(lib.from_numpy(left), lib.from_numpy(right))
            found.append(np.asarray(product.numpy() - exact))
    assert root_mean_square(np.stack(ours)) <= root_mean_square(np.stack(theirs)) * CHANCE

"""Matrices without elements, and numbers in the place of matrices, in `linalg`: as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

SHAPES = ((0, 5), (5, 0), (0, 0), (3, 0, 5), (0, 3, 3))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("p", [None, 2, -2, 1])
def test_conditions(same: Callable[..., None], shape: tuple[int, ...], p: Any) -> None:
    same(lambda lib: lib.linalg.cond(lib.zeros(*shape), p))
    same(lambda lib: lib.linalg.cond(lib.zeros(*shape, dtype=lib.complex64), p))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("hermitian", [False, True])
def test_ranks(same: Callable[..., None], shape: tuple[int, ...], hermitian: bool) -> None:
    same(lambda lib: lib.linalg.matrix_rank(lib.zeros(*shape), hermitian=hermitian))
    same(lambda lib: lib.linalg.matrix_rank(lib.zeros(*shape), 1.0, hermitian))


@pytest.mark.parametrize("ind", [1, 2, 3])
def test_tensorinv_of_few_dimensions(same: Callable[..., None], ind: int) -> None:
    same(lambda lib: lib.linalg.tensorinv(lib.ones(1, 1), ind))
    same(lambda lib: lib.linalg.tensorinv(lib.tensor(2.0), ind))

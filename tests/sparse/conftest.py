"""Fixtures for tests of sparse tensors: the same scenario with torch and with rushlight."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import rushlight


@pytest.fixture(autouse=True)
def _quiet_oracle() -> Iterator[None]:
    """torch warns that compressed layouts are in beta, and that nobody said whether to check invariants."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(Sparse|sparse|Casting complex).*")
        yield


def name_of(value: Any) -> str:
    return str(value).rpartition(".")[2]


def describe(value: Any, members: bool = False) -> Any:
    """A result as plain data: layout, shape, dtype and elements; with `members`, those too."""
    if isinstance(value, torch.Tensor | rushlight.Tensor):
        layout = name_of(value.layout)
        dense = value.detach() if layout == "strided" else value.detach().to_dense()
        array = (
            dense.resolve_conj().resolve_neg().numpy()
            if dense.dtype not in (torch.bfloat16, rushlight.bfloat16)
            else dense.float().numpy()
        )
        own = [member.tolist() for member in _members(value)] if members and layout != "strided" else None
        return ("tensor", layout, tuple(value.shape), name_of(value.dtype), array.tolist(), own)
    if isinstance(value, tuple | list):
        return [describe(item, members) for item in value]
    if isinstance(value, torch.Size | rushlight.Size):
        return tuple(value)
    return value if value is None or isinstance(value, bool | int | float | complex | str) else name_of(value)


def _members(value: Any) -> list[Any]:
    layout = name_of(value.layout)
    if layout == "sparse_coo":
        return [value._indices(), value.detach()._values()]
    names = (
        ("crow_indices", "col_indices")
        if layout in ("sparse_csr", "sparse_bsr")
        else ("ccol_indices", "row_indices")
    )
    return [getattr(value, names[0])(), getattr(value, names[1])(), value.detach().values()]


def close(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, list | tuple):
        return isinstance(mine, list | tuple) and len(mine) == len(theirs) and all(map(close, mine, theirs))
    if isinstance(theirs, float | complex) and isinstance(mine, float | complex):
        return bool(np.isclose(mine, theirs, rtol=1e-5, atol=1e-6, equal_nan=True))
    return type(mine) is type(theirs) and mine == theirs


@pytest.fixture(scope="session")
def agree() -> Callable[..., None]:
    """agree(scenario, *args): scenario(torch, *args) and scenario(rushlight, *args) give the same."""

    def check(scenario: Callable[..., Any], *args: Any, members: bool = False) -> None:
        theirs = describe(scenario(torch, *args), members)
        mine = describe(scenario(rushlight, *args), members)
        assert close(mine, theirs), f"rushlight: {mine}\ntorch:     {theirs}"

    return check


@pytest.fixture(scope="session")
def agree_or_refuse() -> Callable[..., bool]:
    """As `agree`; where torch refuses, rushlight may do more, and what it gives is not looked at."""

    def check(scenario: Callable[..., Any], *args: Any, members: bool = False) -> bool:
        try:
            theirs = describe(scenario(torch, *args), members)
        except (RuntimeError, TypeError, IndexError, ValueError, AssertionError):
            return False
        mine = describe(scenario(rushlight, *args), members)
        assert close(mine, theirs), f"rushlight: {mine}\ntorch:     {theirs}"
        return True

    return check


@pytest.fixture(scope="session")
def refuse_alike() -> Callable[..., None]:
    """Both raise, rushlight an error of torch's type."""

    def check(scenario: Callable[..., Any]) -> None:
        with pytest.raises(Exception) as theirs:
            scenario(torch)
        with pytest.raises(theirs.type):
            scenario(rushlight)

    return check


@pytest.fixture(scope="session")
def make() -> Callable[..., Any]:
    """make(L, kind, dtype, shape): a sparse tensor of a library, the same for both; not to be written to.

    Kinds: a layout without "sparse_", or "uncoalesced", "hybrid" (one dense dimension), "none" (no elements).
    """

    @functools.cache
    def tensor(library: Any, kind: str, dtype: str = "float64", shape: tuple[int, ...] = (4, 6)) -> Any:
        dense = library.tensor(_values(dtype, shape))
        if kind == "strided":
            return dense
        if kind == "none":
            return (dense * 0).to_sparse() if dtype != "bool" else (dense ^ dense).to_sparse()
        if kind == "hybrid":
            return dense.to_sparse(len(shape) - 1)
        if kind == "uncoalesced":
            found = dense.to_sparse()
            twice = library.cat([found.indices(), found.indices()], 1)
            return library.sparse_coo_tensor(twice, library.cat([found.values(), found.values()]), shape)
        block = (2, 3) if kind in ("bsr", "bsc") else None
        return dense.to_sparse(layout=getattr(library, f"sparse_{kind}"), blocksize=block)

    return tensor


def _values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(int(np.prod(shape)) + len(shape))
    values = random.integers(-4, 5, shape).astype("float64")
    values = np.where(random.random(shape) < 0.5, values, 0.0)
    if len(shape) > 2:  # batches of compressed layouts have as many elements each
        values = np.broadcast_to(values[0], shape) * np.arange(1, shape[0] + 1).reshape(
            -1, *[1] * (len(shape) - 1)
        )
    if dtype.startswith("complex"):
        values = values * (1 + 0.5j)
    return np.ascontiguousarray(values.astype(dtype))

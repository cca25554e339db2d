"""Programs of nested tensors, evaluated with torch and with rushlight, and how their results are compared."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import rushlight

SIZES = {"several": (2, 4, 1), "one": (3,), "empty": (2, 0, 3), "equal": (2, 2)}
NESTED = ("n", "m", "h", "k", "e")


def numbers(sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The values of everything that a program may name, rows packed: multiples of 1/64, exact as bfloat16."""
    random = np.random.default_rng(3)
    total, batch, longest = sum(sizes), len(sizes), max(sizes)
    shapes = {
        "n": (total, 4),
        "m": (total, 4),
        "h": (total, 2, 3),
        "k": (total, 2, 3),
        "e": (total,),
        "w": (5, 4),
        "v": (4,),
        "d": (batch, 1, 4),
        "p": (batch, longest, 4),
        "t": (2, 3),
    }
    return {name: random.integers(-128, 128, shape) / 64 for name, shape in shapes.items()}


def scope(lib: Any, sizes: tuple[int, ...], dtype: str, grad: bool = True) -> dict[str, Any]:
    """What programs may name: leaves of the same values for both libraries."""
    kind = getattr(lib, dtype)
    found: dict[str, Any] = {"L": lib, "F": lib.nn.functional, "N": lib.nested, "B": len(sizes), "kind": kind}
    offsets = lib.tensor(np.cumsum((0, *sizes)).tolist())

    def nested(values: Any) -> Any:
        return lib.nested.nested_tensor_from_jagged(
            values, offsets, max_seqlen=max(sizes), min_seqlen=min(sizes)
        ).detach()

    for name, array in numbers(sizes).items():
        tensor = lib.tensor(array.tolist(), dtype=kind).reshape(array.shape)
        found[name] = (nested(tensor) if name in NESTED else tensor).requires_grad_(grad)
    found["i"] = nested(lib.tensor((np.arange(sum(sizes)) % 5).tolist(), dtype=lib.int64))
    return found


def row_scope(leaves: dict[str, Any], sizes: tuple[int, ...], index: int) -> dict[str, Any]:
    """The same for one row alone, as a dense batch of one, computed from `leaves`."""
    found: dict[str, Any] = {"L": torch, "F": torch.nn.functional, "B": 1, "kind": torch.float64, **leaves}
    first, size = sum(sizes[:index]), sizes[index]
    for name in NESTED:
        found[name] = leaves[name][first : first + size].unsqueeze(0)
    found["d"], found["p"] = leaves["d"][index : index + 1], leaves["p"][index : index + 1, :size]
    found["i"] = (torch.arange(sum(sizes)) % 5)[first : first + size].unsqueeze(0)
    return found


def evaluate(expression: str, values: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(expression, dict(values))


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor | rushlight.Tensor)


def rows_of(value: Any) -> list[Any]:
    return list(value.unbind()) if value.is_nested else [value]


def assert_same(actual: Any, expected: Any, where: str = "result") -> None:
    """Structure, dtypes and values agree."""
    if isinstance(expected, tuple | list):
        assert len(actual) == len(expected), where
        for i, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
            assert_same(ours, theirs, f"{where}[{i}]")
        return
    if not isinstance(expected, torch.Tensor):
        assert actual == expected, where
        return
    assert f"torch.{actual.dtype.name}" == str(expected.dtype), where
    assert actual.is_nested == expected.is_nested, where
    if expected.is_nested:
        assert actual._ragged_idx == expected._ragged_idx, where
        ours = [n for i, n in enumerate(actual.shape) if i != actual._ragged_idx]
        assert ours == [n for i, n in enumerate(expected.shape) if i != expected._ragged_idx], where
        assert (actual.lengths() is None) == (expected.lengths() is None), where
        if expected.lengths() is None:
            assert actual.offsets().tolist() == expected.offsets().tolist(), where
    for ours, theirs in zip(rows_of(actual), rows_of(expected), strict=True):
        assert tuple(ours.shape) == tuple(theirs.shape), where
        plain = torch.tensor(ours.detach().tolist(), dtype=theirs.dtype).reshape(theirs.shape)
        torch.testing.assert_close(plain, theirs.detach(), equal_nan=True, msg=lambda m: f"{where}: {m}")


def weighted(tensor: Any, lib: Any) -> Any:
    """A sum of the elements with different weights, in double precision."""
    weights = lib.tensor(np.cos(np.arange(tensor.numel())).tolist(), dtype=lib.float64)
    return (tensor.to(lib.float64) * weights.reshape(tensor.shape)).sum()


def parts_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]

"""`result_type` agrees with PyTorch for every pair of dtypes, with and without dimensions, and with numbers."""

from __future__ import annotations

import itertools

import pytest
import torch

import rushlight as rl

NAMES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
NUMBERS = [True, 2, 1.5, 1j]


@pytest.mark.parametrize("name", NAMES)
def test_result_type(name: str) -> None:
    for other, a, b in itertools.product(NAMES, [(), (2,)], [(), (2,)]):
        wanted = torch.result_type(
            torch.ones(a, dtype=getattr(torch, name)), torch.ones(b, dtype=getattr(torch, other))
        )
        got = rl.result_type(rl.ones(a, dtype=getattr(rl, name)), rl.ones(b, dtype=getattr(rl, other)))
        assert got.name == _name(wanted), (other, a, b)
    for number in NUMBERS:
        wanted = torch.result_type(torch.ones(2, dtype=getattr(torch, name)), number)
        got = rl.result_type(rl.ones(2, dtype=getattr(rl, name)), number)
        assert got.name == _name(wanted), number


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def test_result_type_refuses_other_objects() -> None:
    with pytest.raises(TypeError, match="str"):
        rl.result_type(rl.ones(2), "2")


def test_typename() -> None:
    assert rl.typename(rl.ones(2)) == "rushlight.FloatTensor"
    assert rl.typename(3) == torch.typename(3)

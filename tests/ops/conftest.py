"""How the tests of the operator floors compare with PyTorch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight

NAMES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "uint8",
    "int8",
    "int32",
    "int64",
)
SCOPES = {
    lib: {
        "lib": lib,
        "T": lib.tensor,
        "nan": math.nan,
        "inf": math.inf,
        "bool_": lib.bool,
        **{name: getattr(lib, name) for name in NAMES},
    }
    for lib in (torch, rushlight)
}


def evaluate(expression: str, lib: Any) -> tuple[bool, Any, bool]:
    """(whether it raised, the result or the exception, whether it warned)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return False, eval(expression, dict(SCOPES[lib])), bool(caught)
        except Exception as error:
            return True, error, bool(caught)


def check_same(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list):
        assert len(actual) == len(expected)
        for ours, theirs in zip(actual, expected, strict=True):
            check_same(ours, theirs)
    elif isinstance(expected, torch.Tensor):
        check_same_tensor(actual, expected)
    else:
        assert actual == expected


def check_same_tensor(actual: Any, expected: torch.Tensor) -> None:
    assert f"torch.{actual.dtype.name}" == str(expected.dtype)
    assert tuple(actual.shape) == tuple(expected.shape)
    if expected.numel():
        assert tuple(actual.stride()) == expected.stride()
    ours = torch.tensor(actual.tolist(), dtype=expected.dtype).reshape(expected.shape)
    torch.testing.assert_close(ours, expected, equal_nan=True)


@pytest.fixture
def like_pytorch() -> Callable[[str], None]:
    """Checks an expression that is evaluated twice, with `lib` meaning torch and then rushlight.

    Values, dtypes, shapes, strides, the type of an exception and whether it warns must agree. Also in scope
    are T (lib.tensor), nan, inf and the dtypes by name.
    """

    def check(expression: str) -> None:
        raises, expected, warns = evaluate(expression, torch)
        raised, actual, warned = evaluate(expression, rushlight)
        if raises:
            assert raised, f"nothing was raised, expected {expected!r}"
            assert isinstance(actual, type(expected)), f"{actual!r} is not a {type(expected).__name__}"
            assert str(actual)
            return
        if raised:
            raise actual
        check_same(actual, expected)
        assert warned == warns

    return check

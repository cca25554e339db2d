"""How the tests of derivatives compare with PyTorch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight

inf, nan = math.inf, math.nan


def counting(lib: Any, tensor: Any) -> Any:
    """1, 2, 3, ... in the shape and dtype of `tensor`."""
    return lib.arange(1, tensor.numel() + 1).to(tensor.dtype).reshape(tuple(tensor.shape))


def outputs(result: Any) -> list[Any]:
    results = list(result) if isinstance(result, tuple | list) else [result]
    return [tensor for tensor in results if tensor.is_floating_point() or tensor.is_complex()]


def derivatives(lib: Any, expression: str, value: Any) -> list[Any]:
    """The gradient and the tangents of the expression at x = value."""
    x = lib.tensor(value, dtype=lib.complex128 if has_complex(value) else lib.float64, requires_grad=True)
    scope = {"lib": lib, "inf": inf, "nan": nan}
    results = outputs(eval(expression, {**scope, "x": x}))
    weights = [counting(lib, tensor) for tensor in results]
    (gradient,) = lib.autograd.grad(results, x, weights, allow_unused=True)
    with lib.autograd.forward_ad.dual_level():
        dual = lib.autograd.forward_ad.make_dual(x.detach(), counting(lib, x))
        tangents = [
            lib.autograd.forward_ad.unpack_dual(tensor).tangent
            for tensor in outputs(eval(expression, {**scope, "x": dual}))
        ]
    found = [gradient, *tangents]
    return [
        None if tensor is None or tensor.numel() == 0 else tensor.detach().resolve_conj().tolist()
        for tensor in found
    ]


def has_complex(value: Any) -> bool:
    return any(map(has_complex, value)) if isinstance(value, list) else isinstance(value, complex)


def zero_if_none(value: Any, like: Any) -> Any:
    if isinstance(like, list):
        return [zero_if_none(value, part) for part in like]
    return 0.0 if value is None else value


@pytest.fixture
def first_order() -> Callable[..., None]:
    """`first_order(expression, value)`: gradient and tangents of an expression of x, at value, are PyTorch's.

    The expression is evaluated with `lib` meaning torch and with `lib` meaning rushlight. Cotangents and
    tangents are 1, 2, 3, ...; `modes` may name reverse or forward alone.
    """

    def check(expression: str, value: Any, modes: str = "reverse forward") -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = derivatives(torch, expression, value)
            actual = derivatives(rushlight, expression, value)
        for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
            if ("reverse", "forward")[number > 0] not in modes:
                continue
            theirs = zero_if_none(None, ours) if theirs is None else theirs
            ours = zero_if_none(None, theirs) if ours is None else ours
            torch.testing.assert_close(
                torch.tensor(ours), torch.tensor(theirs), rtol=1e-6, atol=1e-9, equal_nan=True
            )

    return check

"""Derivatives of convolutions: second order, groups, transposed, complex; against PyTorch's gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional

CASES = [
    ("conv1d", (2, 4, 7), (6, 2, 3), (6,), {"stride": 2, "padding": 1, "groups": 2}),
    ("conv2d", (1, 2, 5, 4), (3, 2, 2, 3), (3,), {"dilation": (2, 1), "padding": (0, 2)}),
    ("conv2d", (2, 3, 4, 4), (6, 1, 2, 2), (6,), {"groups": 3, "padding": "same"}),
    ("conv3d", (1, 1, 3, 3, 4), (2, 1, 2, 2, 2), (2,), {"stride": (1, 1, 2)}),
    ("conv_transpose1d", (2, 4, 3), (4, 2, 3), (4,), {"stride": 3, "output_padding": 2, "groups": 2}),
    ("conv_transpose2d", (1, 2, 3, 3), (2, 3, 2, 3), (3,), {"stride": 2, "padding": 1, "dilation": 2}),
]


def leaves(shapes: Any, lib: Any, dtype: str = "float64") -> list[Any]:
    generator = np.random.default_rng(0)
    drawn = [generator.standard_normal(shape) for shape in shapes]
    if dtype == "complex128":
        drawn = [d + 1j * generator.standard_normal(d.shape) for d in drawn]
    return [lib.tensor(d).requires_grad_() for d in drawn]


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # torch's, of its own copies
@pytest.mark.parametrize(("name", "x", "weight", "bias", "settings"), CASES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients(name: str, x: Any, weight: Any, bias: Any, settings: Any, dtype: str) -> None:
    found = []
    for lib, functions in ((rushlight, functional), (torch, torch.nn.functional)):
        given = leaves((x, weight, bias), lib, dtype)
        result = getattr(functions, name)(*given, **settings)
        (result * result).abs().sum().backward()
        found.append([g.grad.numpy() for g in given])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "x", "weight", "bias", "settings"), CASES[::2] + CASES[-1:])
def test_second_order(name: str, x: Any, weight: Any, bias: Any, settings: Any) -> None:
    given = leaves((x, weight, bias), rushlight)

    def run(*args: Any) -> Any:
        return getattr(functional, name)(*args, **settings)

    assert gradcheck(run, given, check_forward_ad=True)
    assert gradgradcheck(run, given)


def test_only_what_is_asked() -> None:
    """A frozen weight costs no gradient, and none is made up."""
    x, weight = leaves(((1, 2, 5), (3, 2, 3)), rushlight)
    functional.conv1d(x, weight.detach()).sum().backward()
    assert weight.grad is None
    np.testing.assert_allclose(x.grad.numpy()[0, :, 2], weight.detach().sum((0, 2)).numpy())
    x.grad = None
    functional.conv1d(x.detach(), weight).sum().backward()
    assert x.grad is None
    assert weight.grad is not None


def test_columns() -> None:
    (x,) = leaves(((2, 3, 4, 5),), rushlight)
    assert gradgradcheck(lambda x: functional.unfold(x, (2, 2), (1, 2), (1, 0), (2, 1)) ** 2, (x,))
    (columns,) = leaves(((1, 8, 9),), rushlight)
    assert gradcheck(lambda c: functional.fold(c, (4, 5), (2, 2), (1, 2), (1, 0), (2, 1)), (columns,))

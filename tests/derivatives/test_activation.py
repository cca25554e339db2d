"""Second derivatives of activations, as PyTorch's at kinks and far out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight

VALUES = [-80.0, -20.5, -3.0, -1.7, -1.0, -0.5, 0.0, 0.3, 0.5, 1.0, 2.9, 3.0, 6.0, 20.5, 80.0]

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "elu": lambda f, x: f.elu(x, 1.3),
    "selu": lambda f, x: f.selu(x),
    "celu": lambda f, x: f.celu(x, 0.5),
    "gelu": lambda f, x: f.gelu(x),
    "gelu_tanh": lambda f, x: f.gelu(x, approximate="tanh"),
    "silu": lambda f, x: f.silu(x),
    "mish": lambda f, x: f.mish(x),
    "softplus": lambda f, x: f.softplus(x, 3.0, 2.0),
    "logsigmoid": lambda f, x: f.logsigmoid(x),
    "hardswish": lambda f, x: f.hardswish(x),
    "hardtanh": lambda f, x: f.hardtanh(x) ** 2,
    "leaky_relu": lambda f, x: f.leaky_relu(x) ** 2,
    "softshrink": lambda f, x: f.softshrink(x) ** 2,
    "threshold": lambda f, x: f.threshold(x, 0.5, 2.0) ** 2,
    "glu": lambda f, x: f.glu(x.repeat(2)) * x,
    "prelu": lambda f, x: f.prelu(x, x[:1]) ** 2,
    "softmax": lambda f, x: f.softmax(x, 0),
    "log_softmax": lambda f, x: f.log_softmax(x, 0),
}


@pytest.mark.parametrize("name", CALLS)
def test_second_order(name: str) -> None:
    results = []
    for lib in (rushlight, torch):
        x = lib.tensor(VALUES, dtype=lib.float64, requires_grad=True)
        weights = lib.linspace(1, 2, len(VALUES), dtype=lib.float64)
        y = (CALLS[name](lib.nn.functional, x) * weights).sum()
        (first,) = lib.autograd.grad(y, x, create_graph=True)
        (second,) = lib.autograd.grad((first * weights).sum(), x)
        results.append((first.detach().numpy(), second.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)

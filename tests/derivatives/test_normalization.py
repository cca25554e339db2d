"""Derivatives of normalizations: what the conformance sweep does not look at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.core.dispatch import run_name
from rushlight.nn import functional

NORMS = {
    "layer_norm": lambda lib, x, w: lib.nn.functional.layer_norm(x, (3,), w, w),
    "rms_norm": lambda lib, x, w: lib.nn.functional.rms_norm(x, (3,), w),
    "group_norm": lambda lib, x, w: lib.nn.functional.group_norm(x, 3, w, w),
    "batch_norm": lambda lib, x, w: lib.nn.functional.batch_norm(x, None, None, w, w, training=True),
    "instance_norm": lambda lib, x, w: lib.nn.functional.instance_norm(
        x.unsqueeze(-1) * leaf(lib, 2, 4), weight=w
    ),
}


def leaf(lib: Any, seed: int, *shape: int, dtype: str = "float64") -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return lib.from_numpy(values.astype(dtype)).requires_grad_()


@pytest.mark.parametrize("name", NORMS)
def test_second_order(name: str) -> None:
    """Statistics are functions of the input in the second derivative as well."""
    results = []
    for lib in (rushlight, torch):
        x, w = leaf(lib, 0, 5, 3), leaf(lib, 1, 3)
        y = NORMS[name](lib, x, w)
        first = lib.autograd.grad((y**3).sum(), [x, w], create_graph=True)
        second = lib.autograd.grad((first[0] ** 2).sum() + (first[1] ** 2).sum(), [x, w])
        results.append([t.detach().numpy() for t in (*first, *second)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("native_layer_norm", ((3,), None, None, 1e-3)),
        ("_fused_rms_norm", ((3,), None, 1e-3)),
        ("native_group_norm", (None, None, 5, 3, 1, 1, 1e-3)),
    ],
)
def test_statistics_are_differentiable(name: str, arguments: tuple[Any, ...]) -> None:
    def function(x: Any) -> Any:
        return run_name(name, x, *arguments)

    x = leaf(rushlight, 3, 5, 3)
    assert gradcheck(function, (x,), check_forward_ad=True)
    assert gradgradcheck(function, (x,))


def test_far_from_zero() -> None:
    """A mean a thousand times the deviation costs no digits of the gradient."""
    x = np.random.default_rng(0).standard_normal((4, 64)) + 1000
    gradients = {}
    for dtype in ("float32", "float64"):
        leafs = rushlight.from_numpy(x.astype("float32").astype(dtype)).requires_grad_()
        (functional.layer_norm(leafs, (64,)) ** 3).sum().backward()
        gradients[dtype] = leafs.grad.numpy()
    np.testing.assert_allclose(gradients["float32"], gradients["float64"], rtol=1e-3, atol=2e-3)


def test_two_forwards_before_one_backward() -> None:
    """Writing the running statistics again does not spoil what an earlier call saved."""
    mean, var = rushlight.zeros(3), rushlight.ones(3)
    x = leaf(rushlight, 0, 4, 3, dtype="float32")
    first = functional.batch_norm(x, mean, var, training=True)
    frozen = functional.batch_norm(x, mean, var)
    second = functional.batch_norm(x * 2, mean, var, training=True)
    ((first + second) ** 3 + frozen).sum().backward()
    assert x.grad.isfinite().all()


def test_gradients_compiled() -> None:
    mean, var = rushlight.zeros(3), rushlight.ones(3)

    def loss(x: Any, w: Any) -> Any:
        y = functional.batch_norm(x, mean, var, w, w, training=True)
        z = functional.layer_norm(y, (2,)) * functional.group_norm(y, 3, w)
        return (z * functional.rms_norm(y, (3, 2))).sum()

    compiled = rushlight.compile(loss, fullgraph=True)
    results = []
    for function in (loss, compiled):
        mean.zero_()
        var.fill_(1)
        x, w = leaf(rushlight, 0, 4, 3, 2, dtype="float32"), leaf(rushlight, 1, 3, dtype="float32")
        function(x, w).backward()
        results.append([t.numpy().copy() for t in (x.grad, w.grad, mean, var)])
    for eager, native in zip(*results, strict=True):
        np.testing.assert_allclose(native, eager, rtol=1e-4, atol=1e-5)

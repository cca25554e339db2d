"""Normalizations against PyTorch: statistics, running averages, layouts, half precision, messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name

F = "lib.nn.functional"
X = "lib.linspace(-2, 3, 48).reshape(4, 6, 2).sin()"
W = "lib.linspace(0.5, 1.5, 6)"


@pytest.mark.parametrize(
    "expression",
    [
        f"{F}.layer_norm({X}, (6, 2), {W}.repeat(2).reshape(6, 2), {W}.repeat(2).reshape(6, 2))",
        f"{F}.layer_norm({X}.transpose(0, 1), (2,))",
        f"{F}.layer_norm({X}.bfloat16(), (2,))",
        f"{F}.layer_norm({X}.bfloat16().transpose(1, 2), (6,), {W}, {W})",
        f"{F}.layer_norm({X}[:0], (2,))",
        f"{F}.layer_norm({X} * 0, (2,))",
        f"lib.native_layer_norm({X}, (2,), None, None, 1e-3)",
        f"lib.native_layer_norm({X}.bfloat16().transpose(1, 2), (6,), {W}, {W}, 1e-3)",
        f"{F}.rms_norm({X}, (2,), {W}[:2])",
        f"{F}.rms_norm({X} * 1e-5, (6, 2), eps=1e-3)",
        f"{F}.rms_norm({X}.bfloat16(), (2,))",
        f"{F}.group_norm({X}, 3, {W}, {W})",
        f"{F}.group_norm({X}.transpose(1, 2), 2)",
        f"{F}.group_norm({X}.reshape(1, 6, 2, 4).contiguous(memory_format=lib.channels_last), 2, {W})",
        f"{F}.group_norm({X}[:0], 2)",
        f"lib.native_group_norm({X}, {W}, None, 4, 6, 2, 3, 1e-3)",
        f"{F}.instance_norm({X}, weight={W}, bias={W})",
        f"{F}.instance_norm({X}, {W}, {W}, use_input_stats=False)",
        f"{F}.batch_norm({X}, {W}, {W}, {W}, {W})",
        f"{F}.batch_norm({X}, None, None, {W}, training=True)",
        f"{F}.batch_norm({X}.reshape(2, 6, 2, 2).contiguous(memory_format=lib.channels_last), {W}, {W})",
        f"{F}.batch_norm({X}.bfloat16(), {W}, {W}, {W}, {W}, training=True)",
        f"{F}.batch_norm({X}[:0], {W}, {W}, {W}, {W}, training=True)",
        f"lib.native_batch_norm({X}, {W}, {W}, None, None, True, 0.1, 1e-3)",
        f"lib.native_batch_norm({X}, {W}, {W}, {W}, {W}, False, 0.1, 1e-3)",
        f"{F}.local_response_norm({X}, 3, alpha=0.5)",
        f"{F}.local_response_norm({X}, 4, k=2.0)",
        f"{F}.normalize({X})",
        f"{F}.normalize({X} * 0, dim=-1)",
        f"{F}.normalize({X}, p=1, dim=0, out=lib.empty(4, 6, 2))",
        f"lib._weight_norm({X}, lib.ones(4, 1, 1))",
        f"lib._weight_norm({X}, lib.ones(1, 1, 2), 2)",
    ],
)
def test_values(expression: str, like_pytorch: Callable[[str], None]) -> None:
    like_pytorch(expression)


@pytest.mark.parametrize(
    "expression",
    [
        f"{F}.layer_norm({X}, (3,))",
        f"{F}.layer_norm({X}, ())",
        f"{F}.layer_norm({X}, (2,), lib.ones(3))",
        f"{F}.layer_norm({X}, (2,), None, lib.ones(3))",
        f"{F}.layer_norm({X}.long(), (2,))",
        f"{F}.layer_norm({X}, (2,), lib.ones(2).double())",
        f"{F}.rms_norm({X}, (3,))",
        f"{F}.group_norm({X}, 4)",
        f"{F}.group_norm({X}, 3, lib.ones(3))",
        f"{F}.group_norm({X}[0, 0], 1)",
        f"{F}.group_norm(lib.ones(1, 2), 2)",
        f"{F}.batch_norm({X}[:1, :, 0], None, None, training=True)",
        f"{F}.batch_norm({X}, None, None)",
        f"{F}.batch_norm({X}, lib.ones(3), lib.ones(3))",
        f"{F}.batch_norm({X}, {W}, {W}, lib.ones(3))",
        f"{F}.instance_norm(lib.ones(2, 3, 1))",
        f"{F}.local_response_norm(lib.ones(2, 3), 3)",
    ],
)
def test_errors(expression: str, like_pytorch: Callable[[str], None]) -> None:
    like_pytorch(expression)


# Running statistics.


def running(lib: Any, steps: int, momentum: float, wrap: Callable[[Any], Any] = lambda f: f) -> Any:
    """The running statistics and the outputs of some training steps and one evaluation."""
    mean, var = lib.zeros(3), lib.ones(3)
    norm = lib.nn.functional.batch_norm
    train = wrap(lambda x: norm(x, mean, var, training=True, momentum=momentum))
    outputs = []
    for step in range(steps):
        values = np.random.default_rng(step).standard_normal((4, 3, 5)).astype(np.float32) * (step + 1)
        outputs.append(train(lib.from_numpy(values)))
    outputs.append(norm(outputs[-1], mean, var))
    return [tensor.numpy() for tensor in (mean, var, *outputs)]


@pytest.mark.parametrize("momentum", [0.1, 1.0, 0.0])
def test_running_statistics(momentum: float) -> None:
    expected = running(torch, 3, momentum)
    for wrap in (lambda f: f, rushlight.compile):
        for ours, theirs in zip(running(rushlight, 3, momentum, wrap), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_running_statistics_of_instances() -> None:
    results = []
    for lib in (rushlight, torch):
        mean, var = lib.zeros(3), lib.ones(3)
        values = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float32)
        y = lib.nn.functional.instance_norm(lib.from_numpy(values), mean, var, momentum=0.3)
        results.append([t.numpy() for t in (mean, var, y)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_small_variances_are_remembered_exactly() -> None:
    """A variance far below eps must not be recovered from 1 / sqrt(var + eps)."""
    x = rushlight.tensor([[1.0], [1.0 + 2**-12]])
    mean, var = rushlight.zeros(1), rushlight.zeros(1)
    rushlight.nn.functional.batch_norm(x, mean, var, training=True, momentum=1.0, eps=1.0)
    assert var.item() == 2.0**-25


def test_functional_form_writes_nothing() -> None:
    x, mean, var = rushlight.randn(4, 3), rushlight.zeros(3), rushlight.ones(3)
    results = run_name("_native_batch_norm_legit_functional", x, None, None, mean, var, True, 0.5, 1e-5)
    assert mean.equal(rushlight.zeros(3))
    rushlight.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.5)
    assert results[3].equal(mean)
    assert results[4].equal(var)


def test_backend_names() -> None:
    x, w = rushlight.randn(4, 3, 2), rushlight.randn(3)
    expected = run_name("native_batch_norm", x, w, w, None, None, True, 0.1, 1e-5)
    for name in ("cudnn_batch_norm", "miopen_batch_norm"):
        found = getattr(rushlight.ops.aten, name)(x, w, w, None, None, True, 0.1, 1e-5)
        for ours, theirs in zip(found, expected, strict=False):
            assert ours.equal(theirs)

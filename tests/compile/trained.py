"""A small model that is trained, compiled and not, for the tests of native calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.nn import functional as F
from rushlight.runtime.invoke import available

native = pytest.mark.skipif(not available(), reason="no native calls on this interpreter")

INPUTS, OUTPUTS = 40, 64  # a weight of more than 4,096 bytes, a bias of less


class Trained:
    """A model with its step: forward, backward and AdamW, compiled or not."""

    def __init__(self, *, compiled: bool, zero_grad: bool = True) -> None:
        rl.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.Tanh(), nn.Linear(OUTPUTS, 3))
        self.optimizer = optimizer = optim.AdamW(self.model.parameters(), lr=1e-2)
        model = self.model

        def step(x: Any, target: Any) -> Any:
            if zero_grad:
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            optimizer.step()
            return loss

        self.step = rl.compile(step, fullgraph=True) if compiled else step
        self.x = rl.tensor(np.random.default_rng(0).standard_normal((8, INPUTS)).astype(np.float32))
        self.target = rl.tensor(np.arange(8) % 3)

    def __call__(self) -> float:
        return float(self.step(self.x, self.target))

    def parameters(self) -> list[Any]:
        return list(self.model.parameters())

    def specialization(self) -> Any:
        (entries,) = self.step.specializations.values()
        return entries[-1]


def addresses(trained: Trained) -> list[int]:
    return [p.grad.data_ptr() for p in trained.parameters()]


def assert_same(found: Trained, expected: Trained) -> None:
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-6)
        kept, wanted = found.optimizer.state[a], expected.optimizer.state[b]
        for name, value in wanted.items():
            np.testing.assert_allclose(kept[name].numpy(), value.numpy(), rtol=1e-4, atol=1e-7)
            assert kept[name]._version == value._version
        assert a._version == b._version


def both(steps: int = 3) -> tuple[Trained, Trained]:
    found, expected = Trained(compiled=True), Trained(compiled=False)
    for _ in range(steps):
        assert found() == pytest.approx(expected(), rel=1e-5)
    return found, expected

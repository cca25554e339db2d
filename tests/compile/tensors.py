"""Tensors of random values, and how the tests of compiled functions compare results."""

from __future__ import annotations

import numpy as np

import rushlight as rl


def tensor(*shape: int, seed: int = 0, dtype=np.float32) -> rl.Tensor:
    return rl.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def assert_same(a, b) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)

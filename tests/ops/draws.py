"""What the tests of random operators share: sizes of samples, and tensors to draw into."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight

COUNT = 20_000
ALPHA = 1e-4
FLOATS = ["float16", "bfloat16", "float32", "float64"]


@pytest.fixture(autouse=True)
def seeded():
    """Every test starts from the same state and leaves the generator as it was."""
    with rushlight.random.fork_rng():
        rushlight.manual_seed(20240)
        yield


def blank(*shape, dtype="float32"):
    return rushlight.empty(shape or (COUNT,), dtype=getattr(rushlight, dtype))


def full(value, dtype="float32"):
    return rushlight.full((COUNT,), float(value), dtype=getattr(rushlight, dtype))


def values(tensor):
    return tensor.numpy().astype(np.float64).reshape(-1)

"""What the tests of products share: samples, and how results are compared with PyTorch's."""

from __future__ import annotations

import numpy as np
import torch

import rushlight

TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-5, "complex64": 1e-5}


def to_torch(value):
    if isinstance(value, rushlight.Tensor):
        name = value.dtype.name
        array = value.resolve_conj().numpy().copy()
        if name in ("bfloat16", "float16"):
            return torch.from_numpy(array.astype(np.float32)).to(getattr(torch, name))
        return torch.from_numpy(array)
    if isinstance(value, list | tuple):
        return type(value)(to_torch(item) for item in value)
    return value


def check(function, *args, exact=False, **kwargs):
    """`function(module, *args)` gives the same on both sides."""
    actual = function(rushlight, *args, **kwargs)
    expected = function(torch, *[to_torch(a) for a in args], **kwargs)
    rtol = 0.0 if exact else TOLERANCE.get(actual.dtype.name, 1e-12)
    assert f"torch.{actual.dtype.name}" == str(expected.dtype)
    torch.testing.assert_close(
        to_torch(actual), expected, rtol=rtol, atol=0.0 if exact else rtol, equal_nan=True
    )
    return actual


def sample(*shape, dtype="float32", seed=0):
    random = np.random.default_rng([seed, *shape])
    values = random.integers(-4, 5, shape).astype(np.float64)
    if dtype.startswith("complex"):
        values = values + 1j * random.integers(-4, 5, shape)
    if dtype == "uint8":
        values = np.abs(values)
    return rushlight.tensor(values).to(getattr(rushlight, dtype))

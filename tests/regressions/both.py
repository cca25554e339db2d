"""Scenarios that run with torch and with rushlight."""

from __future__ import annotations

import numpy as np
import torch

import rushlight as rl


def values(tree):
    """Nested lists of what a library returned."""
    if isinstance(tree, tuple | list):
        return [values(item) for item in tree]
    return tree.tolist() if hasattr(tree, "tolist") else tree


def same(scenario, **tolerance):
    """`scenario(library)` gives the same numbers for both libraries; NaN is the same as NaN."""
    expected, actual = values(scenario(torch)), values(scenario(rl))
    np.testing.assert_equal(np.shape(actual), np.shape(expected))
    np.testing.assert_allclose(actual, expected, equal_nan=True, **{"rtol": 1e-5, "atol": 1e-6} | tolerance)


def leaf(m, data, dtype="float64"):
    return m.tensor(data, dtype=getattr(m, dtype), requires_grad=True)

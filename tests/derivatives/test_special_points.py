"""Derivatives at points where formulas are prone to divide by zero, choose a side or lose an infinity.

Every function of one or two real tensors that PyTorch's table of operators has is differentiated once and
twice at zeros, ties, kinks, infinities and huge and tiny numbers; wherever PyTorch's answer is finite, ours
is the same.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing._internal.common_methods_invocations import BinaryUfuncInfo, UnaryUfuncInfo, op_db

import rushlight as rl

POINTS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    6.0,
    20.0,
    -20.0,
    1e-30,
    -1e-30,
    1e30,
    -1e30,
    math.inf,
    -math.inf,
    math.pi / 2,
]
PAIRS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 1e-30, 1e30, math.inf, -math.inf]

# What takes other arguments, gives several results, or only changes the dtype.
NOT_OF_TENSORS = {
    "bfloat16",
    "cdouble",
    "cfloat",
    "chalf",
    "double",
    "fill",
    "float",
    "frexp",
    "half",
    "nn.functional.prelu",
    "nn.functional.threshold",
}

ONCE = {"nn.functional.hardsigmoid"}  # PyTorch has no second derivative of it

# Ours is the limit, or the derivative of what the function is there; PyTorch's another finite number.
BETTER = {
    "sinc": "the second derivative at tiny numbers is that at 0",
    "special.i1e": "the second derivative at tiny numbers is that of x exp(-|x|) / 2",
    "pow": "the mixed derivative for the exponent 0 is 1 / base",
    "float_power": "as pow",
}


def _named(kind):
    found = {}
    for op in op_db:
        if (
            isinstance(op, kind)
            and not op.variant_test_name
            and op.supports_autograd
            and torch.float64 in op.dtypes
            and not op.name.startswith("__")
        ):
            found[op.name] = op
    return sorted(found.keys() - NOT_OF_TENSORS)


def _function(m, name):
    for part in name.split("."):
        m = getattr(m, part)
    return m


def _derivatives(m, name, columns):
    """The value, the gradients and the gradients of their sums, as lists of columns."""
    inputs = [m.tensor(column, dtype=m.float64, requires_grad=True) for column in columns]
    result = _function(m, name)(*inputs)
    if not result.requires_grad or result.is_complex():
        return None
    first = m.autograd.grad(result.sum(), inputs, create_graph=True, allow_unused=True)
    second = []
    for gradient in first if name not in ONCE else ():
        if gradient is not None and gradient.requires_grad:
            second += m.autograd.grad(gradient.sum(), inputs, retain_graph=True, allow_unused=True)
    return [None if g is None else (g.detach() + 0).tolist() for g in (result, *first, *second)]


def _differences(name, columns):
    expected = _derivatives(torch, name, columns)
    if expected is None:
        return []
    actual = _derivatives(rl, name, columns)
    if actual is None:
        return [f"{name}: no gradient"]
    found = []
    labels = ["value", *[f"d{i}" for i in range(len(expected) - 1)]]
    for label, ours, theirs in zip(labels, actual, expected, strict=False):
        theirs = [0.0] * len(columns[0]) if theirs is None else theirs
        ours = [0.0] * len(columns[0]) if ours is None else ours
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            # where the function itself has no value, neither has its derivative
            defined = math.isfinite(b) and not math.isnan(expected[0][i])
            if defined and not math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12):
                found.append(f"{name}{tuple(column[i] for column in columns)} {label}: {a}, PyTorch {b}")
    return found


@pytest.mark.parametrize("name", [n for n in _named(UnaryUfuncInfo) if n not in BETTER])
def test_functions_of_one_tensor(name):
    assert not _differences(name, [POINTS])


@pytest.mark.parametrize("name", [n for n in _named(BinaryUfuncInfo) if n not in BETTER])
def test_functions_of_two_tensors(name):
    pairs = [(a, b) for a in PAIRS for b in PAIRS]
    assert not _differences(name, [[a for a, _ in pairs], [b for _, b in pairs]])

"""The NumPy handler: each instruction on its own, and the contract that every scalar body keeps with it."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.core import pointwise
from rushlight.core.registry import REGISTRY, Kind
from rushlight.kernels.handler import NumpyHandler as ops

SINGLE = np.float32


def test_fma_rounds_once():
    x = np.float32(1 + 2**-12)
    assert ops.fma(x, x, np.float32(-1)) == np.float32(float(x) * float(x) - 1)
    assert ops.fma(x, x, np.float32(-1)) != x * x - np.float32(1)


@pytest.mark.parametrize(
    ("x", "y", "floor", "trunc", "remainder", "fmod"),
    [
        (7, 2, 3, 3, 1, 1),
        (-7, 2, -4, -3, 1, -1),
        (7, -2, -4, -3, -1, 1),
        (-7, -2, 3, 3, -1, -1),
        (6, 3, 2, 2, 0, 0),
        (-6, 3, -2, -2, 0, 0),
    ],
)
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32])
def test_quotients_and_remainders(x, y, floor, trunc, remainder, fmod, dtype):
    a, b = np.array([x], dtype), np.array([y], dtype)
    assert ops.floor_div(a, b) == floor and ops.trunc_div(a, b) == trunc
    assert ops.remainder(a, b) == remainder and ops.fmod(a, b) == fmod


@pytest.mark.parametrize("name", ["floor_div", "trunc_div", "remainder", "fmod"])
def test_integer_division_by_zero_raises(name):
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        getattr(ops, name)(np.array([1, 2]), np.array([1, 0]))


def test_integer_powers():
    base = np.array([2, 2, 1, -1, -1, 0, 3])
    exponent = np.array([3, -1, -5, -2, -3, -1, 0])
    assert ops.pow(base, exponent).tolist() == [8, 0, 1, 1, -1, 0, 1]


def test_constants_wrap_around():
    assert ops.constant(300, like=np.zeros(1, np.uint8)) == 44
    assert ops.constant(1.5, like=np.zeros(1, np.int64)) == 1


def test_iterate_counts_by_element():
    count = np.array([[0, 1], [3, -2]])
    total, steps = ops.iterate(count, (np.float32(0), np.float32(0)), lambda k, total, n: (total + k, n + 1))
    assert steps.tolist() == [[0, 1], [3, 0]] and total.tolist() == [[0, 0], [3, 0]]
    assert total.dtype == np.float32


def test_iterate_of_nothing():
    count = np.zeros((0,), np.int64)
    assert ops.iterate(count, (np.float32(1),), lambda k, x: (x + 1,))[0] == 1


def test_complex_is_made_of_its_parts():
    value = ops.complex(np.array([1, -0.0], SINGLE), np.array([np.inf, np.nan], SINGLE))
    assert value.dtype == np.complex64
    assert ops.real(value).tolist() == [1, -0.0] and np.signbit(ops.real(value)[1])
    assert ops.imag(value)[0] == np.inf and np.isnan(ops.imag(value)[1])


@pytest.mark.parametrize("name", ["erf", "lgamma", "digamma", "i0e", "erfcx", "airy_ai"])
def test_special_functions_are_rounded_from_double(name):
    x = np.linspace(0.1, 5, 50, dtype=SINGLE)
    result = getattr(ops, name)(x)
    assert result.dtype == SINGLE
    assert (result == getattr(ops, name)(x.astype(np.float64)).astype(SINGLE)).all()


# The contract of bodies: one dtype per instruction, and only instructions that there are.

MIXED = ("cast", "dtype", "constant", "iterate", "logical_and", "logical_or", "logical_not", "logical_xor")


class Checked:
    """The NumPy handler, checking that all operands of an instruction have one dtype."""

    def __getattr__(self, name):
        instruction = getattr(ops, name)
        if name == "where":
            return self.where
        if name in MIXED:
            return instruction

        def checked(*values):
            kinds = {v.dtype for v in values}
            assert len(kinds) == 1, f"{name} got {kinds}"
            return instruction(*values)

        return checked

    @staticmethod
    def where(condition, x, y):
        assert condition.dtype == np.bool_, f"where got a condition of {condition.dtype}"
        assert x.dtype == y.dtype, f"where got {x.dtype} and {y.dtype}"
        return np.where(condition, x, y)


@pytest.fixture
def checking(monkeypatch):
    """Pointwise operators run on the checking handler, and remember no plans of it."""
    monkeypatch.setattr(pointwise, "_handler", Checked())
    saved = {op: op.plans for op in REGISTRY}
    for op in REGISTRY:
        op.plans = {}
    yield
    for op, plans in saved.items():
        op.plans = plans


def sample(op, dtype, fill):
    values = []
    for argument in op.schema.arguments:
        kind = argument.type.base
        if kind == "Tensor":
            kind = rushlight.bool if argument.name == "condition" else dtype
            values.append(rushlight.tensor([1, 0]).to(kind))
        elif argument.name in ("n", "p", "decimals", "order") or kind == "Scalar":
            values.append(1)
        elif kind == "str":
            values.append("hermite_polynomial_h" if argument.name == "polynomial" else fill)
        else:
            values.append(0.25 if kind == "float" and fill == "floor" else None)
    return tuple(values)


@pytest.mark.parametrize("fill", ["floor", "trunc", None])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8", "bool", "complex64"])
def test_bodies_keep_to_one_dtype(checking, dtype, fill):
    ran = 0
    for op in REGISTRY:
        if op.kind is not Kind.POINTWISE:
            continue
        try:
            pointwise.run_pointwise(op, sample(op, getattr(rushlight, dtype), fill))
            ran += 1
        except (NotImplementedError, RuntimeError):
            continue  # the operator does not take this dtype
    assert ran > 50

"""Closeness is torch.testing.assert_close's, and every difference of kind is told."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

from rushlight.testing.backends import TorchBackend
from rushlight.testing.compare import DEFAULT_TOLERANCES, Comparison, Mismatch, Tolerance, compare
from rushlight.testing.outcome import Items, TensorOutcome, Token


def tensor(values, dtype):
    array = np.asarray(values, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    return TensorOutcome(dtype, array.shape, None, "cpu", "strided", array)


@pytest.mark.parametrize("dtype", sorted(DEFAULT_TOLERANCES))
def test_default_tolerances_are_torchs(dtype):
    rtol, atol = torch.testing._comparison.default_tolerances(getattr(torch, dtype))
    assert DEFAULT_TOLERANCES[dtype] == Tolerance(rtol, atol)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("gap", [0.0, 1e-8, 5e-8, 2e-7, 1e-6, 1.2e-5, 1e-3, np.nan, np.inf])
@pytest.mark.parametrize("expected", [0.0, 1.0, -30.0, np.inf, -np.inf, np.nan])
def test_closeness_is_assert_closes(dtype, gap, expected):
    actual = expected if gap == 0.0 else expected + gap
    left, right = (
        torch.tensor([actual], dtype=getattr(torch, dtype)),
        torch.tensor([expected], dtype=getattr(torch, dtype)),
    )
    describe = TorchBackend().describe
    try:
        torch.testing.assert_close(left, right, equal_nan=True)
    except AssertionError:
        with pytest.raises(Mismatch):
            compare(describe(left), describe(right))
    else:
        compare(describe(left), describe(right))


def test_integers_and_bools_are_exact():
    compare(tensor([1, 2], "int64"), tensor([1, 2], "int64"))
    with pytest.raises(Mismatch, match="1 of 2 values differ"):
        compare(tensor([1, 2], "int64"), tensor([1, 3], "int64"))
    with pytest.raises(Mismatch, match="is True, expected False"):
        compare(tensor(True, "bool"), tensor(False, "bool"))


def test_half_types_are_compared_wide():
    compare(tensor([100.0], "bfloat16"), tensor([101.0], "bfloat16"))
    with pytest.raises(Mismatch, match=r"is 100\.0, expected 104\.0"):
        compare(tensor([100.0], "bfloat16"), tensor([104.0], "bfloat16"))


def test_the_worst_element_is_named():
    with pytest.raises(Mismatch, match=r"2 of 3 values differ .* at \[2\], is 9.0, expected 3.0"):
        compare(tensor([1.0, 2.5, 9.0], "float64"), tensor([1.0, 2.0, 3.0], "float64"))


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (1, 1.0, "expected float 1.0, got int 1"),
        (True, 1, "expected int 1, got bool True"),
        (None, 1, "expected int 1, got None"),
        (Token("float32"), Token("float64"), "is float32, expected float64"),
        (Items("list", (1,)), Items("tuple", (1,)), "expected tuple of 1, got list of 1"),
        (Items("tuple", (1,)), Items("tuple", (1, 2)), "expected 2 items, got 1"),
        (Items("tuple", (1,)), Items("named tuple", (1,), ("values",)), "expected named tuple"),
        (np.float64(1.0), 1.0, "got float64"),
    ],
)
def test_kinds_must_agree(actual, expected, message):
    with pytest.raises(Mismatch, match=message):
        compare(actual, expected)


def test_overrides_only_loosen():
    how = Comparison({"float32": Tolerance(0.0, 0.1)})
    compare(tensor([1.0], "float32"), tensor([1.05], "float32"), how)
    assert how.tolerance("float32") == Tolerance(1.3e-6, 0.1)
    assert how.tolerance("int64") == Tolerance(0.0, 0.0)

"""assert_close and make_tensor for programs, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rushlight


def changed(m: Any) -> Any:
    x = m.ones(2, 3)
    x[0, 1], x[1, 2] = 2, float("nan")
    return x


CASES = {
    "values": lambda m, a: (a, changed(m), {}),
    "one tolerance": lambda m, a: (a, a, {"rtol": 0.1}),
    "shape": lambda m, a: (a, a[0], {}),
    "dtype": lambda m, a: (a, a.double(), {}),
    "dtype unchecked": lambda m, a: (a, a.double(), {"check_dtype": False}),
    "list": lambda m, a: ([a], [changed(m)], {}),
    "keys": lambda m, a: ({"x": a}, {"y": a}, {}),
    "lengths": lambda m, a: ([a], [a, a], {}),
    "floats": lambda m, a: (1.0, 2.0, {}),
    "close floats": lambda m, a: (1.0, 1.0 + 1e-9, {}),
    "int and float": lambda m, a: (1, 1.0, {}),
    "texts": lambda m, a: ("a", "b", {}),
    "tensor and list": lambda m, a: (a, [1], {}),
    "nothing": lambda m, a: (None, None, {}),
    "integers": lambda m, a: (m.tensor([1, 2]), m.tensor([1, 3]), {}),
    "array and tensor": lambda m, a: (a, np.ones((2, 3)), {}),
    "number and tensor": lambda m, a: (1.0, m.tensor(1.0), {}),
    "arrays": lambda m, a: (np.ones(2), np.zeros(2), {}),
    "parameter": lambda m, a: (m.nn.Parameter(a), a, {}),
    "classes": lambda m, a: (m.nn.Parameter(a), a, {"allow_subclasses": False}),
    "nan": lambda m, a: (changed(m), changed(m), {}),
    "equal nan": lambda m, a: (changed(m), changed(m), {"equal_nan": True}),
    "within": lambda m, a: (a, a + 1e-6, {}),
    "half": lambda m, a: (a.half(), a.half() + 1e-3, {}),
    "given": lambda m, a: (a, a * 1.01, {"rtol": 0.1, "atol": 0}),
    "complex": lambda m, a: (m.tensor([1 + 1j]), m.tensor([1 + 1.1j]), {}),
    "strides": lambda m, a: (a.t(), a.t().contiguous(), {"check_stride": True}),
    "empty": lambda m, a: (m.empty(0), m.empty(0), {}),
    "layouts": lambda m, a: (a.to_sparse(), a, {}),
    "inf": lambda m, a: (float("inf"), float("inf"), {}),
    "meta": lambda m, a: (a.to("meta"), a, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_refuses_what_pytorch_refuses(case: str) -> None:
    outcomes = []
    for library in (torch, rushlight):
        actual, expected, options = CASES[case](library, library.ones(2, 3))
        try:
            library.testing.assert_close(actual, expected, **options)
            outcomes.append(None)
        except Exception as error:
            outcomes.append(type(error))
    assert outcomes[0] is outcomes[1]


def test_the_message_says_where_and_how_much() -> None:
    a, b = rushlight.ones(2, 3), rushlight.ones(2, 3)
    b[1, 2] = 3
    with pytest.raises(
        AssertionError,
        match=r"(?s)Mismatched elements: 1 / 6 \(16.7%\).*absolute difference: 2.0 at index \(1, 2\)"
        r".*item \['w'\]\[0\]",
    ):
        rushlight.testing.assert_close({"w": [a]}, {"w": [b]})
    with pytest.raises(AssertionError, match=r"^mine$"):
        rushlight.testing.assert_close(a, b, msg="mine")
    with pytest.raises(AssertionError, match=r"^mine: Tensor-likes"):
        rushlight.testing.assert_close(a, b, msg=lambda text: f"mine: {text}")


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float64", "int64", "uint8", "bool", "complex64"])
def test_random_tensors(name: str) -> None:
    dtype = getattr(rushlight, name)
    x = rushlight.testing.make_tensor(
        (3, 4), dtype=dtype, device="cpu", noncontiguous=True, exclude_zero=True
    )
    assert x.dtype is dtype and x.shape == (3, 4) and not x.is_contiguous() and bool((x != 0).all())
    y = rushlight.testing.make_tensor(
        500, dtype=dtype, device="cpu", **({} if name == "bool" else {"low": 2, "high": 5})
    )
    values = np.asarray(y.real.tolist() if y.is_complex() else y.tolist(), float)
    assert values.min() >= (0 if name == "bool" else 2) and values.max() <= 5 and values.std() > 0

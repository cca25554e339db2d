"""Numbers of every awkward kind become constants of every dtype as eager execution makes them (defect 4).

Each form is compiled once for a dtype, with all the numbers that it takes; those that eager execution refuses
must be refused with the same error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F

DTYPES = [
    rl.bool,
    rl.uint8,
    rl.uint16,
    rl.uint32,
    rl.uint64,
    rl.int8,
    rl.int16,
    rl.int32,
    rl.int64,
    rl.float16,
    rl.bfloat16,
    rl.float32,
    rl.float64,
    rl.complex64,
    rl.complex128,
]
NUMBERS = [
    0.5,
    -0.5,
    -1.5,
    1e-9,
    True,
    2,
    -1,
    -0.0,
    300,
    -300,
    float("inf"),
    -float("inf"),
    float("nan"),
    2**31,
    -(2**31) - 1,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    1e30,
    131008.0,
    1e300,
    1 + 2j,
]


def set_first(x, number):
    x = x.clone()
    x[0] = number
    return x


def set_where(x, number):
    x = x.clone()
    x[x == 1] = number
    return x


def set_listed(x, number):
    x = x.clone()
    x[rl.tensor([1])] = number
    return x


FORMS = {
    "full": lambda x, number: rl.full((2,), number, dtype=x.dtype),
    "full_like": rl.full_like,
    "new_full": lambda x, number: x.new_full((2,), number),
    "fill_": lambda x, number: x.clone().fill_(number),
    "masked_fill": lambda x, number: x.masked_fill(rl.tensor([True, False]), number),
    "masked_fill_": lambda x, number: x.clone().masked_fill_(rl.tensor([True, False]), number),
    "where": lambda x, number: rl.where(rl.tensor([True, False]), x, number),
    "where_first": lambda x, number: rl.where(rl.tensor([True, False]), number, x),
    "pad": lambda x, number: F.pad(x, (1, 1), value=number),
    "scatter": lambda x, number: x.scatter(0, rl.tensor([1]), number),
    "scatter_": lambda x, number: x.clone().scatter_(0, rl.tensor([1]), number),
    "index_fill": lambda x, number: x.index_fill(0, rl.tensor([1]), number),
    "index_fill_": lambda x, number: x.clone().index_fill_(0, rl.tensor([1]), number),
    "scalar_tensor": lambda x, number: rl.scalar_tensor(number, dtype=x.dtype),
    "tensor": lambda x, number: rl.tensor([number], dtype=x.dtype),
    "set_first": set_first,
    "set_where": set_where,
    "set_listed": set_listed,
    "folded": lambda x, number: rl.full((2,), number, dtype=x.dtype) == rl.ones(2, dtype=x.dtype),
    "cast": lambda x, number: rl.full((2,), number, dtype=x.dtype).to(rl.float64),
}
SAMPLE = ("full", "masked_fill_", "pad", "set_first", "scalar_tensor")


def bits(tensor: rl.Tensor) -> Any:
    array = (tensor.view(rl.int16) if tensor.dtype is rl.bfloat16 else tensor).numpy()
    if array.dtype.kind in "fc":
        array = np.where(array != array, np.nan, array).reshape(-1).view(np.uint8)
    return array


def check_form(form: str, dtype: rl.dtype) -> None:
    x = rl.tensor([True, False]).to(dtype)
    function = FORMS[form]
    taken, expected = [], []
    for number in NUMBERS:
        try:
            expected.append(function(x, number))
        except Exception as error:
            with pytest.raises(type(error)):
                rl.compile(lambda x, number=number: function(x, number), fullgraph=True)(x)
        else:
            taken.append(number)
    found = rl.compile(lambda x: [function(x, number) for number in taken], fullgraph=True)(x)
    for number, a, b in zip(taken, found, expected, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), number
        assert np.array_equal(bits(a), bits(b)), f"{number}: {a}, not {b}"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("form", SAMPLE)
def test_d4_constants(form, dtype):
    check_form(form, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("form", [form for form in FORMS if form not in SAMPLE])
def test_d4_constants_of_other_forms(form, dtype):
    check_form(form, dtype)


def test_a7_bools_filled_with_a_fraction():
    for dtype in (rl.bool, rl.uint8):
        for name, form in FORMS.items():
            x = rl.tensor([True, False]).to(dtype)
            found = rl.compile(lambda x, form=form: form(x, 0.5), fullgraph=True)(x)
            assert rl.equal(found, form(x, 0.5)), (name, dtype)


@pytest.mark.parametrize("number", [-0.5, -1.5])
def test_d4_unsigned_integers_take_no_negative_fraction(number):
    with pytest.raises(RuntimeError, match="without overflow"):
        rl.full((2,), number, dtype=rl.uint8)
    assert rl.full((2,), -1, dtype=rl.uint8).tolist() == [255, 255]
    with pytest.raises(RuntimeError, match="without overflow"):
        rl.full((2,), complex(0, 1e300), dtype=rl.complex64)

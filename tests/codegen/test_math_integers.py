"""Vector mathematics of integers and bools: wrapping, division that never traps, shifts, truth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rushlight.codegen.llvm.math import FUNCTIONS

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def some_integers(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    info, rng = np.iinfo(dtype), np.random.default_rng(40)
    x, y = (rng.integers(info.min, info.max, 3000, dtype, endpoint=True) for _ in range(2))
    y[:1500] = rng.integers(max(-6, info.min), 7, 1500)
    x[:20], y[:10] = info.min, (info.max if info.min == 0 else -1)
    x[20:40] = info.max
    return x, y


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_functions(kernels: Any, dtype: str) -> None:
    x, y = some_integers(dtype)
    y = np.where(y == 0, 3, y).astype(dtype)
    signed = x.dtype.kind == "i"
    wanted = {
        "floor_div": np.floor_divide,
        "remainder": np.remainder,
        "fmod": np.fmod,
        "gcd": np.gcd,
        "maximum": np.maximum,
        "fmin": np.fmin,
        "bitwise_left_shift": np.left_shift,
        "bitwise_right_shift": np.right_shift,
    }
    compiled = kernels.compile(
        {n: lambda e, a, b, n=n: FUNCTIONS[n](e, a, b, signed=signed) for n in wanted},
        [dtype] * 2,
        [dtype],
        8,
    )
    with np.errstate(all="ignore"):
        for name, kernel in compiled.items():
            np.testing.assert_array_equal(kernel(x, y)[0], wanted[name](x, y), err_msg=name)
        quotient = (x.astype(object) // y.astype(object)).tolist()
    exact = [q + (q * b != a and q < 0) for q, a, b in zip(quotient, x.tolist(), y.tolist(), strict=True)]
    (got,) = kernels.run(lambda e, a, b: FUNCTIONS["trunc_div"](e, a, b, signed=signed), [x, y], [dtype], 4)
    mask = 2 ** np.iinfo(dtype).bits - 1
    assert [g & mask for g in got.tolist()] == [q & mask for q in exact]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_no_division_traps(kernels: Any, dtype: str, lanes: int) -> None:
    """By zero, and of the least integer by -1; also by constants, which are divided in another way."""
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 0, 5] * 4, dtype)
    y = np.repeat(np.array([0, 0, 1, info.max if info.min == 0 else -1], dtype), 4)
    signed = info.min < 0
    names = ("floor_div", "remainder", "fmod", "trunc_div")

    def emit(e: Any, a: Any, b: Any) -> tuple[Any, ...]:
        divisors = (b, *[e.constant(c, a) for c in (0, -1, 7)])
        return tuple(FUNCTIONS[n](e, a, divisor, signed=signed) for divisor in divisors for n in names)

    results = kernels.run(emit, [x, y], [dtype] * 16, lanes)
    whole = y == 1
    np.testing.assert_array_equal(results[0][whole], x[whole])
    np.testing.assert_array_equal(results[1][whole], 0)
    np.testing.assert_array_equal(results[12], x // x.dtype.type(7))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_powers(kernels: Any, dtype: str) -> None:
    x, y = some_integers(dtype)
    y = (y % 23).astype(dtype)
    signed = x.dtype.kind == "i"
    kernel = kernels.compile(
        {"k": lambda e, a, b: FUNCTIONS["pow"](e, a, b, signed=signed)}, [dtype] * 2, [dtype], 8
    )["k"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(kernel(x, y)[0], np.power(x, y))
    if signed:
        base = np.array([1, -1, -1, 2, 0, -3], dtype)
        (got,) = kernel(base, np.array([-3, -3, -4, -1, -1, -2], dtype))
        assert got.tolist() == [1, -1, 1, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_shifts_beyond_the_width(kernels: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    counts = np.array([0, 1, info.bits - 1, info.bits, info.bits + 1, 100, info.max, info.min], dtype)
    x = np.full(8, info.max - 5 if info.min == 0 else -5, dtype)
    signed = info.min < 0

    def emit(e: Any, a: Any, n: Any) -> tuple[Any, ...]:
        return tuple(FUNCTIONS[f"bitwise_{side}_shift"](e, a, n, signed=signed) for side in ("left", "right"))

    left, right = kernels.run(emit, [x, counts], [dtype] * 2, 8)
    inside = [int(n) if 0 <= n < info.bits else None for n in counts]
    mask = 2**info.bits - 1
    assert [v & mask for v in left.tolist()] == [0 if n is None else (int(x[0]) << n) & mask for n in inside]
    gone = -1 if signed else 0
    assert right.tolist() == [gone if n is None else int(x[0]) >> n for n in inside]


def test_bools(kernels: Any) -> None:
    x, y = np.array([0, 0, 1, 1] * 2, bool), np.array([0, 1, 0, 1] * 2, bool)
    wanted = {
        "add": x | y,
        "mul": x & y,
        "maximum": x | y,
        "minimum": x & y,
        "lt": ~x & y,
        "ge": x | ~y,
        "eq": x == y,
        "bitwise_xor": x ^ y,
        "logical_and": x & y,
        "logical_xor": x ^ y,
    }
    results = kernels.run(
        lambda e, a, b: tuple(FUNCTIONS[n](e, a, b) for n in wanted), [x, y], ["bool"] * len(wanted), 8
    )
    for name, got in zip(wanted, results, strict=True):
        np.testing.assert_array_equal(got, wanted[name], err_msg=name)


def test_truth_of_numbers(kernels: Any) -> None:
    x = np.array([0.0, -0.0, 1.5, math.nan, 1e-40, math.inf], "float32")
    either, not_ = FUNCTIONS["logical_or"], FUNCTIONS["logical_not"]
    both, neither = kernels.run(lambda e, a: (either(e, a, a), not_(e, a)), [x], ["bool"] * 2, 4)
    np.testing.assert_array_equal(both, x.astype(bool))
    np.testing.assert_array_equal(neither, ~x.astype(bool))

"""Compiled integer arithmetic is that of the ring: it wraps around, and divisions are exact everywhere.

The reference is Python's own integers, brought back into the range of the dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

DTYPES = ("int8", "int16", "int32", "int64", "uint8")
Values = list[int]


def wrapped(value: int, dtype: str) -> int:
    info = np.iinfo(dtype)
    return (value - int(info.min)) % (1 << info.bits) + int(info.min)


def samples(dtype: str) -> Values:
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    edge = [low, low + 1, low + 2, high, high - 1, low // 2, high // 2, high // 2 + 1]
    small = [v for v in range(-19, 20) if v >= low]
    rng = np.random.default_rng(7)
    return [*edge, *small, *(int(v) for v in rng.integers(low, high, 40, dtype, endpoint=True))]


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def check(function: Callable[..., Any], expected: Values, *inputs: Values, dtype: str) -> None:
    tensors = [rl.tensor(values, dtype=getattr(rl, dtype)) for values in inputs]
    found = rl.compile(function, fullgraph=True)(*tensors)
    assert found.dtype is tensors[0].dtype
    assert found.tolist() == [wrapped(v, dtype) for v in expected]


DIVISORS = [
    (dtype, divisor)
    for dtype in DTYPES
    for divisor in (1, 2, 4, 16, 64, 3, 7, 10, 127, -1, -2, -4, -3, -64, int(np.iinfo(dtype).min))
    if divisor and divisor >= np.iinfo(dtype).min
]


@pytest.mark.parametrize(("dtype", "number"), DIVISORS)
def test_division_by_a_constant(dtype: str, number: int) -> None:
    values = samples(dtype)

    def all_four(x: Any) -> Any:
        return rl.cat([x // number, x % number, rl.div(x, number, rounding_mode="trunc"), rl.fmod(x, number)])

    expected = [v // number for v in values] + [v % number for v in values]
    expected += [truncated(v, number) for v in values]
    expected += [v - number * truncated(v, number) for v in values]
    check(all_four, expected, values, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_division_by_a_tensor(dtype: str) -> None:
    values = samples(dtype)
    others = [v or 5 for v in values[::-1]]
    others[:4] = [wrapped(-1, dtype), 1, 2, wrapped(-2, dtype)]

    def all_four(x: Any, y: Any) -> Any:
        return rl.cat([x // y, x % y, rl.div(x, y, rounding_mode="trunc"), rl.fmod(x, y)])

    pairs = list(zip(values, others, strict=True))
    expected = [a // b for a, b in pairs] + [a % b for a, b in pairs]
    expected += [truncated(a, b) for a, b in pairs] + [a - b * truncated(a, b) for a, b in pairs]
    check(all_four, expected, values, others, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_wraps_around(dtype: str) -> None:
    values = samples(dtype)
    pairs = list(zip(values, values[::-1], strict=True))

    def chain(x: Any, y: Any) -> Any:
        return rl.cat([x + y, x - y, x * y, -x, x * x * y + x, (x + 1) * (y - 1), x.abs()])

    expected = [a + b for a, b in pairs] + [a - b for a, b in pairs] + [a * b for a, b in pairs]
    expected += [-a for a, _ in pairs] + [a * a * b + a for a, b in pairs]
    expected += [(a + 1) * (b - 1) for a, b in pairs] + [abs(a) for a, _ in pairs]
    check(chain, expected, values, values[::-1], dtype=dtype)


@pytest.mark.parametrize(
    ("dtype", "divisor"), [(dtype, divisor) for dtype, divisor in DIVISORS if divisor in (2, -2, 4, 3)]
)
def test_division_of_a_product_of_narrow_values(dtype: str, divisor: int) -> None:
    """LLVM 22 drops the division by 2 of a product whose factors are known to be narrow."""
    values = samples(dtype)

    def divided(x: Any) -> Any:
        last = x.clamp(max=9).clamp(min=max(-9, int(np.iinfo(dtype).min)))
        product = last * (last + 1)
        return rl.cat(
            [
                product // divisor,
                rl.div(product, divisor, rounding_mode="trunc"),
                product % divisor,
                rl.fmod(product, divisor),
                (product + last) // divisor,
            ]
        )

    narrow = [max(-9, min(9, v)) for v in values]
    products = [wrapped(v * (v + 1), dtype) for v in narrow]
    expected = [p // divisor for p in products] + [truncated(p, divisor) for p in products]
    expected += [p % divisor for p in products]
    expected += [p - divisor * truncated(p, divisor) for p in products]
    expected += [wrapped(p + v, dtype) // divisor for p, v in zip(products, narrow, strict=True)]
    check(divided, expected, values, dtype=dtype)


def test_search_in_triangular_numbers() -> None:
    """The program in which a lost division was found: rows of a packed triangle, by bisection."""

    def start(r: Any) -> Any:
        last = r.clamp(min=0)
        return rl.where(r > 0, (last * (last + 1)) // 2, rl.zeros_like(last))

    def row_of(number: Any) -> Any:
        found = number * 0
        for step in (16, 8, 4, 2, 1):
            probe = found + step
            safe = (probe - 1).clamp(max=19)
            inside = start(safe + 1) - start(safe - 19) <= number
            found = rl.where((probe <= 20) & inside, probe, found)
        return found

    number = rl.arange(210)
    rows = [row for row in range(20) for _ in range(row + 1)]
    assert rl.compile(row_of, fullgraph=True)(number).tolist() == rows


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs(dtype: str) -> None:
    """An unsigned number with its top bit set is not negative."""
    values = samples(dtype)
    x = rl.tensor(values, dtype=getattr(rl, dtype))

    def signs(x: Any) -> Any:
        return x.signbit(), x.sign(), x.abs(), x.clamp(min=3), x > 3, x.max(), x.argmin()

    bits, sign, size, clamped, above, largest, where = rl.compile(signs, fullgraph=True)(x)
    assert bits.tolist() == [v < 0 for v in values]
    assert sign.tolist() == [(v > 0) - (v < 0) for v in values]
    assert size.tolist() == [wrapped(abs(v), dtype) for v in values]
    assert clamped.tolist() == [max(v, 3) for v in values]
    assert above.tolist() == [v > 3 for v in values]
    assert largest.item() == max(values)
    assert values[where.item()] == min(values)

"""The index algebra is exact: whatever it simplifies, every value stays the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.core.atoms import Dim
from rushlight.core.index import Index, Var, as_index, dot

i, j, k = Var("i", 4), Var("j", 6), Var("k", 5)
VARIABLES = (i, j, k)
POINTS = [
    dict(zip(VARIABLES, point, strict=True)) for point in itertools.product(range(4), range(6), range(5))
]


@st.composite
def expressions(draw: st.DrawFn, depth: int = 4):
    """(expression, the same as a Python function)."""
    if depth == 0 or (draw(st.booleans()) and depth < 3):
        which = draw(st.sampled_from([*VARIABLES, None]))
        if which is None:
            number = draw(st.integers(-20, 20))
            return as_index(number), lambda p: number
        return as_index(which), lambda p: p[which]
    kind = draw(st.sampled_from("+-*/%"))
    left, f = draw(expressions(depth=depth - 1))
    if kind in "+-":
        right, g = draw(expressions(depth=depth - 1))
        return (left + right, lambda p: f(p) + g(p)) if kind == "+" else (left - right, lambda p: f(p) - g(p))
    number = draw(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 10, 12, 24, 30]))
    if kind == "*":
        sign = draw(st.sampled_from([1, -1]))
        return left * (number * sign), lambda p: f(p) * number * sign
    if kind == "/":
        return left // number, lambda p: f(p) // number
    return left % number, lambda p: f(p) % number


@settings(max_examples=600, deadline=None)
@given(expressions())
def test_values_are_exact_and_inside_the_bounds(pair) -> None:
    expression, function = pair
    low, high = expression.bounds()
    for point in POINTS[::7]:
        value = function(point)
        assert expression.evaluate(point) == value
        assert low <= value <= high


@settings(max_examples=200, deadline=None)
@given(expressions(depth=3), expressions(depth=2))
def test_substitution_is_exact(pair, replacement) -> None:
    expression, function = pair
    other, value = replacement[0] % 4, lambda p: replacement[1](p) % 4  # inside the range of i
    replaced = expression.substitute({i: other})
    for point in POINTS[::11]:
        assert replaced.evaluate(point) == function({**point, i: value(point)})


def test_a_reshape_and_back_is_the_identity() -> None:
    flat = dot((i, j, k), (30, 5, 1))
    assert flat // 30 == as_index(i)
    assert flat % 30 // 5 == as_index(j)
    assert flat // 5 % 6 == as_index(j)
    assert flat % 5 == as_index(k)
    n = Var("n", 120)
    assert dot((as_index(n) // 30, as_index(n) // 5 % 6, as_index(n) % 5), (30, 5, 1)) == as_index(n)


def test_strides_of_affine_expressions() -> None:
    flat = dot((i, j), (7, 2), 3)
    assert flat.stride(i) == 7
    assert flat.stride(j) == 2
    assert flat.stride(k) == 0
    assert (as_index(i) // 2).stride(i) is None


def test_extents_known_at_call_time() -> None:
    n = Dim("n", 1)
    a, b = Var("a", 8), Var("b", n)
    flat = as_index(a) * n + b
    assert flat // n == as_index(a)
    assert flat % n == as_index(b)
    assert flat.stride(a) == as_index(n)


def test_text_is_stable() -> None:
    assert str(dot((i, j), (6, 1), 2)) == "2 + 6*i + j"
    assert str(as_index(i) * 5 // 3) == "((5*i)//3)"
    assert isinstance(as_index(0), Index)


@pytest.mark.parametrize("divisor", [2, 3, 5, 7])
def test_what_lost_multiples_of_the_divisor_is_whole_again(divisor: int) -> None:
    for a, b in ((4, 1), (8, 3), (15, 2), (divisor + 1, 2 * divisor + 1)):
        value = as_index(i) * a + as_index(j) * b + 6
        assert value // divisor * divisor + value % divisor == value
        assert (value // divisor * divisor + value % divisor) * 5 + j == value * 5 + j


def test_hundreds_of_remainders_become_whole_at_once() -> None:
    """Not one inside of the other: a transposed convolution in three dimensions, with all of its sizes symbolic,
    has expressions that would be nested deeper than Python allows."""
    others = [Var(f"n{k}", 7) for k in range(400)]
    x = Var("x", 100)
    quotients = sum((as_index(other) * 8 * (as_index(x) // 8) for other in others), start=as_index(0))
    remainders = Index(
        {monomial: 1 for other in others for monomial in (as_index(other) * (as_index(x) % 8)).terms}
    )
    assert quotients + remainders == sum((as_index(other) * x for other in others), start=as_index(0))

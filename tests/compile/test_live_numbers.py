"""Numbers that stay live: changing one neither recompiles nor leaves a stale result."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.numbers import live_number

from .tensors import tensor


def assert_same(a, b) -> None:
    assert a.dtype is b.dtype
    assert a.shape == b.shape
    assert np.array_equal(a.detach().numpy(), b.detach().numpy(), equal_nan=True)


PROGRAMS = {
    "product": lambda x, k: x * k,
    "reversed": lambda x, k: k - x,
    "quotient": lambda x, k: k / x,
    "arithmetic": lambda x, k: x * (1 - k * 0.5) + -k,
    "power": lambda x, k: x * (0.9**k),
    "alpha": lambda x, k: x.add(x, alpha=k),
    "sub alpha": lambda x, k: x.sub(x * 2, alpha=k),
    "addcmul": lambda x, k: x.addcmul(x, x, value=k),
    "addcdiv": lambda x, k: x.addcdiv(x, x + 3, value=k),
    "lerp": lambda x, k: x.lerp(x * 2, k),
    "clamp": lambda x, k: x.clamp(min=-abs(k), max=abs(k)),
    "comparison": lambda x, k: x > k,
    "where": lambda x, k: rl.where(x > 0, x, k),
    "full": lambda x, k: rl.full((3,), k) + x.amax(),
    "fill": lambda x, k: x.clone().fill_(k),
    "in place": lambda x, k: x.clone().mul_(k).add_(k),
    "0-d": lambda x, k: x.amax() * k,
    "integers": lambda x, k: (x * 10).to(rl.int64) * k,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("values", [(0.5, 0.25, 1.0, -0.0, 2.0), (3, 2, 1, 7)], ids=["float", "int"])
def test_a_number_may_change(name: str, values) -> None:
    program = PROGRAMS[name]
    compiled = rl.compile(program, fullgraph=True)
    x = tensor(4, 5)
    for value in values:
        assert_same(compiled(x, value), program(x, value))
    assert len(compiled.reasons) == 1, compiled.reasons


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32"])
def test_numbers_are_weak(dtype: str) -> None:
    x = tensor(5).to(getattr(rl, dtype))
    for program in (lambda x, k: x * k, lambda x, k: x[0] * k, lambda x, k: x.add(x, alpha=k)):
        compiled = rl.compile(program, fullgraph=True)
        for value in (2, 3) if dtype == "int32" else (0.1, 0.3, 2):
            assert_same(compiled(x, value), program(x, value))


def test_a_comparison_guards_on_its_outcome() -> None:
    def f(x, k):
        return x * k if k > 1 else x - k

    compiled, x = rl.compile(f, fullgraph=True), tensor(3)
    for k in (2.0, 3.0, 0.5, 0.25, 7.0):
        assert_same(compiled(x, k), f(x, k))
    assert len(compiled.reasons) == 2
    assert "number" in compiled.reasons[1]


def test_a_value_that_is_needed_is_a_guard() -> None:
    def f(x, n, k):
        total = x.amax(n)
        for _ in range(n + 1):
            total = total * len(f"{k:.1f}") * float(k)
        return total.reshape(-1, 1).expand(-1, n + 1)

    compiled, x = rl.compile(f, fullgraph=True), tensor(3, 4)
    for n, k in ((0, 2.0), (1, 2.0), (0, 2.0), (0, 3.0), (1, 2.0)):
        assert_same(compiled(x, n, k), f(x, n, k))
    assert len(compiled.reasons) == 3


def test_functions_of_math_keep_numbers_live() -> None:
    def f(x, k):
        return x * math.sqrt(k) + math.log(k, 2) * math.pow(k, 3)

    compiled, x = rl.compile(f, fullgraph=True), tensor(3, 4)
    for k in (2.0, 3.0, 4.5):
        assert_same(compiled(x, k), f(x, k))
    assert len(compiled.reasons) == 1


def test_numbers_come_back() -> None:
    compiled = rl.compile(
        lambda x, k, flag: {"x": x + k, "k": k, "twice": 2 * k, "flag": flag, "n": None}, fullgraph=True
    )
    for k in (1.5, 2.5):
        found = compiled(tensor(2), k, True)
        assert (found["k"], found["twice"], found["flag"], found["n"]) == (k, 2 * k, True, None)
        assert type(found["k"]) is float
    assert len(compiled.reasons) == 1


def test_special_values() -> None:
    compiled, x = rl.compile(lambda x, k: x + k, fullgraph=True), tensor(3)
    for k in (math.inf, -math.inf, math.nan, -0.0, 1e300):
        assert_same(compiled(x, k), x + k)
    assert len(compiled.reasons) == 1


def test_gradients_with_live_numbers() -> None:
    def f(x, k):
        return ((x * k).sigmoid() ** 2 * k).sum()

    compiled = rl.compile(f, fullgraph=True)
    for k in (0.5, 1.5):
        x, y = tensor(4).requires_grad_(), tensor(4).requires_grad_()
        compiled(x, k).backward()
        f(y, k).backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5)
    assert len(compiled.reasons) == 1


def test_keyword_and_nested_numbers() -> None:
    def f(x, *, options, scale=1.0):
        return x * options["k"][0] + scale

    compiled, x = rl.compile(f, fullgraph=True), tensor(3)
    for k in (0.5, 2.5):
        assert_same(compiled(x, options={"k": [k]}, scale=k), f(x, options={"k": [k]}, scale=k))
    assert len(compiled.reasons) == 1


def test_live_number_outside_and_inside() -> None:
    group = {"lr": 0.1, "nesterov": False}
    w = tensor(3)

    def step(gradient):
        lr = live_number(lambda: group["lr"])
        if live_number(lambda: group["nesterov"]):
            gradient = gradient * 2
        w.sub_(gradient * lr)

    assert live_number(lambda: 3.0) == 3.0
    compiled, expected = rl.compile(step, fullgraph=True), w.clone()
    for lr in (0.1, 0.2, 0.4):
        group["lr"] = lr
        compiled(rl.ones(3))
        expected -= rl.ones(3) * lr
        assert_same(w, expected)
    assert len(compiled.reasons) == 1
    group["nesterov"] = True
    compiled(rl.ones(3))
    expected -= rl.ones(3) * 2 * 0.4
    assert_same(w, expected)
    assert len(compiled.reasons) == 2


def test_an_integer_too_large_for_the_graph() -> None:
    f = rl.compile(lambda x, k: x * (k % 7))
    for k in (3, 2**80):
        assert_same(f(tensor(3), k), tensor(3) * (k % 7))

"""Numbers that a program reads and assigns to (`self.calls += 1`) stay live: each run reads the number and puts
the new one there, and nothing is compiled again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn


class State:
    def __init__(self) -> None:
        self.calls, self.mean, self.kept = 0, 0.5, []


def counts(o: Any, x: rl.Tensor) -> rl.Tensor:
    o.calls += 1
    return x * 2


def uses(o: Any, x: rl.Tensor) -> rl.Tensor:
    o.calls += 1
    o.mean = 0.9 * o.mean + o.calls
    return x * o.calls + o.mean


def every_third(o: Any, x: rl.Tensor) -> rl.Tensor:
    o.calls += 1
    return x * 2 if o.calls % 3 == 0 else x + 1


def starts_again(o: Any, x: rl.Tensor) -> rl.Tensor:
    scaled = x * o.calls
    o.calls = 2
    return scaled


def sometimes(o: Any, x: rl.Tensor, more: bool = False) -> rl.Tensor:
    if more:
        o.calls += 1
    return x * o.calls


def keeps(o: Any, x: rl.Tensor) -> rl.Tensor:
    o.calls += 1
    o.kept.append(o.calls)
    return x


def as_a_size(o: Any, x: rl.Tensor) -> rl.Tensor:
    o.calls += 1
    return x[: o.calls].sum()


def breaks(o: Any, x: rl.Tensor) -> rl.Tensor:
    o.calls += 1
    o.mean = o.mean + float(x.sum())
    return x * o.calls * o.mean


def raises(o: Any, x: rl.Tensor) -> rl.Tensor:
    o.calls += 1
    if o.calls == 2:
        raise ValueError("the second call")
    return x * o.calls


def asks(o: Any, x: rl.Tensor) -> Any:
    o.calls += 1
    return x * o.calls, type(o.calls).__name__


PROGRAMS = (counts, uses, every_third, starts_again, sometimes, keeps, as_a_size, breaks, raises, asks)


def session(function: Callable[..., Any], compiled: Callable[..., Any]) -> list[Any]:
    o, seen = State(), []

    def run(x: rl.Tensor) -> Any:
        return function(o, x)

    f = compiled(run)
    for number in range(8):
        try:
            result = f(rl.arange(4.0))
        except ValueError as error:
            result = str(error)
        found = result.tolist() if isinstance(result, rl.Tensor) else result
        found = [found[0].tolist(), found[1]] if isinstance(found, tuple) else found
        seen.append((found, copy.deepcopy(vars(o)), [type(v) for v in vars(o).values()]))
        if number == 4:
            o.calls = 40
    return seen


@pytest.mark.parametrize("function", PROGRAMS)
def test_counters(function: Callable[..., Any]) -> None:
    assert session(function, rl.compile) == session(function, lambda f: f)


@pytest.mark.parametrize("function", [counts, uses, starts_again, sometimes])
def test_counters_compile_once(function: Callable[..., Any]) -> None:
    made: list[Any] = []
    session(function, lambda f: made.append(rl.compile(f, fullgraph=True)) or made[0])
    assert made[0].reasons == ["first call"]


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.calls = nn.Linear(3, 2), 0

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        self.calls += 1
        return self.linear(x) / self.calls


def test_a_module_that_counts_its_calls() -> None:
    module = Counting()
    compiled = rl.compile(module, fullgraph=True)
    for number in range(1, 21):
        x = rl.ones(4, 3)
        expected = module.linear(x) / number
        found = compiled(x)
        assert module.calls == number
        assert type(module.calls) is int
        assert rl.allclose(found, expected)
        found.sum().backward()
    assert len(compiled._compiled.reasons) == 1


TOTAL = 0


def test_a_global_counter() -> None:
    @rl.compile(fullgraph=True)
    def f(x: rl.Tensor) -> rl.Tensor:
        global TOTAL
        TOTAL += 2
        return x + TOTAL

    assert [f(rl.zeros(1)).item() for _ in range(4)] == [2, 4, 6, 8]
    assert (TOTAL, f.reasons) == (8, ["first call"])

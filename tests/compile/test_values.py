"""What goes into a compiled program and comes out: objects, containers of other classes, odd tensors."""

from __future__ import annotations

import functools
import itertools
import math
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight import nn
from rushlight.capture.errors import CaptureError
from rushlight.compiler import function as compiler
from rushlight.testing.agreement import check_agreement

C = Callable[..., Any]


class Output:
    def __init__(self, logits: Any, loss: Any = None) -> None:
        self.logits, self.loss = logits, loss


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class Items(list):
    pass


class Pair(tuple):
    pass


class Tagged(rl.Tensor):
    pass


def objects(compiled: C) -> Iterator[Any]:
    m = nn.Linear(3, 2)

    @compiled
    def f(x: rl.Tensor) -> Any:
        return Output(m(x), [Slots(x * 2, 3)]), types.SimpleNamespace(y=x + 1)

    for _ in range(2):
        o, n = f(rl.randn(2, 3))
        o.logits.sum().backward()
        yield o.logits, o.loss[0].a, o.loss[0].b, n.y, m.weight.grad, type(o) is Output


def objects_among_the_arguments(compiled: C) -> Iterator[Any]:
    @compiled
    def f(o: Output) -> rl.Tensor:
        o.loss = o.logits.sum()
        return o.loss * 2

    for _ in range(3):
        o = Output(rl.randn(3))
        yield f(o), o.loss


def containers_of_other_classes(compiled: C) -> Iterator[Any]:
    @compiled
    def f(x: Any, kept: Any, names: Any) -> Any:
        return Items([x[0] * 2, x[1]]), Pair((x[0] + 1,)), sum(kept) + len(names)

    for i in range(3):
        kept = deque([rl.ones(2) * i, rl.ones(2)], maxlen=2)
        found = f(Items([rl.randn(2), i]), kept, set(range(i)))
        yield list(found[0]), tuple(found[1]), found[2], [type(part).__name__ for part in found]


def classes_of_tensors(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x: (x * 2, x.sum()))
    for kind in (Tagged, rl.Tensor):
        found = f(rl.ones(3).as_subclass(kind))
        yield [type(t).__name__ for t in found], [t.as_subclass(rl.Tensor) for t in found]


def types_of_numbers(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x, k: (x * 2 if type(k) is int else x * 3, type(k).__name__))
    for k in (1, 2.5, 2, 3.5):
        yield f(rl.ones(2), k)


def defaults(compiled: C) -> Iterator[Any]:
    def f(x: rl.Tensor, seen: list[int] = [], *, k: float = 2.0) -> rl.Tensor:
        seen.append(1)
        return x * len(seen) * k

    g = compiled(f)
    yield g(rl.ones(2)), g(rl.ones(2))
    f.__kwdefaults__["k"] = 5.0
    yield g(rl.ones(2)), g(rl.ones(2), k=1.0)


def caches(compiled: C) -> Iterator[Any]:
    @functools.lru_cache
    def table(n: int) -> rl.Tensor:
        return rl.arange(float(n))

    class M(nn.Module):
        @functools.cached_property
        def row(self) -> rl.Tensor:
            return rl.arange(3.0) * 2

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return x * self.row

    m = M()
    f, g = compiled(lambda x: x + table(x.shape[0])), compiled(m)
    for n in (3, 4, 3):
        yield f(rl.ones(n)), table(n), g(rl.ones(3) * n), m.row


def iterators(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x: (a * 2 for a in x.unbind()))
    for _ in range(2):
        yield list(f(rl.randn(3)))


def functions_that_hold_tensors(compiled: C) -> Iterator[Any]:
    def make(x: rl.Tensor) -> Any:
        y = x * 2
        return lambda z: y + z

    f = compiled(make)
    for i in range(2):
        yield f(rl.ones(3) * i)(rl.ones(3))


def memory_of_numpy(compiled: C) -> Iterator[Any]:
    @compiled
    def f(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        x.mul_(2)
        return y + 0

    a = np.arange(6, dtype=np.float32)
    yield f(rl.from_numpy(a[:2]), rl.from_numpy(a[3:5])), a.tolist()
    yield f(rl.from_numpy(a), rl.from_numpy(a)), a.tolist()


@pytest.mark.parametrize(
    "program",
    [
        objects,
        objects_among_the_arguments,
        containers_of_other_classes,
        classes_of_tensors,
        types_of_numbers,
        defaults,
        caches,
    ],
    ids=lambda p: p.__name__,
)
def test_one_graph(program: Any) -> None:
    for function in check_agreement(program):
        assert not getattr(function, "eager", None)


@pytest.mark.parametrize(
    "program", [iterators, functions_that_hold_tensors, memory_of_numpy], ids=lambda p: p.__name__
)
def test_breaks(program: Any) -> None:
    check_agreement(program, fullgraph=False)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_memory_that_cannot_be_written() -> None:
    a = np.ones(3, np.float32)
    a.flags.writeable = False
    x, y = rl.from_numpy(a), rl.ones(3)

    def f(x: rl.Tensor, y: rl.Tensor) -> None:
        y.add_(1)
        x.add_(1)

    with pytest.raises(RuntimeError, match="read-only"):
        rl.compile(f)(x, y)
    assert y.tolist() == [1, 1, 1]


def test_tensors_without_data() -> None:
    f = rl.compile(lambda x: x * 2 + 1, fullgraph=True)
    assert f(rl.ones(3, device="meta")).device.type == "meta"
    assert f(rl.ones(3)).tolist() == [3, 3, 3]


def test_numbers_too_large() -> None:
    f = rl.compile(lambda x, k: x + k)
    assert f(rl.ones(1), 2**70).item() == float(2**70)
    assert f(rl.ones(1), 3).item() == 4
    with pytest.raises(CaptureError, match="too large"):
        rl.compile(lambda x, k: x + k, fullgraph=True)(rl.ones(1), 2**70)


def test_a_long_chain() -> None:
    def f(x: rl.Tensor) -> rl.Tensor:
        for i in range(400):
            x = x * 1.001 + 0.01 * i
        return x

    x = rl.randn(4)
    assert rl.allclose(rl.compile(f, fullgraph=True)(x), f(x))


def test_many_kinds_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "MOST_KINDS", 3)
    f = rl.compile(lambda x: x * 2, dynamic=False)
    for _ in range(4):
        for n in range(1, 7):
            assert f(rl.ones(n)).tolist() == [2.0] * n
        f(rl.ones(100 + len(f.reasons)))
    assert len(f.specializations) == 6  # those that came again


def test_the_reason_tells_the_nearest_call() -> None:
    f = rl.compile(lambda x, k: x * k)
    for x, k in ((rl.ones(2), 2.0), (rl.ones(3), 2.0), (rl.ones(3), 2)):
        f(x, k)
    assert f.reasons[-1] == "argument 1: type was float, is int"


def test_explaining_changes_nothing() -> None:
    log: list[int] = []
    d = {"x": rl.ones(3)}
    m = nn.Linear(3, 3)

    def f(d: Any) -> Any:
        d["y"] = m(d["x"])
        m.last = d["y"] * 2
        log.append(1)
        return d["y"]

    assert rl.explain(f, d).captured
    assert list(d) == ["x"]
    assert not log
    assert not hasattr(m, "last")


POWERS = [
    *itertools.product((0.5, -0.5, 0, 1, 2, 3, -1, -2, 2.5), ("float32", "float64", "bfloat16")),
    *itertools.product((0, 1, 2, 3, 5), ("int64",)),
]


@pytest.mark.parametrize(("exponent", "dtype"), POWERS)
def test_powers_by_numbers(exponent: float, dtype: str) -> None:
    """PyTorch computes some without `pow`, which tells at zeros and infinities."""
    floats = [-math.inf, -0.0, 0.0, math.inf, -1.0, 4.0, 1.7, math.nan]
    numbers = [-3, -1, 0, 1, 7] if dtype == "int64" else floats
    x = rl.tensor(numbers, dtype=getattr(rl, dtype))
    expected = (torch.tensor(numbers, dtype=getattr(torch, dtype)) ** exponent).to(torch.float64)
    for found in (x**exponent, rl.compile(lambda x: x**exponent, fullgraph=True)(x)):
        values = found.to(rl.float64).numpy()
        unit = 2**-7 if dtype == "bfloat16" else 1e-6  # PyTorch rounds to bfloat16 after each multiplication
        np.testing.assert_allclose(values, expected.numpy(), rtol=unit)
        real = ~np.isnan(values)
        assert np.array_equal(np.signbit(values)[real], np.signbit(expected.numpy())[real])

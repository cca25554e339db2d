"""Python's state around a compiled program: what it reads is guarded, what it changes every call changes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.capture.errors import CaptureError
from rushlight.testing.agreement import check_agreement

C = Callable[..., Any]
COUNT = 0


@dataclasses.dataclass
class Batch:
    x: rl.Tensor
    scale: float = 1.0
    out: Any = None


class Config:
    scale = 2.0

    def __init__(self) -> None:
        self.k, self.items = 1.0, [1.0]

    @property
    def double(self) -> float:
        return self.k * 2

    @classmethod
    def scaled(cls, x: rl.Tensor) -> rl.Tensor:
        return x * cls.scale

    @staticmethod
    def shifted(x: rl.Tensor) -> rl.Tensor:
        return x + len(NAMES)


NAMES = {"a", "b"}


# What it reads.


def containers_that_change(compiled: C) -> Iterator[Any]:
    numbers, table = [1, 2], {"layers": [{"k": 1.0, "act": "relu"}]}

    def f(x: rl.Tensor) -> rl.Tensor:
        for layer in table["layers"]:
            x = getattr(rl, layer["act"])(x * layer["k"])
        return x + sum(numbers) + len(NAMES)

    f, x = compiled(f), rl.ones(3)
    yield f(x)
    numbers.append(5)
    yield f(x)
    numbers[0] = 100
    numbers.pop()
    yield f(x)
    table["layers"].append({"k": 3.0, "act": "sin"})
    yield f(x)
    table["layers"][0]["k"] = 2.0
    yield f(x)
    NAMES.add("c")
    yield f(x)
    NAMES.remove("c")
    yield f(x)


def attributes_of_objects_and_classes(compiled: C) -> Iterator[Any]:
    c = Config()
    f = compiled(lambda x: c.scaled(x) + c.double + c.shifted(x) + c.items[0] + Config.scale)
    x = rl.ones(3)
    yield f(x)
    c.k = 5.0
    yield f(x)
    c.items = [8.0]
    yield f(x)
    Config.scale = 3.0
    yield f(x)
    Config.scale = 2.0
    yield f(x)


def objects_in_containers(compiled: C) -> Iterator[Any]:
    configs = [Config(), Config()]

    def f(x: rl.Tensor) -> rl.Tensor:
        for c in configs:
            x = x * c.k
        return x

    f = compiled(f)
    yield f(rl.ones(3))
    configs[1].k = 7.0
    yield f(rl.ones(3))


def modules_that_change(compiled: C) -> Iterator[Any]:
    m = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    f, x = compiled(m), rl.randn(2, 4)
    yield f(x)
    m.append(nn.ReLU())
    yield f(x)
    m[1] = nn.Sigmoid()
    yield f(x)
    handle = m[0].register_forward_hook(lambda *given: given[2] * 2)
    yield f(x)
    handle.remove()
    yield f(x)
    m[2].eval()
    m[0].weight.data = rl.ones(8, 4)
    yield f(x)


def an_optimizer_that_is_loaded(compiled: C) -> Iterator[Any]:
    m = nn.Linear(4, 3)
    o = optim.Adam(m.parameters(), 1e-2)
    saved = copy.deepcopy((m.state_dict(), o.state_dict()))

    @compiled
    def step(x: rl.Tensor, t: rl.Tensor) -> rl.Tensor:
        o.zero_grad()
        loss = F.cross_entropy(m(x), t)
        loss.backward()
        o.step()
        return loss.detach()

    for i in range(6):
        if i == 3:
            m.load_state_dict(saved[0])
            o.load_state_dict(saved[1])
        if i == 5:
            o.state.clear()
        yield step(rl.randn(6, 4), rl.randint(3, (6,))), list(m.parameters())


def a_lazy_module(compiled: C) -> Iterator[Any]:
    f = compiled(nn.Sequential(nn.LazyLinear(4), nn.ReLU()))
    for _ in range(3):
        yield f(rl.randn(2, 3))


# What it changes.


def containers_among_the_arguments(compiled: C) -> Iterator[Any]:
    @compiled
    def f(d: Any, items: Any, batch: Any, k: float) -> rl.Tensor:
        d["out"] = d["x"] * k
        items.append(d["x"] + 1)
        items[0] = k
        batch.out = {"y": batch.x * batch.scale}
        return d["out"].sum()

    for i in range(3):
        d, items, batch = {"x": rl.randn(3)}, [1.0], Batch(rl.randn(3))
        yield f(d, items, batch, float(i)), d, items, batch


def attributes(compiled: C) -> Iterator[Any]:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.last = 0, None
            self.register_buffer("mean", rl.zeros(3))

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            self.calls += 1
            self.last = x * 2
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return x * self.calls - self.mean

    m = M()
    f = compiled(m)
    for i in range(4):
        yield f(rl.ones(2, 3) * i), m.calls, m.last, m.mean


def variables(compiled: C) -> Iterator[Any]:
    global COUNT
    COUNT, n, seen, table = 0, 0, [], {}

    def f(x: rl.Tensor) -> rl.Tensor:
        global COUNT
        nonlocal n
        COUNT += 2
        n += 1
        seen.append(x.shape[0])
        table["y"] = x * n
        return x * COUNT + len(seen)

    f = compiled(f)
    for _ in range(3):
        yield f(rl.ones(2)), n, COUNT, list(seen), table["y"]


def a_growing_cache(compiled: C) -> Iterator[Any]:
    cache: dict[str, rl.Tensor] = {}

    @compiled
    def f(x: rl.Tensor) -> rl.Tensor:
        cache["k"] = rl.cat([cache["k"], x]) if "k" in cache else x * 1
        return cache["k"].sum()

    for _ in range(3):
        yield f(rl.randn(2)), cache["k"]


# Tensors that are known in several ways.


def an_argument_that_is_a_variable(compiled: C) -> Iterator[Any]:
    w = rl.ones(4)

    @compiled
    def f(x: rl.Tensor) -> rl.Tensor:
        w.add_(1)
        return x * 2

    for x in (rl.ones(4), w, w[:2], rl.ones(4), w):
        yield f(x), w


def parts_of_one_tensor(compiled: C) -> Iterator[Any]:
    @compiled
    def f(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
        a.mul_(2)
        return a + b

    base = rl.arange(10.0)
    for a, b in (base.view(2, 5).unbind(), (base[2:4], base[6:8]), (base[6:8], base[0:2])):
        yield f(a, b), base


@pytest.mark.parametrize(
    "program",
    [
        containers_that_change,
        attributes_of_objects_and_classes,
        objects_in_containers,
        modules_that_change,
        an_optimizer_that_is_loaded,
        a_lazy_module,
        containers_among_the_arguments,
        attributes,
        variables,
        a_growing_cache,
        an_argument_that_is_a_variable,
        parts_of_one_tensor,
    ],
    ids=lambda p: p.__name__,
)
def test_one_graph(program: Any) -> None:
    for function in check_agreement(program):
        assert not getattr(function, "eager", None)


def test_what_is_replaced_and_not_read_need_not_be_the_same() -> None:
    kept: dict[str, rl.Tensor] = {}

    @rl.compile
    def f(x: rl.Tensor) -> rl.Tensor:
        kept["y"] = x * 2
        return x + 1

    for i in range(5):
        f(rl.ones(3) * i)
        assert kept["y"].tolist() == [2.0 * i] * 3
    assert len(f.reasons) == 2


def test_attributes_that_the_code_does_not_mention() -> None:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scale, self.epoch = nn.Linear(2, 2), 2.0, 0

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return self.linear(x) * self.scale

    m = M()
    f, x = rl.compile(lambda x: m(x)), rl.ones(1, 2)
    for epoch in range(4):
        m.epoch = epoch
        f(x)
    assert len(f.reasons) == 1
    m.scale = 3.0
    assert rl.allclose(f(x), m.linear(x) * 3)


def test_a_hook_that_reads_a_variable() -> None:
    m, scale = nn.Linear(2, 2), 2.0
    m.register_forward_hook(lambda module, given, found: found * scale)
    f, x = rl.compile(m), rl.ones(1, 2)
    f(x)
    scale = 3.0
    assert rl.allclose(f(x), m(x))


def test_a_break_leaves_the_arguments_changed() -> None:
    @rl.compile
    def f(d: Any) -> Any:
        d["y"] = d["x"] * 2
        del d["x"]
        if d["y"].sum() > 0:
            d["z"] = 1
        return d

    for _ in range(2):
        d = {"x": rl.ones(3), "k": 2}
        f(d)
        assert list(d) == ["k", "y", "z"]
        assert d["y"].tolist() == [2, 2, 2]


def test_what_cannot_be_repeated() -> None:
    items = [1, 2, 3]

    def f(x: rl.Tensor) -> rl.Tensor:
        items.pop()
        return x * len(items)

    with pytest.raises(CaptureError, match="removes"):
        rl.compile(f, fullgraph=True)(rl.ones(2))
    items[:] = [1, 2, 3]
    compiled = rl.compile(f)
    assert [compiled(rl.ones(1)).item() for _ in range(3)] == [2, 1, 0]


def test_what_a_failed_capture_stored_is_undone() -> None:
    state = Config()

    def f(x: rl.Tensor) -> rl.Tensor:
        state.k = x * 2
        return x if x.sum() > 0 else -x

    with pytest.raises(CaptureError):
        rl.compile(f, fullgraph=True)(rl.ones(2))
    assert state.k == 1.0

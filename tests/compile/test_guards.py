"""What a compiled function took from around it may change: it compiles again and says why."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.compiler.call_key import key_of_call, leaves_of
from rushlight.compiler.guards import Call

from .tensors import assert_same, tensor

SCALE = 2.0


def helper(x):
    return x * SCALE


def test_globals_of_functions_that_are_called(monkeypatch) -> None:
    compiled = rl.compile(lambda x: helper(x) + 1, fullgraph=True)
    assert compiled(rl.ones(2)).tolist() == [3, 3]
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert compiled(rl.ones(2)).tolist() == [6, 6]
    assert compiled.reasons[1] == "SCALE: value was 2.0, is 5.0"
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert compiled(rl.ones(2)).tolist() == [3, 3]
    assert len(compiled.reasons) == 2


def test_variables_of_an_enclosing_function() -> None:
    offset, flag, weights = 1, True, [tensor(3), tensor(3, seed=1)]

    def f(x):
        y = x + offset if flag else x - offset
        return y * weights[0] + weights[1]

    compiled, x = rl.compile(f, fullgraph=True), tensor(3, seed=2)
    assert_same(compiled(x), f(x))
    offset = 7
    assert_same(compiled(x), f(x))
    assert compiled.reasons[-1] == "offset: value was 1, is 7"
    flag = False
    assert_same(compiled(x), f(x))
    assert compiled.reasons[-1] == "flag: value was True, is False"
    weights[1] = tensor(3, seed=5)
    assert_same(compiled(x), f(x))
    assert "weights[1]: is another Tensor" in compiled.reasons[-1]
    weights[1].fill_(3)  # its values are read in every call
    assert_same(compiled(x), f(x))
    assert len(compiled.reasons) == 4


def test_attributes_and_methods() -> None:
    class Scaler:
        def __init__(self) -> None:
            self.scale, self.w = 2.0, tensor(3)

        def apply(self, x):
            return x * self.scale + self.w

    s = Scaler()
    for compiled in (
        rl.compile(s.apply, fullgraph=True),
        rl.compile(lambda x: s.apply(x), fullgraph=True),
        rl.compile(functools.partial(Scaler.apply, s), fullgraph=True),
        functools.partial(rl.compile(lambda s, x: x * s.scale + s.w, fullgraph=True), s),
    ):
        s.scale, s.w = 2.0, tensor(3)
        x = tensor(3, seed=1)
        assert_same(compiled(x), s.apply(x))
        s.scale = 3.0
        assert_same(compiled(x), s.apply(x))
        s.w = tensor(3, seed=9)
        assert_same(compiled(x), s.apply(x))


def test_modules() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
            self.gain = 2.0
            self.register_buffer("shift", tensor(4))

        def forward(self, x):
            return self.inner(x) * self.gain + self.shift

    net = Net()
    for compiled in (rl.compile(net, fullgraph=True), rl.compile(lambda x: net(x), fullgraph=True)):
        x = tensor(2, 4)

        def check(reason: str | None, compiled=compiled, x=x) -> None:
            rl.manual_seed(3)
            expected = net(x)
            rl.manual_seed(3)
            assert_same(compiled(x), expected)
            if reason is not None:
                assert reason in compiled.reasons[-1]

        net.train()
        net.gain = 2.0
        check("first call")
        net.eval()
        check("training: value was True, is False")
        net.inner[0].weight = nn.Parameter(tensor(4, 4, seed=5))
        check("weight: is another Parameter")
        net.gain = 3.0
        check("gain: value was 2.0, is 3.0")
        net.shift = tensor(4, seed=8)
        check("shift: is another Tensor")
        net.inner[1].train()
        check("training")


def test_modes_and_default_dtype() -> None:
    def f(x):
        return x * rl.ones(3) if rl.is_grad_enabled() else x - 1

    compiled, x = rl.compile(f, fullgraph=True), tensor(3)
    assert_same(compiled(x), f(x))
    with rl.no_grad():
        assert_same(compiled(x), f(x))
    rl.set_default_dtype(rl.float64)
    try:
        assert compiled(x).dtype is f(x).dtype is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)
    assert compiled(x).dtype is rl.float32


def test_default_arguments() -> None:
    def f(x, k=2.0):
        return x * k

    compiled = rl.compile(f, fullgraph=True)
    assert compiled(rl.ones(1)).item() == 2
    f.__defaults__ = (3.0,)
    assert compiled(rl.ones(1)).item() == 3


def test_a_program_that_keeps_changing_runs_eagerly() -> None:
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x + calls

    compiled = rl.compile(f)
    for i in range(30):
        assert compiled(rl.zeros(1)).item() == i + 1
    assert calls == 30


@dataclass
class Batch:
    x: rl.Tensor
    scale: float
    name: str = "batch"


class Named(dict):
    pass


Pair = namedtuple("Pair", ["first", "second"])


def test_containers() -> None:
    def f(batch, pair, options, *, extra):
        total = batch.x * batch.scale + pair.first - pair.second + options["a"] + extra["n"]["w"]
        named, pair = Named(y=total * 2), Pair(total, None)
        return Batch(total, batch.scale * 2), named, pair, OrderedDict(z=total), batch.name

    compiled = rl.compile(f, fullgraph=True)
    for seed in range(3):
        t = [tensor(3, seed=10 * seed + i) for i in range(5)]
        arguments = (Batch(t[0], 0.5 + seed), Pair(t[1], t[2]), Named(a=t[3]))
        found = compiled(*arguments, extra={"n": {"w": t[4]}})
        expected = f(*arguments, extra={"n": {"w": t[4]}})
        assert type(found[0]) is Batch
        assert type(found[1]) is Named
        assert type(found[2]) is Pair
        assert type(found[3]) is OrderedDict
        assert_same(found[0].x, expected[0].x)
        assert found[0].scale == expected[0].scale
        assert_same(found[1]["y"], expected[1]["y"])
        assert found[2].second is None
        assert found[4] == "batch"
    assert len(compiled.reasons) == 1


# Calls.


def test_conjugate_arguments() -> None:
    z = rl.tensor([1 + 2j, 3 - 1j]).conj()
    assert rl.compile(lambda z: z * 2j, fullgraph=True)(z).tolist() == (z * 2j).tolist()


def test_aliased_arguments() -> None:
    def f(x, y):
        x.add_(1)
        return y * 2

    compiled = rl.compile(f, fullgraph=True)
    x, y = tensor(3), tensor(3, seed=1)
    assert_same(compiled(x, y), y * 2)
    x, expected = tensor(3), tensor(3)
    assert_same(compiled(x, x), f(expected, expected))
    assert_same(x, expected)
    x, expected = tensor(6), tensor(6)
    assert_same(compiled(x[1:4], x[1:4]), f(expected[1:4], expected[1:4]))
    assert_same(x, expected)
    compiled = rl.compile(f)  # views that overlap: the write to one shows in the other
    assert_same(compiled(x[:4], x[2:]), f(expected[:4], expected[2:]))
    assert_same(x, expected)


def test_wrong_calls_take_the_long_way() -> None:
    compiled = rl.compile(lambda x, y: x + y)
    x = tensor(3)
    for _ in range(2):
        assert_same(compiled(x, x), x + x)
    assert_same(compiled(x, 2.0), x + 2)
    assert_same(compiled(x, y=x), x + x)
    assert_same(compiled(tensor(3, 3).t(), x), tensor(3, 3).t() + x)
    assert compiled(x.double(), x).dtype is rl.float64
    assert compiled(x.requires_grad_(), x).requires_grad
    with pytest.raises(TypeError):
        compiled(x)
    with pytest.raises((TypeError, AttributeError)):
        compiled(object(), "y")
    assert rl.vmap(compiled)(tensor(2, 3), tensor(2, 3)).shape == (2, 3)


def test_threads_do_not_disturb_each_other() -> None:
    compiled = rl.compile(lambda x, w: (x @ w).softmax(1).sum(0) * x.sum(), fullgraph=True)
    inputs = [(tensor(64, 32, seed=i), tensor(32, 48, seed=i + 1)) for i in range(4)]
    expected = [compiled(*pair).numpy() for pair in inputs]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(200):
            if not np.array_equal(compiled(*inputs[i]).numpy(), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_reasons_are_told_in_words() -> None:
    """Every kind of difference between a call and the nearest specialization."""
    bias = rl.ones(3)

    @rl.compile(fullgraph=True)
    def f(x, n, flag=False):
        y = x.sum(n) + bias.sum()
        return -y if flag else y

    w = rl.ones(2, 3)

    def reason(*args: Any, **kwargs: Any) -> str:
        count = len(f.reasons)
        f(*args, **kwargs)
        assert len(f.reasons) == count + 1, f.reasons
        return f.reasons[-1]

    assert reason(w, 0) == "first call"
    assert reason(rl.ones(5, 3), 0) == "argument 0: shape was (2, 3), is (5, 3)"
    assert reason(w.double(), 0) == "argument 0: dtype was rushlight.float32, is rushlight.float64"
    assert reason(rl.ones(3, 2).t(), 0) == (
        "argument 0: strides was dense with dimensions in the order 0, 1, "
        "is dense with dimensions in the order 1, 0"
    )
    assert reason(w.clone().requires_grad_(), 0) == "argument 0: requires_grad was False, is True"
    assert reason(w, 1) == "the number argument 1: value was 0, is 1"
    assert reason(w, 0, True).startswith("the arguments: structure was 2, is 3")
    bias.requires_grad_()
    assert reason(w, 0) == "a captured tensor: requires_grad was False, is True"
    with rl.no_grad():
        assert reason(w, 0).startswith("the modes (grad, inference, default dtype, autocast, determinism): ")


def test_guards_are_told_in_words() -> None:
    layer, scale = rl.nn.Linear(4, 8), rl.ones(8, 3, dtype=rl.float64)[:, 1]
    told = rl.explain(lambda x: layer(x).double() * scale, rl.ones(2, 4)).guards
    assert "argument 0: layout float32 (2, 4)" in told
    assert "a captured tensor: layout float32 (8, 4), requires grad, a Parameter" in told
    assert "a captured tensor: layout float64 (8,), strides (3,), offset 1" in told
    assert "layer.weight: identity a Parameter, float32 (8, 4)" in told  # not what is in it


def test_reasons_of_shared_memory_gradients_and_values() -> None:
    weight = rl.ones(3)

    @rl.compile
    def add(x, y, more=0):
        x.add_(y)
        weight.add_(1)
        return None if x.grad is None else x.grad + 1

    x, y = rl.ones(3), rl.ones(3)
    add(x, y)
    add(x, x)
    assert add.reasons[-1] == (
        "the arguments: none shares memory or has hooks before, arguments 0 and 1 are one tensor now"
    )
    add(x, weight)
    assert "shares memory with a captured tensor" in add.reasons[-1]
    add(x, y)
    x.grad = rl.ones(3)
    add(x, y)
    assert add.reasons[-1] == "the gradient of argument 0: was not there, is"
    x.grad = rl.ones(6)[::2]
    add(x, y)
    assert add.reasons[-1] == "the gradient of argument 0: strides was (1,), is (2,)"
    add(x, y, None)
    assert add.reasons[-1].startswith("the arguments: structure was 2, is 3")
    add(x, y, True)
    assert add.reasons[-1] == "argument 2: value was None, is True"
    add(x, y, 7)
    assert add.reasons[-1] == "argument 2: was True, is a number of type int"


def test_the_check_agrees_with_the_words() -> None:
    """Two interpreters of one list: a specialization passes a call exactly if no difference is found."""
    scale, state = rl.ones(2), {"gain": 2.0, "shift": 1}

    @rl.compile
    def f(x):
        return x * scale * state["gain"] + state["shift"] if len(state) == 2 else x

    def answers(x: rl.Tensor) -> list[bool]:
        leaves, structure = leaves_of((x,), {})
        key = key_of_call(leaves, structure)
        known = f.specializations.get(key, [])
        found = [s.numbers(leaves) is not None for s in known]
        assert found == [s.difference(Call(key, leaves)) is None for s in known]
        return found

    x = rl.ones(2)
    f(x)
    assert answers(x) == [True]
    state["gain"] = 3.0
    assert answers(x) == [False]
    f(x)
    assert answers(x) == [False, True]
    state["gain"] = float("2")  # equal, another object
    assert answers(x) == [True, False]
    scale.requires_grad_()
    assert answers(x) == [False, False]
    scale.requires_grad_(False)
    state["more"] = 1
    assert answers(x) == [False, False]
    del state["more"], state["shift"]
    assert answers(x) == [False, False]

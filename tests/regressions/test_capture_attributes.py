"""Attributes that programs give to tensors, or that an object has only at times: compiled functions read and
set them as eager ones do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.errors import StateError


class Thing:
    """Any object."""


def linear() -> nn.Linear:
    rl.manual_seed(0)
    return nn.Linear(2, 2)


OWNERS: dict[str, Callable[[], Any]] = {
    "an object": Thing,
    "a tensor": lambda: rl.ones(2),
    "a parameter": lambda: nn.Parameter(rl.ones(2)),
    "a parameter of a module": lambda: linear().weight,
    "a module": linear,
}


def by_strings(owner: Any, x: rl.Tensor) -> rl.Tensor:
    setattr(owner, "count", getattr(owner, "count", 0) + 1)
    return x * owner.count


def if_there(owner: Any, x: rl.Tensor) -> rl.Tensor:
    if not hasattr(owner, "count"):
        owner.count = 1
        return x
    owner.count += 2
    return x * owner.count


def with_error(owner: Any, x: rl.Tensor) -> rl.Tensor:
    try:
        owner.count += 1
    except AttributeError:
        owner.count = 1
    return x * owner.count


def constant(owner: Any, x: rl.Tensor) -> rl.Tensor:
    owner.count = 5
    return x


BODIES = (by_strings, if_there, with_error, constant)


def seen(owner: Any, body: Callable[..., Any], compiled: Callable[..., Any]) -> list[Any]:
    function = compiled(lambda x: body(owner, x))
    found = []
    for call in range(5):
        if call == 3:
            owner.count = 10
        found.append((function(rl.ones(2)).tolist(), owner.count))
    return found


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", OWNERS)
def test_attributes_that_are_set(kind: str, body: Callable[..., Any]) -> None:
    expected, found = (seen(OWNERS[kind](), body, compiled) for compiled in (lambda f: f, rl.compile))
    assert found == expected


def counting_hook(p: rl.Tensor) -> None:
    p.count = getattr(p, "count", 0) + 1


@pytest.mark.parametrize("whole", [False, True])
def test_a_hook_counts_in_its_parameter(whole: bool) -> None:
    p = nn.Parameter(rl.ones(2))
    p.register_post_accumulate_grad_hook(counting_hook)

    @rl.compile(fullgraph=whole)
    def step(x: rl.Tensor) -> rl.Tensor:
        (p * x).sum().backward()
        return x * 2

    for call in range(5):
        step(rl.ones(2))
        assert p.count == call + 1
    assert p.grad.tolist() == [5, 5]


@pytest.mark.parametrize("known", [True, False])
def test_attributes_of_parameters_that_others_set(known: bool) -> None:
    model = linear()
    model.requires_grad_(False)
    if known:
        model.weight.scale = 1.0

    def run(x: rl.Tensor) -> rl.Tensor:
        return model(x) * getattr(model.weight, "scale", 3.0)

    compiled, x = rl.compile(run), rl.ones(2)
    for scale in (None, 1.0, 2.0, 2.0):
        if scale is not None:
            model.weight.scale = scale
        for _ in range(2):
            assert rl.equal(compiled(x), run(x))


def test_attributes_of_parameters_in_a_loop() -> None:
    models = [linear() for _ in range(2)]

    def run(model: nn.Module, x: rl.Tensor) -> rl.Tensor:
        for i, p in enumerate(model.parameters()):
            p.seen = getattr(p, "seen", i) + 1
        return model(x) * model.weight.seen

    functions = [lambda x: run(models[0], x), rl.compile(lambda x: run(models[1], x))]
    for _ in range(4):
        expected, found = (function(rl.ones(2)) for function in functions)
        assert rl.allclose(found, expected)
        eager, counted = ([p.seen for p in model.parameters()] for model in models)
        assert counted == eager


def test_attributes_of_arguments_and_results() -> None:
    def run(x: rl.Tensor) -> rl.Tensor:
        x.note = "argument"
        y = x * 2
        y.note = "result"
        return y

    compiled = rl.compile(run)
    for _ in range(3):
        x = rl.ones(2)
        y = compiled(x)
        assert (x.note, y.note, y.tolist()) == ("argument", "result", [2, 2])


def test_attributes_of_arguments_are_read() -> None:
    compiled = rl.compile(lambda x: x * x.scale)
    for scale in (2.0, 3.0):
        x = rl.ones(2)
        x.scale = scale
        assert compiled(x).tolist() == [scale, scale]


def test_whole_graphs_say_that_they_cannot_set_attributes() -> None:
    def result(x: rl.Tensor) -> rl.Tensor:
        y = x * 2
        y.note = 1
        return y

    def argument(x: rl.Tensor) -> rl.Tensor:
        x.note = 1
        return x * 2

    for function in (result, argument):
        x = rl.ones(2)
        with pytest.raises(StateError, match="note"):
            rl.compile(function, fullgraph=True)(x)
        assert not hasattr(x, "note")

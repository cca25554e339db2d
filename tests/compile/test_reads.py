"""What a compiled program may not take for granted: values of the caller's tensors, and containers."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.errors import CaptureError


def test_value_of_an_argument_is_read_every_time() -> None:
    """Regression: `item()` of an argument itself, before any operator, was taken from the first call."""
    scale = rl.compile(lambda x, n: x * n.item())
    assert scale(rl.ones(2), rl.tensor(2.0)).tolist() == [2, 2]
    assert scale(rl.ones(2), rl.tensor(3.0)).tolist() == [3, 3]
    assert "reads a value" in next(iter(scale.eager.values()))
    choose = rl.compile(lambda x, n: x * 2 if n else x * 3)
    assert [choose(rl.ones(()), rl.tensor(flag)).item() for flag in (1, 0, 1)] == [2, 3, 2]
    with pytest.raises(CaptureError, match="reads a value"):
        rl.compile(lambda x, n: x * float(n), fullgraph=True)(rl.ones(2), rl.tensor(2.0))
    whole = rl.compile(lambda x, n: x * n.item(), fullgraph=True)
    assert [whole(rl.ones(2), rl.tensor(n)).tolist() for n in (2.0, 3.0)] == [[2, 2], [3, 3]]


def test_value_of_a_buffer_is_read_every_time() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("factor", rl.tensor(2.0))

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return x * float(self.factor)

    module = Scaled()
    compiled = rl.compile(module)
    assert compiled(rl.ones(2)).tolist() == [2, 2]
    module.factor.fill_(5.0)
    assert compiled(rl.ones(2)).tolist() == [5, 5]


def test_a_list_is_not_its_item() -> None:
    """Regression: after `f([x])`, `f(x)` was served by the program of the list."""
    f = rl.compile(lambda a: a[0] * 2 if isinstance(a, list) else a * 3)
    x = rl.ones(2)
    assert [f(a).tolist()[0] for a in ([x], [x], x, [x])] == [2, 2, 3, 2]


class Case:
    """An object with what a program does not name: an iterator, and a constructor that looks names up."""

    def __init__(self, **options: Any) -> None:
        self.scale = 2.0
        self.steps = iter(range(3))
        for name in options:
            setattr(self, name, getattr(self, name, None))

    def __call__(self, x: rl.Tensor) -> rl.Tensor:
        return x * self.scale


def test_constructors_of_objects_that_are_there_do_not_run() -> None:
    case = Case()
    f = rl.compile(lambda x: x * case.scale + case(x), fullgraph=True)
    assert f(rl.ones(2)).tolist() == [4, 4]
    case.scale = 3.0
    assert f(rl.ones(2)).tolist() == [6, 6]
    assert next(case.steps) == 0

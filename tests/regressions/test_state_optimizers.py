"""Steps of optimizers that a program has written: what they read is a guard, as in other functions."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import rushlight as rl
from rushlight.programs import automatic


class Countdown:
    """What a program keeps beside an optimizer: the same attributes for all its objects."""

    shared: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.__dict__ = self.shared


class Sometimes(rl.optim.Optimizer):
    """An optimizer of a program's own, around another, that steps when its state says so."""

    def __init__(self, inner: rl.optim.Optimizer, wraps: bool) -> None:
        if wraps:  # one around another that has not made itself one
            self.inner, self.state, self.param_groups = inner, inner.state, inner.param_groups
        else:
            super().__init__([p for group in inner.param_groups for p in group["params"]], {})
            self.inner = inner
        self.due = Countdown()

    def step(self, closure: Any = None) -> None:
        if self.due.now:
            self.inner.step(closure)


@pytest.mark.parametrize("wraps", [True, False], ids=["around another", "with its own groups"])
@pytest.mark.parametrize("automatically", [True, False], ids=["rushlight run", "compile"])
def test_steps_that_programs_write_see_what_they_read(automatically: bool, wraps: bool) -> None:
    weight = rl.nn.Parameter(rl.zeros(2))
    weight.grad = -rl.ones(2)
    optimizer = Sometimes(rl.optim.SGD([weight], lr=1.0), wraps)
    due, found = Countdown(), []
    if automatically:
        automatic.enable()
    try:
        step = optimizer.step if automatically else rl.compile(optimizer.step)
        for i in range(14):
            due.now = i % 2 == 1
            step()
            found.append(weight[0].item())
    finally:
        automatic.disable()
    assert found == [float((i + 1) // 2) for i in range(14)]

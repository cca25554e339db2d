"""Steps of optimizers that a program has written: what they read is a guard, as in other functions. States that
are loaded between compiled steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
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


schedules = rl.optim.lr_scheduler
SCHEDULERS: dict[str, Callable[[rl.optim.Optimizer], Any]] = {
    "ExponentialLR": lambda o: schedules.ExponentialLR(o, 0.9),
    "StepLR": lambda o: schedules.StepLR(o, 2),
    "CosineAnnealingLR": lambda o: schedules.CosineAnnealingLR(o, 10),
    "LambdaLR": lambda o: schedules.LambdaLR(o, lambda epoch: 0.95**epoch),
    "LinearLR": lambda o: schedules.LinearLR(o, total_iters=5),
    "OneCycleLR": lambda o: schedules.OneCycleLR(o, 0.1, total_steps=20),
    "ChainedScheduler": lambda o: schedules.ChainedScheduler(
        [schedules.ConstantLR(o, 0.1, 2), schedules.ExponentialLR(o, 0.9)], optimizer=o
    ),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.ConstantLR(o, 0.1, 2), schedules.ExponentialLR(o, 0.9)], [3]
    ),
    "ReduceLROnPlateau": lambda o: schedules.ReduceLROnPlateau(o, patience=1),
}


def rates_around_loads(name: str, what: str, compiled: Callable[..., Any]) -> list[tuple[float, float]]:
    """Rates and weights after each step of a training that loads its own state midway, twice."""
    weight = rl.nn.Parameter(rl.ones(2, 2, dtype=rl.float64))
    optimizer = rl.optim.SGD([{"params": [weight]}], lr=0.02, momentum=0.5)
    scheduler = SCHEDULERS[name](optimizer)

    def step(x: rl.Tensor) -> None:
        loss = (x @ weight).sin().sum()
        loss.backward()
        optimizer.step()
        scheduler.step(*([2.0] if name == "ReduceLROnPlateau" else []))
        optimizer.zero_grad()

    train, found = compiled(step), []
    for i in range(9):
        if i in (3, 6):
            for owner in (optimizer, scheduler) if what == "both" else (locals()[what],):
                owner.load_state_dict(copy.deepcopy(owner.state_dict()))
        train(rl.ones(3, 2, dtype=rl.float64))
        found.append((optimizer.param_groups[0]["lr"], weight[0, 0].item()))
    return found


@pytest.mark.parametrize("what", ["optimizer", "scheduler", "both"])
@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_states_loaded_between_compiled_steps(name: str, what: str) -> None:
    """A compiled step of a scheduler wrote the rate into groups that loading had replaced."""
    expected = rates_around_loads(name, what, lambda step: step)
    found = rates_around_loads(name, what, rl.compile)
    assert found == [pytest.approx(pair, rel=1e-12) for pair in expected]

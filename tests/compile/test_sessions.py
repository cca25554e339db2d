"""Random sessions, a training step called several times while what is around it changes: compiled ones agree
with eager ones. A few in every run, hundreds with `-m slow`.

`run_session(number, compiled)` makes a small model with hooks, flags, counters, an optimizer and a scheduler,
compiles its step with `compiled`, and goes through random events: calls, hooks added and removed, values of
lists and attributes set, modes switched, learning rates changed, parameters frozen, states loaded, errors
raised in the middle of the step. It yields what can be seen after each event. The same number gives the same
session. (The code of a session is a user's: what belongs to the package is not looked into.)
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.core.pytree import flatten

EVENTS = 6


class Scaled(rl.autograd.Function):
    """Reads a class attribute, which events change, in both directions."""

    factor = 1.0

    @staticmethod
    def forward(ctx: Any, x: rl.Tensor) -> rl.Tensor:
        return x * Scaled.factor

    @staticmethod
    def backward(ctx: Any, grad: rl.Tensor) -> rl.Tensor:
        return grad * Scaled.factor


class Output(OrderedDict[str, Any]):
    """What a step returns: items, and an attribute."""

    note: Any = None


class Midway(ValueError):
    """Raised inside of a step."""


class Model(nn.Module):
    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.act: nn.Module = (nn.Tanh(), nn.Softplus(), nn.SiLU())[generator.integers(3)]
        self.norm = nn.BatchNorm1d(4) if generator.integers(2) else nn.LayerNorm(4)
        self.calls, self.scale, self.counts = 0, 1.0, generator.integers(6) == 0

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        if self.counts:
            self.calls += 1
        y = self.norm(self.act(self.first(x)))
        if self.training:
            y = y * self.scale
        return self.second(Scaled.apply(y))


class Session:
    """The state of one session, and the events that may happen."""

    def __init__(self, number: int, compiled: Callable[..., Any]) -> None:
        self.random = np.random.default_rng(number)
        rl.manual_seed(number)
        Scaled.factor = 1.0
        self.model = Model(self.random).double()
        kinds = (
            lambda p: optim.SGD(p, 0.02),
            lambda p: optim.SGD(p, 0.02, momentum=0.5),
            lambda p: optim.Adam(p, 0.05),
            lambda p: optim.AdamW(p, 0.05),
        )
        self.optimizer = kinds[self.random.integers(len(kinds))](self.model.parameters())
        self.scheduler = (
            optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9) if (self.random.integers(3) == 0) else None
        )
        self.factors, self.seen, self.flags = [1.0, 2.0], [], {"fail": False, "keep": False}
        self.handles: list[Any] = []
        self.accumulates, self.writes = bool(self.random.integers(2)), bool(self.random.integers(2))
        self.total = rl.zeros(2, dtype=rl.float64)
        self.step = compiled(self.train)

    def train(self, x: rl.Tensor, t: rl.Tensor, last: bool, weight: float) -> Output:
        y = self.model(x) * self.factors[0]
        if self.flags["fail"]:
            self.total.add_(1)
            raise Midway
        loss = F.mse_loss(y, t) * weight
        if self.writes:
            self.total += y.detach().mean(0)
        loss.backward()
        if last or not self.accumulates:
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step()
            self.optimizer.zero_grad()
        if self.flags["keep"]:
            self.seen.append(loss.detach())
        found = Output(loss=loss.detach(), y=y.detach())
        found.note = found["y"][0]
        return found

    # Events.

    def call(self) -> Any:
        rows = int(self.random.choice([2, 5], p=[0.2, 0.8]))
        x, t = (rl.tensor(self.random.uniform(-1, 1, (rows, n))) for n in (3, 2))
        if self.scheduler is not None and not self.accumulates and not self.optimizer._opt_called:
            self.optimizer.step()
        try:
            found = self.step(x, t, bool(self.random.integers(2)), float(self.random.integers(1, 3)))
        except Midway:
            return "raised"
        return [type(found).__name__, dict(found), found.note]

    def set_factor(self) -> None:
        self.factors[0] = 0.5 * float(self.random.integers(1, 4))

    def set_scale(self) -> None:
        self.model.scale = float(self.random.integers(1, 3))

    def set_factor_of_function(self) -> None:
        Scaled.factor = float(self.random.integers(1, 3))

    def switch_mode(self) -> None:
        self.model.train(not self.model.training)

    def switch_flag(self) -> None:
        name = ("fail", "keep")[self.random.integers(2)]
        self.flags[name] = not self.flags[name]

    def set_rate(self) -> None:
        self.optimizer.param_groups[0]["lr"] = 0.01 * float(self.random.integers(1, 5))

    def freeze(self) -> None:
        bias = self.model.second.bias
        bias.requires_grad_(not bias.requires_grad)

    def replace_module(self) -> None:
        self.model.act = (nn.Tanh(), nn.Softplus(), nn.SiLU())[self.random.integers(3)]

    def load(self) -> None:
        self.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        self.model.load_state_dict(
            {k: v * 0.5 if v.is_floating_point() else v for k, v in self.model.state_dict().items()}
        )

    def load_schedule(self) -> None:
        if self.scheduler is not None:
            self.scheduler.load_state_dict(copy.deepcopy(self.scheduler.state_dict()))

    def add_hook(self) -> None:
        factors, first, weight = self.factors, self.model.first, self.model.second.weight
        which = self.random.integers(5)
        if which == 0:
            self.handles.append(first.register_forward_hook(lambda m, a, result: result * factors[1]))
        elif which == 1:
            self.handles.append(first.register_forward_pre_hook(lambda m, args: (args[0] + factors[1],)))
        elif which == 2:
            self.handles.append(weight.register_hook(lambda grad: grad * factors[1]))
        elif which == 3:
            self.handles.append(
                self.model.norm.register_full_backward_hook(lambda m, given, grads: (given[0] * factors[1],))
            )
        else:
            self.handles.append(
                weight.register_post_accumulate_grad_hook(
                    lambda p: None if p.grad is None else setattr(p, "count", getattr(p, "count", 0) + 1)
                )
            )

    def remove_hook(self) -> None:
        if self.handles:
            self.handles.pop(int(self.random.integers(len(self.handles)))).remove()

    def set_factor_of_hooks(self) -> None:
        self.factors[1] = 0.5 * float(self.random.integers(1, 4))

    def shown(self) -> list[Any]:
        optimizer, weight = self.optimizer, self.model.second.weight
        return [
            list(self.model.parameters()),
            [p.grad for p in self.model.parameters()],
            list(self.model.buffers()),
            self.model.calls,
            self.total,
            list(self.seen),
            [group["lr"] for group in optimizer.param_groups],
            getattr(weight, "count", 0),
            [list(state.values()) for state in optimizer.state.values()],
        ]


OTHERS = (
    Session.set_factor,
    Session.set_scale,
    Session.set_factor_of_function,
    Session.switch_mode,
    Session.switch_flag,
    Session.set_rate,
    Session.freeze,
    Session.replace_module,
    Session.load,
    Session.load_schedule,
    Session.add_hook,
    Session.add_hook,
    Session.remove_hook,
    Session.set_factor_of_hooks,
)


def run_session(number: int, compiled: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """(what happened, what can be seen then), event by event."""
    session = Session(number, compiled)
    session.optimizer.zero_grad()
    for _ in range(EVENTS):
        for _ in range(int(session.random.integers(1, 4))):
            found = session.call()
            yield "call", [found, *session.shown()]
        event = OTHERS[session.random.integers(len(OTHERS))]
        event(session)
        yield event.__name__, session.shown()


def check(number: int) -> None:
    steps = [(name, _frozen(shown)) for name, shown in run_session(number, lambda function: function)]
    for step, (name, shown) in enumerate(run_session(number, rl.compile)):
        expected_name, expected = steps[step]
        assert name == expected_name, f"session {number}, step {step}"
        found = _frozen(shown)
        assert found[0] == expected[0], f"session {number}, step {step} ({name})"
        for i, (a, b) in enumerate(zip(found[1], expected[1], strict=True)):
            where = f"session {number}, step {step} ({name}), leaf {i}"
            if isinstance(b, np.ndarray):
                np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8, err_msg=where)
            else:
                assert a == pytest.approx(b) if isinstance(b, float) else a == b, where


def _frozen(shown):
    leaves, structure = flatten(shown)
    return structure, [np.array(x.detach().numpy()) if isinstance(x, rl.Tensor) else x for x in leaves]


@pytest.mark.parametrize("number", range(5))
def test_sessions(number):
    check(number)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100, 500))
def test_many_sessions(number):
    check(number)

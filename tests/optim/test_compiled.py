"""Whole training steps, compiled: the same as eager ones, with hyperparameters that stay live."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim

OPTIMIZERS = [
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5}),
    ("AdamW", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("NAdam", {}),
    ("RAdam", {"lr": 0.1}),
    ("Adamax", {}),
    ("Adagrad", {}),
    ("Adadelta", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Rprop", {}),
    ("ASGD", {"t0": 3}),
    ("Adafactor", {}),
]


def step_of(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def twins(name, options):
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    other = copy.deepcopy(model)
    return [(m, getattr(optim, name)(m.parameters(), **options)) for m in (model, other)]


def other_reasons(compiled):
    """How often a step was compiled again, but for the gradients that the first one leaves."""
    return len([r for r in compiled.reasons if r != "first call" and "gradient" not in r])


def same(a, b):
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("name", "options"), OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else ",".join(v)
)
def test_steps(name, options):
    (model, optimizer), (other, other_optimizer) = twins(name, options)
    compiled = rl.compile(step_of(model, optimizer), fullgraph=True)
    eager = step_of(other, other_optimizer)
    for i in range(10):
        x, y = rl.randn(16, 4), rl.randn(16, 3)
        if i == 5:
            for group in (*optimizer.param_groups, *other_optimizer.param_groups):
                group["lr"] *= 3
        np.testing.assert_allclose(float(compiled(x, y)), float(eager(x, y)), rtol=1e-5)
    same(model, other)
    assert other_reasons(compiled) <= bool(options.get("dampening"))  # the first average ignores it
    state, expected = optimizer.state_dict()["state"], other_optimizer.state_dict()["state"]
    assert [list(s) for s in state.values()] == [list(s) for s in expected.values()]


def test_scheduler_between_compiled_steps():
    (model, optimizer), (other, other_optimizer) = twins("AdamW", {"lr": 0.1})
    schedulers = [optim.lr_scheduler.CosineAnnealingLR(o, 5) for o in (optimizer, other_optimizer)]
    compiled, eager = rl.compile(step_of(model, optimizer), fullgraph=True), step_of(other, other_optimizer)
    for _ in range(8):
        x, y = rl.randn(16, 4), rl.randn(16, 3)
        compiled(x, y)
        eager(x, y)
        for scheduler in schedulers:
            scheduler.step()
    same(model, other)
    assert other_reasons(compiled) == 0


def test_clipping_inside_of_a_step():
    (model, optimizer), (other, other_optimizer) = twins("SGD", {"lr": 0.1})

    def clipped(model, optimizer):
        def step(x):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return norm

        return step

    compiled, eager = rl.compile(clipped(model, optimizer), fullgraph=True), clipped(other, other_optimizer)
    for _ in range(3):
        x = rl.randn(5, 4)
        np.testing.assert_allclose(float(compiled(x)), float(eager(x)), rtol=1e-5)
    same(model, other)

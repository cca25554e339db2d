"""Every scheduler against PyTorch's, over fifty steps: rates, momenta and state dicts."""

from __future__ import annotations

import inspect
import math
import warnings

import pytest
import torch

import rushlight as rl
from rushlight import nn, optim
from rushlight.optim import swa_utils

CASES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda step: 0.95**step),
    "LambdaLR-two": lambda s, o: s.LambdaLR(o, [lambda step: 1 / (step + 1), lambda step: step % 3]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda step: 0.9),
    "StepLR": lambda s, o: s.StepLR(o, 7, gamma=0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 10, 10, 30]),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 6),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 0.8, 20),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 30, power=2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 9, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4, 2, eta_min=0.01),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 5, 8),
    "CyclicLR-triangular2": lambda s, o: s.CyclicLR(o, 0.01, [0.1, 0.3], 5, mode="triangular2"),
    "CyclicLR-exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 5, mode="exp_range", gamma=0.95),
    "CyclicLR-custom": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 5, scale_fn=lambda x: 1 / x, cycle_momentum=False
    ),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=60),
    "OneCycleLR-three": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.2], epochs=6, steps_per_epoch=10, three_phase=True, anneal_strategy="linear"
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=5), s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 10)], [5, 20]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9)]),
    "SWALR": lambda s, o: (torch.optim.swa_utils if s is torch.optim.lr_scheduler else swa_utils).SWALR(
        o, 0.05, anneal_epochs=7
    ),
    "SWALR-linear": lambda s, o: (
        torch.optim.swa_utils if s is torch.optim.lr_scheduler else swa_utils
    ).SWALR(o, [0.05, 0.2], anneal_epochs=0, anneal_strategy="linear"),
}


def optimizers(name="SGD"):
    options = {"momentum": 0.9} if name == "SGD" else {}
    theirs = [torch.nn.Parameter(torch.ones(1)) for _ in range(2)]
    ours = [nn.Parameter(rl.ones(1)) for _ in range(2)]
    groups = [[{"params": [a]}, {"params": [b], "lr": 0.3}] for a, b in (theirs, ours)]
    return getattr(torch.optim, name)(groups[0], lr=0.1, **options), getattr(optim, name)(
        groups[1], lr=0.1, **options
    )


def plain(state):
    """A state dict without what refers to functions."""
    return {
        k: v
        for k, v in state.items()
        if k not in ("_schedulers", "lr_lambdas", "_scale_fn_custom", "_scale_fn_ref")
    }


def close(a, b):
    if isinstance(a, dict):
        return list(a) == list(b) and all(close(a[k], b[k]) for k in a) if not isinstance(b, type) else False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15)
    return a == b


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("name", CASES)
def test_fifty_steps(name, optimizer):
    theirs, ours = optimizers(optimizer)
    schedulers = CASES[name](torch.optim.lr_scheduler, theirs), CASES[name](optim.lr_scheduler, ours)
    for _ in range(50):
        assert close(schedulers[0].get_last_lr(), schedulers[1].get_last_lr())
        for a, b in zip(theirs.param_groups, ours.param_groups, strict=True):
            assert close(
                {k: v for k, v in a.items() if k != "params"}, {k: v for k, v in b.items() if k != "params"}
            )
        theirs.step()
        ours.step()
        for scheduler in schedulers:
            scheduler.step()
    a, b = (plain(scheduler.state_dict()) for scheduler in schedulers)
    assert set(a) == set(b)
    assert all(close(a[key], b[key]) for key in a)


@pytest.mark.parametrize("name", [n for n in CASES if "custom" not in n])
def test_state_dict_is_resumed(name):
    _, first = optimizers()
    _, second = optimizers()
    one, two = CASES[name](optim.lr_scheduler, first), CASES[name](optim.lr_scheduler, second)
    for _ in range(7):
        first.step()
        one.step()
    second.step()
    second.load_state_dict(first.state_dict())
    two.load_state_dict(one.state_dict())
    for _ in range(20):
        one.step()
        two.step()
        assert one.get_last_lr() == two.get_last_lr()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max"},
        {"threshold_mode": "abs", "threshold": 0.5},
        {"patience": 2, "cooldown": 3, "min_lr": [0.05, 0.001]},
    ],
    ids=str,
)
def test_plateau(options):
    theirs, ours = optimizers()
    a = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    b = optim.lr_scheduler.ReduceLROnPlateau(ours, **options)
    for step in range(50):
        value = 1 / (step + 1) if step < 12 else math.sin(step)
        a.step(value)
        b.step(value)
        assert close(a.get_last_lr(), b.get_last_lr())
    assert close(a.state_dict(), b.state_dict())


@pytest.mark.parametrize(
    "name",
    [
        "StepLR",
        "MultiStepLR",
        "ConstantLR",
        "LinearLR",
        "ExponentialLR",
        "PolynomialLR",
        "CosineAnnealingLR",
        "CosineAnnealingWarmRestarts",
    ],
)
def test_closed_form(name):
    theirs, ours = optimizers()
    a, b = CASES[name](torch.optim.lr_scheduler, theirs), CASES[name](optim.lr_scheduler, ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for epoch in (1, 5, 6, 20, 40):
            a.step(epoch)
            b.step(epoch)
            assert close(a.get_last_lr(), b.get_last_lr())


def test_warns_of_a_step_before_the_optimizers():
    _, ours = optimizers()
    scheduler = optim.lr_scheduler.ExponentialLR(ours, 0.9)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        scheduler.get_lr()


def test_resuming_needs_the_initial_rate():
    _, ours = optimizers()
    with pytest.raises(KeyError, match="initial_lr"):
        optim.lr_scheduler.StepLR(ours, 3, last_epoch=5)


def test_every_scheduler_with_the_same_signature():
    theirs = torch.optim.lr_scheduler
    names = theirs.__all__
    assert not [name for name in names if not hasattr(optim.lr_scheduler, name)]
    different = []
    for name in names:
        a, b = (inspect.signature(getattr(m, name)).parameters.values() for m in (theirs, optim.lr_scheduler))
        if [(p.name, p.kind, p.default) for p in a] != [(p.name, p.kind, p.default) for p in b]:
            different.append(name)
    assert not different
    assert not [name for name in torch.optim.swa_utils.__all__ if not hasattr(swa_utils, name)]

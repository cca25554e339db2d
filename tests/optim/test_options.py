"""Every optimizer with every combination of its options against PyTorch's, over twenty steps.

Also: groups with options of their own, state dicts that go to PyTorch and come back, the options that choose
an implementation, and steps that are differentiated.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight import nn, optim

FLAGS = [False, True]
DECAY = [0.0, 0.1]
GRID = {
    "SGD": {
        "momentum": [0.0, 0.9],
        "dampening": [0.0, 0.3],
        "nesterov": FLAGS,
        "weight_decay": DECAY,
        "maximize": FLAGS,
    },
    "Adam": {"amsgrad": FLAGS, "weight_decay": DECAY, "maximize": FLAGS, "decoupled_weight_decay": FLAGS},
    "AdamW": {"amsgrad": FLAGS, "weight_decay": DECAY, "maximize": FLAGS},
    "Adamax": {"weight_decay": DECAY, "maximize": FLAGS},
    "NAdam": {"weight_decay": DECAY, "maximize": FLAGS, "decoupled_weight_decay": FLAGS},
    "RAdam": {"weight_decay": DECAY, "maximize": FLAGS, "decoupled_weight_decay": FLAGS},
    "Adagrad": {
        "lr_decay": DECAY,
        "weight_decay": DECAY,
        "initial_accumulator_value": [0.0, 0.5],
        "maximize": FLAGS,
    },
    "Adadelta": {"weight_decay": DECAY, "maximize": FLAGS, "rho": [0.5, 0.9]},
    "RMSprop": {"momentum": [0.0, 0.9], "centered": FLAGS, "weight_decay": DECAY, "maximize": FLAGS},
    "Rprop": {"maximize": FLAGS, "etas": [(0.5, 1.2), (0.3, 1.5)]},
    "ASGD": {"weight_decay": DECAY, "maximize": FLAGS, "t0": [1e6, 5]},
    "Adafactor": {"weight_decay": DECAY, "maximize": FLAGS, "lr": [0.01, 0.1], "d": [1.0, 1.5]},
}
SHAPES = [(4, 3), (3,), ()]
# options that choose among implementations of the same step
WAYS = [{"foreach": True}, {"foreach": False}, {"fused": True}, {"capturable": True}]


def combinations(name):
    names, values = zip(*GRID[name].items(), strict=True)
    for chosen in itertools.product(*values):
        options = dict(zip(names, chosen, strict=True))
        if not options.get("nesterov") or (options["momentum"] and not options["dampening"]):
            yield options


def parameters(m, seed=0):
    random = np.random.default_rng(seed)
    return [m.nn.Parameter(m.from_numpy(np.array(random.standard_normal(s), np.float32))) for s in SHAPES]


def give_gradients(m, params, seed):
    random = np.random.default_rng(seed)
    for param in params:
        param.grad = m.from_numpy(np.array(random.standard_normal(tuple(param.shape)), np.float32))


def run(m, optimizer, params, steps):
    for number in steps:
        give_gradients(m, params, number)
        optimizer.step()
    return [param.detach().numpy() for param in params]


def close(mine, theirs, text=""):
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6, err_msg=text)


def made(m, name, params, options):
    return getattr(m.optim, name)(params, **options)


@pytest.mark.parametrize("name", sorted(GRID))
def test_every_combination(name):
    count = 0
    for options in combinations(name):
        mine, theirs = (
            run(m, made(m, name, params, options), params, range(20))
            for m in (rl, torch)
            for params in [parameters(m)]
        )
        close(mine, theirs, str(options))
        count += 1
    assert count >= 4


def takes(name, option):
    return option in getattr(optim, name).__init__.__code__.co_varnames


@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(name, way, id=f"{name}-{next(iter(way.items()))}")
        for name in sorted(GRID)
        for way in WAYS
        if takes(name, next(iter(way)))
    ],
)
def test_every_way_gives_the_same(name, way):
    options = list(combinations(name))[-1]
    plain, other = (
        run(rl, made(rl, name, params, {**options, **more}), params, range(20))
        for more in ({}, way)
        for params in [parameters(rl)]
    )
    for a, b in zip(plain, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", sorted(GRID))
def test_groups(name):
    """Options of a group are its own; the others are those of the optimizer."""
    first, *_, last = combinations(name)
    results = []
    for m in (rl, torch):
        params = parameters(m)
        optimizer = made(m, name, [{"params": params[:1], **last}, {"params": params[1:], "lr": 0.05}], first)
        results.append(run(m, optimizer, params, range(20)))
        groups = optimizer.state_dict()["param_groups"]
        results.append([{k: v for k, v in group.items() if k != "params"} for group in groups])
    close(results[0], results[2])
    assert results[1] == results[3]


def translated(value, m):
    if isinstance(value, torch.Tensor | rl.Tensor):
        return m.from_numpy(np.array(value.detach().numpy()))
    if isinstance(value, dict):
        return {key: translated(item, m) for key, item in value.items()}
    return value


@pytest.mark.parametrize("name", sorted(GRID))
def test_state_dicts_go_both_ways(name):
    """Five steps here, five in PyTorch, five here: the same as fifteen in PyTorch."""
    options = list(combinations(name))[-1]
    reference = parameters(torch)
    want = run(torch, made(torch, name, reference, options), reference, range(15))
    values, state = [p.detach().numpy() for p in parameters(rl)], None
    for m, steps in ((rl, range(5)), (torch, range(5, 10)), (rl, range(10, 15))):
        params = [m.nn.Parameter(m.from_numpy(np.array(value))) for value in values]
        optimizer = made(m, name, params, options)
        if state is not None:
            optimizer.load_state_dict(translated(state, m))
        values = run(m, optimizer, params, steps)
        state = optimizer.state_dict()
    close(values, want)


# Differentiated steps.

DIFFERENTIABLE = [name for name in sorted(GRID) if takes(name, "differentiable")]


def options_of(name):
    if name == "SGD":  # PyTorch's first average of momentum has no history
        return {"weight_decay": 0.1, "differentiable": True}
    options = {key: value for key, value in list(combinations(name))[-1].items() if key != "maximize"}
    return {**options, "differentiable": True}


def stepped(m, name, start, grad, factors):
    param = start.clone()
    optimizer = made(m, name, [param], options_of(name))
    for factor in factors:
        param.grad = grad * factor
        optimizer.step()
    return param


def leaves(m):
    return [m.from_numpy(np.random.default_rng(i).standard_normal((3, 2))).requires_grad_() for i in (0, 1)]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_a_step(name):
    """Of the parameter and of the gradient."""
    results = []
    for m in (rl, torch):
        start, grad = leaves(m)
        weights = m.from_numpy(np.random.default_rng(2).standard_normal((3, 2)))
        loss = (stepped(m, name, start, grad, [1.0]) * weights).sum()
        results.append([g.numpy() for g in m.autograd.grad(loss, (start, grad))])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_two_steps(name):
    """PyTorch refuses most of these, since the second step writes what the first has saved."""
    assert rl.autograd.gradcheck(lambda start, grad: stepped(rl, name, start, grad, [1.0, 0.5]), leaves(rl))


# Compiled steps.

COMPILED = {
    "SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    "Adam": {"amsgrad": True, "weight_decay": 0.1},
    "AdamW": {},
    "Adamax": {"weight_decay": 0.1},
    "NAdam": {"weight_decay": 0.1},
    "RAdam": {"weight_decay": 0.1},
    "Adagrad": {"lr_decay": 0.1, "weight_decay": 0.1},
    "Adadelta": {"weight_decay": 0.1},
    "RMSprop": {"momentum": 0.9, "centered": True, "weight_decay": 0.1},
    "Rprop": {},
    "ASGD": {"weight_decay": 0.1},
    "Adafactor": {"weight_decay": 0.1},
}


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_hyperparameters_stay_live(name):
    """Every number of a group is changed between compiled steps; nothing is compiled again for it."""
    params, others = parameters(rl), parameters(rl)
    optimizer, other = (made(rl, name, p, COMPILED[name]) for p in (params, others))
    step = rl.compile(lambda: optimizer.step(), fullgraph=True)
    for number in range(6):
        for each, group in ((params, optimizer.param_groups[0]), (others, other.param_groups[0])):
            give_gradients(rl, each, number)
            if number >= 3:
                for key, value in group.items():
                    if isinstance(value, float):
                        group[key] = value * 0.9
                    elif isinstance(value, tuple):
                        group[key] = tuple(v * 0.95 if isinstance(v, float) else v for v in value)
        step()
        other.step()
        close([p.detach().numpy() for p in params], [p.detach().numpy() for p in others])
    assert len(step.reasons) == 1, step.reasons


@pytest.mark.parametrize("name", sorted(COMPILED))
def test_a_scheduler_does_not_recompile(name):
    params, others = parameters(rl), parameters(rl)
    optimizer, other = (made(rl, name, p, COMPILED[name]) for p in (params, others))
    schedulers = [
        optim.lr_scheduler.OneCycleLR(
            o,
            0.1,
            total_steps=10,
            cycle_momentum=name != "Adagrad" and ("momentum" in o.defaults or "betas" in o.defaults),
        )
        for o in (optimizer, other)
    ]
    step = rl.compile(lambda: optimizer.step(), fullgraph=True)
    for number in range(6):
        give_gradients(rl, params, number)
        give_gradients(rl, others, number)
        step()
        other.step()
        for scheduler in schedulers:
            scheduler.step()
    close([p.detach().numpy() for p in params], [p.detach().numpy() for p in others])
    assert len(step.reasons) == 1, step.reasons


def test_nn_parameters_of_a_module_with_muon():
    """Muon takes matrices alone; twenty steps against PyTorch, which computes in bfloat16."""
    results = []
    for m in (rl, torch):
        random = np.random.default_rng(0)
        params = [
            m.nn.Parameter(m.from_numpy(random.standard_normal(s).astype(np.float32)))
            for s in ((6, 4), (4, 6))
        ]
        optimizer = m.optim.Muon(params, lr=0.02, momentum=0.9, weight_decay=0.05)
        results.append(run(m, optimizer, params, range(20)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.02, atol=0.02)
    assert isinstance(nn.Parameter(rl.ones(1)), rl.Tensor)

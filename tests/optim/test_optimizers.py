"""Every optimizer against PyTorch's, over twenty steps: parameters, state, groups."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight import nn, optim

SHAPES = [(4, 3), (3,), ()]

CASES = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"weight_decay": 0.1, "maximize": True}),
    ("Adam", {"amsgrad": True, "lr": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"amsgrad": True, "betas": (0.5, 0.7)}),
    ("AdamW", {"weight_decay": 0.3, "eps": 1e-3}),
    ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "lr": 0.1}),
    ("RAdam", {"betas": (0.9, 0.9)}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {}),
    ("Adadelta", {"weight_decay": 0.1, "lr": 0.5, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Rprop", {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.02)}),
    ("ASGD", {}),
    ("ASGD", {"t0": 5, "weight_decay": 0.1, "lambd": 0.1}),
    ("Adafactor", {}),
    ("Adafactor", {"weight_decay": 0.1, "d": 2.0}),
]
IDS = [f"{name}-{','.join(options)}" for name, options in CASES]


def to_torch(tensor: rl.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.array(tensor.detach().numpy()))


class Pair:
    """The same parameters here and in PyTorch."""

    def __init__(self, name, options, shapes=SHAPES, dtype=np.float32, seed=0):
        self.rng = np.random.default_rng(seed)
        self.shapes, self.dtype = shapes, dtype
        start = [self.random(shape) for shape in shapes]
        self.theirs = [torch.nn.Parameter(torch.from_numpy(np.array(a))) for a in start]
        self.ours = [nn.Parameter(rl.from_numpy(np.array(a))) for a in start]
        self.their_optimizer = getattr(torch.optim, name)(self.theirs, **options)
        self.our_optimizer = getattr(optim, name)(self.ours, **options)

    def random(self, shape):
        value = self.rng.standard_normal(shape)
        if np.issubdtype(self.dtype, np.complexfloating):
            value = value + 1j * self.rng.standard_normal(shape)
        return np.asarray(value, self.dtype)

    def step(self):
        for shape, theirs, ours in zip(self.shapes, self.theirs, self.ours, strict=True):
            grad = self.random(shape)
            theirs.grad, ours.grad = torch.from_numpy(np.array(grad)), rl.from_numpy(np.array(grad))
        self.their_optimizer.step()
        self.our_optimizer.step()

    def check(self):
        for theirs, ours in zip(self.theirs, self.ours, strict=True):
            torch.testing.assert_close(to_torch(ours), theirs.detach())


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_twenty_steps(name, options):
    pair = Pair(name, options)
    for _ in range(20):
        pair.step()
        pair.check()
    theirs, ours = pair.their_optimizer.state_dict(), pair.our_optimizer.state_dict()
    assert theirs["param_groups"] == ours["param_groups"]
    assert theirs["state"].keys() == ours["state"].keys()
    for number, state in theirs["state"].items():
        assert list(state) == list(ours["state"][number])
        for key, value in state.items():
            torch.testing.assert_close(to_torch(ours["state"][number][key]), value)


@pytest.mark.parametrize(
    "name",
    ["SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "RMSprop", "Rprop", "Adadelta", "ASGD"],
)
def test_complex_parameters(name):
    pair = Pair(name, {}, dtype=np.complex64)
    for _ in range(5):
        pair.step()
    pair.check()


def test_muon():
    pair = Pair("Muon", {}, shapes=[(8, 4), (3, 6)])
    for _ in range(5):
        pair.step()
    for theirs, ours in zip(pair.theirs, pair.ours, strict=True):  # both compute in bfloat16
        torch.testing.assert_close(to_torch(ours), theirs.detach(), rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="2D"):
        optim.Muon([nn.Parameter(rl.ones(3))])


@pytest.mark.parametrize(
    "options",
    [{}, {"line_search_fn": "strong_wolfe"}, {"history_size": 3, "lr": 0.5}],
    ids=lambda o: ",".join(o) or "plain",
)
def test_lbfgs(options):
    start = np.array([-1.2, 1.0, 0.5])
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    ours = nn.Parameter(rl.from_numpy(start.copy()))
    optimizers = torch.optim.LBFGS([theirs], **options), optim.LBFGS([ours], **options)

    def rosenbrock(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    for _ in range(5):
        losses = []
        for optimizer, param in zip(optimizers, (theirs, ours), strict=True):

            def closure(optimizer=optimizer, param=param):
                optimizer.zero_grad()
                loss = rosenbrock(param)
                loss.backward()
                return loss

            losses.append(float(optimizer.step(closure).detach()))
        assert losses[0] == pytest.approx(losses[1], rel=1e-6, abs=1e-9)
        torch.testing.assert_close(to_torch(ours), theirs.detach(), rtol=1e-6, atol=1e-8)
    theirs_state, ours_state = (next(iter(o.state.values())) for o in optimizers)
    assert theirs_state["func_evals"] == ours_state["func_evals"]
    assert set(theirs_state) == set(ours_state)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "NAdam", "Rprop"])
def test_state_dict_is_resumed(name):
    options = {"momentum": 0.9} if name == "SGD" else {}
    pair = Pair(name, options)
    for _ in range(3):
        pair.step()
    saved = copy.deepcopy(pair.our_optimizer.state_dict())
    fresh = getattr(optim, name)(pair.ours, **{**options, "lr": 123.0})
    fresh.load_state_dict(saved)
    assert fresh.param_groups[0]["lr"] == pair.their_optimizer.param_groups[0]["lr"]
    pair.our_optimizer = pickle.loads(pickle.dumps(fresh))
    pair.our_optimizer.param_groups[0]["params"] = pair.ours
    pair.our_optimizer = fresh
    for _ in range(3):
        pair.step()
        pair.check()


def test_state_is_cast_to_the_dtype_of_the_parameter():
    pair = Pair("Adam", {})
    pair.step()
    wide = [nn.Parameter(p.detach().double()) for p in pair.ours]
    fresh = optim.Adam(wide)
    fresh.load_state_dict(pair.our_optimizer.state_dict())
    state = fresh.state[wide[0]]
    assert state["exp_avg"].dtype is rl.float64
    assert state["step"].dtype is rl.float32


def test_save_and_load_through_a_file(tmp_path):
    pair = Pair("AdamW", {})
    pair.step()
    rl.save(pair.our_optimizer.state_dict(), tmp_path / "state")
    fresh = optim.AdamW(pair.ours)
    fresh.load_state_dict(rl.load(tmp_path / "state"))
    pair.our_optimizer = fresh
    pair.step()
    pair.check()


def test_groups_have_their_own_hyperparameters():
    a, b = (nn.Parameter(rl.ones(2)) for _ in range(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.1)
    a.grad, b.grad = rl.ones(2), rl.ones(2)
    optimizer.step()
    assert a.tolist() == pytest.approx([0.9, 0.9])
    assert b.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group({"params": [a]})
    optimizer.add_param_group({"params": [nn.Parameter(rl.ones(1))], "lr": 3.0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.1, 1.0, 3.0]


def test_named_parameters():
    model = nn.Linear(2, 2)
    optimizer = optim.SGD(model.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["params"] == [0, 1]


def test_parameters_without_gradient_are_left_alone():
    a, b = nn.Parameter(rl.ones(2)), nn.Parameter(rl.ones(2))
    optimizer = optim.Adam([a, b])
    a.grad = rl.ones(2)
    optimizer.step()
    assert b.tolist() == [1.0, 1.0]
    assert list(optimizer.state_dict()["state"]) == [0]


def test_hooks_run_in_order():
    calls = []
    param = nn.Parameter(rl.ones(1))
    param.grad = rl.ones(1)
    optimizer = optim.SGD([param])
    handles = [
        optimizer.register_step_pre_hook(lambda o, a, k: calls.append("before")),
        optimizer.register_step_post_hook(lambda o, a, k: calls.append("after")),
    ]
    optimizer.step()
    assert calls == ["before", "after"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(calls) == 2


def test_zero_grad():
    param = nn.Parameter(rl.ones(2))
    optimizer = optim.SGD([param])
    param.grad = rl.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert param.grad.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert param.grad is None


@pytest.mark.parametrize("kind", ["plain", "view", "transposed", "leaf", "recorded", "bfloat16", "sparse"])
@pytest.mark.parametrize("of_module", [False, True], ids=["optimizer", "module"])
def test_gradients_are_set_to_zero_in_place(same, kind, of_module):
    def scenario(lib):
        module = lib.nn.Linear(3, 2, bias=False)
        if kind == "bfloat16":
            module.to(lib.bfloat16)
        weight = module.weight
        grad = {
            "plain": lambda: lib.ones(2, 3),
            "view": lambda: lib.ones(4, 3)[1:3],
            "transposed": lambda: lib.ones(3, 2).t(),
            "leaf": lambda: lib.ones(2, 3).requires_grad_(),
            "recorded": lambda: lib.ones(2, 3).requires_grad_() * 2,
            "bfloat16": lambda: lib.ones(2, 3, dtype=lib.bfloat16),
            "sparse": lambda: lib.ones(2, 3).to_sparse(),
        }[kind]()
        weight.grad = grad
        given, version = weight.grad, weight.grad._version
        (module if of_module else lib.optim.SGD([weight], lr=1.0)).zero_grad(set_to_none=False)
        found = weight.grad
        values = found.to_dense() if kind == "sparse" else found
        return found is given, found._version - version, found.requires_grad, found.grad_fn is None, values

    same(scenario)


def test_closure_is_recorded_and_its_loss_returned():
    param = nn.Parameter(rl.ones(2))
    optimizer = optim.SGD([param], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (param**2).sum()
        loss.backward()
        return loss

    assert float(optimizer.step(closure).detach()) == 2.0
    assert param.tolist() == [0.0, 0.0]


def test_lr_as_a_tensor():
    pair = Pair("Adam", {"lr": 0.01})
    pair.our_optimizer = optim.Adam(pair.ours, lr=rl.tensor(0.01))
    for _ in range(3):
        pair.step()
    pair.check()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": -1.0}),
        ("SGD", {"nesterov": True}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("Adam", {"eps": -1.0}),
        ("AdamW", {"weight_decay": -1.0}),
        ("Adadelta", {"rho": 2.0}),
        ("Rprop", {"etas": (2.0, 3.0)}),
        ("NAdam", {"momentum_decay": -1.0}),
        ("Adafactor", {"d": 0.5}),
        ("RMSprop", {"alpha": -1.0}),
        ("Adagrad", {"lr_decay": -1.0}),
    ],
)
def test_wrong_hyperparameters(name, options):
    with pytest.raises(ValueError) as theirs:
        getattr(torch.optim, name)([torch.nn.Parameter(torch.ones(1))], **options)
    with pytest.raises(ValueError) as ours:
        getattr(optim, name)([nn.Parameter(rl.ones(1))], **options)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("params", [[], {1}, "tensor", [3], "not a leaf"], ids=str)
def test_wrong_parameters(params):
    def make(library, module):
        given = {"tensor": library.ones(1), "not a leaf": [library.ones(1, requires_grad=True) * 2]}.get(
            str(params), [{"params": {library.ones(1)}}] if params == {1} else params
        )
        return module.SGD(given)

    with pytest.raises(Exception) as theirs:
        make(torch, torch.optim)
    with pytest.raises(type(theirs.value)):
        make(rl, optim)


def test_repr():
    pair = Pair("SGD", {"momentum": 0.9})
    assert repr(pair.our_optimizer) == repr(pair.their_optimizer)

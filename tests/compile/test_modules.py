"""A compiled module is a module: its state, mode and attributes are those of the original, as in PyTorch."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight import nn, optim


class Scaled(nn.Module):
    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.scale = scale

    def forward(self, x: Any, shift: Any = 0) -> Any:
        return self.norm(self.linear(x)) * self.scale + shift


@pytest.fixture
def pair() -> tuple[Any, Any]:
    rl.manual_seed(0)
    module = Scaled()
    return module, rl.compile(module, fullgraph=True)


def test_calls_agree(pair: Any) -> None:
    module, compiled = pair
    twin = copy.deepcopy(module)
    x = rl.randn(4, 3)
    assert isinstance(compiled, nn.Module)
    for kwargs in ({}, {"shift": 1.0}, {}):
        np.testing.assert_allclose(
            compiled(x, **kwargs).detach().numpy(), twin(x, **kwargs).detach().numpy(), rtol=1e-5, atol=1e-6
        )
    np.testing.assert_allclose(module.norm.running_mean.numpy(), twin.norm.running_mean.numpy(), rtol=1e-6)
    assert compiled.norm.num_batches_tracked.item() == 3
    assert compiled.reasons[0] == "first call"


def test_modes(pair: Any) -> None:
    module, compiled = pair
    x = rl.randn(4, 3)
    assert compiled.eval() is compiled
    assert not (compiled.training or module.training or module.norm.training)
    np.testing.assert_allclose(compiled(x).detach().numpy(), module(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    compiled.train()
    assert compiled.training
    assert module.norm.training
    module.eval()
    np.testing.assert_allclose(compiled(x).detach().numpy(), module(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_state_is_shared(pair: Any) -> None:
    module, compiled = pair
    assert list(compiled.parameters()) == list(module.parameters())
    assert compiled.linear is module.linear
    state = compiled.state_dict()
    assert set(state) == {f"_orig_mod.{name}" for name in module.state_dict()}
    other = rl.compile(Scaled())
    other.load_state_dict(state)
    assert other.linear.weight.equal(module.linear.weight)
    module.load_state_dict({name.removeprefix("_orig_mod."): value for name, value in state.items()})
    file = io.BytesIO()
    rl.save(compiled.state_dict(), file)
    file.seek(0)
    assert set(rl.load(file)) == set(state)


def test_names_are_those_of_pytorch() -> None:
    ours = rl.compile(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    theirs = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
    assert len(ours) == len(theirs) == 2
    assert repr(ours).splitlines()[0] == repr(theirs).splitlines()[0]
    assert ours[0] is ours._orig_mod[0]


def test_attributes(pair: Any) -> None:
    module, compiled = pair
    x = rl.randn(4, 3)
    compiled.eval()
    before = compiled(x)
    compiled.scale = 4.0
    assert module.scale == 4.0
    np.testing.assert_allclose(compiled(x).detach().numpy(), 2 * before.detach().numpy(), rtol=1e-5)
    compiled.linear = nn.Linear(3, 2)
    assert module.linear is compiled.linear
    assert not compiled(x).allclose(2 * before)
    compiled.note = "a"
    del compiled.note
    assert not hasattr(module, "note")
    with pytest.raises(AttributeError, match="nothing"):
        _ = compiled.nothing
    assert "scale" in dir(compiled)
    assert compiled.double().linear.weight.dtype is rl.float64


def test_training(pair: Any) -> None:
    module, compiled = pair
    twin = copy.deepcopy(module)
    for call, parameters in ((compiled, compiled.parameters()), (twin, twin.parameters())):
        optimizer = optim.SGD(parameters, lr=0.1)
        for i in range(3):
            rl.manual_seed(i)
            optimizer.zero_grad()
            call(rl.randn(8, 3)).sigmoid().square().sum().backward()
            optimizer.step()
    for a, b in zip(module.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_copies_and_pickles(pair: Any) -> None:
    module, compiled = pair
    compiled.eval()
    x = rl.randn(4, 3)
    wanted = compiled(x)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert other._orig_mod is not module
        assert other(x).allclose(wanted)
        other.linear.weight.data.zero_()
        assert not other(x).allclose(wanted)
    assert compiled(x).allclose(wanted)


def test_inside_of_a_compiled_function(pair: Any) -> None:
    module, compiled = pair
    compiled.eval()
    x = rl.randn(4, 3)
    outer = rl.compile(lambda x: compiled(x) * 2, fullgraph=True)
    assert outer(x).allclose(module(x) * 2, atol=1e-6)
    stack = nn.Sequential(compiled, nn.ReLU()).eval()
    assert rl.compile(stack)(x).allclose(module(x).relu(), atol=1e-6)


def test_hooks_of_the_wrapper(pair: Any) -> None:
    _, compiled = pair
    seen = []
    handle = compiled.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    compiled(rl.randn(4, 3))
    handle.remove()
    compiled(rl.randn(4, 3))
    assert seen == [(4, 2)]

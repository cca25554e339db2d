"""Training steps whose calls are native as a whole, from arguments to results: what they must see."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.compiler.specialization import CallPath
from rushlight.core.dispatch import run_name

from .trained import OUTPUTS, Trained, both, native


def direct(found: Trained) -> bool:
    """Whether the next call is one native call from arguments to results."""
    fast = found.step._fast
    return (
        fast is not None
        and fast[1] is found.specialization()
        and fast[1].path is CallPath.NATIVE_WITH_NUMBERS
    )


def _other_rate(trained: Trained) -> None:
    trained.optimizer.param_groups[0]["lr"] = 0.02


def _other_betas(trained: Trained) -> None:
    trained.optimizer.param_groups[0]["betas"] = (0.5, 0.75)


def _same_rate_again(trained: Trained) -> None:
    trained.optimizer.param_groups[0]["lr"] = float("0.01")


def _loaded(trained: Trained) -> None:
    trained.optimizer.load_state_dict(trained.optimizer.state_dict())


def _forgotten(trained: Trained) -> None:
    trained.optimizer.state.clear()


def _forgotten_in_part(trained: Trained) -> None:
    state = trained.optimizer.state[trained.parameters()[1]]
    state["exp_avg"] = rl.zeros_like(state["exp_avg"])


def _more_parameters(trained: Trained) -> None:
    extra = nn.Parameter(rl.ones(2))
    extra.grad = rl.ones(2)
    trained.optimizer.add_param_group({"params": [extra], "lr": 0.5})


def _another_parameter(trained: Trained) -> None:
    trained.model[0].bias = nn.Parameter(rl.ones(OUTPUTS))


def _hooked(trained: Trained) -> None:
    trained.model[1].register_forward_hook(lambda module, args, result: 2 * result)


def _another_module(trained: Trained) -> None:
    trained.model[1] = nn.ReLU()


def _frozen(trained: Trained) -> None:
    trained.parameters()[2].requires_grad_(False)


def _other_shape(trained: Trained) -> None:
    trained.x, trained.target = trained.x[:4].clone(), trained.target[:4].clone()


def _a_view(trained: Trained) -> None:
    trained.x = rl.cat([trained.x, trained.x])[8:]


def _other_strides(trained: Trained) -> None:
    trained.x = (2 * trained.x).t().contiguous().t()


def _an_argument_with_a_gradient(trained: Trained) -> None:
    trained.x.requires_grad_()


def _memory_of_a_parameter(trained: Trained) -> None:
    trained.x = trained.parameters()[0].detach()[:8]


CHANGES = [
    _other_rate,
    _other_betas,
    _same_rate_again,
    _loaded,
    _forgotten,
    _forgotten_in_part,
    _more_parameters,
    _another_parameter,
    _hooked,
    _another_module,
    _frozen,
    _other_shape,
    _a_view,
    _other_strides,
    _an_argument_with_a_gradient,
    _memory_of_a_parameter,
]


@native
@pytest.mark.parametrize("change", CHANGES)
def test_a_direct_call_sees(change: Callable[[Trained], None]) -> None:
    found, expected = both(4)
    assert direct(found)
    for trained in (found, expected):
        change(trained)
    for _ in range(4):
        assert found() == pytest.approx(expected(), rel=1e-5)
    for a, b in zip(found.parameters(), expected.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-6)
        assert a._version == b._version
    if change in (_other_rate, _other_betas, _same_rate_again):
        assert direct(found)
        assert len(found.step.reasons) == 1


@native
def test_a_direct_call_sees_modes() -> None:
    found, expected = both(4)
    assert direct(found)
    for trained in (found, expected):
        with rl.no_grad(), pytest.raises(RuntimeError):
            trained()
        with rl.autocast("cpu", dtype=rl.bfloat16):
            trained()
    assert found() == pytest.approx(expected(), rel=2e-2)


@native
def test_a_direct_call_sees_variables() -> None:
    """Numbers, containers, attributes and variables of enclosing functions; whether a module trains."""

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(rl.ones(3))
            self.scale, self.factors = 2.0, [1.0, 3.0]

        def forward(self, x: Any) -> Any:
            scale = self.scale if self.training else -1.0
            return x * self.weight * scale * self.factors[1] * shift

    shift = 1.0
    model = Scaled()

    def step(x: Any) -> Any:
        model.weight.grad = None
        loss = model(x).sum()
        loss.backward()
        with rl.no_grad():
            model.weight.sub_(0.125 * model.weight.grad)
        return loss, "done", [loss * 2]

    compiled = rl.compile(step, fullgraph=True)
    x = rl.ones(3)

    def check() -> None:
        for _ in range(3):
            before = model.weight.detach().clone()
            wanted = step(x)
            after, grad = model.weight.detach().clone(), model.weight.grad
            with rl.no_grad():
                model.weight.copy_(before)
            loss, word, (double,) = compiled(x)
            assert (float(loss), word, float(double)) == (float(wanted[0]), "done", float(wanted[2][0]))
            assert model.weight.tolist() == after.tolist()
            assert model.weight.grad.tolist() == grad.tolist()
            del grad, wanted
        assert compiled._fast is not None and compiled._fast[1].path is CallPath.NATIVE_WITH_NUMBERS

    check()
    model.scale = 4.0
    check()
    model.factors[1] = 0.5
    check()
    model.factors.append(1.0)
    check()
    shift = -2.0
    check()
    model.eval()
    check()
    model.train()
    check()


@native
def test_versions_after_a_reported_error() -> None:
    w = rl.tensor([1.0, 2.0], requires_grad=True)

    @rl.compile(fullgraph=True)
    def step(x: Any) -> Any:
        w.grad = None
        loss = (w * x).sum()
        loss.backward()
        run_name("_assert_async", (x > 0).all())
        with rl.no_grad():
            w.sub_(w.grad)
        return loss

    x = rl.ones(2)
    for _ in range(3):
        step(x)
    before = w._version
    assert step._fast is not None
    with pytest.raises(RuntimeError):
        step(-x)
    assert w._version == before
    assert w.grad is None
    step(x)
    assert w._version == before + 1


@native
def test_direct_calls_give_references_back() -> None:
    found, _ = both(4)
    assert direct(found)
    kept = [value for state in found.optimizer.state.values() for value in state.values()]
    watched = [
        found.x,
        found.model,
        vars(found.model),
        found.optimizer.state,
        None,
        True,
        found.specialization(),
        *found.parameters(),
        *kept,
    ]

    def counts() -> list[int]:
        gc.collect()
        arrays = [sys.getrefcount(t._array) for t in (found.x, *found.parameters(), *kept)]
        return arrays + [sys.getrefcount(thing) for thing in watched]

    before = counts()
    for _ in range(100):
        found()
    assert direct(found)
    assert max(abs(a - b) for a, b in zip(counts(), before, strict=True)) < 50

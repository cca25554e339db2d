"""With `--compile auto`, gradients of results of which other results are computed are those of eager calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import inner
from rushlight.autograd.graph import register_multi_grad_hook
from rushlight.programs import automatic

CALLS = automatic.WARM + 4


@pytest.fixture(autouse=True)
def compiled_automatically() -> Iterator[None]:
    automatic.enable()
    inner.ASKED.yet = False
    yield
    automatic.disable()
    inner.ASKED.yet = False


class Net(nn.Module):
    """Gives its last layer's result, and the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 3), nn.Linear(3, 2)
        self.kept: Any = None

    def forward(self, x: Any) -> Any:
        hidden = self.first(x).tanh()
        return self.last(hidden), hidden


def asked_for(results: Any) -> Any:
    return rl.autograd.grad(results[0].sum(), results[1])[0]


def asked_for_in_part(results: Any) -> Any:
    return rl.autograd.grad(results[0].sum() + results[1].square().sum(), results[1])[0]


def accumulated(results: Any) -> Any:
    results[0].sum().backward(inputs=[results[1]])
    return results[1].grad


def retained(results: Any) -> Any:
    results[1].retain_grad()
    (results[0].sum() + results[1].square().sum()).backward()
    return results[1].grad


def hooked(results: Any) -> Any:
    found: list[Any] = []
    results[1].register_hook(found.append)
    results[0].sum().backward()
    return found[0]


def changed(results: Any) -> Any:
    found: list[Any] = []
    results[1].register_hook(lambda grad: grad * 3)
    leaf = results[1].grad_fn.next_functions[0][0]
    leaf.register_prehook(lambda grads: found.append(grads[0]))
    results[0].sum().backward()
    return found[0]


def several(results: Any) -> Any:
    found: list[Any] = []
    register_multi_grad_hook([results[1]], found.extend)
    results[0].sum().backward()
    return found[0]


WAYS = (asked_for, asked_for_in_part, accumulated, retained, hooked, changed, several)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("kept", [False, True], ids=["returned", "kept by a hook"])
def test_the_gradient_of_an_inner_result(way: Callable[[Any], Any], kept: bool) -> None:
    rl.manual_seed(0)
    model, x = Net(), rl.randn(5, 4)
    kept_results: dict[str, Any] = {}
    if kept:
        model.last.register_forward_pre_hook(lambda module, args: kept_results.update(hidden=args[0]))
    found = []
    for _ in range(CALLS):
        results = model(x)
        found.append(way((results[0], kept_results["hidden"]) if kept else results))
    for gradient in found[1:]:
        rl.testing.assert_close(gradient, found[0])


def test_a_program_that_asks_late_is_told() -> None:
    model, x = Net(), rl.randn(5, 4)
    for _ in range(CALLS):
        results = model(x)
        results[0].sum().backward()
    results = model(x)
    with pytest.raises(RuntimeError, match="other results of that call are computed from it"):
        results[1].retain_grad()
    results = model(x)  # from now on it is so
    results[1].retain_grad()
    results[0].sum().backward()
    assert results[1].grad is not None


def test_results_that_no_other_is_computed_from_stay_compiled() -> None:
    model, x = Net(), rl.randn(5, 4)
    for _ in range(CALLS):
        logits, hidden = model(x)
        logits.retain_grad()
        (logits.sum() + hidden.sum()).backward()
        assert logits.grad.eq(1).all()
    one = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    for _ in range(CALLS):
        y = one(x)
        y.retain_grad()
        y.square().sum().backward()
        rl.testing.assert_close(y.grad, 2 * y.detach())
    (piece,) = (p for p in vars(one)[automatic.PIECES].values())
    assert piece.runs_compiled

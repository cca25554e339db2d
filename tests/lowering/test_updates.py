"""Updates as one node each: the same elements as those of the operators that they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.compiler import pipeline

OPTIMIZERS = {
    "AdamW": lambda params: optim.AdamW(params),
    "Adam": lambda params: optim.Adam(params, amsgrad=True, weight_decay=0.1),
    "SGD": lambda params: optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
    "RMSprop": lambda params: optim.RMSprop(params, centered=True, momentum=0.9),
    "NAdam": lambda params: optim.NAdam(params),
    "RAdam": lambda params: optim.RAdam(params),
}


def _trained(optimizer: str, dtype: Any) -> tuple[str, list[np.ndarray]]:
    """The graph of a step, and the parameters after four."""
    rl.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6)).to(dtype)
    steps = OPTIMIZERS[optimizer](model.parameters())
    x = rl.ones(4, 6, dtype=dtype)

    def step(x: Any) -> Any:
        steps.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        steps.step()
        return loss

    graph = rl.explain(step, x).graph
    compiled = rl.compile(step, options={"use_cache": False})
    for _ in range(4):
        compiled(x)
    return graph, [parameter.detach().to(rl.float64).numpy().copy() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("optimizer", "dtype"),
    [
        ("AdamW", rl.float32),
        ("AdamW", rl.bfloat16),
        ("Adam", rl.float64),
        ("SGD", rl.float32),
        ("RMSprop", rl.float16),
        ("NAdam", rl.float32),
        ("RAdam", rl.float32),
    ],
    ids=str,
)
def test_same_bits_as_the_operators(optimizer: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    composed, found = _trained(optimizer, dtype)
    apart = tuple(step for step in pipeline.PASSES_OVER_GRAPHS if step.name != "compose updates")
    monkeypatch.setattr(pipeline, "PASSES_OVER_GRAPHS", apart)
    monkeypatch.setattr(pipeline, "compose_row", None)
    plain, expected = _trained(optimizer, dtype)
    assert "update_" in composed
    assert "update_" not in plain
    assert composed.count("\n") < plain.count("\n")
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_equal_updates_share_their_operator() -> None:
    graph, _ = _trained("AdamW", rl.float32)
    names = [word for line in graph.splitlines() for word in line.split() if word.startswith("update_")]
    assert len({name.partition("(")[0] for name in names}) < len(names)


def test_what_is_used_elsewhere_stays_a_node() -> None:
    x, y = rl.ones(3), rl.ones(3)

    def program(x: Any, y: Any) -> Any:
        twice = y * 2
        x.copy_((twice + x).sin())
        return twice

    graph = rl.explain(program, x, y).graph
    assert "mul" in graph
    np.testing.assert_array_equal(rl.compile(program)(x, y).numpy(), np.full(3, 2.0, np.float32))
    np.testing.assert_allclose(x.numpy(), np.sin(np.full(3, 3.0, np.float32)), rtol=1e-6)


def test_sizes_that_change_stay_operators() -> None:
    compiled = rl.compile(lambda x, y: x.copy_((x * 2 + y).sin()), dynamic=True)
    for size in (3, 5, 8):
        x, y = rl.ones(size), rl.ones(size)
        compiled(x, y)
        np.testing.assert_allclose(x.numpy(), np.sin(np.full(size, 3.0, np.float32)), rtol=1e-6)


def test_an_operator_without_native_code_stays_apart() -> None:
    x = rl.tensor([1.5, 2.5, 3.5])
    expected = (rl.tensor([1.5, 2.5, 3.5]).lgamma() + 1).exp()
    rl.compile(lambda x: x.copy_((x.lgamma() + 1).exp()))(x)
    np.testing.assert_allclose(x.numpy(), expected.numpy(), rtol=1e-6)

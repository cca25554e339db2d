"""Functions of values that are kept instead of the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight
import rushlight.nn.functional as F
from rushlight.loops.program import Program


def step(activation: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(x: Any, weight: Any, other: Any) -> Any:
        loss = (activation(x @ weight) @ other).square().sum()
        loss.backward()
        return loss

    return run


def leaves() -> list[Any]:
    generator = np.random.default_rng(0)
    return [
        rushlight.tensor(generator.standard_normal(shape).astype(np.float32)).requires_grad_()
        for shape in ((40, 24), (24, 64), (64, 8))
    ]


def schedule_of(function: Callable[..., Any], tensors: list[Any]) -> tuple[Any, Program]:
    run = rushlight.compile(function, fullgraph=True)
    result = run(*tensors)
    ((entry,),) = run.specializations.values()
    return result, entry.artifact.schedule


def kept(schedule: Program) -> set[str]:
    outputs = [b.name for s in schedule.steps for b in s.outputs]
    return {name for name in outputs if name.endswith("_function")}


@pytest.mark.parametrize(
    "activation",
    [F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.mish],
    ids=["gelu", "tanh", "silu", "mish"],
)
def test_the_slope_of_an_activation_is_kept_instead_of_its_input(activation: Callable[[Any], Any]) -> None:
    mine, eager = leaves(), leaves()
    loss, schedule = schedule_of(step(activation), mine)
    assert len(kept(schedule)) == 1
    expected = step(activation)(*eager)
    np.testing.assert_allclose(loss.item(), expected.item(), rtol=1e-5)
    compare_gradients(mine, eager)


def compare_gradients(mine: list[Any], eager: list[Any]) -> None:
    """To rounding: sums of many terms of both signs."""
    for got, want in zip(mine, eager, strict=True):
        largest = np.abs(want.grad.numpy()).max()
        np.testing.assert_allclose(got.grad.numpy(), want.grad.numpy(), rtol=1e-5, atol=1e-6 * largest)


def test_values_that_are_needed_themselves_stay() -> None:
    """The input of the activation is a result, or is used late in another way."""

    def returned(x: Any, weight: Any, other: Any) -> Any:
        inner = x @ weight
        (F.gelu(inner) @ other).square().sum().backward()
        return inner

    def squared(x: Any, weight: Any, other: Any) -> Any:
        inner = x @ weight
        loss = (F.gelu(inner) @ other).square().sum() + inner.pow(3).sum()
        loss.backward()
        return loss

    for function in (returned, squared):
        mine, eager = leaves(), leaves()
        result, schedule = schedule_of(function, mine)
        np.testing.assert_allclose(result.detach().numpy(), function(*eager).detach().numpy(), rtol=1e-4)
        compare_gradients(mine, eager)
        if function is returned:
            assert not kept(schedule)


def test_cheap_functions_are_computed_again() -> None:
    _, schedule = schedule_of(step(F.relu), leaves())
    assert not kept(schedule)

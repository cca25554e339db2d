"""What reaches a tensor of the caller otherwise than by an operator: .data, copies, flags, assertions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.errors import CaptureError
from rushlight.core.dispatch import run_name


def data_read(x: rl.Tensor) -> Any:
    return x.data + 1


def data_returned(x: rl.Tensor) -> Any:
    return x.data


def data_written(x: rl.Tensor) -> Any:
    x.data.add_(1)
    return x * 1


def data_replaced(x: rl.Tensor) -> Any:
    x.data = x.data * 2
    x.add_(1)
    return x * 3, x


def data_of_a_result(x: rl.Tensor) -> Any:
    y = x * 2
    y.data = x * 5
    return y + 1


def shallow(x: rl.Tensor) -> Any:
    y = copy.copy(x)
    x.add_(1)
    return y, x * 2


def deep(x: rl.Tensor) -> Any:
    y = copy.deepcopy(x)
    y.add_(1)
    return y, x * 2


def legacy(x: rl.Tensor) -> Any:
    return rl.Tensor(x) + 1


def flag(x: rl.Tensor) -> Any:
    x.requires_grad_()
    (x * x).sum().backward()
    return x.grad


def flag_and_result(x: rl.Tensor) -> Any:
    x.requires_grad_()
    return (x * x).sum()


def other_storage(x: rl.Tensor) -> Any:
    y, z = x * 2, x * 3
    y.set_(z)
    return y.add_(1), z


def printed(x: rl.Tensor) -> Any:
    text = f"{x}"
    x.add_(1)
    return x * 1, text


def own_leaf(x: rl.Tensor) -> Any:
    w = x.clone().requires_grad_()
    return w, (w * w).sum()


def own_parameter(x: rl.Tensor) -> Any:
    w = nn.Parameter(x * 2)
    (w * 3).sum().backward()
    return w, w.grad


def described(value: Any) -> Any:
    if isinstance(value, tuple):
        return [described(part) for part in value]
    if not isinstance(value, rl.Tensor):
        return value
    return type(value), value.tolist(), value.requires_grad, described(value._grad)


@pytest.mark.parametrize(
    "program",
    [
        data_read,
        data_returned,
        data_written,
        data_replaced,
        data_of_a_result,
        shallow,
        deep,
        legacy,
        flag,
        flag_and_result,
        other_storage,
        printed,
        own_leaf,
        own_parameter,
    ],
    ids=lambda program: program.__name__,
)
def test_every_call_is_that_of_an_eager_program(program: Callable[[rl.Tensor], Any]) -> None:
    compiled = rl.compile(program)
    for value in (1.0, 2.0, 5.0):  # a tensor of an earlier call must play no part in a later one
        mine, eager = rl.full((2,), value), rl.full((2,), value)
        assert described(compiled(mine)) == described(program(eager))
        assert described(mine) == described(eager)
        assert mine._version == eager._version


@pytest.mark.parametrize(
    "program",
    [
        data_read,
        data_returned,
        data_written,
        data_replaced,
        data_of_a_result,
        shallow,
        deep,
        legacy,
        flag,
        flag_and_result,
        other_storage,
    ],
    ids=lambda program: program.__name__,
)
def test_these_are_one_graph(program: Callable[[rl.Tensor], Any]) -> None:
    rl.compile(program, fullgraph=True)(rl.ones(2))


def test_a_hand_written_optimizer() -> None:
    def step(w: rl.Tensor, x: rl.Tensor) -> rl.Tensor:
        w.grad = None
        loss = ((x * w) ** 2).sum()
        loss.backward()
        w.data = w.data - 0.1 * w.grad
        return loss

    x = rl.arange(3.0)
    mine, eager = (rl.ones(3, requires_grad=True) for _ in range(2))
    compiled = rl.compile(step, fullgraph=True)
    for _ in range(3):
        assert compiled(mine, x).tolist() == step(eager, x).tolist()
        assert mine.tolist() == pytest.approx(eager.tolist(), rel=1e-6)
    assert compiled.reasons[0] == "first call"
    assert len(compiled.reasons) <= 2


def test_the_flag_is_as_it_was_if_the_capture_fails() -> None:
    def program(x: rl.Tensor) -> float:
        x.requires_grad_()
        return float(x.sum())

    x = rl.ones(2)
    with pytest.raises(CaptureError, match="reads a value"):
        rl.compile(program, fullgraph=True)(x)
    assert not x.requires_grad
    assert rl.compile(program)(x) == 2.0
    assert x.requires_grad


def test_an_assertion_fails_when_its_program_runs() -> None:
    def program(x: rl.Tensor) -> rl.Tensor:
        run_name("_assert_async.msg", x.sum() > 0, "the sum must be positive")
        x.add_(1)
        return x * 2

    def nothing_else(x: rl.Tensor) -> None:
        run_name("_assert_async", (x > 0).all())

    compiled = rl.compile(program, fullgraph=True)
    assert compiled(rl.ones(2)).tolist() == [4.0, 4.0]
    x = -rl.ones(2)
    with pytest.raises(RuntimeError, match="the sum must be positive"):
        compiled(x)
    assert x.tolist() == [-1.0, -1.0]  # nothing was written
    checked = rl.compile(nothing_else, fullgraph=True)
    checked(rl.ones(2))
    with pytest.raises(RuntimeError, match="nonzero"):
        checked(x)

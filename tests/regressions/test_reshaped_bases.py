"""Views of tensors that got another shape in place afterwards have PyTorch's gradients, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight

Program = Callable[[Any, Any], Any]


def read(lib: Any, x: Any) -> Any:
    base = x * 2
    view = base.select(0, 1)
    base.unsqueeze_(0)
    return (view * view).sum() + base.sin().sum()


def of_a_view(lib: Any, x: Any) -> Any:
    base = x * 2
    view = base.transpose(0, 1)
    part = view[1]
    view.unsqueeze_(1)
    base.mul_(3)
    return (part * part).sum() + view.exp().sum()


def written(lib: Any, x: Any) -> Any:
    base = x * 2
    view = base[1:]
    base.transpose_(0, 1)
    view.mul_(view.detach() + 1)
    return (base * base).sum() + view.sum()


def written_behind(lib: Any, x: Any) -> Any:
    base = (x * 2)[1:]
    view = base.select(0, 0)
    base.unsqueeze_(0)
    view.copy_(x[0])
    return (base * base).sum()


def windows(lib: Any, x: Any) -> Any:
    base = (x * 2).reshape(-1)
    view = base.unfold(0, 2, 1)
    base.unsqueeze_(1)
    return (view * view).sum() + base.sum()


PROGRAMS = (read, of_a_view, written, written_behind, windows)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(program: Program, compiled: bool) -> None:
    values = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [-1.25, 1.0, 0.5]]
    expected = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    program(torch, expected).backward()
    x = rushlight.tensor(values, dtype=rushlight.float64, requires_grad=True)

    def run(x: Any) -> Any:
        return program(rushlight, x)

    (rushlight.compile(run) if compiled else run)(x).backward()
    torch.testing.assert_close(torch.tensor(x.grad.tolist(), dtype=torch.float64), expected.grad)

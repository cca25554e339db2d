"""Programs with convolutions keep channels last inside; results and gradients are what they are eagerly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.loops.definitions import Map
from rushlight.nn import functional

from .programs import same, tensor


def network(channels: int, size: tuple[int, int], groups: int = 1) -> Any:
    rl.manual_seed(0)
    inside = 2 * channels
    flat = inside * (size[0] // 2) * (size[1] // 2)
    return nn.Sequential(
        nn.Conv2d(channels, inside, 3, padding=1, groups=groups),
        nn.BatchNorm2d(inside),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(inside, inside, 3, padding=(1, 2), groups=groups),
        nn.BatchNorm2d(inside),
        nn.Flatten(),
        nn.Linear(flat + inside * 2 * (size[0] // 2), 5),
    )


@pytest.mark.parametrize(
    ("channels", "size", "groups"),
    [(3, (12, 10), 1), (16, (32, 32), 1), (8, (7, 9), 1), (4, (8, 8), 2), (8, (8, 8), 8)],
)
def test_training_steps_equal_eager_ones(channels: int, size: tuple[int, int], groups: int) -> None:
    x, target = tensor(6, channels, *size), rl.tensor(np.arange(6) % 5)
    found = []
    for wrap in (lambda f: f, rl.compile):
        model = network(channels, size, groups)

        def step(x: Any, model: Any = model) -> Any:
            loss = functional.cross_entropy(model(x), target)
            loss.backward()
            return loss

        x.grad = None
        loss = wrap(step)(x.requires_grad_())
        found.append([loss.detach(), x.grad, *(p.grad for p in model.parameters()), *model.buffers()])
    same(found[1], found[0], 2e-4)


def test_what_is_returned_lies_as_it_does_eagerly() -> None:
    x, weight, bias = tensor(2, 3, 8, 8), tensor(6, 3, 3, 3, seed=1), tensor(6, seed=2)

    def program(x: Any, weight: Any, bias: Any) -> Any:
        y = functional.conv2d(x, weight, bias, padding=1)
        z = (y - y.mean((0, 2, 3), keepdim=True)).relu()
        return y, z, functional.max_pool2d(z, 2), z.flatten(1), z.permute(0, 2, 3, 1)

    found, expected = rl.compile(program)(x, weight, bias), program(x, weight, bias)
    same(found, expected, 1e-5)
    assert [t.stride() for t in found] == [t.stride() for t in expected]


def test_channels_stay_last_between_convolutions() -> None:
    weight, bias = tensor(32, 16, 3, 3, seed=1), tensor(32, seed=2)
    second = tensor(8, 32, 3, 3, seed=3)

    def program(x: Any) -> Any:
        y = functional.conv2d(x, weight, bias, padding=1)
        unit = (y - y.mean((0, 2, 3), keepdim=True)) * y.var((0, 2, 3), keepdim=True).rsqrt()
        return functional.conv2d(functional.max_pool2d(unit.relu(), 2), second, padding=1)

    run = rl.compile(program, fullgraph=True)
    x = tensor(4, 16, 32, 32)
    same(run(x), program(x), 1e-4)
    ((entry,),) = run.specializations.values()
    maps = [d for d in entry.artifact.program.definitions if isinstance(d, Map) and len(d.variables) == 4]
    inner = [d for d in maps if d.variables[0].extent == 4 and d.buffer.memory.name == "TEMPORARY"]
    assert inner
    assert all(d.variables[-1].extent in (16, 32) for d in inner)
    assert "runs on the tiles of" in str(rl.explain(program, x).fusion)

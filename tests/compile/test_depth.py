"""What equal layers cost a compilation: work that grows with their number, not with its square, and no code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.compiler import pipeline
from rushlight.compiler.explain import Explanation
from rushlight.core.marks import mark_dynamic
from rushlight.core.passes import verifying
from rushlight.graph.ir import Graph
from rushlight.lowering.lower import lower

WIDTH = 16


class Block(nn.Module):
    """A residual block with a product, a normalization and a function of each element."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + F.gelu(self.linear(self.norm(x)))


def _step(layers: int) -> Callable[[Any], Any]:
    """Forward, backward and AdamW of a model of equal blocks."""
    model = nn.Sequential(*[Block() for _ in range(layers)])
    optimizer = optim.AdamW(model.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def _explained(layers: int) -> Explanation:
    return rl.explain(_step(layers), rl.ones(8, WIDTH))


def _functions(text: str) -> int:
    return len(re.findall(r"^define ", text, re.MULTILINE))


def test_equal_layers_share_their_code() -> None:
    few, many = (_functions(_explained(layers).llvm) for layers in (4, 12))
    assert many == few


def test_equal_layers_share_their_code_where_sizes_change() -> None:
    def functions(layers: int) -> int:
        x = rl.ones(8, WIDTH)
        mark_dynamic(x, 0)
        return _functions(rl.explain(_step(layers), x).llvm)

    assert functions(8) == functions(4)


class _Lowered(Exception):
    """What a graph of a program becomes, in place of all that comes after."""


def test_a_deep_layer_is_lowered_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory begins a new expression, however many operators there are before it."""

    def stop(graph: Graph, kept: int) -> None:
        raise _Lowered(len(lower(graph).definitions))

    def definitions(layers: int) -> int:
        with pytest.raises(_Lowered) as found:
            _explained(layers)
        return int(found.value.args[0])

    monkeypatch.setattr(pipeline, "fold", stop)
    few, some, many = map(definitions, (4, 5, 30))
    assert many - few == 26 * (some - few)


def _calls(function: Callable[[], Any]) -> int:
    """How often functions of Python's, and turns of generators, began while another runs."""
    count = 0

    def seen(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_work_is_linear_in_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all passes, where no layer is left out."""
    monkeypatch.setattr(pipeline, "fold", lambda graph, kept: None)
    _explained(2)  # what is worked out once for a process
    few, some, many = (_compiling(layers) for layers in (4, 8, 16))
    assert many - some < 1.1 * 2 * (some - few)


def test_a_layer_that_is_left_out_is_less_work(monkeypatch: pytest.MonkeyPatch) -> None:
    _explained(2)
    with verifying(False):
        folded = _compiling(40) - _compiling(32)
        monkeypatch.setattr(pipeline, "fold", lambda graph, kept: None)
        whole = _compiling(16) - _compiling(8)
    assert folded < 0.8 * whole


def _compiling(layers: int) -> int:
    """Of two compilations, since what is remembered of arithmetic may be forgotten in the middle of one."""
    steps, x = [rl.compile(_step(layers), options={"use_cache": False}) for _ in range(2)], rl.ones(8, WIDTH)
    return min(_calls(lambda step=step: step(x)) for step in steps)  # type: ignore[misc]

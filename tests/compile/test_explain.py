"""`rushlight.explain` tells what every stage made."""

from __future__ import annotations

import numpy as np

import rushlight as rl


def test_every_stage_is_there() -> None:
    x = rl.from_numpy(np.ones((8, 16), np.float32)).requires_grad_()
    told = rl.explain(lambda x: (x * 2).softmax(1), x)
    assert "_softmax" in told.captured
    assert "kernel kernel0:" in told.loops
    assert "for row in 8" in told.loops
    assert any("joined" in note for note in told.fusion)
    assert "define" in told.llvm
    assert "parallel_for" in told.llvm or "entry0" in told.llvm
    assert "entry0" in told.assembly
    assert told.seconds["forward lower"] > 0
    assert told.bytes_moved["forward kernel0"] > 0
    text = str(told)
    assert "== kernels" in text
    assert "memory traffic" in text


def test_plans_are_told() -> None:
    """Tile, packing, grid, vector width, prefetch, and where an epilogue runs."""
    x, w, b = rl.randn(256, 128), rl.randn(192, 128), rl.randn(192)
    told = rl.explain(lambda x, w, b: ((x @ w.T + b).tanh(), x.softmax(1)), x, w, b)
    assert "tiles of" in told.plan
    assert "right operand transposed into" in told.plan
    assert "tasks" in told.plan
    assert "epilogue per tile" in told.plan
    assert "lanes" in told.plan
    assert "prefetch" in told.plan
    assert "rows interleaved" in told.plan
    assert told.plan in str(told)


def test_guards_and_the_path_of_calls_are_told() -> None:
    scale = 2.0
    told = rl.explain(lambda x, k: x * scale * k, rl.ones(3), 1.5)
    assert "argument 1: type float" in told.guards
    assert "scale: value 2.0" in told.guards
    assert "native callable" in told.call_path
    assert "== guards" in str(told)

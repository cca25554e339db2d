"""The functions of `rushlight.compiler`."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.trace import CaptureError


def test_is_compiling():
    assert not rl.compiler.is_compiling()
    compiled = rl.compile(lambda x: x * 2 if rl.compiler.is_compiling() else x * 3, fullgraph=True)
    assert rl.equal(compiled(rl.ones(2)), rl.full((2,), 2.0))
    assert not rl.compiler.is_exporting()


def test_disable():
    runs = []

    @rl.compiler.disable(reason="it is timed")
    def plain(x):
        runs.append(type(x.sum().item()))
        return x + 1

    def function(x):
        return plain(x * 2) * 3

    with pytest.raises(CaptureError, match=r"plain, for which compilation is disabled \(it is timed\)"):
        rl.compile(function, fullgraph=True)(rl.ones(2))
    compiled = rl.compile(function)
    for _ in range(3):
        assert rl.equal(compiled(rl.ones(2)), rl.full((2,), 9.0))
    assert runs == [float] * 3
    assert plain.__name__ == "plain"


def test_disable_a_module():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = rl.compiler.disable(nn.Linear(2, 2))

        def forward(self, x):
            return self.inner(x) + 1

    block = Block()
    with pytest.raises(CaptureError, match="disabled"):
        rl.compile(block, fullgraph=True)(rl.ones(1, 2))
    assert rl.equal(rl.compile(block)(rl.ones(1, 2)), block(rl.ones(1, 2)))


def test_reset():
    compiled = rl.compile(lambda x: x + 1)
    compiled(rl.ones(2))
    compiled(rl.ones(2))
    rl.compiler.reset()
    assert not compiled.entries
    assert rl.equal(compiled(rl.ones(2)), rl.full((2,), 2.0))
    assert compiled.reasons == ["first call"]


def test_backends():
    for name in rl.compiler.list_backends(None):
        assert rl.compile(rl.sin, backend=name)(rl.zeros(1)) == 0
    assert rl.compiler.allow_in_graph(rl.sin) is rl.compiler.assume_constant_result(rl.sin) is rl.sin

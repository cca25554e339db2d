"""Random numbers by native code are those of core/generator.py."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import rushlight as rl
from rushlight.core import generator
from rushlight.core.dtypes import float32, float64
from rushlight.runtime import random_streams


@pytest.fixture
def numpys(monkeypatch):
    """Draws by NumPy alone, until native ones are installed."""
    monkeypatch.setattr(generator, "_native", {})
    monkeypatch.setattr(generator, "_draws_left", 0)


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("draw", [generator.rand, generator.randn], ids=lambda f: f.__name__)
def test_same_bits(numpys, draw, dtype):
    seeds, offsets, counts = (0, 123, -5, 2**63 + 7), (0, 4, 1 << 40, 1 << 63), (0, 1, 3, 31, 32, 33, 5000)
    cases = list(itertools.product(seeds, offsets, counts))
    expected = [draw(*case, dtype).tobytes() for case in cases]
    random_streams.install()
    assert [draw(*case, dtype).tobytes() for case in cases] == expected


def test_operators_that_draw(numpys):
    def drawn():
        rl.manual_seed(3)
        p = rl.full((50,), 0.3)
        return [
            rl.randn(7, 9),
            rl.rand(5, dtype=rl.float64),
            rl.randn(4, 3, dtype=rl.complex64),
            rl.randn(6, dtype=rl.bfloat16),
            rl.empty(11).normal_(2, 3),
            rl.empty(8, 2).t().uniform_(-1, 1),
            rl.bernoulli(p),
            rl.nn.functional.dropout(p, 0.4),
        ]

    expected = drawn()
    random_streams.install()
    for mine, theirs in zip(drawn(), expected, strict=True):
        assert rl.equal(mine, theirs)


def test_results_own_their_memory(numpys):
    random_streams.install()
    first = rl.randn(100)
    kept = first.numpy().copy()
    rl.randn(100)
    np.testing.assert_array_equal(first.numpy(), kept)
    assert first.untyped_storage().nbytes() == 400


def test_native_draws_come_by_themselves():
    program = """
        import rushlight as rl
        from rushlight.core import generator
        from rushlight.eager import worker
        rl.manual_seed(0)
        before = rl.randn(1000, 3000)
        assert worker.wait(200) and "stream" in generator._native
        rl.manual_seed(0)
        assert rl.equal(before, rl.randn(1000, 3000))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=240)

"""Writes through views of another dtype, compiled and eager, for every pair of dtypes (defect 3, A8)."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

DTYPES = [
    rl.bool,
    rl.uint8,
    rl.int16,
    rl.int32,
    rl.int64,
    rl.float16,
    rl.bfloat16,
    rl.float32,
    rl.float64,
    rl.complex64,
    rl.complex128,
]
SAMPLE = [rl.int16, rl.float32, rl.int64, rl.complex64]


def everywhere(view):
    view.fill_(1)


def some(view):
    view[1::2] = 0


def by_position(view):
    view.index_fill_(0, rl.tensor([0]), 1)


def doubled(view):
    view.copy_(view.flip(0))


WRITES = [everywhere, some, by_position, doubled]


def check_pair(own: rl.dtype, other: rl.dtype) -> None:
    def function(x):
        results = []
        for write in WRITES:
            y = x.clone()
            write(y.view(other))
            z = x.clone()
            write(z[4:12].view(other))  # a part, of which the elements before and behind stay
            results += [y, z, y.view(other)[:1].clone()]
        some(x[4:12].view(other))
        return results

    data = np.random.default_rng(0).integers(0, 2, 16 * own.itemsize).astype(np.uint8)
    eager, compiled = (rl.tensor(data).view(own)[:16] for _ in range(2))
    expected = function(eager)
    found = rl.compile(function, fullgraph=True)(compiled)
    for a, b in zip([*found, compiled], [*expected, eager], strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        assert np.array_equal(a.view(rl.uint8).numpy(), b.view(rl.uint8).numpy())


@pytest.mark.parametrize("other", SAMPLE, ids=str)
@pytest.mark.parametrize("own", SAMPLE, ids=str)
def test_d3_writes_through_another_dtype(own, other):
    check_pair(own, other)


@pytest.mark.slow
@pytest.mark.parametrize("other", DTYPES, ids=str)
@pytest.mark.parametrize("own", DTYPES, ids=str)
def test_d3_every_pair_of_dtypes(own, other):
    check_pair(own, other)


def test_a8_view_as_real_of_an_intermediate():
    def function(x):
        y = x * 2
        parts = rl.view_as_real(y)
        parts.index_fill_(1, rl.tensor([0]), 1)
        parts[..., 1].mul_(3)
        return y, parts

    x = rl.randn(4, 1, dtype=rl.complex64)
    expected, found = function(x), rl.compile(function, fullgraph=True)(x)
    for a, b in zip(found, expected, strict=True):
        assert a.stride() == b.stride()
        assert rl.equal(a, b)
    assert found[0].untyped_storage().data_ptr() == found[1].untyped_storage().data_ptr()

"""Histograms, counts and reductions of segments against PyTorch.

The rows of the tables are expressions; see `like_pytorch` in conftest.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import rushlight

COUNTS = """
lib.histc(T([1., 2., 3.]), bins=3)
lib.histc(T([1., 2., 3.]), bins=0)
lib.histc(T([1., 2., 3.]), bins=3, min=2, max=1)
lib.histc(T([1., nan, 3.]), bins=3, min=0, max=4)
lib.histc(T([1., nan, 3.]), bins=3)
lib.histc(T([1., inf, 3.]), bins=3)
lib.histc(T([1., inf, 3.]), bins=3, min=0, max=4)
lib.histc(T([1., 1.]), bins=3)
lib.histc(lib.ones(0), bins=3)
lib.histc(lib.ones(2, 2), bins=3, min=1, max=1)
lib.histc(T([1, 2, 3]), bins=3)
lib.histc(T([1., 2.]), bins=3, min=0, max=inf)
lib.histogram(T([1., 2., 3.]), bins=3)
lib.histogram(T([1., 2., 3.]), 3, range=(2., 1.))
lib.histogram(T([1., 2., 3.]), 3, range=(1., 1.))
lib.histogram(T([1., 2., 3.]), 3, range=(0., inf))
lib.histogram(T([1., 2., 3.]), 3, range=(0., 1., 2.))
lib.histogram(T([1., nan, 3.]), 3)
lib.histogram(T([1., nan, 3.]), 3, range=(0., 4.))
lib.histogram(T([1., 2., 3.]), T([1., 2., 3.]))
lib.histogram(T([1., 2., 3.]), T([1., 2., 3.]), density=True)
lib.histogram(T([1., 2., 3.]), T([1., 2., 3.]), weight=T([1., 2., 3.]))
lib.histogram(T([1., 2., 3.]), T([1., 2., 3.]), weight=T([1., 2.]))
lib.histogram(T([1., 2., 3.]), T([1., 2., 3.], dtype=float64))
lib.histogram(T([1., 2., 3.]), T([1.]))
lib.histogram(T([1., 2., 3.]), T([]))
lib.histogram(T([1., 2., 3.]), lib.ones(2, 2))
lib.histogram(T([1., 2., 3.]), 0)
lib.histogram(T([1, 2, 3]), 3)
lib.histogram(T([1., 2., 3.]), 3, weight=T([1, 2, 3]))
lib.histogram(lib.ones(0), 3)
lib.histogram(T([1., 2., 3.]), 3, density=True)
lib.histogramdd(T([[0., 1.], [1., 0.], [.5, .25]]), [2, 3])
lib.histogramdd(T([[0., 1.], [1., 0.], [.5, .25]]), 2)
lib.histogramdd(T([[0., 1.], [1., 0.], [.5, .25]]), 2, range=[0., 1., 0., 2.], density=True)
lib.histogramdd(T([[0., 1.], [1., 0.]]), 2, range=[0., 1.])
lib.histogramdd(T([[0., 1.], [1., 0.]]), [2])
lib.histogramdd(T([[0., 1.], [1., 0.]]), [T([0., .5, 1.]), T([0., 2.])])
lib.histogramdd(T([[0., 1.], [1., 0.]]), (T([0., .5, 1.]), T([0., 2.])), weight=T([1., 3.]))
lib.histogramdd(T([1., 2.]), 2)
lib.histogramdd(T(1.), 2)
lib.bincount(T([1, 2, 2]))
lib.bincount(T([1, 2, 2]), weights=T([1., 2., 3.]))
lib.bincount(T([1, 2, 2]), weights=T([1, 2, 3]))
lib.bincount(T([1, 2, 2]), weights=T([1., 2., 3.], dtype=float16))
lib.bincount(T([1, 2, -2]))
lib.bincount(T([[1, 2]]))
lib.bincount(T([1., 2]))
lib.bincount(T([True]))
lib.bincount(T([1, 2]), weights=T([1.]))
lib.bincount(T([1, 2]), minlength=-1)
lib.bincount(T([1, 2]), minlength=6)
lib.bincount(T([1], dtype=uint8))
lib.bincount(lib.ones(0, dtype=int64), minlength=2)
lib.bincount(lib.ones(0, dtype=int64), weights=lib.ones(0))
"""

SEGMENTS = """
lib.segment_reduce(lib.ones(4, 2), "sum", lengths=T([1, 3]))
lib.segment_reduce(lib.ones(4, 2), "mean", lengths=T([1, 0, 3]))
lib.segment_reduce(lib.ones(4, 2), "max", lengths=T([1, 0, 3]))
lib.segment_reduce(lib.ones(4, 2), "min", lengths=T([1, 0, 3]))
lib.segment_reduce(lib.ones(4, 2), "prod", lengths=T([1, 0, 3]))
lib.segment_reduce(lib.ones(4, 2), "max", lengths=T([1, 0, 3]), initial=0)
lib.segment_reduce(T([1., 2., 3., 4.]), "mean", lengths=T([1, 0, 3]), initial=10)
lib.segment_reduce(T([1., 2., nan, 4.]), "max", lengths=T([1, 0, 3]))
lib.segment_reduce(T([1., 2., nan, 4.]), "max", offsets=T([0, 1, 1, 4]))
lib.segment_reduce(T([1., 2., 3., 4.]), "sum")
lib.segment_reduce(T([1., 2., 3., 4.]), "bad", lengths=T([1, 0, 3]))
lib.segment_reduce(T([1., 2., 3., 4.]), "max", lengths=T([1, 0, 4]))
lib.segment_reduce(T([1., 2., 3., 4.]), "max", lengths=T([1, -1, 4]))
lib.segment_reduce(T([1, 2]), "sum", lengths=T([1, 1]))
lib.segment_reduce(T([1., 2]), "sum", lengths=T([1., 1]))
lib.segment_reduce(T([1., 2]), "sum", indices=T([1, 1]))
lib.segment_reduce(lib.ones(2, 3), "sum", lengths=T([[1, 2], [2, 1]]), axis=1)
lib.segment_reduce(lib.ones(2, 3), "sum", lengths=T([[1, 2], [2, 1]]), axis=0)
lib.segment_reduce(lib.ones(2, 3), "sum", lengths=T([1, 2]), axis=1)
lib.segment_reduce(lib.ones(0, 3), "sum", lengths=T([0, 0]))
"""

TABLES = {"counts": COUNTS, "segments": SEGMENTS}
ROWS = [
    pytest.param(row, id=f"{name}: {row}")
    for name, table in TABLES.items()
    for row in table.strip().splitlines()
]


@pytest.mark.parametrize("expression", ROWS)
def test_expression(expression: str, like_pytorch: Callable[[str], None]) -> None:
    like_pytorch(expression)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_histograms_of_values_on_the_edges(dtype: str) -> None:
    """Edges and the bins of values that lie on them depend on the last bit of the arithmetic."""
    generator = np.random.default_rng(0)
    for bins in (1, 3, 10, 37, 100):
        low = float(np.dtype(dtype).type(generator.normal()))
        high = float(np.dtype(dtype).type(low + 1 + abs(generator.normal())))
        array = np.linspace(low, high, 4 * bins + 1).astype(dtype)
        theirs, ours = torch.from_numpy(array), rushlight.from_numpy(array)
        expected = torch.histogram(theirs, bins, range=(low, high))
        actual = rushlight.histogram(ours, bins, range=(low, high))
        np.testing.assert_array_equal(actual.bin_edges.numpy(), expected.bin_edges.numpy())
        np.testing.assert_array_equal(actual.hist.numpy(), expected.hist.numpy())
        expected = torch.histc(theirs, bins, low, high)
        np.testing.assert_array_equal(rushlight.histc(ours, bins, low, high).numpy(), expected.numpy())


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
def test_segment_backward_is_the_gradient(reduce: str) -> None:
    data = torch.tensor([[2.0, 0.0], [2.0, 3.0], [1.0, 0.0], [5.0, 2.0], [0.0, 2.0]], requires_grad=True)
    lengths = torch.tensor([3, 0, 2])
    output = torch.segment_reduce(data, reduce, lengths=lengths, initial=1)
    grad = torch.arange(1.0, 7.0).reshape(3, 2)
    (expected,) = torch.autograd.grad(output, data, grad)
    arrays = [rushlight.from_numpy(t.detach().numpy()) for t in (grad, output, data)]
    run = rushlight.core.dispatch.run_name
    actual = run("_segment_reduce_backward", *arrays, reduce, rushlight.tensor([3, 0, 2]), None, 0, 1)
    np.testing.assert_allclose(actual.numpy(), expected.numpy())

"""Products of vectors and distances: ranks, orders, gradients, extreme values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name

from .products import check, sample, to_torch

nan, inf = float("nan"), float("inf")


# --- vectors ------------------------------------------------------------------------------------------


def test_cross():
    a, b = sample(4, 3), sample(1, 3, seed=1)
    check(lambda m, x, y: m.cross(x, y, dim=1), a, b, exact=True)
    check(lambda m, x, y: m.cross(x, y, dim=0), a.t(), a.t().flip(1), exact=True)
    check(
        lambda m, x, y: m.cross(x, y, dim=-1),
        a.to(rushlight.complex64) * 1j,
        b.to(rushlight.complex64),
        exact=True,
    )
    first_of_size_3 = rushlight.cross(sample(3, 3), sample(3, 3, seed=1))
    np.testing.assert_array_equal(
        first_of_size_3.numpy(), rushlight.cross(sample(3, 3), sample(3, 3, seed=1), dim=0).numpy()
    )


def test_vecdot_conjugates_its_first_argument():
    a, b = sample(4, 3, dtype="complex64"), sample(3, dtype="complex64", seed=1)
    result = run_name("linalg_vecdot", a, b, -1)
    np.testing.assert_array_equal(result.numpy(), torch.linalg.vecdot(to_torch(a), to_torch(b)).numpy())
    for shapes in [((), ()), ((), (2, 3)), ((0,), (0,)), ((2, 3), (1,))]:
        x, y = (sample(*shape, seed=i) for i, shape in enumerate(shapes))
        result = run_name("linalg_vecdot", x, y, -1)
        torch.testing.assert_close(
            to_torch(result), torch.linalg.vecdot(to_torch(x), to_torch(y)), rtol=0, atol=0
        )


# --- distances ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, 7.5, inf])
@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 3), (5, 3)),
        ((2, 4, 3), (5, 3)),
        ((2, 1, 4, 3), (6, 5, 3)),
        ((4, 0), (5, 0)),
        ((0, 3), (5, 3)),
        ((30, 3), (2, 3)),
    ],
)
def test_cdist(p, shapes):
    a, b = (sample(*shape, dtype="float64", seed=i) for i, shape in enumerate(shapes))
    check(lambda m, x, y: m.cdist(x, y, p=p), a, b)


@pytest.mark.parametrize(
    "mode", ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"]
)
def test_cdist_modes(mode):
    check(
        lambda m, x, y: m.cdist(x, y, compute_mode=mode),
        sample(2, 40, 3, dtype="float64"),
        sample(2, 7, 3, dtype="float64", seed=1),
    )


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, inf])
@pytest.mark.parametrize("shape", [(6, 3), (1, 3), (0, 3), (4, 0)])
def test_pdist(p, shape):
    check(lambda m, x: m.pdist(x, p=p), sample(*shape, dtype="float64"))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, inf])
def test_gradients_of_distances(p):
    """Equal rows are in: there the gradient is zero."""
    a, b = sample(5, 3, dtype="float64"), sample(4, 3, dtype="float64", seed=1)
    b = rushlight.cat([b, a[:1]])
    grad = sample(5, 5, dtype="float64", seed=2)
    distance = rushlight.cdist(a, b, p=p)
    actual = run_name("_cdist_backward", grad, a, b, p, distance)
    expected = torch.ops.aten._cdist_backward(*map(to_torch, (grad, a, b)), p, to_torch(distance))
    torch.testing.assert_close(to_torch(actual), expected, rtol=1e-12, atol=1e-12)
    flat = rushlight.pdist(b, p=p)
    weight = sample(10, dtype="float64", seed=3)
    actual = run_name("_pdist_backward", weight, b, p, flat)
    expected = torch.ops.aten._pdist_backward(to_torch(weight), to_torch(b), p, to_torch(flat))
    torch.testing.assert_close(to_torch(actual), expected, rtol=1e-12, atol=1e-12)


def test_cosine_similarity_of_extreme_vectors():
    """Zero, tiny, large and infinite vectors."""
    a = rushlight.tensor([[0.0, 0.0], [1e-9, 0.0], [1e30, 1e30], [inf, 1.0], [nan, 1.0]])
    check(lambda m, x: m.cosine_similarity(x, x), a)
    check(lambda m, x: m.cosine_similarity(x, x, eps=0.5), a)
    check(lambda m, x, y: m.cosine_similarity(x, y, dim=0), sample(3, dtype="int64"), sample(3))

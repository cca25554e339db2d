"""Defects of derivatives, found beside PyTorch; the number is that of the finding."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import rushlight as rl

from .both import leaf, same

NAN, INF = math.nan, math.inf


# 8: the determinant at singular matrices.

SINGULAR = [
    [[1.0, 2], [2, 4]],
    [[0.0, 0], [0, 0]],
    [[1.0, 2, 3], [4, 5, 6], [7, 8, 9]],
    np.diag([1.0, 0, 0]).tolist(),
    np.diag([1.0, 2, 3, 0]).tolist(),
    np.diag([1.0, 2, 0, 0]).tolist(),
    np.zeros((4, 4)).tolist(),
]


def cofactors(matrix):
    matrix = np.asarray(matrix, np.float64)
    n = len(matrix)
    return np.array(
        [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(matrix, i, 0), j, 1)) for j in range(n)]
            for i in range(n)
        ]
    )


@pytest.mark.parametrize("matrix", SINGULAR, ids=lambda m: f"{len(m)}x{len(m)}")
def test_d8_det_of_singular_matrices(matrix):
    first = cofactors(matrix)
    n, step = len(matrix), 1e-4
    second = []
    for i in range(n * n):
        change = np.eye(1, n * n, i).reshape(n, n) * step
        second.append((cofactors(matrix + change) - cofactors(matrix - change)) / (2 * step))
    x = rl.tensor(matrix, dtype=rl.float64)
    for derivative in (rl.func.jacrev, rl.func.jacfwd, rl.func.grad):
        np.testing.assert_allclose(derivative(rl.linalg.det)(x).numpy(), first, atol=1e-12)
    hessian = rl.func.hessian(rl.linalg.det)(x).numpy()
    np.testing.assert_allclose(hessian, np.array(second).reshape(n, n, n, n), atol=1e-9)
    a = leaf(rl, matrix)
    (gradient,) = rl.autograd.grad(rl.linalg.det(a), a, create_graph=True)
    np.testing.assert_allclose(gradient.detach().numpy(), first, atol=1e-12)
    (found,) = rl.autograd.grad(gradient.sum(), a)
    np.testing.assert_allclose(
        found.numpy(), np.array(second).reshape(n * n, -1).sum(1).reshape(n, n), atol=1e-9
    )


def test_d8_det_of_a_batch_of_singular_and_regular_matrices():
    a = leaf(rl, [[[1.0, 2], [2, 4]], [[1.0, 2], [3, 4]]])
    (gradient,) = rl.autograd.grad(rl.linalg.det(a).sum(), a, create_graph=True)
    np.testing.assert_allclose(gradient.detach().numpy(), [cofactors(m) for m in a.tolist()], atol=1e-12)


# 9: losses that depend on the phase of complex vectors.


@pytest.mark.parametrize("name, place", [("svd", 0), ("eigh", 1), ("eig", 1)])
def test_d9_phase_dependent_losses_are_refused(name, place):
    for m in (torch, rl):
        a = leaf(m, [[1, 2j], [-2j, 5]], "complex128")
        vectors = getattr(m.linalg, name)(a)[place]
        with pytest.raises(RuntimeError, match=r"e\^{i phi}.*ill-defined"):
            (vectors.real + 2 * vectors.imag).sum().backward()

    def invariant(m):
        a = leaf(m, [[1, 2j], [-2j, 5]], "complex128")
        vectors = getattr(m.linalg, name)(a)[place]
        (vectors.abs() ** 2 * m.tensor([[1.0, 2], [3, 4]])).sum().backward()
        return m.view_as_real(a.grad)

    same(invariant)


# 10.


@pytest.mark.parametrize("name", ["_foreach_maximum", "_foreach_minimum"])
@pytest.mark.parametrize("bound", [2.0, [2.0, 1.0]])
def test_d10_foreach_ties_share_the_gradient(name, bound):
    def scenario(m):
        a = [leaf(m, [1.0, 2.0, 3.0]), leaf(m, [1.0, 0.0])]
        results = getattr(m, name)(a, bound)
        sum(r.sum() for r in results).backward()
        return [*a[0].grad, *a[1].grad, *results[0], *results[1]]

    same(scenario)


def test_d10_foreach_extremes_keep_integers():
    for m in (torch, rl):
        x = [m.tensor([1, 5])]
        assert str(m._foreach_maximum(x, 2)[0].dtype).endswith("int64")
        assert str(m._foreach_maximum(x, 2.5)[0].dtype).endswith("float32")


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("correction", [2, 3, 4, 7])
def test_d10_variance_without_degrees_of_freedom(name, correction):
    def scenario(m):
        x = leaf(m, [1.0, 2.0, 4.0])
        result = getattr(x, name)(correction=correction)
        result.backward()
        return [result, *x.grad]

    same(scenario)


@pytest.mark.parametrize("name", ["smooth_l1_loss", "huber_loss"])
def test_d10_second_derivative_at_the_kink(name):
    def scenario(m):
        x = leaf(m, [1.0, -1.0, 0.5, 2.0, NAN])
        loss = getattr(m.nn.functional, name)(x, m.zeros(5, dtype=m.float64), reduction="none")
        (first,) = m.autograd.grad(loss.sum(), x, create_graph=True)
        (second,) = m.autograd.grad(first[:4].sum(), x)
        return [*first, *second[:4]]

    same(scenario)


@pytest.mark.parametrize("driver", [None, "gelsy", "gels", "gelsd", "gelss"])
def test_d10_lstsq_residuals_by_driver(driver):
    def shapes(m):
        a, b = m.tensor([[1.0, 2], [3, 4], [5, 7]]), m.tensor([[1.0], [2], [4]])
        result = m.linalg.lstsq(a, b, driver=driver)
        return [tuple(part.shape) for part in result]

    assert shapes(rl) == shapes(torch)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_d10_second_results_have_the_dtype_of_the_first(dtype):
    def dtypes(m):
        x = m.tensor([[0.5, -1, 2]], dtype=getattr(m, dtype))
        output, buffer = m.ops.aten.log_sigmoid_forward(x)
        slope = m.ops.aten.log_sigmoid_backward(m.ones_like(x), x, buffer)
        both = m.ops.aten._prelu_kernel_backward(m.ones_like(x), x, x[:, :1])
        return [str(t.dtype).partition(".")[2] for t in (output, buffer, slope, *both)]

    assert dtypes(rl) == dtypes(torch)


@pytest.mark.parametrize("name", ["eq_", "ne_", "lt_", "fill_", "bernoulli_"])
def test_d10_overwriting_leaves_zero_gradients(name):
    def scenario(m):
        x = leaf(m, [1.0, 2.0])
        y = x.clone()
        getattr(y, name)(0.5)
        y.sum().backward()
        return x.grad

    same(scenario)


# 11.


def test_d11_segment_products_keep_nan_in_its_segment():
    def scenario(m):
        x = leaf(m, [[1, 1], [NAN, 1], [3, NAN], [4, 1], [3, 2], [2, 3]])
        reduce = m._segment_reduce if m is torch else m.segment_reduce
        reduce(x, "prod", lengths=m.tensor([1, 2, 3, 0]), axis=0, initial=2).sum().backward()
        return x.grad

    same(scenario)


def test_d11_segment_products_with_infinities():
    x = leaf(rl, [INF, 2.0, 0.0, -INF, 3.0, -INF])
    rl.segment_reduce(x, "prod", lengths=rl.tensor([2, 1, 3]), axis=0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, INF, 1, -INF, INF, -INF])


def test_d11_power_of_a_negative_number_by_complex_exponents():
    def scenario(m):
        exponent = leaf(m, [1 + 1j, 2, 0], "complex128")
        m.pow(m.tensor([-1.0, -1, -2], dtype=m.float64), exponent).abs().sum().backward()
        return m.view_as_real(exponent.grad)

    same(scenario)


def test_d11_complex_logcumsumexp_keeps_nan():
    parts = [1 + 1j, complex(NAN, 0), complex(0, NAN), complex(INF, 0), complex(-INF, 0), complex(-INF, NAN)]
    for three in itertools.product(parts, repeat=3):
        expected = torch.logcumsumexp(torch.tensor(three), 0)
        actual = rl.logcumsumexp(rl.tensor(three), 0)
        assert actual.isnan().tolist() == expected.isnan().tolist(), three


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("rank", [2, 3])
def test_d11_grid_sample_at_places_that_are_no_numbers(mode, padding, rank):
    if mode == "bicubic" and rank == 3:
        pytest.skip("bicubic is for images of two dimensions")

    def scenario(m):
        image = (m.arange(3.0**rank) + 1).reshape(1, 1, *[3] * rank)
        places = [[NAN, 0.0], [0.0, NAN], [INF, 0.0], [-INF, 0.3], [NAN, NAN], [3.0, 0]]
        grid = m.tensor([place + [0.1] * (rank - 2) for place in places])
        grid = grid.reshape(1, *[1] * (rank - 1), len(places), rank)
        return [
            m.nn.functional.grid_sample(
                image, grid, mode=mode, padding_mode=padding, align_corners=aligned
            ).flatten()
            for aligned in (False, True)
        ]

    same(scenario)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_d11_a_remainder_of_zero_has_the_sign_of_the_dividend(dtype):
    for divisor in (-1.5, 1.5):
        signs = []
        for m in (torch, rl):
            x = m.tensor([3.0, -3.0, 0.0, -0.0, 1.5, 1.0], dtype=getattr(m, dtype))
            signs.append((1 / (x % divisor)).tolist())
        assert signs[0] == signs[1]

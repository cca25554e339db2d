"""Derivatives of random numbers: samples that depend on their parameters, those that do not, and dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as special

import rushlight
from rushlight.core.dispatch import run_name


def parameter(*values: float) -> Any:
    return rushlight.tensor(values or [0.2, 0.5, 0.9], dtype=rushlight.float64, requires_grad=True)


ZERO: list[Callable[[Any], Any]] = [
    lambda x: rushlight.normal(x, x),
    lambda x: rushlight.normal(x, 2.0),
    lambda x: rushlight.normal(1.0, x),
    lambda x: rushlight.normal(x, x.reshape(3, 1)),
    rushlight.bernoulli,
    lambda x: rushlight.bernoulli(x, 0.5),
    rushlight.poisson,
    lambda x: rushlight.binomial(x * 10, x),
    lambda x: x.clone().uniform_(),
    lambda x: x.clone().normal_(),
    lambda x: x.clone().exponential_(),
    lambda x: x.clone().cauchy_(),
    lambda x: x.clone().log_normal_(),
    lambda x: x.clone().geometric_(0.5),
    lambda x: x.clone().random_(5),
    lambda x: x.clone().random_(2, 5),
    lambda x: x.clone().bernoulli_(0.5),
    lambda x: x.clone().bernoulli_(x),
    lambda x: x.clone().fill_(2),
    lambda x: x.clone().zero_(),
]


@pytest.mark.parametrize("function", ZERO)
def test_no_dependence(function: Callable[[Any], Any]) -> None:
    """The result has a history, and its gradient is zero, whatever comes in."""
    x = parameter()
    sample = function(x)
    assert sample.requires_grad
    (gradient,) = rushlight.autograd.grad(sample, x, sample.detach() * float("inf"))
    assert gradient.tolist() == [0.0, 0.0, 0.0]
    with rushlight.autograd.forward_ad.dual_level():
        dual = rushlight.autograd.forward_ad.make_dual(x.detach(), rushlight.ones_like(x))
        tangent = rushlight.autograd.forward_ad.unpack_dual(function(dual)).tangent
        assert tangent is None or not tangent.any()


@pytest.mark.parametrize("name", ["rand_like", "randn_like", "zeros_like", "ones_like", "empty_like"])
def test_only_like(name: str) -> None:
    assert not getattr(rushlight, name)(parameter()).requires_grad


def test_fill_with_a_tensor(first_order: Callable[..., None]) -> None:
    first_order("lib.fill(x, x[1])", [1.0, 2.0, 3.0])
    first_order("x.clone().fill_(x[0])", [1.0, 2.0, 3.0])
    first_order("x.clone().copy_(x[:1])", [1.0, 2.0, 3.0])
    first_order("(x * 2).to(lib.complex128)", [1.0, 2.0])


# Dropout.


@pytest.mark.parametrize(("p", "train"), [(0.5, True), (0.2, None), (0.5, False), (0.0, True), (1.0, True)])
def test_native_dropout(p: float, train: bool | None) -> None:
    x = rushlight.ones(50, dtype=rushlight.float64, requires_grad=True)
    result, mask = rushlight.native_dropout(x, p, train)
    (gradient,) = rushlight.autograd.grad(result.sum(), x)
    assert gradient.tolist() == pytest.approx(result.tolist())
    with rushlight.autograd.forward_ad.dual_level():
        dual = rushlight.autograd.forward_ad.make_dual(x.detach(), x.detach() * 3)
        result, mask = rushlight.native_dropout(dual, p, train)
        tangent = rushlight.autograd.forward_ad.unpack_dual(result).tangent
        assert tangent.tolist() == pytest.approx((result * 3).tolist())
    assert not mask.requires_grad


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"])
def test_dropout_to_second_order(name: str) -> None:
    x = rushlight.randn(3, 4, dtype=rushlight.float64).requires_grad_()

    def function(x: Any) -> Any:
        rushlight.manual_seed(3)
        return getattr(rushlight, name)(x * x, 0.4, True)

    assert rushlight.autograd.gradcheck(function, x, check_forward_ad=True)
    assert rushlight.autograd.gradgradcheck(function, x)


# Samples that move with their parameters: at a fixed rank, they are the quantiles.

RANKS = np.array([0.05, 0.3, 0.5, 0.8, 0.99])


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5, 40.0, 3000.0])
def test_gamma(alpha: float) -> None:
    """_standard_gamma_grad is the derivative of the quantile, and so are its own derivatives."""

    def quantile(a: float) -> np.ndarray:
        return special.gammaincinv(a, RANKS)

    x = rushlight.tensor(quantile(alpha), requires_grad=True)
    a = rushlight.full((5,), alpha, dtype=rushlight.float64, requires_grad=True)
    slope = run_name("_standard_gamma_grad", a, x)
    step = 1e-2 * min(alpha, alpha**0.5)
    assert slope.tolist() == pytest.approx(difference(quantile, alpha, step).tolist(), rel=1e-5)
    by_shape, by_sample = rushlight.autograd.grad(slope.sum(), (a, x))
    second = by_shape + by_sample * slope  # along the quantile, both arguments move
    expected = (quantile(alpha + step) - 2 * quantile(alpha) + quantile(alpha - step)) / step**2
    assert second.tolist() == pytest.approx(expected.tolist(), rel=5e-3, abs=1e-6)


def difference(function: Callable[[float], np.ndarray], at: float, step: float) -> np.ndarray:
    near, far = (function(at + s) - function(at - s) for s in (step, 2 * step))
    return (8 * near - far) / (12 * step)


def test_gamma_sample() -> None:
    alpha = parameter(0.4, 1.5, 8.0)
    sample = rushlight._standard_gamma(alpha)
    (gradient,) = rushlight.autograd.grad(sample, alpha, 2 * rushlight.ones(3, dtype=rushlight.float64))
    assert gradient.tolist() == pytest.approx((2 * rushlight._standard_gamma_grad(alpha, sample)).tolist())


@pytest.mark.parametrize("name", ["_standard_gamma_grad", "_dirichlet_grad"])
def test_derivatives_of_slopes(name: str) -> None:
    """By finite differences of all arguments; coarse ones, since the operators are good to nine digits."""
    arguments = {
        "_standard_gamma_grad": (parameter(0.4, 1.5, 8.0), parameter(0.2, 2.5, 6.0)),
        "_dirichlet_grad": (parameter(0.2, 0.5, 0.9), parameter(0.4, 1.5, 8.0), parameter(1.5, 4.0, 20.0)),
    }
    assert rushlight.autograd.gradcheck(getattr(rushlight, name), arguments[name], eps=1e-4, atol=1e-4)
    assert rushlight.autograd.gradcheck(
        getattr(rushlight, name), arguments[name], eps=1e-4, atol=1e-4, check_forward_ad=True
    )


def test_gamma_grad_in_single_precision() -> None:
    found = []
    for dtype in (rushlight.float32, rushlight.float64):
        a, x = (
            p.detach().to(dtype).requires_grad_()
            for p in (parameter(0.4, 1.5, 8.0), parameter(0.2, 2.5, 6.0))
        )
        slope = rushlight._standard_gamma_grad(a, x)
        found.append([g.tolist() for g in rushlight.autograd.grad(slope.sum(), (a, x))])
    assert np.allclose(found[0], found[1], rtol=1e-5)


def test_dirichlet_sample() -> None:
    """The components always sum to 1, so that the gradient of their sum is zero; Beta is the case of two."""
    alpha = parameter(0.7, 2.0, 5.0)
    sample = rushlight._sample_dirichlet(alpha)
    (gradient,) = rushlight.autograd.grad(sample.sum(), alpha, retain_graph=True)
    assert gradient.tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    two = parameter(1.5, 2.5)
    sample = rushlight._sample_dirichlet(two)
    (gradient,) = rushlight.autograd.grad(sample[0], two)
    rank = special.betainc(1.5, 2.5, sample[0].item())
    expected = [
        difference(lambda a: special.betaincinv(a, 2.5, rank), 1.5, 1e-2),
        difference(lambda b: special.betaincinv(1.5, b, rank), 2.5, 1e-2),
    ]
    assert gradient.tolist() == pytest.approx(expected, rel=1e-5)


def test_dirichlet_in_forward_mode() -> None:
    alpha = rushlight.rand(2, 3, dtype=rushlight.float64) + 0.5

    def sample(alpha: Any) -> Any:
        rushlight.manual_seed(1)
        return rushlight._sample_dirichlet(alpha)

    forward = rushlight.func.jacfwd(sample, randomness="same")(alpha)
    reverse = rushlight.func.jacrev(sample)(alpha)
    assert np.allclose(forward.tolist(), reverse.tolist())

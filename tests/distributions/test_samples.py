"""Samples have the right distribution, and those of rsample the right gradients."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

import rushlight

from .cases import CASES, COVARIANCE, EACH, both, tensor_of

D = rushlight.distributions
t = tensor_of(rushlight)
COUNT = 20000


def moments_exist(name: str, number: int) -> bool:
    """Whether the fourth moment does, without which the variance of samples says little."""
    heavy = {
        "Cauchy",
        "FisherSnedecor",
        "HalfCauchy",
        "InverseGamma",
        "Pareto",
        "StudentT",
        "GeneralizedPareto",
    }
    return name not in heavy and (name, number) not in (("TransformedDistribution", 0),)


@pytest.mark.parametrize(("name", "number"), [each for each in EACH if moments_exist(*each)])
def test_moments(name: str, number: int) -> None:
    """Mean and variance of samples are those of the distribution, or of as many samples of PyTorch's."""
    theirs, ours = both(CASES[name][number])
    rushlight.manual_seed(11)
    sample = ours.sample((COUNT,))
    assert sample.shape == (COUNT, *ours.batch_shape, *ours.event_shape)
    assert not sample.requires_grad
    assert bool(ours.support.check(sample).all()) or name in ("MixtureSameFamily",)
    values = sample.double().numpy()
    spread, count = values.std(0), COUNT
    try:
        if name in ("Categorical", "VonMises"):
            raise NotImplementedError  # the mean is not one of numbers on a line
        mean, variance = (getattr(ours, what).double().numpy() for what in ("mean", "variance"))
    except NotImplementedError:
        torch.manual_seed(11)
        other = theirs.sample((COUNT,)).double().numpy()
        mean, variance, count = other.mean(0), other.var(0), COUNT / 2
    fourth = ((values - values.mean(0)) ** 4).mean(0)
    error = 5 * spread / math.sqrt(count)  # five standard deviations of the mean
    assert (np.abs(values.mean(0) - mean) <= error + 1e-12).all()
    doubt = 6 * np.sqrt(np.maximum(fourth - spread**4, 0) / count)
    assert (np.abs(values.var(0) - variance) <= doubt + 1e-12).all()


DISTRIBUTIONS: dict[str, Any] = {  # name -> (ours, SciPy's)
    "Beta": (lambda: D.Beta(t(0.6), t(2.5)), scipy.stats.beta(0.6, 2.5)),
    "Cauchy": (lambda: D.Cauchy(t(1.0), t(2.0)), scipy.stats.cauchy(1, 2)),
    "Chi2": (lambda: D.Chi2(t(3.0)), scipy.stats.chi2(3)),
    "Exponential": (lambda: D.Exponential(t(3.0)), scipy.stats.expon(scale=1 / 3)),
    "FisherSnedecor": (lambda: D.FisherSnedecor(t(3.0), t(5.0)), scipy.stats.f(3, 5)),
    "Gamma": (lambda: D.Gamma(t(0.4), t(2.0)), scipy.stats.gamma(0.4, scale=0.5)),
    "GeneralizedPareto": (
        lambda: D.GeneralizedPareto(t(1.0), t(2.0), t(0.8)),
        scipy.stats.genpareto(0.8, 1, 2),
    ),
    "Gumbel": (lambda: D.Gumbel(t(1.0), t(2.0)), scipy.stats.gumbel_r(1, 2)),
    "HalfCauchy": (lambda: D.HalfCauchy(t(2.0)), scipy.stats.halfcauchy(scale=2)),
    "HalfNormal": (lambda: D.HalfNormal(t(2.0)), scipy.stats.halfnorm(scale=2)),
    "InverseGamma": (lambda: D.InverseGamma(t(1.5), t(2.0)), scipy.stats.invgamma(1.5, scale=2)),
    "Laplace": (lambda: D.Laplace(t(1.0), t(2.0)), scipy.stats.laplace(1, 2)),
    "LogNormal": (lambda: D.LogNormal(t(0.5), t(0.7)), scipy.stats.lognorm(0.7, scale=math.exp(0.5))),
    "Normal": (lambda: D.Normal(t(1.0), t(2.0)), scipy.stats.norm(1, 2)),
    "Pareto": (lambda: D.Pareto(t(2.0), t(1.5)), scipy.stats.pareto(1.5, scale=2)),
    "StudentT": (lambda: D.StudentT(t(1.5), t(1.0), t(2.0)), scipy.stats.t(1.5, 1, 2)),
    "Uniform": (lambda: D.Uniform(t(1.0), t(3.0)), scipy.stats.uniform(1, 2)),
    "VonMises": (lambda: D.VonMises(t(0.0), t(2.0)), scipy.stats.vonmises(2)),
    "Weibull": (lambda: D.Weibull(t(2.0), t(1.5)), scipy.stats.weibull_min(1.5, scale=2)),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_kolmogorov_smirnov(name: str) -> None:
    make, exact = DISTRIBUTIONS[name]
    rushlight.manual_seed(5)
    assert scipy.stats.kstest(make().sample((COUNT,)).numpy(), exact.cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    "name", ["Bernoulli", "Binomial", "Categorical", "Geometric", "NegativeBinomial", "Poisson"]
)
def test_frequencies(name: str) -> None:
    rushlight.manual_seed(6)
    ours = {
        "Bernoulli": lambda: D.Bernoulli(t(0.3)),
        "Binomial": lambda: D.Binomial(6, t(0.3)),
        "Categorical": lambda: D.Categorical(t([0.1, 0.0, 0.9])),
        "Geometric": lambda: D.Geometric(t(0.3)),
        "NegativeBinomial": lambda: D.NegativeBinomial(t(2.5), t(0.4)),
        "Poisson": lambda: D.Poisson(t(3.0)),
    }[name]()
    drawn = np.bincount(ours.sample((COUNT,)).long().numpy())
    outcomes = rushlight.arange(len(drawn))
    expected = COUNT * ours.log_prob(outcomes.double() if name != "Categorical" else outcomes).exp().numpy()
    frequent = expected > 5
    assert (drawn[expected == 0] == 0).all()
    chi2 = ((drawn - expected) ** 2 / np.where(frequent, expected, 1))[frequent].sum()
    assert scipy.stats.chi2.sf(chi2, frequent.sum() - 1) > 1e-3


# Gradients.


def leaves_of(make: Any, library: Any) -> tuple[Any, list[Any]]:
    """The distribution with parameters that require grad."""
    leaves = []

    def leaf(values: Any) -> Any:
        leaves.append(tensor_of(library)(values).requires_grad_())
        return leaves[-1]

    return make(library.distributions, leaf), leaves


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("name", "number"), [each for each in EACH if each != ("GeneralizedPareto", 2)])
def test_gradients_of_log_prob(name: str, number: int) -> None:
    theirs, their_leaves = leaves_of(CASES[name][number], torch)
    ours, our_leaves = leaves_of(CASES[name][number], rushlight)
    torch.manual_seed(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = theirs.sample((5,)).detach()
    grads = []
    for distribution, leaves, library in ((theirs, their_leaves, torch), (ours, our_leaves, rushlight)):
        given = value.clone() if library is torch else rushlight.from_numpy(value.numpy().copy())
        if given.is_floating_point():
            leaves = [*leaves, given.requires_grad_()]
        result = distribution.log_prob(given)
        if not leaves or not result.requires_grad:
            return
        grads.append(library.autograd.grad(result.sum(), leaves, allow_unused=True))
    for their, our in zip(*grads, strict=True):
        their, our = (np.zeros(1) if each is None else each.numpy() for each in (their, our))
        loose = {"rtol": 1e-4, "atol": 1e-5} if name == "VonMises" else {"rtol": 1e-8, "atol": 1e-10}
        np.testing.assert_allclose(*np.broadcast_arrays(our, their), **loose)


def test_gradient_of_generalized_pareto_at_a_concentration_of_minus_one() -> None:
    """PyTorch's is another function's; (1 / c + 1) log(1 + c z) has the derivative -log(1 - z)."""
    concentration = t(-1.0).requires_grad_()
    z = t([0.0, 0.3, 0.9])
    D.GeneralizedPareto(t(0.0), t(1.0), concentration).log_prob(z).sum().backward()
    assert concentration.grad.item() == pytest.approx((-z).log1p().sum().item())


REPARAMETERIZED = [each for each in EACH if both(CASES[each[0]][each[1]])[1].has_rsample]


@pytest.mark.parametrize(("name", "number"), REPARAMETERIZED)
def test_rsample_carries_gradients_to_all_parameters(name: str, number: int) -> None:
    ours, leaves = leaves_of(CASES[name][number], rushlight)
    rushlight.manual_seed(2)
    sample = ours.rsample((3,))
    assert sample.shape == (3, *ours.batch_shape, *ours.event_shape)
    if leaves:
        assert sample.requires_grad
        grads = rushlight.autograd.grad(sample.square().sum(), leaves, allow_unused=True)
        assert all(grad is not None and bool(grad.isfinite().all()) for grad in grads), grads


def slope(cdf: Any, value: float, step: float = 1e-4) -> float:
    return (cdf(value + step) - cdf(value - step)) / (2 * step)


@pytest.mark.parametrize("alpha", [0.1, 0.7, 1.0, 3.0, 30.0])
def test_implicit_gradients_of_gamma_and_beta(alpha: float) -> None:
    """dx/da = - (dF/da) / (dF/dx), by differences of SciPy's distribution functions."""
    rushlight.manual_seed(1)
    a = t([alpha] * 200).requires_grad_()
    x = D.Gamma(a, t(1.0)).rsample()
    x.sum().backward()
    values = x.detach().numpy()
    wanted = -slope(lambda each: scipy.stats.gamma.cdf(values, each), alpha) / scipy.stats.gamma.pdf(
        values, alpha
    )
    fine = np.isfinite(wanted) & (values > 1e-6)
    np.testing.assert_allclose(a.grad.numpy()[fine], wanted[fine], rtol=2e-3, atol=1e-4)
    a = t([alpha] * 200).requires_grad_()
    b = t([2.0] * 200).requires_grad_()
    x = D.Beta(a, b).rsample()
    x.sum().backward()
    values = x.detach().numpy()
    density = scipy.stats.beta.pdf(values, alpha, 2.0)
    fine = (values > 1e-4) & (values < 1 - 1e-4)
    for leaf, cdf, at in (
        (a, lambda each: scipy.stats.beta.cdf(values, each, 2.0), alpha),
        (b, lambda each: scipy.stats.beta.cdf(values, alpha, each), 2.0),
    ):
        wanted = -slope(cdf, at) / density
        np.testing.assert_allclose(leaf.grad.numpy()[fine], wanted[fine], rtol=2e-2, atol=1e-4)


def test_gradients_of_means_by_samples() -> None:
    """The gradient of a mean, by reparameterized samples, is that of the formula."""
    rushlight.manual_seed(9)
    concentration = t([0.5, 2.0, 4.0]).requires_grad_()
    sample = D.Dirichlet(concentration).rsample((40000,))
    weights = t([1.0, -2.0, 3.0])
    (by_samples,) = rushlight.autograd.grad((sample * weights).sum(-1).mean(), concentration)
    (wanted,) = rushlight.autograd.grad((D.Dirichlet(concentration).mean * weights).sum(), concentration)
    np.testing.assert_allclose(by_samples.numpy(), wanted.numpy(), atol=0.02)
    loc, factor = t([1.0, 2.0, 3.0]).requires_grad_(), t(np.linalg.cholesky(COVARIANCE)).requires_grad_()
    sample = D.MultivariateNormal(loc, scale_tril=factor).rsample((40000,))
    by_loc, by_factor = rushlight.autograd.grad(sample.square().sum(-1).mean(), [loc, factor])
    np.testing.assert_allclose(by_loc.numpy(), 2 * loc.detach().numpy(), atol=0.1)
    np.testing.assert_allclose(by_factor.numpy(), 2 * factor.detach().numpy(), atol=0.15)


def test_straight_through_gradient() -> None:
    probs = t([0.2, 0.3, 0.5]).requires_grad_()
    sample = D.OneHotCategoricalStraightThrough(probs).rsample()
    assert sorted(sample.detach().tolist()) == [0.0, 0.0, 1.0]
    (sample * t([1.0, 2.0, 3.0])).sum().backward()
    other = t([0.2, 0.3, 0.5]).requires_grad_()
    ((other / other.sum()) * t([1.0, 2.0, 3.0])).sum().backward()
    np.testing.assert_allclose(probs.grad.numpy(), other.grad.numpy())


def test_seeds() -> None:
    for make in (lambda: D.Gamma(1.0, 1.0), lambda: D.VonMises(0.0, 1.0), lambda: D.LKJCholesky(3)):
        rushlight.manual_seed(0)
        first = make().sample((4,))
        rushlight.manual_seed(0)
        assert rushlight.equal(make().sample((4,)), first)

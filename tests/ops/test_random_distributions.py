"""Random operators: what they draw has the distribution that their name says.

Seeds are fixed, so that a statistical test either always passes or never does.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.stats
import torch

import rushlight

from .draws import ALPHA, COUNT, FLOATS, blank, full, seeded, values  # noqa: F401

inf, nan = float("inf"), float("nan")


# --- continuous distributions -------------------------------------------------------------------------

CONTINUOUS = {
    "rand": (lambda d: rushlight.rand(COUNT, dtype=d), scipy.stats.uniform()),
    "rand_like": (lambda d: rushlight.rand_like(rushlight.empty(COUNT, dtype=d)), scipy.stats.uniform()),
    "uniform_": (lambda d: rushlight.empty(COUNT, dtype=d).uniform_(-3, 5), scipy.stats.uniform(-3, 8)),
    "randn": (lambda d: rushlight.randn(COUNT, dtype=d), scipy.stats.norm()),
    "randn_like": (lambda d: rushlight.randn_like(rushlight.empty(COUNT, dtype=d)), scipy.stats.norm()),
    "normal_": (lambda d: rushlight.empty(COUNT, dtype=d).normal_(2, 3), scipy.stats.norm(2, 3)),
    "normal": (lambda d: rushlight.normal(2.0, 3.0, (COUNT,), dtype=d), scipy.stats.norm(2, 3)),
    "normal mean": (
        lambda d: rushlight.normal(rushlight.full((COUNT,), 2.0, dtype=d), 3.0),
        scipy.stats.norm(2, 3),
    ),
    "normal std": (
        lambda d: rushlight.normal(2.0, rushlight.full((COUNT,), 3.0, dtype=d)),
        scipy.stats.norm(2, 3),
    ),
    "normal both": (
        lambda d: rushlight.normal(
            rushlight.full((COUNT,), 2.0, dtype=d), rushlight.full((1,), 3.0, dtype=d)
        ),
        scipy.stats.norm(2, 3),
    ),
    "log_normal_": (
        lambda d: rushlight.empty(COUNT, dtype=d).log_normal_(0.5, 0.7),
        scipy.stats.lognorm(0.7, scale=np.exp(0.5)),
    ),
    "exponential_": (
        lambda d: rushlight.empty(COUNT, dtype=d).exponential_(2.5),
        scipy.stats.expon(scale=0.4),
    ),
    "cauchy_": (lambda d: rushlight.empty(COUNT, dtype=d).cauchy_(1.0, 2.0), scipy.stats.cauchy(1.0, 2.0)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_continuous_distributions(name, dtype):
    draw, distribution = CONTINUOUS[name]
    sample = draw(getattr(rushlight, dtype))
    assert sample.dtype is getattr(rushlight, dtype)
    assert scipy.stats.kstest(values(sample), distribution.cdf).pvalue > ALPHA
    again = values(draw(getattr(rushlight, dtype)))
    assert scipy.stats.kstest(again, distribution.cdf).pvalue > ALPHA
    assert (again != values(sample)).mean() > 0.9
    assert abs(scipy.stats.spearmanr(values(sample), again).statistic) < scipy.stats.norm.isf(
        ALPHA
    ) / np.sqrt(COUNT)


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_distributions_are_as_good_as_their_grid(name, dtype):
    """Rounding moves a value by half a step, so the distance of distributions grows by the mass of a step."""
    draw, distribution = CONTINUOUS[name]
    sample = values(draw(getattr(rushlight, dtype)))
    step = rushlight.finfo(getattr(rushlight, dtype)).eps
    slack = scipy.stats.kstwo.isf(ALPHA, COUNT) + 2 * step
    assert scipy.stats.kstest(sample, distribution.cdf).statistic < slack


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_normals_have_variance_one(dtype):
    sample = rushlight.randn(COUNT, dtype=getattr(rushlight, dtype)).numpy()
    for part in (sample.real, sample.imag):
        assert scipy.stats.kstest(part, scipy.stats.norm(0, np.sqrt(0.5)).cdf).pvalue > ALPHA
    assert abs(np.corrcoef(sample.real, sample.imag)[0, 1]) < 4 / np.sqrt(COUNT)
    shifted = blank(dtype=dtype).normal_(3, 2).numpy()
    assert abs(shifted.mean() - 3) < 8 / np.sqrt(COUNT)
    assert abs(np.abs(shifted - 3).std() ** 2 + np.abs(shifted - 3).mean() ** 2 - 4) < 0.2
    assert 0 <= rushlight.rand(COUNT, dtype=getattr(rushlight, dtype)).numpy().imag.min() < 0.001


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniforms_stay_below_their_upper_bound(dtype):
    assert values(rushlight.rand(COUNT, dtype=getattr(rushlight, dtype))).max() < 1
    for low, high in [(1, 2), (-1, 3), (0, 1e-3), (1000, 1001), (5, 5)]:
        sample = values(blank(dtype=dtype).uniform_(low, high))
        edge = np.float64(low)
        assert sample.min() >= edge
        assert (sample < high).all() or low == high


def test_exponentials_are_positive_and_fine_near_zero():
    sample = values(blank().exponential_())
    assert sample.min() > 0
    assert len(np.unique(sample)) > 0.99 * COUNT


# --- discrete distributions ---------------------------------------------------------------------------


def assert_counts(sample, distribution, support):
    """Chi-square over `support`, whose last cell takes the upper tail and whose first takes the lower."""
    sample = np.clip(np.asarray(sample, np.float64), support[0], support[-1])
    observed = np.array([(sample == k).sum() for k in support])
    expected = distribution.pmf(support)
    expected[0], expected[-1] = distribution.cdf(support[0]), distribution.sf(support[-1] - 1)
    observed, expected = pooled(observed, expected * len(sample))
    assert observed.sum() == len(sample)
    assert scipy.stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > ALPHA


def pooled(observed, expected, least=8.0):
    """Neighbouring cells joined until each expects `least`."""
    groups, total = [], 0.0
    for i, mass in enumerate(expected):
        if not groups or total >= least:
            groups.append([])
            total = 0.0
        groups[-1].append(i)
        total += mass
    if total < least and len(groups) > 1:
        last = groups.pop()
        groups[-1] += last
    return (np.array([observed[g].sum() for g in groups]), np.array([expected[g].sum() for g in groups]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "bfloat16"])
@pytest.mark.parametrize("p", [0.0, 1e-3, 0.3, 0.5, 0.999, 1.0])
def test_bernoulli(p, dtype):
    samples = [
        rushlight.bernoulli(blank(dtype=dtype), p),
        blank(dtype=dtype).bernoulli_(p),
        blank(dtype=dtype).bernoulli_(rushlight.tensor(p, dtype=rushlight.float64)),
    ]
    if dtype in FLOATS:
        samples.append(rushlight.bernoulli(rushlight.full((COUNT,), p, dtype=rushlight.float64)))
    for sample in samples:
        assert set(np.unique(values(sample))) <= {0.0, 1.0}
        assert scipy.stats.binomtest(int(values(sample).sum()), COUNT, p).pvalue > ALPHA
    assert set(np.unique(values(blank().bernoulli_()))) == {0.0, 1.0}


def test_bernoulli_takes_each_probability_from_its_element():
    p = rushlight.tensor([0.0, 1.0, 0.25]).expand(COUNT, 3)
    means = rushlight.bernoulli(p).numpy().mean(0)
    assert means[0] == 0 and means[1] == 1 and abs(means[2] - 0.25) < 4 * 0.44 / np.sqrt(COUNT)


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_geometric(p, dtype):
    sample = values(blank(dtype=dtype).geometric_(p))
    assert_counts(sample, scipy.stats.geom(p), np.arange(1, 200))


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.9, 5.0, 9.99, 10.0, 11.5, 47.0, 1000.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_poisson(rate, dtype):
    sample = values(rushlight.poisson(full(rate, dtype)))
    if rate == 0:
        assert (sample == 0).all()
        return
    low, high = scipy.stats.poisson(rate).interval(0.999)
    assert_counts(sample, scipy.stats.poisson(full(rate, dtype)[0].item()), np.arange(low, high + 1))


def test_poisson_of_large_rates():
    sample = values(rushlight.poisson(full(1e10, "float64")))
    assert scipy.stats.kstest(sample, scipy.stats.norm(1e10, 1e5).cdf).pvalue > ALPHA
    assert rushlight.poisson(rushlight.tensor([inf])).item() == inf


@pytest.mark.parametrize(
    ("count", "prob"),
    [
        (1, 0.5),
        (10, 0.3),
        (10, 0.9),
        (40, 0.02),
        (100, 0.2),
        (100, 0.5),
        (100, 0.85),
        (1000, 0.01),
        (100000, 0.4),
        (3, 0.999),
    ],
)
def test_binomial(count, prob):
    sample = values(rushlight.binomial(full(count, "float64"), full(prob, "float64")))
    distribution = scipy.stats.binom(count, prob)
    low, high = distribution.interval(0.9999)
    assert sample.min() >= 0 and sample.max() <= count
    assert_counts(sample, distribution, np.arange(low, high + 1))


def test_binomial_of_special_values():
    count = rushlight.tensor([10.0, 10.0, 0.0, -1.0, nan, 10.0, 10.0, 10.0])
    prob = rushlight.tensor([0.0, 1.0, 0.5, 0.5, 0.5, nan, -1.0, 2.0])
    np.testing.assert_array_equal(rushlight.binomial(count, prob).numpy(), [0, 10, 0, 0, nan, nan, 0, 10])


@pytest.mark.parametrize("alpha", [0.01, 0.3, 0.99, 1.0, 1.01, 2.5, 60.0, 1e5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_standard_gamma(alpha, dtype):
    sample = values(rushlight._standard_gamma(full(alpha, dtype)))
    assert sample.min() >= np.finfo(dtype).tiny
    shape = full(alpha, dtype)[0].item()
    kept = sample > np.finfo(dtype).tiny  # the smallest are raised to it: what is above is compared
    below = scipy.stats.gamma(shape).cdf(np.finfo(dtype).tiny)
    assert abs((~kept).mean() - below) <= 4 * np.sqrt(below * (1 - below) / COUNT)
    conditional = (scipy.stats.gamma(shape).cdf(sample[kept]) - below) / (1 - below)
    assert scipy.stats.kstest(conditional, "uniform").pvalue > ALPHA


def test_dirichlet():
    alpha = rushlight.tensor([0.5, 2.0, 4.0], dtype=rushlight.float64)
    sample = rushlight._sample_dirichlet(alpha.expand(COUNT, 3)).numpy()
    np.testing.assert_allclose(sample.sum(-1), 1.0)
    for i, a in enumerate([0.5, 2.0, 4.0]):
        assert scipy.stats.kstest(sample[:, i], scipy.stats.beta(a, 6.5 - a).cdf).pvalue > ALPHA
    tiny = rushlight._sample_dirichlet(rushlight.full((100, 3), 1e-4))
    assert (tiny > 0).all().item() and (tiny < 1).all().item()


def quantiles(distribution):
    found = [float(distribution.ppf(q)) for q in (1e-6, 0.01, 0.3, 0.7, 0.99, 1 - 1e-6)]
    return [x for x in found if x > 1e-200]


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 0.5, 1.0, 1.5, 10.0, 500.0])
def test_gradient_of_gamma_samples(alpha):
    """-dF/da / f by arbitrary-precision arithmetic; PyTorch's own approximation is good to 2%."""
    x = quantiles(scipy.stats.gamma(alpha))
    shape = rushlight.full((len(x),), alpha, dtype=rushlight.float64)
    actual = rushlight._standard_gamma_grad(shape, rushlight.tensor(x, dtype=rushlight.float64)).numpy()
    with mpmath.workdps(40):
        rank = [mpmath.diff(lambda a, v=v: mpmath.gammainc(a, 0, v, regularized=True), alpha) for v in x]
        density = [mpmath.exp((alpha - 1) * mpmath.log(v) - v - mpmath.loggamma(alpha)) for v in x]
        expected = [float(-r / f) for r, f in zip(rank, density, strict=True)]
    np.testing.assert_allclose(actual, expected, rtol=1e-9)
    theirs = torch._standard_gamma_grad(*torch.tensor([[alpha] * len(x), x], dtype=torch.float64))
    np.testing.assert_allclose(actual, theirs.numpy(), rtol=2e-2)


@pytest.mark.parametrize(
    ("a", "b"), [(0.05, 0.5), (0.5, 0.05), (1.0, 1.0), (2.5, 20.0), (20.0, 2.5), (300.0, 300.0)]
)
def test_gradient_of_dirichlet_samples(a, b):
    x = [v for v in quantiles(scipy.stats.beta(a, b)) if v < 1]
    tensors = [rushlight.tensor(v, dtype=rushlight.float64) for v in (x, a, a + b)]
    actual = rushlight._dirichlet_grad(*tensors).numpy()
    with mpmath.workdps(40):
        second = mpmath.mpf(a + b) - mpmath.mpf(a)
        rank = [mpmath.diff(lambda p, v=v: mpmath.betainc(p, second, 0, v, regularized=True), a) for v in x]
        density = [
            mpmath.mpf(v) ** (a - 1) * (1 - mpmath.mpf(v)) ** second / mpmath.beta(a, second) for v in x
        ]
        expected = [float(-r / f) for r, f in zip(rank, density, strict=True)]
    np.testing.assert_allclose(actual, expected, rtol=1e-9)
    theirs = torch._dirichlet_grad(*(torch.tensor(v, dtype=torch.float64) for v in (x, a, a + b)))
    np.testing.assert_allclose(actual, theirs.numpy(), rtol=2e-2)

"""Random operators: distributions, determinism, the contract of element i, generators, ranges and errors.

Seeds are fixed, so that a statistical test either always passes or never does.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest
import scipy.stats
import torch

import rushlight
from rushlight.core.dispatch import call, run_name
from rushlight.core.registry import REGISTRY

COUNT = 20_000
ALPHA = 1e-4
FLOATS = ["float16", "bfloat16", "float32", "float64"]
inf, nan = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def seeded():
    """Every test starts from the same state and leaves the generator as it was."""
    with rushlight.random.fork_rng():
        rushlight.manual_seed(20240)
        yield


def blank(*shape, dtype="float32"):
    return rushlight.empty(shape or (COUNT,), dtype=getattr(rushlight, dtype))


def full(value, dtype="float32"):
    return rushlight.full((COUNT,), float(value), dtype=getattr(rushlight, dtype))


def values(tensor):
    return tensor.numpy().astype(np.float64).reshape(-1)


# --- continuous distributions -------------------------------------------------------------------------

CONTINUOUS = {
    "rand": (lambda d: rushlight.rand(COUNT, dtype=d), scipy.stats.uniform()),
    "rand_like": (lambda d: rushlight.rand_like(rushlight.empty(COUNT, dtype=d)), scipy.stats.uniform()),
    "uniform_": (lambda d: rushlight.empty(COUNT, dtype=d).uniform_(-3, 5), scipy.stats.uniform(-3, 8)),
    "randn": (lambda d: rushlight.randn(COUNT, dtype=d), scipy.stats.norm()),
    "randn_like": (lambda d: rushlight.randn_like(rushlight.empty(COUNT, dtype=d)), scipy.stats.norm()),
    "normal_": (lambda d: rushlight.empty(COUNT, dtype=d).normal_(2, 3), scipy.stats.norm(2, 3)),
    "normal": (lambda d: rushlight.normal(2.0, 3.0, (COUNT,), dtype=d), scipy.stats.norm(2, 3)),
    "normal mean": (lambda d: rushlight.normal(rushlight.full((COUNT,), 2.0, dtype=d), 3.0),
                    scipy.stats.norm(2, 3)),
    "normal std": (lambda d: rushlight.normal(2.0, rushlight.full((COUNT,), 3.0, dtype=d)),
                   scipy.stats.norm(2, 3)),
    "normal both": (lambda d: rushlight.normal(rushlight.full((COUNT,), 2.0, dtype=d),
                                               rushlight.full((1,), 3.0, dtype=d)), scipy.stats.norm(2, 3)),
    "log_normal_": (lambda d: rushlight.empty(COUNT, dtype=d).log_normal_(0.5, 0.7),
                    scipy.stats.lognorm(0.7, scale=np.exp(0.5))),
    "exponential_": (lambda d: rushlight.empty(COUNT, dtype=d).exponential_(2.5),
                     scipy.stats.expon(scale=0.4)),
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
    assert abs(scipy.stats.spearmanr(values(sample),
                                     again).statistic) < scipy.stats.norm.isf(ALPHA) / np.sqrt(COUNT)


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
    samples = [rushlight.bernoulli(blank(dtype=dtype), p), blank(dtype=dtype).bernoulli_(p),
               blank(dtype=dtype).bernoulli_(rushlight.tensor(p, dtype=rushlight.float64))]
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


@pytest.mark.parametrize(("count", "prob"),
                         [(1, 0.5), (10, 0.3), (10, 0.9), (40, 0.02), (100, 0.2), (100, 0.5),
                                             (100, 0.85), (1000, 0.01), (100000, 0.4), (3, 0.999)])
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


@pytest.mark.parametrize(("a", "b"),
                         [(0.05, 0.5), (0.5, 0.05), (1.0, 1.0), (2.5, 20.0), (20.0, 2.5), (300.0, 300.0)])
def test_gradient_of_dirichlet_samples(a, b):
    x = [v for v in quantiles(scipy.stats.beta(a, b)) if v < 1]
    tensors = [rushlight.tensor(v, dtype=rushlight.float64) for v in (x, a, a + b)]
    actual = rushlight._dirichlet_grad(*tensors).numpy()
    with mpmath.workdps(40):
        second = mpmath.mpf(a + b) - mpmath.mpf(a)
        rank = [mpmath.diff(lambda p, v=v: mpmath.betainc(p, second, 0, v, regularized=True), a) for v in x]
        density = [mpmath.mpf(v) ** (a - 1) * (1 - mpmath.mpf(v)) ** second / mpmath.beta(a,
                                                                                          second) for v in x]
        expected = [float(-r / f) for r, f in zip(rank, density, strict=True)]
    np.testing.assert_allclose(actual, expected, rtol=1e-9)
    theirs = torch._dirichlet_grad(*(torch.tensor(v, dtype=torch.float64) for v in (x, a, a + b)))
    np.testing.assert_allclose(actual, theirs.numpy(), rtol=2e-2)


# --- integers and choices -----------------------------------------------------------------------------

@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 2), (0, 7), (-5, 6), (100, 108)])
@pytest.mark.parametrize("dtype", ["int64", "int8", "float32", "bfloat16"])
def test_randint_is_uniform(low, high, dtype):
    kind = getattr(rushlight, dtype)
    for sample in (rushlight.randint(low, high, (COUNT,), dtype=kind), blank(dtype=dtype).random_(low, high),
                   rushlight.randint_like(blank(dtype=dtype), low, high)):
        assert sample.dtype is kind
        counts = np.bincount(values(sample).astype(np.int64) - low, minlength=high - low)
        assert len(counts) == high - low
        assert high - low == 1 or scipy.stats.chisquare(counts).pvalue > ALPHA


@pytest.mark.parametrize("span", [3, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**40, 2**63 - 1])
def test_integers_are_the_scaled_bits(span):
    from rushlight.core.generator import Generator, philox, random_bits64

    generator = Generator().manual_seed(5)
    sample = rushlight.randint(0, span, (1000,), generator=generator)
    bits = random_bits64(philox(5, 0, 2000))
    assert sample.tolist() == [int(b) * span >> 64 for b in bits]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS])
def test_random_covers_the_range_of_the_dtype(dtype):
    sample = values(blank(dtype=dtype).random_())
    largest = {"bool": 1, "float16": 2**11, "bfloat16": 2**8, "float32": 2**24, "float64": 2**53}.get(dtype)
    largest = int(np.iinfo(dtype).max) if largest is None else largest
    assert sample.min() >= 0 and sample.max() <= largest
    assert sample.max() >= 0.99 * largest and sample.min() <= 0.01 * largest
    assert abs(sample.mean() / largest - 0.5) < 4 / np.sqrt(12 * COUNT) + 0.5 / largest * (dtype == "bool")
    upper = values(blank(dtype=dtype).random_(1, None))
    assert upper.min() >= 1 and upper.max() <= largest


def test_random_of_all_64_bits():
    sample = blank(dtype="int64").random_(-2**63, None).numpy()
    assert sample.min() < -0.99 * 2**63 and sample.max() > 0.99 * 2**63
    assert scipy.stats.kstest(sample / 2.0**64 + 0.5, "uniform").pvalue > ALPHA


def test_randint_like_takes_a_tensor():
    assert values(rushlight.randint_like(blank(), rushlight.tensor(5))).max() == 4
    with pytest.raises(RuntimeError, match="less than"):
        rushlight.randint_like(blank(), rushlight.tensor(0))
    with pytest.raises(RuntimeError, match="scalar"):
        rushlight.randint_like(blank(), rushlight.tensor([5, 6]))


def test_randperm_is_a_uniform_permutation():
    counts = {}
    for _ in range(2400):
        order = tuple(rushlight.randperm(4).tolist())
        assert sorted(order) == [0, 1, 2, 3]
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert scipy.stats.chisquare(list(counts.values())).pvalue > ALPHA
    for dtype in ("uint8", "int32", "float32", "bfloat16"):
        order = rushlight.randperm(200, dtype=getattr(rushlight, dtype))
        assert sorted(values(order)) == list(range(200))
    assert rushlight.randperm(0).shape == (0,)


def test_multinomial_with_replacement():
    weights = rushlight.tensor([0.0, 3.0, 0.0, 1.0, 6.0, 0.0])
    sample = rushlight.multinomial(weights, COUNT, replacement=True).numpy()
    counts = np.bincount(sample, minlength=6)
    assert counts[[0, 2, 5]].sum() == 0
    assert scipy.stats.chisquare(counts[[1, 3, 4]], np.array([0.3, 0.1, 0.6]) * COUNT).pvalue > ALPHA
    rows = rushlight.multinomial(rushlight.tensor([[1.0, 0.0], [0.0, 1.0]]), 50, replacement=True)
    assert rows.tolist() == [[0] * 50, [1] * 50]


def test_multinomial_without_replacement_draws_one_after_the_other():
    """The pair (first, second) has probability p_i p_j / (1 - p_i)."""
    p = np.array([0.5, 0.3, 0.2])
    sample = rushlight.multinomial(rushlight.tensor(p * 7).expand(COUNT, 3), 2).numpy()
    assert (sample[:, 0] != sample[:, 1]).all()
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    observed = [((sample == pair).all(-1)).sum() for pair in pairs]
    expected = [p[i] * p[j] / (1 - p[i]) * COUNT for i, j in pairs]
    assert scipy.stats.chisquare(observed, expected).pvalue > ALPHA
    every = rushlight.multinomial(rushlight.ones(4, 9), 9)
    assert (every.sort(-1)[0] == rushlight.arange(9)).all().item()
    assert rushlight.multinomial(rushlight.tensor([0.0, 1.0, 0.0]), 2).tolist()[0] == 1


# --- determinism, and what element i is ---------------------------------------------------------------

DRAWS = {
    "rand": lambda n: rushlight.rand(n), "rand64": lambda n: rushlight.rand(n, dtype=rushlight.float64),
    "randn": lambda n: rushlight.randn(n), "randn64": lambda n: rushlight.randn(n, dtype=rushlight.float64),
    "randn complex": lambda n: rushlight.randn(n, dtype=rushlight.complex64),
    "uniform": lambda n: blank(n).uniform_(-1, 1), "normal": lambda n: blank(n).normal_(1, 2),
    "log_normal": lambda n: blank(n).log_normal_(), "exponential": lambda n: blank(n).exponential_(),
    "cauchy": lambda n: blank(n).cauchy_(), "geometric": lambda n: blank(n).geometric_(0.2),
    "randint": lambda n: rushlight.randint(1000, (n,)), "random": lambda n: blank(n, dtype="int64").random_(),
    "bernoulli": lambda n: rushlight.bernoulli(blank(n), 0.4),
    "dropout": lambda n: rushlight.dropout(rushlight.ones(n), 0.4, True),
    "poisson small": lambda n: rushlight.poisson(rushlight.full((n,), 3.0)),
    "poisson large": lambda n: rushlight.poisson(rushlight.full((n,), 30.0)),
    "binomial": lambda n: rushlight.binomial(rushlight.full((n,), 90.0), rushlight.full((n,), 0.4)),
    "gamma": lambda n: rushlight._standard_gamma(rushlight.full((n,), 0.7)),
    "multinomial": lambda n: rushlight.multinomial(rushlight.ones(7), n, replacement=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_gives_the_same_numbers(name):
    draw = DRAWS[name]
    rushlight.manual_seed(1)
    first, second = draw(1000).numpy(), draw(1000).numpy()
    rushlight.manual_seed(1)
    np.testing.assert_array_equal(draw(1000).numpy(), first)
    np.testing.assert_array_equal(draw(1000).numpy(), second)
    rushlight.manual_seed(2)
    other = draw(1000).numpy()
    assert (first != second).any() and (first != other).any()


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("count", [0, 1, 7, 9000])
def test_element_i_does_not_depend_on_how_many_are_drawn(name, count):
    draw = DRAWS[name]
    if name == "multinomial" and count == 0:
        count = 1
    rushlight.manual_seed(3)
    few = draw(count).numpy()
    rushlight.manual_seed(3)
    np.testing.assert_array_equal(draw(10_000).numpy()[:count], few)


def test_elements_are_numbered_in_row_major_order_whatever_the_strides():
    rushlight.manual_seed(4)
    expected = rushlight.rand(6, 5).numpy()
    for blank_ in (rushlight.empty(5, 6).t(), rushlight.empty(6, 10)[:, ::2], rushlight.empty(6, 5)):
        rushlight.manual_seed(4)
        made = rushlight.rand_like(blank_)
        np.testing.assert_array_equal(made.numpy(), expected)
        rushlight.manual_seed(4)
        np.testing.assert_array_equal(blank_.uniform_().numpy(), expected)
    assert rushlight.rand_like(rushlight.empty(5, 6).t()).stride() == (1, 6)


def test_rejection_samplers_do_not_mix_elements():
    """An element that needs many attempts leaves the others alone: changing one rate changes one value."""
    rates = rushlight.full((1000,), 40.0)
    rushlight.manual_seed(5)
    before = rushlight.poisson(rates).numpy()
    rates[17] = 4000.0
    rushlight.manual_seed(5)
    after = rushlight.poisson(rates).numpy()
    changed = np.flatnonzero(before != after)
    assert changed.tolist() == [17]


def test_numbers_are_pinned():
    """The contract with the compiler, on Random123's known answer for a zero counter and key."""
    words = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    rushlight.manual_seed(0)
    assert rushlight.rand(4).tolist() == [(word >> 8) * 2.0**-24 for word in words]
    rushlight.manual_seed(0)
    assert rushlight.bernoulli(blank(4), 0.6).tolist() == [float(word < 0.6 * 2**32) for word in words]
    rushlight.manual_seed(0)
    assert rushlight.dropout(rushlight.ones(4), 0.5, True).tolist() == [2, 0, 0, 0]
    rushlight.manual_seed(0)
    assert rushlight.randint(100, (2,)).tolist() == [88, 60]
    rushlight.manual_seed(0)
    assert rushlight.rand(2, dtype=rushlight.float64).tolist() == [
        (high << 32 | low) // 2**11 * 2.0**-53 for low, high in (words[:2], words[2:])]


# --- generators ---------------------------------------------------------------------------------------

def test_generator_argument():
    made = rushlight.Generator().manual_seed(7)
    state = rushlight.get_rng_state()
    first = rushlight.rand(5, generator=made)
    second = rushlight.rand(5, generator=made)
    assert rushlight.get_rng_state().tolist() == state.tolist()
    made.manual_seed(7)
    np.testing.assert_array_equal(rushlight.rand(5, generator=made).numpy(), first.numpy())
    np.testing.assert_array_equal(blank(5).uniform_(generator=made).numpy(), second.numpy())
    for draw in (lambda g: rushlight.randn(5, generator=g), lambda g: rushlight.randint(9, (5,), generator=g),
                 lambda g: rushlight.randperm(5, generator=g),
                 lambda g: rushlight.randn_like(blank(5), generator=g),
                 lambda g: rushlight.normal(0.0, 1.0, (5,), generator=g),
                 lambda g: blank(5).exponential_(generator=g),
                 lambda g: rushlight.bernoulli(rushlight.full((50,), 0.5), generator=g),
                 lambda g: rushlight.multinomial(rushlight.ones(50), 5, generator=g),
                 lambda g: rushlight.poisson(rushlight.full((5,), 20.0), generator=g),
                 lambda g: blank(50).bernoulli_(generator=g), lambda g: blank(5).random_(generator=g)):
        made.manual_seed(1)
        one = draw(made).numpy()
        made.manual_seed(1)
        np.testing.assert_array_equal(draw(made).numpy(), one)
        assert made.get_offset() > 0
    assert rushlight.get_rng_state().tolist() == state.tolist()


def test_state_of_the_default_generator():
    state = rushlight.get_rng_state()
    assert state.dtype is rushlight.uint8 and state.ndim == 1
    first = rushlight.rand(4).numpy()
    rushlight.set_rng_state(state)
    np.testing.assert_array_equal(rushlight.rand(4).numpy(), first)
    assert rushlight.manual_seed(5) is rushlight.default_generator
    assert rushlight.initial_seed() == 5
    seed = rushlight.seed()
    assert rushlight.initial_seed() == seed
    for bad, error in ((rushlight.ones(3), TypeError),
                       (rushlight.ones(3, dtype=rushlight.uint8), RuntimeError)):
        with pytest.raises(error):
            rushlight.set_rng_state(bad)
    with pytest.raises(ValueError):
        rushlight.manual_seed(2**64)
    assert rushlight.manual_seed(-1).initial_seed() == 2**64 - 1


def test_fork_rng_restores_even_after_an_error():
    state = rushlight.get_rng_state().tolist()

    def fail_inside():
        with rushlight.random.fork_rng():
            rushlight.rand(100)
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert rushlight.get_rng_state().tolist() == state
    with rushlight.random.fork_rng(enabled=False):
        rushlight.rand(100)
    assert rushlight.get_rng_state().tolist() != state


def test_threads_get_numbers_of_their_own():
    with ThreadPoolExecutor(8) as pool:
        draws = list(pool.map(lambda _: rushlight.rand(500, dtype=rushlight.float64).numpy(), range(40)))
    assert len(np.unique(np.concatenate(draws))) == 40 * 500


def test_the_meta_device_draws_nothing():
    state = rushlight.get_rng_state().tolist()
    made = rushlight.rand(3, 4, device="meta")
    assert made.is_meta and made.shape == (3, 4)
    assert rushlight.randn_like(made).is_meta
    made.uniform_()
    assert rushlight.get_rng_state().tolist() == state


# --- dropout ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p, dtype):
    x = rushlight.ones(COUNT, dtype=getattr(rushlight, dtype))
    output, mask = rushlight.native_dropout(x, p, True)
    kept = mask.numpy()
    assert mask.dtype is rushlight.bool
    assert scipy.stats.binomtest(int(kept.sum()), COUNT, 1 - p).pvalue > ALPHA
    scale = rushlight.tensor(1 / (1 - p), dtype=x.dtype).item()
    np.testing.assert_allclose(values(output), kept * scale, rtol=4 * rushlight.finfo(x.dtype).eps)


def test_dropout_without_effect_returns_its_input():
    x = rushlight.ones(3)
    assert rushlight.dropout(x, 0.5, False) is x
    assert rushlight.dropout(x, 0.0, True) is x
    assert rushlight.feature_dropout(x, 0.5, False) is x
    output, mask = rushlight.native_dropout(x, 0.5, False)
    assert output is not x and output.tolist() == [1, 1, 1] and mask.all().item()


def test_dropout_of_everything():
    x = rushlight.tensor([1.0, -2.0])
    for drop in (rushlight.dropout, rushlight.alpha_dropout):
        assert drop(x, 1.0, True).tolist() == [0, 0]
    output, mask = rushlight.native_dropout(x, 1.0, True)
    assert output.tolist() == [0, 0] and not mask.any().item()


def test_dropout_in_place():
    x = rushlight.ones(1000)
    rushlight.manual_seed(1)
    expected = rushlight.dropout(x, 0.5, True).numpy()
    rushlight.manual_seed(1)
    assert rushlight.dropout_(x, 0.5, True) is x
    np.testing.assert_array_equal(x.numpy(), expected)


def test_feature_dropout_drops_whole_channels():
    x = rushlight.ones(50, 40, 3, 2)
    kept = rushlight.feature_dropout(x, 0.3, True).numpy().reshape(2000, 6)
    assert (kept == kept[:, :1]).all()
    assert scipy.stats.binomtest(int((kept[:, 0] > 0).sum()), 2000, 0.7).pvalue > ALPHA
    assert set(np.unique(kept)) == {0, np.float32(1 / 0.7)}
    alpha = rushlight.feature_alpha_dropout(x, 0.3, True).numpy().reshape(2000, 6)
    assert (alpha == alpha[:, :1]).all() and len(np.unique(alpha)) == 2


@pytest.mark.parametrize("p", [0.1, 0.4, 0.8])
def test_alpha_dropout_keeps_mean_and_variance(p):
    x = rushlight.randn(200_000, dtype=rushlight.float64)
    y = rushlight.alpha_dropout(x, p, True).numpy()
    assert abs(y.mean()) < 0.02 and abs(y.var() - 1) < 0.02
    saturated = np.unique(y)[np.unique(y, return_counts=True)[1] > 1]
    assert len(saturated) == 1 and abs((y == saturated).mean() - p) < 0.01


def test_native_dropout_decomposes_to_the_same_bits():
    op = REGISTRY["native_dropout"]
    for dtype in ("float32", "bfloat16"):
        x = rushlight.randn(300, 7).to(getattr(rushlight, dtype)).t()
        for train in (True, False, None):
            rushlight.manual_seed(8)
            kernel = call(op, (x, 0.3, train))
            rushlight.manual_seed(8)
            parts = op.decomposition((x, 0.3, train))
            for a, b in zip(kernel, parts, strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
                assert a.stride() == b.stride() and a.dtype is b.dtype


SCALED = {
    "uniform": lambda x: (x, -0.3, 0.7, None), "normal_functional": lambda x: (x, 0.5, 3.0, None),
    "normal.Tensor_float": lambda x: (x, 3.0, None), "normal.float_Tensor": lambda x: (0.5, x.abs(), None),
    "normal.Tensor_Tensor": lambda x: (x, x[:1].abs(), None),
    "normal.float_float": lambda x: (0.5, 3.0, (4, 5), None, x.dtype, None, None, None),
}


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_scaled_draws_decompose_to_the_same_bits(name, dtype):
    op, args = REGISTRY[name], SCALED[name](rushlight.randn(30, 70).to(getattr(rushlight, dtype)).t())
    rushlight.manual_seed(9)
    kernel = call(op, args)
    rushlight.manual_seed(9)
    parts = op.decomposition(args)
    np.testing.assert_array_equal(parts.numpy(), kernel.numpy())
    assert parts.dtype is kernel.dtype and parts.stride() == kernel.stride()


def test_complex_draws_decompose_to_the_same_bits():
    x = rushlight.empty(100, dtype=rushlight.complex64)
    for name, args in (("uniform", (x, -1.0, 2.0, None)), ("normal_functional", (x, 1.0, 2.0, None))):
        rushlight.manual_seed(9)
        kernel = call(REGISTRY[name], args)
        rushlight.manual_seed(9)
        np.testing.assert_array_equal(REGISTRY[name].decomposition(args).numpy(), kernel.numpy())


def test_dropout_backward_and_fused_forms():
    grad, mask = rushlight.tensor([1.0, 2.0]), rushlight.tensor([True, False])
    assert run_name("native_dropout_backward", grad, mask, 2.0).tolist() == [2, 0]
    assert rushlight._masked_scale(grad, mask.to(rushlight.uint8), 4.0).tolist() == [4, 0]
    output, kept = rushlight._fused_dropout(rushlight.ones(COUNT), 0.25)
    assert kept.dtype is rushlight.uint8 and set(np.unique(output.numpy())) == {0, 4}
    assert scipy.stats.binomtest(int(kept.sum().item()), COUNT, 0.25).pvalue > ALPHA
    with pytest.raises(RuntimeError, match="bool"):
        run_name("native_dropout_backward", grad, grad, 2.0)


# --- errors -------------------------------------------------------------------------------------------

BAD_CALLS = {
    "rand(-1)": RuntimeError, "rand(2, dtype=int64)": NotImplementedError,
    "randn(2, dtype=bool)": NotImplementedError, "x.uniform_(2, 1)": RuntimeError,
    "x.uniform_(0, 1e39)": RuntimeError, "x.half().uniform_(0, 1e6)": RuntimeError,
    "x.uniform_(float('nan'), 1)": RuntimeError, "x.double().uniform_(-1e308, 1e308)": RuntimeError,
    "i.uniform_()": NotImplementedError, "x.normal_(0, -1)": RuntimeError, "i.normal_()": NotImplementedError,
    "normal(x, -x)": RuntimeError, "normal(x, -1.0)": RuntimeError, "normal(x, ones(2))": RuntimeError,
    "normal(x, x * 1j)": RuntimeError, "normal(1.0, -1.0, (2,))": RuntimeError, "normal(1.0, 1.0)": TypeError,
    "normal(1.0, 1.0, (2,), dtype=int64)": NotImplementedError, "normal(x, x * float('nan'))": RuntimeError,
    "bernoulli(x * 2)": RuntimeError, "bernoulli(x * float('nan'))": RuntimeError,
    "bernoulli(x, 2.0)": RuntimeError, "bernoulli(i)": NotImplementedError, "bernoulli(x, x)": TypeError,
    "x.bernoulli_(-0.1)": RuntimeError, "x.bernoulli_(ones(4))": RuntimeError,
    "x.bernoulli_(i)": NotImplementedError, "x.bernoulli_(2 * x)": RuntimeError,
    "x.exponential_(0)": RuntimeError, "i.exponential_()": RuntimeError, "x.geometric_(0)": RuntimeError,
    "x.geometric_(1)": RuntimeError, "x.bool().geometric_(0.5)": NotImplementedError,
    "x.cauchy_(0, 0)": RuntimeError, "i.cauchy_()": RuntimeError, "x.log_normal_(0, 0)": RuntimeError,
    "i.log_normal_()": NotImplementedError, "x.random_(0)": RuntimeError, "x.random_(5, 3)": RuntimeError,
    "x.char().random_(200)": RuntimeError, "x.char().random_(-200, 3)": RuntimeError,
    "x.bool().random_(3)": RuntimeError, "x.half().random_(100000)": RuntimeError,
    "(x * 1j).random_()": NotImplementedError, "(x * 1j).random_(3)": RuntimeError,
    "randint(5, 3, (2,))": RuntimeError, "randint(0, (2,))": RuntimeError,
    "randint(300, (2,), dtype=uint8)": RuntimeError, "randint(2.5, (2,))": TypeError,
    "randint(5, (-1,))": RuntimeError, "randint(0, 5, (2,), dtype=complex64)": RuntimeError,
    "randperm(-1)": RuntimeError, "randperm(300, dtype=uint8)": RuntimeError,
    "randperm(3000, dtype=float16)": RuntimeError, "randperm(2, dtype=bool)": NotImplementedError,
    "multinomial(x, 4)": RuntimeError, "multinomial(x, 0)": RuntimeError,
    "multinomial(x[None], 1)": RuntimeError, "multinomial(x * 0, 1)": RuntimeError,
    "multinomial(-x, 1)": RuntimeError, "multinomial(i, 1)": RuntimeError,
    "multinomial(x * float('inf'), 1)": RuntimeError, "multinomial(ones(3, 0), 1, True)": RuntimeError,
    "poisson(-x)": RuntimeError, "poisson(i)": NotImplementedError, "poisson(x * float('nan'))": RuntimeError,
    "binomial(x, x.double())": RuntimeError, "binomial(i, x)": ValueError,
    "binomial(x.half(), x.half())": NotImplementedError, "_standard_gamma(i)": NotImplementedError,
    "_sample_dirichlet(i)": NotImplementedError, "dropout(x, 1.5, True)": RuntimeError,
    "dropout(x, -0.1, False)": RuntimeError, "dropout(i, 0.5, True)": RuntimeError,
    "feature_dropout(ones(3), 0.5, True)": RuntimeError, "native_dropout(i, 0.5, True)": RuntimeError,
    "alpha_dropout(i, 0.5, True)": RuntimeError, "x[:, :1].expand(2, 3).uniform_()": RuntimeError,
    "rand(2, generator=5)": TypeError, "rand(2, out=ones(2, dtype=int64))": NotImplementedError,
    "multinomial(x, 1, out=ones(2, 1))": RuntimeError,
}


@pytest.mark.parametrize("text", BAD_CALLS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_errors_have_the_type_of_torchs(text):
    for module in (torch, rushlight):
        scope = {name: getattr(module, name) for name in dir(module) if name.isidentifier()}
        scope |= {"x": module.ones(2, 3), "i": module.ones(2, 3, dtype=module.int64), "float": float}
        with pytest.raises(BAD_CALLS[text]):
            eval(text, scope)


def test_a_refused_call_draws_nothing():
    state = rushlight.get_rng_state().tolist()
    for call_ in (lambda: blank(3).uniform_(2, 1), lambda: rushlight.rand(3, dtype=rushlight.int64),
                  lambda: rushlight.multinomial(rushlight.ones(3), 4),
                  lambda: rushlight.bernoulli(rushlight.full((2,), 2.0)),
                  lambda: rushlight.poisson(rushlight.full((2,), -1.0))):
        with pytest.raises((RuntimeError, NotImplementedError)):
            call_()
    assert rushlight.get_rng_state().tolist() == state

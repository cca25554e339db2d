"""Random operators: integers and choices, determinism, the contract of element i, generators and errors.

Seeds are fixed, so that a statistical test either always passes or never does.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.stats
import torch

import rushlight
from rushlight.core.dispatch import call
from rushlight.core.registry import REGISTRY

from .draws import ALPHA, COUNT, FLOATS, blank, seeded, values  # noqa: F401

inf, nan = float("inf"), float("nan")


# --- integers and choices -----------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 2), (0, 7), (-5, 6), (100, 108)])
@pytest.mark.parametrize("dtype", ["int64", "int8", "float32", "bfloat16"])
def test_randint_is_uniform(low, high, dtype):
    kind = getattr(rushlight, dtype)
    for sample in (
        rushlight.randint(low, high, (COUNT,), dtype=kind),
        blank(dtype=dtype).random_(low, high),
        rushlight.randint_like(blank(dtype=dtype), low, high),
    ):
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
    sample = blank(dtype="int64").random_(-(2**63), None).numpy()
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
    "rand": lambda n: rushlight.rand(n),
    "rand64": lambda n: rushlight.rand(n, dtype=rushlight.float64),
    "randn": lambda n: rushlight.randn(n),
    "randn64": lambda n: rushlight.randn(n, dtype=rushlight.float64),
    "randn complex": lambda n: rushlight.randn(n, dtype=rushlight.complex64),
    "uniform": lambda n: blank(n).uniform_(-1, 1),
    "normal": lambda n: blank(n).normal_(1, 2),
    "log_normal": lambda n: blank(n).log_normal_(),
    "exponential": lambda n: blank(n).exponential_(),
    "cauchy": lambda n: blank(n).cauchy_(),
    "geometric": lambda n: blank(n).geometric_(0.2),
    "randint": lambda n: rushlight.randint(1000, (n,)),
    "random": lambda n: blank(n, dtype="int64").random_(),
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
        (high << 32 | low) // 2**11 * 2.0**-53 for low, high in (words[:2], words[2:])
    ]


SCALED = {
    "uniform": lambda x: (x, -0.3, 0.7, None),
    "normal_functional": lambda x: (x, 0.5, 3.0, None),
    "normal.Tensor_float": lambda x: (x, 3.0, None),
    "normal.float_Tensor": lambda x: (0.5, x.abs(), None),
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
    for draw in (
        lambda g: rushlight.randn(5, generator=g),
        lambda g: rushlight.randint(9, (5,), generator=g),
        lambda g: rushlight.randperm(5, generator=g),
        lambda g: rushlight.randn_like(blank(5), generator=g),
        lambda g: rushlight.normal(0.0, 1.0, (5,), generator=g),
        lambda g: blank(5).exponential_(generator=g),
        lambda g: rushlight.bernoulli(rushlight.full((50,), 0.5), generator=g),
        lambda g: rushlight.multinomial(rushlight.ones(50), 5, generator=g),
        lambda g: rushlight.poisson(rushlight.full((5,), 20.0), generator=g),
        lambda g: blank(50).bernoulli_(generator=g),
        lambda g: blank(5).random_(generator=g),
    ):
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
    for bad, error in (
        (rushlight.ones(3), TypeError),
        (rushlight.ones(3, dtype=rushlight.uint8), RuntimeError),
    ):
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


# --- errors -------------------------------------------------------------------------------------------

BAD_CALLS = {
    "rand(-1)": RuntimeError,
    "rand(2, dtype=int64)": NotImplementedError,
    "randn(2, dtype=bool)": NotImplementedError,
    "x.uniform_(2, 1)": RuntimeError,
    "x.uniform_(0, 1e39)": RuntimeError,
    "x.half().uniform_(0, 1e6)": RuntimeError,
    "x.uniform_(float('nan'), 1)": RuntimeError,
    "x.double().uniform_(-1e308, 1e308)": RuntimeError,
    "i.uniform_()": NotImplementedError,
    "x.normal_(0, -1)": RuntimeError,
    "i.normal_()": NotImplementedError,
    "normal(x, -x)": RuntimeError,
    "normal(x, -1.0)": RuntimeError,
    "normal(x, ones(2))": RuntimeError,
    "normal(x, x * 1j)": RuntimeError,
    "normal(1.0, -1.0, (2,))": RuntimeError,
    "normal(1.0, 1.0)": TypeError,
    "normal(1.0, 1.0, (2,), dtype=int64)": NotImplementedError,
    "normal(x, x * float('nan'))": RuntimeError,
    "bernoulli(x * 2)": RuntimeError,
    "bernoulli(x * float('nan'))": RuntimeError,
    "bernoulli(x, 2.0)": RuntimeError,
    "bernoulli(i)": NotImplementedError,
    "bernoulli(x, x)": TypeError,
    "x.bernoulli_(-0.1)": RuntimeError,
    "x.bernoulli_(ones(4))": RuntimeError,
    "x.bernoulli_(i)": NotImplementedError,
    "x.bernoulli_(2 * x)": RuntimeError,
    "x.exponential_(0)": RuntimeError,
    "i.exponential_()": RuntimeError,
    "x.geometric_(0)": RuntimeError,
    "x.geometric_(1)": RuntimeError,
    "x.bool().geometric_(0.5)": NotImplementedError,
    "x.cauchy_(0, 0)": RuntimeError,
    "i.cauchy_()": RuntimeError,
    "x.log_normal_(0, 0)": RuntimeError,
    "i.log_normal_()": NotImplementedError,
    "x.random_(0)": RuntimeError,
    "x.random_(5, 3)": RuntimeError,
    "x.char().random_(200)": RuntimeError,
    "x.char().random_(-200, 3)": RuntimeError,
    "x.bool().random_(3)": RuntimeError,
    "x.half().random_(100000)": RuntimeError,
    "(x * 1j).random_()": NotImplementedError,
    "(x * 1j).random_(3)": RuntimeError,
    "randint(5, 3, (2,))": RuntimeError,
    "randint(0, (2,))": RuntimeError,
    "randint(300, (2,), dtype=uint8)": RuntimeError,
    "randint(2.5, (2,))": TypeError,
    "randint(5, (-1,))": RuntimeError,
    "randint(0, 5, (2,), dtype=complex64)": RuntimeError,
    "randperm(-1)": RuntimeError,
    "randperm(300, dtype=uint8)": RuntimeError,
    "randperm(3000, dtype=float16)": RuntimeError,
    "randperm(2, dtype=bool)": NotImplementedError,
    "multinomial(x, 4)": RuntimeError,
    "multinomial(x, 0)": RuntimeError,
    "multinomial(x[None], 1)": RuntimeError,
    "multinomial(x * 0, 1)": RuntimeError,
    "multinomial(-x, 1)": RuntimeError,
    "multinomial(i, 1)": RuntimeError,
    "multinomial(x * float('inf'), 1)": RuntimeError,
    "multinomial(ones(3, 0), 1, True)": RuntimeError,
    "poisson(-x)": RuntimeError,
    "poisson(i)": NotImplementedError,
    "poisson(x * float('nan'))": RuntimeError,
    "binomial(x, x.double())": RuntimeError,
    "binomial(i, x)": ValueError,
    "binomial(x.half(), x.half())": NotImplementedError,
    "_standard_gamma(i)": NotImplementedError,
    "_sample_dirichlet(i)": NotImplementedError,
    "dropout(x, 1.5, True)": RuntimeError,
    "dropout(x, -0.1, False)": RuntimeError,
    "dropout(i, 0.5, True)": RuntimeError,
    "feature_dropout(ones(3), 0.5, True)": RuntimeError,
    "native_dropout(i, 0.5, True)": RuntimeError,
    "alpha_dropout(i, 0.5, True)": RuntimeError,
    "x[:, :1].expand(2, 3).uniform_()": RuntimeError,
    "rand(2, generator=5)": TypeError,
    "rand(2, out=ones(2, dtype=int64))": NotImplementedError,
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
    for call_ in (
        lambda: blank(3).uniform_(2, 1),
        lambda: rushlight.rand(3, dtype=rushlight.int64),
        lambda: rushlight.multinomial(rushlight.ones(3), 4),
        lambda: rushlight.bernoulli(rushlight.full((2,), 2.0)),
        lambda: rushlight.poisson(rushlight.full((2,), -1.0)),
    ):
        with pytest.raises((RuntimeError, NotImplementedError)):
            call_()
    assert rushlight.get_rng_state().tolist() == state

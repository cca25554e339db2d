"""The random stream under statistical tests: bits, blocks of other streams, independence of draws."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from rushlight.core.generator import Generator, philox, philox_blocks, uniform
from rushlight.core.generator import normal as to_normal

COUNT = 1 << 16
ALPHA = 1e-4  # seeds are fixed, so a test either always passes or never does


def chi_square_of_pairs(x: np.ndarray, y: np.ndarray, bins: int = 16) -> float:
    """The p-value of the joint distribution of two uniforms on a grid."""
    counts, _, _ = np.histogram2d(x, y, bins=bins, range=[(0, 1), (0, 1)])
    return float(scipy.stats.chisquare(counts.ravel()).pvalue)


@pytest.mark.parametrize("high", [0, 1, 5, (1 << 64) - 1])
def test_blocks_of_other_streams_are_the_words_further_on(high):
    counters = np.array([0, 1, 7, 8191, 8192, 2**63, 2**64 - 1], np.uint64)
    words = philox_blocks(11, counters, high)
    assert words.dtype == np.uint32 and words.shape == (7, 4)
    for counter, row in zip(counters, words, strict=True):
        np.testing.assert_array_equal(row, philox(11, 4 * ((high << 64) + int(counter)), 4))


def test_many_blocks_are_chunked_without_a_seam():
    counters = np.arange(20_000, dtype=np.uint64)[::-1].copy()
    np.testing.assert_array_equal(philox_blocks(3, counters, 0)[::-1].reshape(-1), philox(3, 0, 80_000))
    assert philox_blocks(3, counters[:0], 0).shape == (0, 4)


@pytest.mark.parametrize("seed", [0, 1, 2**63, 67280421310721])
def test_every_bit_is_fair_and_independent_of_the_next_word(seed):
    words = philox(seed, 0, COUNT)
    bits = (words[:, None] >> np.arange(32, dtype=np.uint32)) & 1
    limit = scipy.stats.norm.isf(ALPHA / 64) * 0.5 / np.sqrt(COUNT)
    assert np.abs(bits.mean(0) - 0.5).max() < limit
    flips = bits[1:] ^ bits[:-1]
    assert np.abs(flips.mean(0) - 0.5).max() < limit


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: philox(1, 0, COUNT), lambda: philox(2, 0, COUNT)),
        (lambda: philox(1, 0, COUNT), lambda: philox(1 << 32, 0, COUNT)),
        (lambda: philox(1, 0, COUNT), lambda: philox(1, COUNT, COUNT)),
        (
            lambda: philox(1, 0, COUNT),
            lambda: philox_blocks(1, np.arange(COUNT // 4, dtype=np.uint64), 1).reshape(-1),
        ),
        (lambda: philox(1, 0, 2 * COUNT)[0::2], lambda: philox(1, 0, 2 * COUNT)[1::2]),
        (lambda: philox(1, 0, 4 * COUNT)[0::4], lambda: philox(1, 4, 4 * COUNT)[0::4]),
    ],
    ids=["seeds", "high half of the seed", "successive draws", "streams", "neighbours", "blocks"],
)
def test_pairs_are_independent(first, second):
    x, y = uniform(first()), uniform(second())
    assert chi_square_of_pairs(x, y) > ALPHA
    assert abs(np.corrcoef(x, y)[0, 1]) < scipy.stats.norm.isf(ALPHA) / np.sqrt(COUNT)


def test_the_two_normals_of_a_pair_are_independent():
    z = to_normal(philox(5, 0, 2 * COUNT))
    x, y = scipy.stats.norm.cdf(z[0::2]), scipy.stats.norm.cdf(z[1::2])
    assert chi_square_of_pairs(x, y) > ALPHA
    assert abs(np.corrcoef(z[0::2] ** 2, z[1::2] ** 2)[0, 1]) < scipy.stats.norm.isf(ALPHA) / np.sqrt(COUNT)


def test_the_seeds_of_one_experiment_after_the_other_do_not_repeat_words():
    """Birthday count of the first words of 4096 successive seeds: about 0.002 repetitions are expected."""
    first = np.concatenate([philox(seed, 0, 1) for seed in range(4096)])
    assert len(np.unique(first)) == 4096


def test_generators_of_different_seeds_differ_from_the_first_word():
    draws = {tuple(philox(*Generator().manual_seed(seed).reserve(4), 4)) for seed in range(-8, 8)}
    assert len(draws) == 16

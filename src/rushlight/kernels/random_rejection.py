"""Random numbers by rejection: Poisson, binomial, gamma and Dirichlet on NumPy arrays.

Element i of a draw at word `offset` owns block offset / 4 + i of every stream; stream k begins 2**64 * k
blocks after the generator's own. Attempt k of element i reads its block of stream k, so that an element is a
pure function of the seed, the offset and i, however many attempts the others need. All arithmetic is in
float64.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from ..core.errors import check
from ..core.generator import Generator, philox_blocks, random_bits64
from ..core.lazy import LazyModule
from ..core.registry import kernel
from ..core.shapes import Spec
from .random import open_uniform52, reserve

special = LazyModule("scipy.special")

Array = np.ndarray
Words = np.ndarray
Attempt = Callable[[Array, Words], tuple[Array, Array]]


def by_rejection(seed: int, offset: int, count: int, attempt: Attempt) -> Array:
    """`attempt(elements, words)` gives candidates, and which to accept, from one block per element."""
    result = np.empty(count, np.float64)
    pending = np.arange(count)
    for stream in itertools.count():
        if not pending.size:
            break
        words = blocks(seed, offset, pending, stream)
        values, accepted = attempt(pending, words)
        result[pending[accepted]] = values[accepted]
        pending = pending[~accepted]
    return result


def blocks(seed: int, offset: int, elements: Array, stream: int) -> Words:
    """One block of four words for each of `elements`."""
    return philox_blocks(seed, elements.astype(np.uint64) + np.uint64(offset // 4), stream)


def uniform_pair(words: Words) -> tuple[Array, Array]:
    """Two open uniforms of a block: words 0, 1 and words 2, 3."""
    first, second = (np.ascontiguousarray(words[:, j : j + 2]).reshape(-1) for j in (0, 2))
    return open_uniform52(random_bits64(first)), open_uniform52(random_bits64(second))


_INVERSION_LIMIT = 10.0  # mean below which counting up from 0 is quicker than rejection
_MAX_STEPS = 128  # beyond it the remaining probability of a mean below 10 is less than a uniform can resolve


def inverted(uniform: Array, first: Array, ratio: Callable[[Array, int], Array]) -> Array:
    """The least k with P(0) + ... + P(k) >= uniform; P(0) = first, P(k) = P(k - 1) * ratio(elements, k)."""
    result = np.zeros(uniform.shape)
    active = np.arange(uniform.size)
    term, total = first.copy(), first.copy()
    for k in range(1, _MAX_STEPS):
        keep = total[active] < uniform[active]
        active = active[keep]
        if not active.size:
            break
        result[active] = k
        term[active] *= ratio(active, k)
        total[active] += term[active]
    return result


@kernel("poisson")
def poisson(self: Array, generator: Generator | None, out: Spec) -> Array:
    """Rates below 10 invert the first uniform of block 0. Others follow W. Hormann, "The transformed
    rejection method for generating Poisson random variables" (1993), algorithm PTRS, a pair of uniforms per
    attempt."""
    rate = self.astype(np.float64).reshape(-1)
    check(bool((rate >= 0).all()), "poisson: invalid Poisson rate, expected rate to be non-negative")

    def attempt(elements: Array, words: Words) -> tuple[Array, Array]:
        mean, (u, v) = rate[elements], uniform_pair(words)
        values, accepted = poisson_rejection(mean, u, v)
        small, endless = mean < _INVERSION_LIMIT, np.isinf(mean)
        values[small] = inverted(u[small], np.exp(-mean[small]), lambda active, k: mean[small][active] / k)
        values[endless] = np.inf
        return values, accepted | small | endless

    return by_rejection(*reserve(generator, 4 * rate.size), rate.size, attempt).reshape(out.known_shape())


def poisson_rejection(mean: Array, u: Array, v: Array) -> tuple[Array, Array]:
    b = 0.931 + 2.53 * np.sqrt(mean)
    a = -0.059 + 0.02483 * b
    u = u - 0.5
    us = 0.5 - np.abs(u)
    k = np.floor((2 * a / us + b) * u + mean + 0.43)
    quick = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    refused = (k < 0) | ((us < 0.013) & (v > us))
    bound = k * np.log(mean) - mean - special.gammaln(np.maximum(k, 0) + 1)
    exact = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / us**2 + b)) <= bound
    return k, quick | (exact & ~refused)


@kernel("binomial")
def binomial(count: Array, prob: Array, generator: Generator | None, out: Spec) -> Array:
    """With q = min(prob, 1 - prob): count * q below 10 by inversion of the first uniform of block 0.
    Otherwise W. Hormann, "The generation of binomial random " "variates" (1993), algorithm BTRS, with the two
    uniforms of a block per attempt. Where prob > 1/2 the result is count - sample(1 - prob)."""
    shape = out.known_shape()
    number, p = (np.broadcast_to(t, shape).astype(np.float64).reshape(-1) for t in (count, prob))
    trivial = ~((number > 0) & (p > 0) & (p < 1) & np.isfinite(number))
    number, p = np.where(trivial, 1.0, number), np.where(trivial, 0.5, p)
    n, q = np.floor(number), np.minimum(p, 1 - p)

    def attempt(elements: Array, words: Words) -> tuple[Array, Array]:
        (u, v), size, chance = uniform_pair(words), n[elements], q[elements]
        values, accepted = binomial_rejection(size, chance, u, v)
        small = size * chance < _INVERSION_LIMIT
        odds = (chance / (1 - chance))[small]
        values[small] = np.minimum(
            size[small],
            inverted(
                u[small],
                np.exp(size[small] * np.log1p(-chance[small])),
                lambda active, k: (size[small][active] - k + 1) / k * odds[active],
            ),
        )
        return values, accepted | small

    sample = by_rejection(*reserve(generator, 4 * n.size), n.size, attempt)
    sample = np.where(p > 0.5, n - sample, sample).reshape(shape)
    edge = np.where((count <= 0) | (prob <= 0), 0.0, np.where(prob >= 1, count, np.nan))
    return np.where(trivial.reshape(shape), np.where(np.isnan(count) | np.isnan(prob), np.nan, edge), sample)


def binomial_rejection(n: Array, q: Array, u: Array, v: Array) -> tuple[Array, Array]:
    spread = np.sqrt(n * q * (1 - q))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    u = u - 0.5
    us = 0.5 - np.abs(u)
    k = np.floor((2 * a / us + b) * u + n * q + 0.5)
    inside = (k >= 0) & (k <= n)
    quick = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
    mode = np.floor((n + 1) * q)
    k = np.where(inside, k, mode)
    bound = (
        special.gammaln(mode + 1)
        + special.gammaln(n - mode + 1)
        - special.gammaln(k + 1)
        - special.gammaln(n - k + 1)
        + (k - mode) * np.log(q / (1 - q))
    )
    exact = np.log(v * (2.83 + 5.1 / b) * spread / (a / us**2 + b)) <= bound
    return k, inside & (quick | exact)


_BOOST = 1 << 32  # the stream of the uniform that takes a shape parameter below 1 from one above


def standard_gamma(self: Array, generator: Generator | None) -> Array:
    """G. Marsaglia and W. Tsang, "A simple method for generating gamma variables" (2000). An attempt takes
    the normal sqrt(-2 log u0) cos(2 pi u1), u0 and u1 the 32-bit open uniforms of words 0 and 1, and the
    52-bit one of words 2 and 3. Below 1, gamma(a) = gamma(a + 1) * u**(1/a), u of words 0 and 1 of stream
    2**32."""
    shape = self.astype(np.float64).reshape(-1)
    valid = (shape > 0) & np.isfinite(shape)
    alpha = np.where(valid, shape, 1.0)
    d = np.where(alpha < 1, alpha + 1, alpha) - 1 / 3
    seed, offset = reserve(generator, 4 * alpha.size)

    def attempt(elements: Array, words: Words) -> tuple[Array, Array]:
        first, second = (words[:, j] + 0.5 for j in (0, 1))
        x = np.sqrt(-2 * np.log(first * 2.0**-32)) * np.cos(second * (2 * math.pi * 2.0**-32))
        cube = 1 + x / np.sqrt(9 * d[elements])
        v = cube**3
        limit = 0.5 * x * x + d[elements] * (1 - v + np.log(np.maximum(v, 1e-300)))
        return d[elements] * v, (cube > 0) & (np.log(uniform_pair(words)[1]) < limit)

    result = by_rejection(seed, offset, alpha.size, attempt)
    small = np.flatnonzero(alpha < 1)
    if small.size:
        result[small] *= uniform_pair(blocks(seed, offset, small, _BOOST))[0] ** (1 / alpha[small])
    result = np.where(valid, result, np.where(np.isposinf(shape), np.inf, 0.0))
    return result.reshape(self.shape)


@kernel("_standard_gamma")
def gamma(self: Array, generator: Generator | None, out: Spec) -> Array:
    """At least the smallest normal number of the dtype, so that its logarithm is finite."""
    return np.maximum(standard_gamma(self, generator), np.finfo(out.dtype.numpy).tiny)


@kernel("_sample_dirichlet")
def sample_dirichlet(self: Array, generator: Generator | None, out: Spec) -> Array:
    """Gammas divided by their sum along the last dimension, kept inside (0, 1)."""
    tiny = np.finfo(out.dtype.numpy).tiny
    gammas = np.maximum(standard_gamma(self, generator), np.finfo(np.float64).tiny)
    total = gammas.sum(-1, keepdims=True) if self.ndim else gammas
    below_one = np.nextafter(out.dtype.numpy.type(1), out.dtype.numpy.type(0))
    return np.clip(gammas / total, tiny, below_one)

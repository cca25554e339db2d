"""Random numbers: eager kernels on NumPy arrays, and the contract of what element i of a draw is.

A draw reserves words of its generator's stream once (see core/generator.py). Elements are numbered in
row-major order of the output, whatever its strides, and element i of a draw at word `offset` is a pure
function of the seed and of the words offset + i * W ... offset + (i + 1) * W - 1, W being the words per
element:

    rand, uniform, randn, normal, log_normal   1, float64 2; a complex element is two elements of its real
                                               type, and normals take their words in pairs of elements
    exponential, cauchy                        1, float64 2
    bernoulli, dropout                         1
    randint, random, randperm, geometric       2
    multinomial                                2, an element being a probability; with replacement, a sample
    poisson, binomial, gamma, dirichlet        4, a Philox block, and others for each further attempt: see
                                               random_rejection.py

Each kernel says how its words become a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import generator as streams
from ..core.dtypes import DType, float64
from ..core.errors import check
from ..core.generator import Generator, default_generator
from ..core.registry import kernel
from ..core.shapes import Spec, numel
from ..ops.random import integers as check_integers
from .creation import filled

Array = np.ndarray
Words = np.ndarray

_LOW32 = np.uint64(0xFFFFFFFF)
_BITS32 = np.uint64(32)
_MASK64 = (1 << 64) - 1


# Words.


def reserve(generator: Any, count: int) -> tuple[int, int]:
    """(seed, offset) of `count` words. Compiled code gives that pair in place of a generator."""
    if isinstance(generator, np.ndarray):
        return int(generator[0]) & _MASK64, int(generator[1]) & _MASK64
    return (generator or default_generator).reserve(count)


def draw(generator: Generator | None, count: int) -> Words:
    seed, offset = reserve(generator, count)
    return streams.philox(seed, offset, count)


def placed(out: Spec, values: Array) -> Array:
    """Values in row-major order as an array laid out as `out`."""
    shape = out.known_shape()
    shaped = values if values.shape == shape else values.reshape(shape)
    return shaped if out.strides is None else filled(out, shaped)


def count_of(out: Spec) -> int:
    return numel(out.known_shape())


def open_uniform(generator: Generator | None, count: int, dtype: DType = float64) -> Array:
    """float64 in (0, 1): (word + 1/2) 2**-32, or for float64 (top 52 bits of bits64 + 1/2) 2**-52."""
    if dtype is float64:
        return open_uniform52(streams.random_bits64(draw(generator, 2 * count)))
    return (draw(generator, count) + 0.5) * 2.0**-32


def open_uniform52(bits: Array) -> Array:
    return ((bits >> np.uint64(12)) + 0.5) * 2.0**-52


# Uniform and normal.


@kernel("rand", "rand_like")
def rand(out: Spec) -> Array:
    return uniform01(None, out)


@kernel("rand.generator", "rand_like.generator")
def rand_generator(generator: Generator | None, out: Spec) -> Array:
    return uniform01(generator, out)


def uniform01(generator: Generator | None, out: Spec) -> Array:
    """core/generator.py: uniform."""
    return placed(out, real_stream(streams.rand, generator, out))


def real_stream(
    stream: Callable[..., Array], generator: Generator | None, out: Spec, dtype: DType | None = None
) -> Array:
    """Elements of `stream` for an output; a complex number takes two consecutive ones."""
    is_complex = out.dtype.is_complex
    real = dtype or out.dtype.to_real()
    count = count_of(out) * (2 if is_complex else 1)
    seed, offset = reserve(generator, (count + count % 2) * streams.words_per_element(real))
    values = stream(seed, offset, count, real)
    return values.view(real.to_complex().numpy) if is_complex else values


@kernel("uniform")
def uniform(from_: float, to: float, generator: Generator | None, out: Spec) -> Array:
    """rand * (to - from) + from in the compute dtype; what rounds up to `to` becomes `from`."""
    values = real_stream(streams.rand, generator, out)
    if out.dtype.is_complex:
        values = values.view(out.dtype.to_real().numpy)
    compute = out.dtype.to_real().opmath.numpy.type
    scaled = values.astype(compute) * compute(to - from_) + compute(from_)
    rounded = scaled.astype(values.dtype)
    rounded[rounded.astype(compute) >= compute(to)] = compute(from_)
    return placed(out, rounded.view(out.dtype.numpy))


@kernel("randn", "randn_like")
def randn(out: Spec) -> Array:
    return placed(out, standard_normal(None, out))


@kernel("randn.generator", "randn_like.generator")
def randn_generator(generator: Generator | None, out: Spec) -> Array:
    return placed(out, standard_normal(generator, out))


def standard_normal(generator: Generator | None, out: Spec) -> Array:
    """core/generator.py: normal, in the compute dtype; complex numbers have variance 1/2 in each part."""
    values = real_stream(streams.randn, generator, out, out.dtype.to_real().opmath)
    return values * values.real.dtype.type(math.sqrt(0.5)) if out.dtype.is_complex else values


def normal(mean: Any, std: Any, generator: Generator | None, out: Spec) -> Array:
    """mean + std * randn."""
    if isinstance(std, np.ndarray):
        check(bool((std >= 0).all()), "normal expects all elements of std >= 0.0")
        std = std.astype(out.dtype.to_real().opmath.numpy, copy=False)
    values = standard_normal(generator, out).reshape(out.known_shape())
    return placed(out, values * std + mean)


kernel(
    "normal.Tensor_Tensor",
    "normal.Tensor_float",
    "normal.float_Tensor",
    "normal.float_float",
    "normal_functional",
    lambda mean, std, generator, out: normal(mean, std, generator, out),
)


@kernel("log_normal")
def log_normal(mean: float, std: float, generator: Generator | None, out: Spec) -> Array:
    """exp(mean + std * randn)."""
    values = standard_normal(generator, out)
    return placed(out, np.exp(values * values.dtype.type(std) + values.dtype.type(mean)))


@kernel("exponential")
def exponential(lambd: float, generator: Generator | None, out: Spec) -> Array:
    """-log(u) / lambd in float64, u an open uniform."""
    return placed(out, np.log(open_uniform(generator, count_of(out), out.dtype)) / -lambd)


@kernel("cauchy")
def cauchy(median: float, sigma: float, generator: Generator | None, out: Spec) -> Array:
    """median + sigma * tan(pi (u - 1/2)) in float64, u an open uniform."""
    angle = (open_uniform(generator, count_of(out), out.dtype) - 0.5) * math.pi
    return placed(out, median + sigma * np.tan(angle))


@kernel("geometric")
def geometric(p: float, generator: Generator | None, out: Spec) -> Array:
    """max(1, ceil(log(u) / log(1 - p))) in float64, u an open uniform: the trials up to the first success."""
    trials = np.ceil(np.log(open_uniform(generator, count_of(out))) / math.log1p(-p))
    return placed(out, np.maximum(trials, 1.0))


# Integers.


def below(words: Words, span: int) -> Array:
    """floor(bits64 * span / 2**64) as uint64, for 0 < span <= 2**64; its bias is below span / 2**64."""
    if span == 1 << 64:
        return streams.random_bits64(words)
    low, high = words[0::2].astype(np.uint64), words[1::2].astype(np.uint64)
    if span <= 1 << 32:
        factor = np.uint64(span)
        return (high * factor + (low * factor >> _BITS32)) >> _BITS32
    factor_low, factor_high = np.uint64(span & 0xFFFFFFFF), np.uint64(span >> 32)
    cross = low * factor_high
    middle = (low * factor_low >> _BITS32) + (cross & _LOW32) + high * factor_low
    return high * factor_high + (cross >> _BITS32) + (middle >> _BITS32)


def integers(low: int, span: int, generator: Generator | None, out: Spec) -> Array:
    """low + below(words, span)."""
    values = below(draw(generator, 2 * count_of(out)), span)
    values += np.uint64(low & 0xFFFFFFFFFFFFFFFF)
    signed = values if out.dtype.name == "uint64" else values.view(np.int64)
    return placed(out, signed.astype(out.dtype.numpy))


kernel("randint", "randint_like", lambda high, out: integers(0, high, None, out))
kernel(
    "randint.generator",
    "randint_like.generator",
    lambda high, generator, out: integers(0, high, generator, out),
)
kernel("randint.low", "randint_like.low_dtype", lambda low, high, out: integers(low, high - low, None, out))
kernel(
    "randint.low_generator",
    "randint_like.low_generator_dtype",
    lambda low, high, generator, out: integers(low, high - low, generator, out),
)
kernel("randint_like.Tensor", lambda high, out: randint_below(high, None, out))
kernel("randint_like.Tensor_generator", lambda high, generator, out: randint_below(high, generator, out))


def randint_below(high: Array, generator: Generator | None, out: Spec) -> Array:
    span = int(high.item())
    check_integers(out, 0, span, "randint_like")
    return integers(0, span, generator, out)


def largest_integer(dtype: DType) -> int:
    """The largest value that `random` draws: of integers their maximum, of floats the last before a gap."""
    if dtype.is_floating_point:
        return 1 << {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[dtype.name]
    return 1 if dtype.name == "bool" else int(np.iinfo(dtype.numpy).max)


kernel("random", lambda generator, out: integers(0, largest_integer(out.dtype) + 1, generator, out))
kernel("random.to", lambda to, generator, out: integers(0, to, generator, out))
kernel(
    "random.from",
    lambda from_, to, generator, out: integers(
        from_, (largest_integer(out.dtype) + 1 if to is None else to) - from_, generator, out
    ),
)


def permutation(n: int, generator: Generator | None, out: Spec) -> Array:
    """The order of n keys bits64, equal ones in the order of their index."""
    keys = streams.random_bits64(draw(generator, 2 * n))
    return np.argsort(keys, kind="stable").astype(out.dtype.numpy)


kernel("randperm", lambda n, out: permutation(n, None, out))
kernel("randperm.generator", lambda n, generator, out: permutation(n, generator, out))


# Choices.


def trials(p: Any, words: Words) -> Array:
    """word < p * 2**32, compared in float64: True with probability p, to 2**-32."""
    found: Array = words < np.multiply(p, 2.0**32, dtype=np.float64)
    return found


def bernoulli(p: Array, generator: Generator | None, out: Spec) -> Array:
    check(bool(((p >= 0) & (p <= 1)).all()), "bernoulli expects all probabilities to be in [0, 1]")
    words = draw(generator, count_of(out))
    return placed(out, trials(np.broadcast_to(p, out.known_shape()).reshape(-1), words))


kernel("bernoulli", lambda self, generator, out: bernoulli(self, generator, out))
kernel("bernoulli.Tensor", lambda p, generator, out: bernoulli(p, generator, out))
kernel("bernoulli.p", lambda p, generator, out: placed(out, trials(p, draw(generator, count_of(out)))))


@kernel("native_dropout")
def native_dropout(input: Array, p: float, train: bool | None, out: tuple[Spec, Spec]) -> tuple[Array, Array]:
    """Keeps an element, divided by 1 - p, where trials(1 - p) succeeds; without training, all as they are."""
    values, mask = out
    if train is False:
        return filled(values, input), filled(mask, True)
    kept = placed(mask, trials(1 - p, draw(None, count_of(mask))))
    scale = input.dtype.type(0.0 if p == 1 else 1 / (1 - p))
    return input * kept * scale, kept


@kernel("multinomial")
def multinomial(self: Array, num_samples: int, replacement: bool, generator: Generator | None) -> Array:
    """Without replacement, the num_samples categories of least E / p, where E is an exponential of the words
    of the category: the first arrivals of independent Poisson processes. With replacement, the first category
    whose cumulative probability exceeds the uniform of the words of the sample."""
    weights = np.atleast_2d(self).astype(np.float64)
    check(
        bool((np.isfinite(weights) & (weights >= 0)).all()),
        "multinomial: probability tensor contains either `inf`, `nan` or element < 0",
    )
    totals = weights.sum(-1, keepdims=True)
    check(
        bool((totals > 0).all()), "multinomial: invalid multinomial distribution (sum of probabilities <= 0)"
    )
    rows, categories = weights.shape
    if replacement:
        chosen = with_replacement(weights / totals, num_samples, generator)
    else:
        arrivals = -np.log(open_uniform(generator, rows * categories)).reshape(rows, categories) / weights
        chosen = np.argsort(arrivals, -1, kind="stable")[:, :num_samples]
    return chosen.reshape(*self.shape[:-1], num_samples)


def with_replacement(probabilities: Array, num_samples: int, generator: Generator | None) -> Array:
    rows, categories = probabilities.shape
    uniforms = streams.uniform(draw(generator, 2 * rows * num_samples), float64).reshape(rows, num_samples)
    last = categories - 1 - np.argmax(probabilities[:, ::-1] > 0, -1)
    chosen = np.empty((rows, num_samples), np.int64)
    for row, cumulative in enumerate(np.cumsum(probabilities, -1)):
        chosen[row] = np.searchsorted(cumulative, uniforms[row], side="right")
    return np.minimum(chosen, last[:, None])  # the cumulative sum may end just below 1

"""The random stream: known answers, the conversions of words to numbers bit by bit, statistics, Generator."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rushlight.core import dtypes, generator, tokens
from rushlight.core.generator import Generator, normal, philox, rand, randn, random_bits64, uniform

FLOATS = [dtype for dtype in dtypes.DTYPES.values() if dtype in generator._UNIFORM_BITS]
MASK = 0xFFFFFFFF


def philox_word(seed: int, position: int) -> int:
    """One word by the definition in the paper, on Python ints."""
    counter = [position // 4 % 2**128 >> shift & MASK for shift in (0, 32, 64, 96)]
    key = [seed & MASK, seed >> 32]
    for _ in range(10):
        low, high = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [high >> 32 ^ counter[1] ^ key[0], high & MASK, low >> 32 ^ counter[3] ^ key[1], low & MASK]
        key = [(key[0] + 0x9E3779B9) & MASK, (key[1] + 0xBB67AE85) & MASK]
    return counter[position % 4]


# --- Philox ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_known_answers_of_random123(counter, key, expected):
    def number(words):
        return sum(int(word, 16) << 32 * i for i, word in enumerate(words.split()))

    words = philox(number(key), 4 * number(counter), 4)
    assert words.dtype == np.uint32
    assert [f"{word:08x}" for word in words] == expected.split()


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**130 - 1), st.integers(0, 40))
@example(seed=1, offset=4 * 2**64 - 6, count=12)  # the low half of the counter overflows
@example(seed=1, offset=4 * 2**128 - 6, count=12)  # the whole counter wraps
@example(seed=0, offset=3, count=0)
def test_words_are_a_pure_function_of_seed_and_position(seed, offset, count):
    words = philox(seed, offset, count)
    assert words.shape == (count,)
    assert words.tolist() == [philox_word(seed, offset + i) for i in range(count)]


def test_chunks_join_without_a_seam():
    count = 4 * generator._MAX_BLOCKS * 2 + 7
    words = philox(123, 5, count)
    for position in (0, 1, 4 * generator._MAX_BLOCKS - 6, 4 * generator._MAX_BLOCKS - 5, count - 1):
        assert words[position] == philox_word(123, 5 + position)
    np.testing.assert_array_equal(words[1001:], philox(123, 1006, count - 1001))


def test_negative_requests_are_refused():
    for arguments in ((0, -1, 4), (0, 0, -1)):
        with pytest.raises(ValueError, match="must not be negative"):
            philox(*arguments)


# --- uniform -----------------------------------------------------------------------------------------

EXTREMES = np.array([0, 1, MASK, MASK - 1, 0x80000000, 0x7FFFFFFF, 0xFF, 0xFFFFFF00] * 2, np.uint32)
PINNED_SINGLE = [
    "0x1.d96d600000000p-1",
    "-0x1.fb76620000000p-1",
    "-0x1.3c373e0000000p-1",
    "-0x1.eda3640000000p-2",
]
PINNED_DOUBLE = [
    "-0x1.973628c131c05p-2",
    "-0x1.3dd84ff91e70fp-2",
    "0x1.63083c830bea5p+0",
    "0x1.511d43e0f270dp-2",
]
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}


def test_random_bits64_is_little_end_first():
    assert random_bits64(np.array([1, 2, 3, 4], np.uint32)).tolist() == [1 + (2 << 32), 3 + (4 << 32)]
    assert random_bits64(np.arange(8, dtype=np.uint32)[::2]).tolist() == [2 << 32, 4 + (6 << 32)]
    with pytest.raises(ValueError, match="even number"):
        random_bits64(np.zeros(3, np.uint32))


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize("words", [EXTREMES, philox(11, 0, 1000)], ids=["extremes", "stream"])
def test_uniform_follows_its_definition(dtype, words):
    found = uniform(words, dtype)
    bits = BITS[dtype.name]
    assert found.dtype == dtype.numpy
    if dtype is dtypes.float64:
        source, width = random_bits64(words).tolist(), 64
    else:
        source, width = words.tolist(), 32
    assert found.astype(np.float64).tolist() == [(value >> width - bits) / 2**bits for value in source]
    assert found.astype(np.float64).min() >= 0
    assert found.astype(np.float64).max() < 1


def test_uniform_refuses_other_dtypes():
    for function in (uniform, normal):
        with pytest.raises(TypeError, match="floating point"):
            function(EXTREMES, dtypes.int32)


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=repr)
def test_uniform_is_uniform(dtype):
    sample = rand(2024, 0, 200_000, dtype).astype(np.float64)
    assert scipy.stats.kstest(sample, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(sample[:-1], sample[1:])[0, 1]) < 0.01
    counts = np.bincount((sample * 64).astype(int), minlength=64)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


# --- normal ------------------------------------------------------------------------------------------


def scalar_normal(a: int, b: int, form: generator._Format):
    """Two normals as the docstring of `normal` defines them, one scalar IEEE operation at a time."""
    real, signed = form.real, form.signed
    width = form.bits
    u = real(a) * real(2.0**-width) + real(2.0 ** -(width + 1))
    bits = int(u.view(signed))
    exponent = bits - int(real(math.sqrt(0.5)).view(signed)) >> form.mantissa
    m = signed(bits - (exponent << form.mantissa)).view(real)
    s = (m - real(1)) / (m + real(1))
    terms = 5 if width == 32 else 11
    p = horner(s * s, [real(1 / (2 * k + 1)) for k in range(terms)])
    radius = np.sqrt(real(exponent) * real(-2 * math.log(2)) + (s * p) * real(-4))
    if b >> width - 1:
        radius = -radius
    low = (b << 2) % 2**width
    x = real(low - 2**width if low >> width - 1 else low) * real(math.pi / 4 * 2.0 ** -(width - 1))
    w = x * x
    terms = 5 if width == 32 else 9
    sine = x + (x * w) * horner(w, [real((-1) ** k / math.factorial(2 * k + 1)) for k in range(1, terms)])
    cosine = real(1) + w * horner(w, [real((-1) ** k / math.factorial(2 * k)) for k in range(1, terms + 1)])
    pair = (radius * cosine, radius * sine)
    return pair[::-1] if b >> width - 2 & 1 else pair


def horner(z, coefficients):
    result = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = result * z + coefficient
    return result


@pytest.mark.parametrize("form", [generator._SINGLE, generator._DOUBLE], ids=["float32", "float64"])
@pytest.mark.parametrize("words", [EXTREMES, EXTREMES[::-1].copy(), philox(7, 0, 4000)])
def test_normal_follows_its_definition_bit_for_bit(form, words):
    dtype = dtypes.from_numpy(form.real)
    source = words.tolist() if form.bits == 32 else random_bits64(words).tolist()
    expected = [scalar_normal(a, b, form) for a, b in zip(source[::2], source[1::2], strict=True)]
    found = normal(words, dtype)
    assert found.dtype == form.real
    assert found.tobytes() == np.array(expected, form.real).reshape(-1).tobytes()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("form", [generator._SINGLE, generator._DOUBLE], ids=["float32", "float64"])
def test_normal_is_accurate(form):
    """Radius and angle are those of the Box-Muller formula to a few units in the last place."""
    a = np.concatenate([philox(3, 0, 20000), EXTREMES])
    if form.bits == 64:
        a = random_bits64(a)
    scaled = a.astype(form.real) * form.real(2.0**-form.bits) + form.real(2.0 ** -(form.bits + 1))
    u = scaled.astype(np.longdouble)
    radius = np.sqrt(-2 * np.log(u))
    epsilon = float(np.finfo(form.real).eps)
    assert (np.abs(generator._radius(a, form) - radius) <= 2 * epsilon * radius).all()
    x = (a << a.dtype.type(2)).view(form.signed).astype(np.longdouble)
    x *= np.longdouble(np.pi) / 4 / np.longdouble(2.0 ** (form.bits - 1))
    sine, cosine = generator._sine_cosine(a, form)
    assert np.abs(sine - np.sin(x)).max() <= 2 * epsilon
    assert np.abs(cosine - np.cos(x)).max() <= 2 * epsilon


def test_normal_values_are_pinned():
    """A change of any of these breaks reproducibility between versions."""
    assert [value.hex() for value in normal(philox(0, 0, 4)).tolist()] == PINNED_SINGLE
    assert [value.hex() for value in normal(philox(0, 0, 8), dtypes.float64).tolist()] == PINNED_DOUBLE


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=repr)
def test_narrow_normals_are_rounded_float32(dtype):
    words = philox(5, 0, 100)
    np.testing.assert_array_equal(normal(words, dtype), normal(words).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=repr)
def test_normal_is_normal(dtype):
    sample = randn(2024, 0, 400_000, dtype).astype(np.float64)
    assert scipy.stats.kstest(sample, "norm").pvalue > 1e-3
    first, second = sample[0::2], sample[1::2]
    assert scipy.stats.kstest(first, "norm").pvalue > 1e-3
    for x, y in ((first, second), (first**2, second**2), (sample[:-1], sample[1:])):
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.01
    angle = np.arctan2(second, first) / (2 * np.pi) + 0.5
    assert scipy.stats.kstest(angle, "uniform").pvalue > 1e-3
    assert abs(scipy.stats.kurtosis(sample)) < 0.05
    expected = scipy.stats.norm.sf(3) * 2 * sample.size
    assert abs((np.abs(sample) > 3).sum() - expected) < 5 * math.sqrt(expected)


def test_normal_needs_whole_pairs():
    with pytest.raises(ValueError, match="even number"):
        normal(np.zeros(3, np.uint32))
    with pytest.raises(ValueError, match="even number"):
        normal(np.zeros(6, np.uint32), dtypes.float64)


# --- streams -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize("count", [0, 1, 2, 7, generator._CHUNK + 3])
def test_streams_are_the_conversions_of_the_words(dtype, count):
    each = generator.words_per_element(dtype)
    words = philox(9, 8, (count + count % 2) * each)
    for stream, convert in ((rand, uniform), (randn, normal)):
        found = stream(9, 8, count, dtype)
        assert found.shape == (count,)
        assert found.dtype == dtype.numpy
        assert found.tobytes() == convert(words, dtype)[:count].tobytes()


# --- Generator ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seed",
    [0, 1, -1, 2**63, 2**64 - 1, -(2**63), 2**64, -(2**63) - 1, -(2**64), 1.5, "1", True, None],
    ids=repr,
)
def test_manual_seed_accepts_what_torch_accepts(seed):
    try:
        expected = torch.Generator().manual_seed(seed).initial_seed()
    except (RuntimeError, ValueError) as error:
        mine = Generator()
        with pytest.raises(type(error)):
            mine.manual_seed(seed)
        assert mine.initial_seed() == torch.Generator().initial_seed()
        return
    mine = Generator()
    assert mine.manual_seed(seed) is mine
    assert mine.initial_seed() == expected


def test_manual_seed_accepts_numpy_ints():
    assert Generator().manual_seed(np.int64(-5)).initial_seed() == 2**64 - 5


def test_a_new_generator_is_reproducible():
    assert Generator().initial_seed() == torch.Generator().initial_seed()
    assert Generator().reserve(1) == Generator().reserve(1)
    assert Generator().device is tokens.cpu
    assert Generator(tokens.cpu).device is Generator("cpu").device
    for device in ("meta", "cuda"):
        with pytest.raises(RuntimeError):
            Generator(device)


def test_reserve_hands_out_whole_blocks():
    made = Generator().manual_seed(5)
    assert [made.reserve(count) for count in (1, 4, 5, 0, 8)] == [(5, 0), (5, 4), (5, 8), (5, 16), (5, 16)]
    assert made.get_offset() == 24
    made.manual_seed(5)
    assert made.get_offset() == 0
    with pytest.raises(ValueError, match="negative"):
        made.reserve(-1)


def test_offsets_can_be_set():
    made = Generator()
    made.set_offset(2**64 - 4)
    assert made.reserve(8) == (made.initial_seed(), 2**64 - 4)
    assert made.get_offset() == 4
    for offset in (3, -4, 2**64):
        with pytest.raises(RuntimeError, match="multiple of 4"):
            made.set_offset(offset)


def test_seed_is_not_deterministic():
    made = Generator()
    made.reserve(4)
    seeds = {made.seed() for _ in range(8)}
    assert len(seeds) == 8
    assert made.initial_seed() in seeds
    assert made.get_offset() == 0


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 2**62 - 1))
def test_state_round_trips(seed, blocks):
    made = Generator().manual_seed(seed)
    made.set_offset(4 * blocks)
    state = made.get_state()
    assert state.dtype is dtypes.uint8
    other = Generator()
    assert other.set_state(state) is other
    for copied in (other, made.clone_state(), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert copied is not made
        assert copied.initial_seed() == seed
        np.testing.assert_array_equal(copied.get_state(), state)
        assert copied.reserve(3) == (seed, 4 * blocks)
    np.testing.assert_array_equal(made.get_state(), state)


def test_state_is_a_copy():
    made = Generator().manual_seed(1)
    made.get_state()[:] = 0
    assert made.initial_seed() == 1


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (np.zeros(3, np.uint8), RuntimeError),
        (np.zeros((2, 8), np.uint8), RuntimeError),
        (np.zeros(16, np.int64), TypeError),
        ([0] * 16, TypeError),
        (np.array([0] * 8 + [1] + [0] * 7, np.uint8), RuntimeError),
    ],
)
def test_foreign_states_are_refused(state, error):
    made = Generator().manual_seed(3)
    with pytest.raises(error, match="set_state"):
        made.set_state(state)
    assert made.initial_seed() == 3


def test_reservations_of_threads_do_not_overlap():
    made = Generator()
    start = threading.Barrier(8)

    def work(_):
        start.wait()
        return [made.reserve(5)[1] for _ in range(500)]

    with ThreadPoolExecutor(8) as pool:
        offsets = sorted(offset for result in pool.map(work, range(8)) for offset in result)
    assert offsets == list(range(0, 8 * 500 * 8, 8))


def test_there_is_a_default_generator():
    assert isinstance(generator.default_generator, Generator)
    assert "seed=" in repr(generator.default_generator)

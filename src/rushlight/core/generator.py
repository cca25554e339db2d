"""Random numbers: a counter-based generator, so that a number depends on (seed, position) and nothing else.

In:  a 64-bit seed and a position in the stream of that seed (`Generator.reserve` hands out positions).
Out: NumPy arrays of random words, uniforms and normals.

The stream (contract with the compiler, which computes the same words in registers)
    The stream of a seed is a sequence of 32-bit words. Word number `pos` is lane `pos % 4` of
    Philox4x32-10(counter = pos // 4, key = seed), where counter word 0 (key word 0) holds the low 32 bits of
    the 128-bit counter (64-bit key). Philox: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
    as 1, 2, 3", 2011.
    An operator that needs `count` words reserves them once; its element i, in row-major order of its output,
    reads words at fixed places from the offset it was given, whatever the strides, tiling or threads.

From words to numbers (every step is one IEEE operation, rounded to nearest even, never contracted to fma)
    bits64      element i: words[2i] + 2**32 * words[2i + 1]
    uniform     see `uniform`: one word an element, float64 two
    normal      see `normal`: one word an element, float64 two, in pairs; explicit polynomials, because the
                accuracy of library functions differs between machines

Invariants
- All functions are pure; the only state is the (seed, offset) of a `Generator`, changed under its lock.
- `Generator.reserve` gives offsets that are multiples of 4, so that a request starts at a Philox block.
"""

from __future__ import annotations

import functools
import math
import operator
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import tokens
from .dispatch import AMBIENT
from .dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, float64
from .tensor import Tensor, wrap

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint32]
    Array = npt.NDArray[Any]

_MASK32 = 0xFFFFFFFF
_MASK64 = 0xFFFFFFFFFFFFFFFF
_MASK128 = (1 << 128) - 1

# --- Philox ----------------------------------------------------------------------------------------

_ROUNDS = 10
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_MAX_BLOCKS = 8192  # blocks at a time: the three working arrays, 384 KiB together, stay in the L2 cache


def _constant(value: int) -> Array:
    """A 0-d array: as an operand of a ufunc it costs half as much as a NumPy scalar."""
    return np.array(value, np.uint64)


_MULTIPLIER0 = _constant(0xD2511F53)
_MULTIPLIER1 = _constant(0xCD9E8D57)
_BITS32 = _constant(32)


@functools.lru_cache(maxsize=64)
def _round_keys(seed: int) -> tuple[tuple[Array, Array], ...]:
    low, high = seed & _MASK32, seed >> 32
    return tuple(
        (
            _constant(((low + i * _KEY_STEPS[0]) & _MASK32) << 32),
            _constant(((high + i * _KEY_STEPS[1]) & _MASK32) << 32),
        )
        for i in range(_ROUNDS)
    )


def philox(seed: int, offset: int, count: int) -> Words:
    """Words offset, offset + 1, ..., offset + count - 1 of the stream of `seed` (taken modulo 2**64)."""
    if count < 0 or offset < 0:
        raise ValueError(f"philox: offset and count must not be negative, got {offset} and {count}")
    first, last = offset // 4, (offset + count + 3) // 4
    out = np.empty((last - first, 2), "<u8")
    keys = _round_keys(seed & _MASK64)
    start = first
    while start < last:
        until_carry = (1 << 64) - (start & _MASK64)  # within a run the high half of the counter is constant
        blocks = min(last - start, _MAX_BLOCKS, until_carry)
        counters = np.arange(blocks, dtype=np.uint64)
        counters += np.uint64(start & _MASK64)
        _philox_blocks(keys, counters, (start & _MASK128) >> 64, out[start - first : start - first + blocks])
        start += blocks
    words = out.view("<u4").reshape(-1).astype(np.uint32, copy=False)
    skip = offset - first * 4
    return words[skip : skip + count]


def philox_blocks(seed: int, counters: npt.NDArray[np.uint64], high: int) -> Words:
    """Row i: the four words of block counters[i] + 2**64 * high. The streams of different `high` have no
    block in common, so a sampler by rejection can draw attempt k of any element from the stream high = k."""
    out = np.empty((len(counters), 2), "<u8")
    keys = _round_keys(seed & _MASK64)
    for start in range(0, len(counters), _MAX_BLOCKS):
        stop = start + _MAX_BLOCKS
        _philox_blocks(keys, counters[start:stop], high, out[start:stop])
    return out.view("<u4").astype(np.uint32, copy=False)


def _philox_blocks(keys: tuple[tuple[Array, Array], ...], counters: Array, high: int, out: Array) -> None:
    """Blocks of `counters` (low half) into the rows of `out`, as (word1 << 32 | word0, word3 << 32 | word2).

    The state of a block is kept as two 64-bit numbers, word0 << 32 | word1 and word2 << 32 | word3. A round
    multiplies the upper halves by constants; each 64-bit product replaces the other number, and the old lower
    half and the round key are xored to its upper half. That is the textbook round without masking.
    """
    blocks = len(out)
    state, upper, product = np.empty((3, 2 * blocks), np.uint64)
    first, second = state[:blocks], state[blocks:]
    upper_first, upper_second = upper[:blocks], upper[blocks:]
    product_first, product_second = product[:blocks], product[blocks:]
    shift_left, shift_right, multiply, xor = np.left_shift, np.right_shift, np.multiply, np.bitwise_xor

    shift_left(counters, _BITS32, first)
    shift_right(counters, _BITS32, upper_first)
    xor(first, upper_first, first)
    second.fill((high & _MASK32) << 32 | high >> 32)
    for key0, key1 in keys:
        shift_right(state, _BITS32, upper)
        multiply(upper_first, _MULTIPLIER0, product_second)
        multiply(upper_second, _MULTIPLIER1, product_first)
        shift_left(state, _BITS32, state)
        xor(state, product, state)
        xor(first, key0, first)
        xor(second, key1, second)
    shift_right(state, _BITS32, upper)
    shift_left(state, _BITS32, state)
    np.bitwise_or(first, upper_first, out[:, 0])
    np.bitwise_or(second, upper_second, out[:, 1])


# --- words to numbers ------------------------------------------------------------------------------

# Random bits of a uniform: the width of the significand, so that every value is exact and below 1.
_UNIFORM_BITS = {float64: 53, float32: 24, float16: 11, bfloat16: 8, float8_e4m3fn: 4, float8_e5m2: 3}


def words_per_element(dtype: DType) -> int:
    """Words that `uniform` and `normal` use for one element: two for float64, one for the narrower types."""
    return 2 if dtype is float64 else 1


def random_bits64(words: Words) -> npt.NDArray[np.uint64]:
    """Element i is words[2i] + 2**32 * words[2i + 1]; the number of words must be even."""
    if len(words) % 2:
        raise ValueError(f"random_bits64: needs an even number of words, got {len(words)}")
    little = np.ascontiguousarray(words, "<u4")
    return little.view("<u8").astype(np.uint64, copy=False)


def uniform(words: Words, dtype: DType = float32) -> Array:
    """Uniform in [0, 1): the top b bits of the source of element i, times 2**-b, which is exact.

    float32: b = 24 of words[i]; float16: b = 11, bfloat16: b = 8, float8_e4m3fn: b = 4, float8_e5m2: b = 3,
    all of words[i]; float64: b = 53 of bits64 element i (words 2i and 2i + 1).
    """
    bits = _UNIFORM_BITS.get(dtype)
    if bits is None:
        raise TypeError(f"uniform: expected a floating point dtype, got {dtype!r}")
    if dtype is float64:
        long = random_bits64(words) >> np.uint64(64 - bits)
        return np.multiply(long, 2.0**-bits, dtype=np.float64)
    # A signed integer of up to 24 bits: the conversion is exact, and quicker than from unsigned.
    short = (words >> np.uint32(32 - bits)).view(np.int32).astype(np.float32)
    short *= np.float32(2.0**-bits)
    return short if dtype is float32 else short.astype(dtype.numpy)


class _Format:
    """What the normal distribution needs to know of float32 or float64."""

    def __init__(
        self,
        real: type[np.floating[Any]],
        signed: type[np.signedinteger[Any]],
        mantissa: int,
        log_terms: int,
        trig_terms: int,
    ) -> None:
        self.real, self.signed, self.mantissa = real, signed, mantissa
        self.bits = 8 * real().itemsize
        self.unsigned = np.dtype(f"u{real().itemsize}").type
        self.root_half = real(0.5**0.5).view(signed)
        # log m = 2 atanh s = 2 s (1 + z/3 + z**2/5 + ...), z = s**2 <= 0.0295
        self.log = [real(1 / (2 * k + 1)) for k in range(log_terms)]
        # sin x = x + x z (-1/3! + z/5! - ...), cos x = 1 + z (-1/2! + z/4! - ...), z = x**2 <= 0.617
        self.sin = [real((-1) ** k / math.factorial(2 * k + 1)) for k in range(1, trig_terms)]
        self.cos = [real((-1) ** k / math.factorial(2 * k)) for k in range(1, trig_terms + 1)]


_SINGLE = _Format(np.float32, np.int32, 23, log_terms=5, trig_terms=5)
_DOUBLE = _Format(np.float64, np.int64, 52, log_terms=11, trig_terms=9)


def normal(words: Words, dtype: DType = float32) -> Array:
    """Standard normal by the Box-Muller method; float64 computes in float64, all narrower types in float32.

    The source is unsigned numbers of B bits: the words (B = 32) or, for float64, `random_bits64` (B = 64).
    Elements 2j and 2j + 1 come from a = source[2j] and b = source[2j + 1]; the length of source must be even.

        u      = float(a) * 2**-B + 2**-(B + 1)                   in (0, 1], with the conversion rounded
        e      = (bits(u) - bits(sqrt(1/2))) >> mantissa          arithmetic shift of signed integers
        m      = float_of_bits(bits(u) - (e << mantissa))         in [sqrt(1/2), sqrt(2))
        s      = (m - 1) / (m + 1);  z = s * s
        p      = Horner in z of the coefficients 1, 1/3, 1/5, ...                  5 of them, float64: 11
        radius = sqrt(float(e) * (-2 * ln 2) + (s * p) * -4)      negated if bit B - 1 of b is set
        x      = float(signed(b << 2)) * (pi/4 * 2**-(B - 1))     in [-pi/4, pi/4]
        w      = x * x
        sine   = x + (x * w) * Horner in w of -1/3!, 1/5!, -1/7!, ...              4 of them, float64: 8
        cosine = 1 + w * Horner in w of -1/2!, 1/4!, -1/6!, ...                    5 of them, float64: 9
        element 2j, 2j + 1 = radius * cosine, radius * sine       swapped if bit B - 2 of b is set

    Constants are rounded to the format once; Horner is ((c_n * z + c_(n-1)) * z + ...) + c_0.
    """
    if dtype not in _UNIFORM_BITS:
        raise TypeError(f"normal: expected a floating point dtype, got {dtype!r}")
    if dtype is float64:
        return _box_muller(random_bits64(words), _DOUBLE)
    result = _box_muller(words, _SINGLE)
    return result if dtype is float32 else result.astype(dtype.numpy)


def _box_muller(source: Array, form: _Format) -> Array:
    if len(source) % 2:
        raise ValueError(f"normal: needs an even number of source numbers, got {len(source)}")
    a, b = source[0::2], np.ascontiguousarray(source[1::2])
    sign, swap = _constant_like(b, form.bits - 1), _constant_like(b, form.bits - 2)
    radius = _radius(a, form)
    radius.view(form.unsigned)[...] ^= b & sign
    sine, cosine = _sine_cosine(b, form)
    sine *= radius
    cosine *= radius
    swapped = (b & swap) != 0
    out = np.empty(len(source), form.real)
    out[0::2] = np.where(swapped, sine, cosine)
    out[1::2] = np.where(swapped, cosine, sine)
    return out


def _constant_like(array: Array, bit: int) -> Any:
    return array.dtype.type(1 << bit)


def _radius(a: Array, form: _Format) -> Array:
    real = form.real
    u = a.astype(real)
    u *= real(2.0**-form.bits)
    u += real(2.0 ** -(form.bits + 1))
    bits = u.view(form.signed)
    exponent = bits - form.root_half
    exponent >>= form.signed(form.mantissa)
    scale = exponent.astype(real)
    exponent <<= form.signed(form.mantissa)
    bits -= exponent  # u is now m
    s = u - real(1)
    u += real(1)
    s /= u
    z = np.multiply(s, s, out=u)
    p = _horner(z, form.log)
    s *= p
    s *= real(-4)
    scale *= real(-2 * math.log(2))
    scale += s
    return np.sqrt(scale, out=scale)


def _sine_cosine(b: Array, form: _Format) -> tuple[Array, Array]:
    real = form.real
    x = (b << b.dtype.type(2)).view(form.signed).astype(real)
    x *= real(math.pi / 4 * 2.0 ** -(form.bits - 1))
    w = x * x
    cosine = _horner(w, form.cos)
    cosine *= w
    cosine += real(1)
    sine = _horner(w, form.sin)
    w *= x
    sine *= w
    sine += x
    return sine, cosine


def _horner(z: Array, coefficients: list[Any]) -> Array:
    result = z * coefficients[-1]
    for coefficient in coefficients[-2:0:-1]:
        result += coefficient
        result *= z
    result += coefficients[0]
    return result


# --- streams ---------------------------------------------------------------------------------------

_CHUNK = _MAX_BLOCKS * 4
_COST_OF_CALL = 8192  # numbers that take as long as a call does at least


# What draws the same numbers natively, once there is such (runtime/random_streams.py): `begin` is called when so
# many numbers were drawn that this is worth its while.
_native: dict[str, Callable[..., Any]] = {}
_draws_left = 0


def when_drawn(numbers: int, begin: Callable[[], None]) -> None:
    """Have `begin` called once about so many numbers were drawn."""
    global _draws_left
    _native["begin"], _draws_left = begin, numbers


def install_streams(stream: Callable[..., Any]) -> None:
    """Draw by `stream("rand" or "randn", seed, offset, count, dtype)`, which gives an array, or None."""
    global _draws_left
    _native["stream"], _draws_left = stream, 0


def rand(seed: int, offset: int, count: int, dtype: DType = float32) -> Array:
    """uniform(philox(seed, offset, ...), dtype) of `count` elements, without the large temporaries."""
    return _stream("rand", uniform, seed, offset, count, dtype)


def randn(seed: int, offset: int, count: int, dtype: DType = float32) -> Array:
    """normal(philox(seed, offset, ...), dtype) of `count` elements, without the large temporaries."""
    return _stream("randn", normal, seed, offset, count, dtype)


def _stream(name: str, convert: Any, seed: int, offset: int, count: int, dtype: DType) -> Array:
    native = _native.get("stream")
    drawn = None if native is None else native(name, seed, offset, count, dtype)
    if drawn is not None:
        return drawn
    if _draws_left > 0:
        _count_draw(count)
    each = words_per_element(dtype)
    out = np.empty(count, dtype.numpy)
    step = _CHUNK // each
    for start in range(0, count, step):
        size = min(step, count - start)
        words = philox(seed, offset + start * each, (size + size % 2) * each)
        out[start : start + size] = convert(words, dtype)[:size]
    return out


def _count_draw(count: int) -> None:
    global _draws_left
    _draws_left -= count + _COST_OF_CALL
    if _draws_left <= 0:
        _native["begin"]()


# --- generator -------------------------------------------------------------------------------------

_DEFAULT_SEED = 67280421310721  # PyTorch's
_STATE_BYTES = 16


class Generator:
    """A position in the stream of a seed. Thread-safe: every reservation gets words of its own.

    >>> g = rl.Generator().manual_seed(0)
    >>> rl.rand(2, generator=g).shape
    rushlight.Size([2])
    """

    __slots__ = ("_device", "_lock", "_offset", "_seed")

    def __init__(self, device: str | tokens.device = "cpu") -> None:
        self._device = tokens.device(device)
        if self._device.type != "cpu":
            raise RuntimeError(f"Generator: there is no generator for device {self._device}; use 'cpu'")
        self._seed = _DEFAULT_SEED
        self._offset = 0
        self._lock = threading.Lock()

    @property
    def device(self) -> tokens.device:
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Restarts the stream of `seed`, an int in [-2**63, 2**64); negative seeds wrap to 2**64 + seed."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed: expected an int, got {type(seed).__name__}")
        seed = operator.index(seed)
        if not -(1 << 63) <= seed <= _MASK64:
            raise ValueError(f"manual_seed: the seed must be in [-2**63, 2**64), got {seed}")
        if AMBIENT.trace is not None:
            AMBIENT.trace.seed_generator(self, seed & _MASK64)
            return self
        with self._lock:
            self._seed, self._offset = seed & _MASK64, 0
        return self

    def seed(self) -> int:
        """Seeds with randomness of the operating system and returns that seed."""
        _refuse_in_capture("seeding a random generator with randomness of the system")
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed of the current stream."""
        _refuse_in_capture("reading the seed of a random generator")
        return self._seed

    def reserve(self, count: int) -> tuple[int, int]:
        """(seed, offset) of `count` words that no one else gets; whole blocks of 4 words are taken."""
        if count < 0:
            raise ValueError(f"reserve: count must not be negative, got {count}")
        with self._lock:
            offset = self._offset
            self._offset = (offset + (count + 3) // 4 * 4) & _MASK64
            return self._seed, offset

    def move(self, seed: int | None, count: int) -> tuple[int, int]:
        """(seed, offset) as they are; then go on by `count` words, or to word `count` of a new `seed`."""
        with self._lock:
            before = self._seed, self._offset
            if seed is None:
                self._offset = (self._offset + count) & _MASK64
            else:
                self._seed, self._offset = seed, count
            return before

    def get_offset(self) -> int:
        """The next word that will be handed out."""
        _refuse_in_capture("reading the position of a random generator")
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Moves to word `offset`, a multiple of 4."""
        _refuse_in_capture("moving a random generator")
        if offset % 4 or not 0 <= offset <= _MASK64:
            raise RuntimeError(f"set_offset: the offset must be a multiple of 4 in [0, 2**64), got {offset}")
        with self._lock:
            self._offset = offset

    def get_state(self) -> Tensor:
        """The state as a tensor of 16 bytes: seed, then offset, each as a little-endian 64-bit number."""
        if AMBIENT.trace is not None:
            state: Tensor = AMBIENT.trace.generator_state(self)
            return state
        with self._lock:
            return wrap(state_bytes(self._seed, self._offset))

    def set_state(self, state: Tensor | npt.NDArray[np.uint8]) -> Generator:
        """Takes over a state from `get_state`."""
        if AMBIENT.trace is not None:
            AMBIENT.trace.set_generator_state(self, state)
            return self
        if isinstance(state, Tensor):
            state = state.numpy_array()
        if not isinstance(state, np.ndarray) or state.dtype != np.uint8:
            found = state.dtype if isinstance(state, np.ndarray) else type(state).__name__
            raise TypeError(f"set_state: the state must be a tensor of uint8, got {found}")
        if state.shape != (_STATE_BYTES,):
            raise RuntimeError(f"set_state: a state has shape ({_STATE_BYTES},), got {state.shape}")
        data = state.tobytes()
        offset = int.from_bytes(data[8:], "little")
        if offset % 4:
            raise RuntimeError(f"set_state: not a generator state: offset {offset} is not a multiple of 4")
        with self._lock:
            self._seed, self._offset = int.from_bytes(data[:8], "little"), offset
        return self

    def clone_state(self) -> Generator:
        """A new generator that will produce what this one would."""
        return Generator(self._device).set_state(self.get_state())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._device, self.get_state().numpy_array()))

    def __repr__(self) -> str:
        return f"<rushlight.Generator device={self._device} seed={self._seed} offset={self._offset}>"


def state_bytes(seed: int, offset: int) -> npt.NDArray[np.uint8]:
    """The state of a generator that stands at word `offset` of the stream of `seed`."""
    return np.frombuffer(seed.to_bytes(8, "little") + offset.to_bytes(8, "little"), np.uint8).copy()


def _refuse_in_capture(what: str) -> None:
    """The state of a generator is data of a captured program, known when it runs."""
    if AMBIENT.trace is not None:
        AMBIENT.trace.refuse(what)


def _restore(device: tokens.device, state: npt.NDArray[np.uint8]) -> Generator:
    return Generator(device).set_state(state)


default_generator = Generator()

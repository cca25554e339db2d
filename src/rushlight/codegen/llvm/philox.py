"""Random numbers in registers: the stream of core/generator.py and the numbers made of it, bit for bit.

Word number `position` of a seed's stream is one lane of the Philox4x32-10 block number position // 4.
`Philox` computes any words, each lane by itself.

Every operation on floats here is rounded by itself: no fma, as core/generator.py defines the results so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.lazy import LazyModule
from .emitter import Emitter
from .math.logarithm import exponent_as_float
from .types import MANTISSA_BITS, bits_of, lanes_of, like, mangle

ir = LazyModule("llvmlite.ir")

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)

# Random bits of a uniform, by the name of its dtype: the width of the significand.
UNIFORM_BITS = {
    "float64": 53,
    "float32": 24,
    "float16": 11,
    "bfloat16": 8,
    "float8_e4m3fn": 4,
    "float8_e5m2": 3,
}


class Philox:
    """The stream of a seed, an i64 value or a Python number."""

    def __init__(self, e: Emitter, seed: Any) -> None:
        self.e = e
        self.seed = e.value(seed, e.i64)

    def blocks(self, counter: Any) -> tuple[Any, Any]:
        """The four words of blocks, as (word1 << 32 | word0, word3 << 32 | word2), for i64 counters."""
        both = self.e.call(_blocks_function(self.e, counter.type), [counter, self.seed])
        return self.e.builder.extract_value(both, 0), self.e.builder.extract_value(both, 1)

    # One lane, one position; lanes need not be in a row.

    def words(self, position: Any) -> Any:
        """The 32-bit words at i64 positions."""
        e = self.e
        low, high = self.blocks(e.shift_right(position, 2))
        pair = e.select(e.compare("!=", e.and_(position, 2), 0), high, low)
        word = e.select(e.compare("!=", e.and_(position, 1), 0), e.shift_right(pair, 32), pair)
        return e.builder.trunc(word, like(word.type, e.i32))

    def bits64(self, position: Any) -> Any:
        """words[position] + 2**32 words[position + 1], for even positions."""
        e = self.e
        low, high = self.blocks(e.shift_right(position, 2))
        return e.select(e.compare("!=", e.and_(position, 2), 0), high, low)

    def uniform(self, offset: Any, index: Any, dtype: str = "float32") -> Any:
        """Element `index`, i64 values, of an operator whose words begin at `offset`; a float, or a double for
        float64."""
        e = self.e
        if dtype == "float64":
            return uniform_of_bits(e, self.bits64(e.add(offset, e.shift_left(index, 1))), dtype)
        return uniform_of_bits(e, self.words(e.add(offset, index)), dtype)

    def normal(self, offset: Any, index: Any, double: bool = False) -> Any:
        """As uniform; `offset` must be a multiple of 4, as those of Generator.reserve are."""
        e = self.e
        low, high = self.blocks(e.shift_right(e.add(offset, e.shift_left(index, 1) if double else index), 2))
        if double:
            a, b = low, high
        else:
            pair = e.select(e.compare("!=", e.and_(index, 2), 0), high, low)
            narrow = like(pair.type, e.i32)
            a, b = e.builder.trunc(pair, narrow), e.builder.trunc(e.shift_right(pair, 32), narrow)
        even, odd = box_muller(e, a, b)
        return e.select(e.compare("!=", e.and_(index, 1), 0), odd, even)


def _blocks_function(e: Emitter, kind: Any) -> Any:
    """The function from (counters, seed) to both halves of the blocks, which a module has once."""
    name = f"math.philox.{mangle(kind)}"
    function = e.module.globals.get(name)
    if function is None:
        result = ir.LiteralStructType([kind, kind])
        function = ir.Function(e.module, ir.FunctionType(result, [kind, e.i64]), name)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        inner = Emitter(ir.IRBuilder(function.append_basic_block("entry")), e.target)
        low, high = _blocks(inner, *function.args)
        both = inner.builder.insert_value(ir.Constant(result, ir.Undefined), low, 0)
        inner.builder.ret(inner.builder.insert_value(both, high, 1))
    return function


def _blocks(e: Emitter, counter: Any, seed: Any) -> tuple[Any, Any]:
    """The rounds are a loop: they depend on each other, so that unrolled they would take as long.

    Both 32-bit keys of a round are in the upper halves of i64.
    """
    lanes = lanes_of(counter.type)
    keys = [e.splat(key, lanes) for key in (e.shift_left(seed, 32), e.and_(seed, -1 << 32))]

    def one(_: Any, first: Any, second: Any, key0: Any, key1: Any) -> list[Any]:
        product0 = e.mul(e.shift_right(first, 32), MULTIPLIERS[0])
        product1 = e.mul(e.shift_right(second, 32), MULTIPLIERS[1])
        return [
            e.xor(e.xor(e.shift_left(first, 32), product1), key0),
            e.xor(e.xor(e.shift_left(second, 32), product0), key1),
            e.add(key0, KEY_STEPS[0] << 32),
            e.add(key1, KEY_STEPS[1] << 32),
        ]

    start = [_swap_halves(e, counter), e.zero(counter), *keys]
    first, second, *_ = e.fold(0, ROUNDS, 1, start, one)
    return _swap_halves(e, first), _swap_halves(e, second)


# Instructions of recorded bodies, of (seed, offset, number of the element).
RANDOM = ("random_word", "random_bits64", "random_uniform", "random_normal")


def emit_random(stream: Philox, op: str, dtype: str | None, offset: Any, number: Any) -> Any:
    """Element `number` of a draw that begins at `offset`; `dtype` names the format of a uniform."""
    e = stream.e
    if op == "random_word":
        return stream.words(e.add(offset, number))
    if op == "random_bits64":
        return stream.bits64(e.add(offset, e.shift_left(number, 1)))
    if op == "random_uniform":
        return stream.uniform(offset, number, dtype or "float32")
    return stream.normal(offset, number, double=dtype == "float64")


def _swap_halves(e: Emitter, x: Any) -> Any:
    return e.or_(e.shift_left(x, 32), e.shift_right(x, 32))


def uniform_of_bits(e: Emitter, source: Any, dtype: str) -> Any:
    """The top b bits times 2**-b, which is exact, as a float, or a double for float64."""
    count = UNIFORM_BITS[dtype]
    top = e.shift_right(source, bits_of(source.type) - count)
    if dtype == "float64":  # 53 bits below the exponent of 2**52 and above: exact without a 64-bit conversion
        high = e.from_bits(e.or_(e.shift_right(top, 32), 0x4530000000000000))
        low = e.from_bits(e.or_(e.and_(top, 0xFFFFFFFF), 0x4330000000000000))
        return e.mul(e.add(e.sub(high, 2.0**84 + 2.0**52), low), 2.0**-count)
    return e.mul(e.builder.sitofp(top, like(top.type, e.float)), 2.0**-count)


def box_muller(e: Emitter, a: Any, b: Any) -> tuple[Any, Any]:
    """The two normal numbers of two sources of 32 or 64 bits; see core/generator.py for the formula."""
    bits = bits_of(a.type)
    radius = _radius(e, a)
    radius = e.from_bits(e.xor(e.bits(radius), e.and_(b, 1 << (bits - 1))))
    sine, cosine = _sine_cosine(e, b)
    sine, cosine = e.mul(sine, radius), e.mul(cosine, radius)
    swapped = e.compare("!=", e.and_(b, 1 << (bits - 2)), 0)
    return e.select(swapped, sine, cosine), e.select(swapped, cosine, sine)


_ROOT_HALF = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)
_LOG = {32: [1 / (2 * k + 1) for k in range(5)], 64: [1 / (2 * k + 1) for k in range(11)]}
_SIN = {bits: [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, n)] for bits, n in ((32, 5), (64, 9))}
_COS = {bits: [(-1) ** k / math.factorial(2 * k) for k in range(1, n + 1)] for bits, n in ((32, 5), (64, 9))}


def _plain_horner(e: Emitter, z: Any, coefficients: Sequence[float]) -> Any:
    result = e.mul(z, coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        result = e.mul(e.add(result, coefficient), z)
    return e.add(result, coefficients[0])


def _radius(e: Emitter, a: Any) -> Any:
    bits = bits_of(a.type)
    real = like(a.type, e.float if bits == 32 else e.double)
    u = e.add(e.mul(e.builder.uitofp(a, real), 2.0**-bits), 2.0 ** -(bits + 1))
    pattern = e.bits(u)
    exponent = e.and_(e.sub(pattern, _ROOT_HALF[bits]), -1 << MANTISSA_BITS[bits])
    m = e.from_bits(e.sub(pattern, exponent))
    s = e.div(e.sub(m, 1.0), e.add(m, 1.0))
    p = _plain_horner(e, e.mul(s, s), _LOG[bits])
    scaled = e.mul(exponent_as_float(e, exponent), -2 * math.log(2))
    return e.sqrt(e.add(scaled, e.mul(e.mul(s, p), -4.0)))


def _sine_cosine(e: Emitter, b: Any) -> tuple[Any, Any]:
    bits = bits_of(b.type)
    real = like(b.type, e.float if bits == 32 else e.double)
    x = e.mul(e.builder.sitofp(e.shift_left(b, 2), real), math.pi / 4 * 2.0 ** -(bits - 1))
    w = e.mul(x, x)
    cosine = e.add(e.mul(_plain_horner(e, w, _COS[bits]), w), 1.0)
    sine = e.add(e.mul(_plain_horner(e, w, _SIN[bits]), e.mul(w, x)), x)
    return sine, cosine

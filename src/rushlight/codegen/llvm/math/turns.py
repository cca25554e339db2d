"""Angles modulo quarter turns: x = n pi/2 + r for any finite x, however large.

Up to a limit n pi/2 is subtracted in three parts by fma (Cody and Waite), which leaves r as a pair (r, rest).
Beyond it, if any lane is there, a function that is not inlined computes r lane by lane with 2/pi to 1168 bits
(Payne and Hanek, "Radian reduction for trigonometric functions", 1983), so that r is right to the last bit
for the largest numbers too.
"""

from __future__ import annotations

import itertools
from typing import Any

from ....core.lazy import LazyModule
from ..emitter import Emitter
from ..types import bits_of, element_of, integer_like, lanes_of, mangle
from .exponential import MAGIC, MAGIC_BITS

ir = LazyModule("llvmlite.ir")

# pi as a sum of three numbers of the type.
_PI = {
    32: (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
    64: (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
}
_PER_PI = 0.3183098861837907
# As far as n is exact in the sum with MAGIC and the rounding of x / period leaves r within the polynomials'
# interval.
_LIMIT = {32: 1.0e5, 64: 2.0**30}

# floor(2/pi * 2**1168), 2/pi from mpmath to 400 digits.
_TWO_PER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921c"
    "fe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980f"
    "ef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d08"
    "5603",
    16,
)
_TABLE_BITS, _TABLE_BYTES = 1168, 160


def reduce_turns(e: Emitter, x: Any) -> tuple[Any, Any, Any]:
    """(r, rest, n): x = n pi/2 + r + rest with |r| <= 0.8; the integer n is right modulo 4."""
    bits = bits_of(x.type)
    r, rest, n = _by_parts(e, x)
    large = e.compare(">", e.abs(x), _LIMIT[bits])

    def by_bits() -> list[Any]:
        slow = e.call(_reduce_large(e, x.type), [x])
        far_r, far_n = (e.builder.extract_value(slow, i) for i in (0, 1))
        return [e.select(large, far_r, r), e.select(large, 0.0, rest), e.select(large, far_n, n)]

    chosen = e.branch(e.any(large), by_bits, lambda: [r, rest, n], likely=False)
    return chosen[0], chosen[1], chosen[2]


def _by_parts(e: Emitter, x: Any) -> tuple[Any, Any, Any]:
    """The first difference is exact for |x| >= 1; the rounding errors of the second are computed and go to
    the rest."""
    bits = bits_of(x.type)
    first, second, third = (part / 2 for part in _PI[bits])
    shifted = e.mul_add(x, 2 * _PER_PI, MAGIC[bits])
    n = e.sub(shifted, MAGIC[bits])
    minus = e.neg(n)
    a = e.fma(minus, first, x)
    product = e.mul(minus, second)
    r = e.add(a, product)
    rest = e.add(e.sub(a, r), product)
    rest = e.add(rest, e.fma(minus, second, e.neg(product)))
    return r, e.mul_add(minus, third, rest), e.sub(e.bits(shifted), MAGIC_BITS[bits])


def _reduce_large(e: Emitter, kind: Any) -> Any:
    """The function from a vector x to {r, n}."""
    result = ir.LiteralStructType([kind, integer_like(kind)])
    return e.function(f"math.reduce_turns.{mangle(kind)}", result, [kind], _each_lane)


def _each_lane(e: Emitter, x: Any) -> Any:
    """By way of memory, where a loop finds lanes by number."""
    lanes, element = lanes_of(x.type), element_of(x.type)
    whole = integer_like(element)
    if lanes == 1:
        r, n = _payne_hanek(e, x)
    else:
        places = [e.local(kind) for kind in (x.type, x.type, integer_like(x.type))]
        e.store(x, places[0])
        with e.loop(0, lanes) as lane:
            r, n = _payne_hanek(e, e.load(e.address(places[0], lane, element), element))
            e.store(r, e.address(places[1], lane, element))
            e.store(n, e.address(places[2], lane, whole))
        r, n = e.load(places[1], x.type), e.load(places[2], integer_like(x.type))
    both = ir.Constant(ir.LiteralStructType([r.type, n.type]), ir.Undefined)
    return e.builder.insert_value(e.builder.insert_value(both, r, 0), n, 1)


def _payne_hanek(e: Emitter, x: Any) -> tuple[Any, Any]:
    """One number of at least 1. x = m 2**k; the bits of 2/pi that matter for x 2/pi modulo 4 are 192 of the
    table."""
    wide = x if e.is_double(x) else e.widen(x)
    pattern = e.bits(wide)
    k = e.sub(e.and_(e.shift_right(pattern, 52), 0x7FF), 1075)
    m = e.or_(e.and_(pattern, (1 << 52) - 1), 1 << 52)
    start = e.sub(_TABLE_BITS - 190, k)  # the window begins at this bit of the table
    table = e.table("math.two_per_pi", _TWO_PER_PI.to_bytes(_TABLE_BYTES, "little"))
    base = e.address(table, e.shift_right(start, 3), e.i8)
    words = [e.load(e.address(base, 8 * i, e.i8), e.i64, align=1) for i in range(4)]
    count = e.and_(start, 7)
    window = [
        e.intrinsic("fshr", e.i64, [high, low, count], [e.i64]) for low, high in itertools.pairwise(words)
    ]
    high, low = _product(e, m, window)
    # Quarter turns, 2 bits before the point and 126 after it: n is the nearest integer.
    n = e.shift_right(e.add(high, 1 << 61), 62)
    high = e.sub(high, e.shift_left(n, 62))
    flipped = e.shift_right(high, 63, signed=True)  # the size of a negative fraction, but for its last bit
    r = _radians(e, e.xor(high, flipped), e.xor(low, flipped))
    signs = e.and_(e.xor(flipped, pattern), -1 << 63)
    r = e.from_bits(e.xor(e.bits(r), signs))
    r = e.add(r, e.sub(wide, wide))  # NaN for infinity
    n = e.select(e.compare("<", pattern, 0), e.sub(0, n), n)
    return (r, n) if e.is_double(x) else (e.narrow(r), e.builder.trunc(n, e.i32))


def _high_product(e: Emitter, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of unsigned i64."""
    wide = ir.IntType(128)
    product = e.mul(e.builder.zext(a, wide), e.builder.zext(b, wide))
    return e.builder.trunc(e.shift_right(product, 64), e.i64)


def _product(e: Emitter, m: Any, window: list[Any]) -> tuple[Any, Any]:
    """The upper 128 bits, in two i64, of m times the window modulo 2**192."""
    first, second, third = window
    middle = e.mul(m, second)
    low = e.add(middle, _high_product(e, m, first))
    carry = e.builder.zext(e.compare("<", low, middle, signed=False), e.i64)
    return e.add(e.add(e.mul(m, third), _high_product(e, m, second)), carry), low


def _radians(e: Emitter, high: Any, low: Any) -> Any:
    """A fraction of 62 + 64 bits, times pi/2, rounded once: the product is carried in two doubles.

    high is not 0: no double is as near to a multiple of pi/2 as that.
    """
    zeros = e.intrinsic("ctlz", e.i64, [high, e.constant(1, e.i1)], [e.i64])
    normal = e.intrinsic("fshl", e.i64, [high, low, zeros], [e.i64])
    top = e.builder.sitofp(e.shift_right(normal, 11), e.double)
    bottom = e.mul(e.builder.sitofp(e.and_(normal, (1 << 11) - 1), e.double), 2.0**-11)
    half_pi, error = _PI[64][0] / 2, _PI[64][1] / 2
    product, rest = e.two_product(top, half_pi)
    rest = e.add(rest, e.mul_add(top, error, e.mul(bottom, half_pi)))
    return e.mul(e.add(product, rest), e.power_of_two(e.sub(11 - 62, zeros)))

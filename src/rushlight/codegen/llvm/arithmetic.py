"""Arithmetic, comparison, selection, bits and rounding, by the type of the operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...plan.cost import MANY_COEFFICIENTS
from .constants import Constants
from .types import EXPONENT_BIAS, MANTISSA_BITS, bits_of, bool_like, integer_like, is_bool, is_float, like

# For sums and products of a reduction only: their order may change, NaN and infinity keep their meaning.
REDUCTION_FLAGS = ("reassoc", "nsz", "contract")


class Arithmetic(Constants):
    """Operations on scalars and vectors alike. Integers wrap around; nothing here reads or writes memory."""

    def _binary(self, name: str, a: Any, b: Any, flags: Sequence[str] = ()) -> Any:
        a, b = self.values(a, b)
        if is_float(a.type):
            return getattr(self.builder, "f" + name)(a, b, flags=flags)
        return getattr(self.builder, name)(a, b)

    def add(self, a: Any, b: Any, flags: Sequence[str] = ()) -> Any:
        return self._binary("add", a, b, flags)

    def sub(self, a: Any, b: Any, flags: Sequence[str] = ()) -> Any:
        return self._binary("sub", a, b, flags)

    def mul(self, a: Any, b: Any, flags: Sequence[str] = ()) -> Any:
        return self._binary("mul", a, b, flags)

    def div(self, a: Any, b: Any, flags: Sequence[str] = ()) -> Any:
        """The quotient of floats; integers are divided by the functions of math/integers.py, which cannot
        trap."""
        a, b = self.values(a, b)
        return self.builder.fdiv(a, b, flags=flags)

    def neg(self, a: Any) -> Any:
        return self.builder.fneg(a) if is_float(a.type) else self.sub(0, a)

    def abs(self, a: Any) -> Any:
        """The absolute value; that of the least integer is itself."""
        if is_float(a.type):
            return self.unary_intrinsic("fabs", a)
        return self.intrinsic("abs", a.type, [a, self.constant(0, self.i1)], [a.type])

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c with one rounding: what error terms are computed with. Emulated where the machine has
        none."""
        a, b, c = self.values(a, b, c)
        if self.target.has_fma:
            return self.intrinsic("fma", a.type, [a, b, c], [a.type])
        if bits_of(a.type) == 32:  # the product is exact in double; to round the sum twice costs 2**-29 ulp
            wide = like(a.type, self.double)
            a, b, c = (self.builder.fpext(v, wide) for v in (a, b, c))
            return self.builder.fptrunc(self.add(self.mul(a, b), c), like(a.type, self.float))
        product, error = self._split_product(a, b)
        total, rest = self.two_sum(product, c)
        exact = self.add(total, self.add(error, rest))
        plain = self.add(self.mul(a, b), c)  # where splitting overflows, and for infinities
        return self.select(self.compare("<", self.abs(self.sub(exact, exact)), 1.0), exact, plain)

    def mul_add(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, fused if that is cheap: for polynomials, where the second rounding does no harm."""
        if self.target.has_fma:
            return self.fma(a, b, c)
        return self.add(self.mul(a, b), c)

    def horner(self, x: Any, coefficients: Sequence[float]) -> Any:
        """The polynomial in x with the given coefficients, lowest power first."""
        numbers: Sequence[Any] = coefficients
        if len(coefficients) >= MANY_COEFFICIENTS:
            numbers = [self.stored(c, x.type) for c in coefficients]
        result = numbers[-1]
        for number in reversed(numbers[:-1]):
            result = self.mul_add(result, x, number)
        return result

    # Error-free transformations: the pair is the rounded result and what rounding took away, exactly.

    def two_sum(self, a: Any, b: Any) -> tuple[Any, Any]:
        a, b = self.values(a, b)
        total = self.add(a, b)
        part = self.sub(total, a)
        return total, self.add(self.sub(a, self.sub(total, part)), self.sub(b, part))

    def fast_two_sum(self, a: Any, b: Any) -> tuple[Any, Any]:
        """As two_sum, for |a| >= |b| or a = 0."""
        a, b = self.values(a, b)
        total = self.add(a, b)
        return total, self.sub(b, self.sub(total, a))

    def two_product(self, a: Any, b: Any) -> tuple[Any, Any]:
        a, b = self.values(a, b)
        product = self.mul(a, b)
        return product, self.fma(a, b, self.neg(product))

    def _split_product(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Dekker's product of doubles, without fma."""

        def split(v: Any) -> tuple[Any, Any]:
            scaled = self.mul(v, 134217729.0)  # 2**27 + 1
            high = self.sub(scaled, self.sub(scaled, v))
            return high, self.sub(v, high)

        product = self.mul(a, b)
        (ah, al), (bh, bl) = split(a), split(b)
        error = self.sub(self.mul(ah, bh), product)
        error = self.add(self.add(error, self.mul(ah, bl)), self.mul(al, bh))
        return product, self.add(error, self.mul(al, bl))

    # Comparison and selection.

    def compare(self, op: str, a: Any, b: Any, *, signed: bool = True, unordered: bool = False) -> Any:
        """`a op b`; with floats false if either is NaN, except that != is true; `unordered` makes it true
        instead."""
        a, b = self.values(a, b)
        if is_float(a.type):
            if unordered or op == "!=":
                return self.builder.fcmp_unordered(op, a, b)
            return self.builder.fcmp_ordered(op, a, b)
        if signed and not is_bool(a.type):
            return self.builder.icmp_signed(op, a, b)
        return self.builder.icmp_unsigned(op, a, b)

    def is_nan(self, x: Any) -> Any:
        return self.unordered(x, x)

    def unordered(self, a: Any, b: Any) -> Any:
        """Whether either is NaN."""
        return self.builder.fcmp_unordered("uno", a, b)

    def select(self, condition: Any, a: Any, b: Any) -> Any:
        a, b = self.values(a, b)
        return self.builder.select(condition, a, b)

    def maximum(self, a: Any, b: Any, *, signed: bool = True) -> Any:
        """The larger, or NaN if either is NaN."""
        return self._extreme(">", a, b, signed)

    def minimum(self, a: Any, b: Any, *, signed: bool = True) -> Any:
        """The smaller, or NaN if either is NaN."""
        return self._extreme("<", a, b, signed)

    def _extreme(self, op: str, a: Any, b: Any, signed: bool) -> Any:
        a, b = self.values(a, b)
        chosen = self.select(self.compare(op, a, b, signed=signed), a, b)
        return self.select(self.is_nan(a), a, chosen) if is_float(a.type) else chosen

    def fmax(self, a: Any, b: Any, *, signed: bool = True) -> Any:
        """The larger; if one is NaN, the other."""
        return self._extreme_number(">", a, b, signed)

    def fmin(self, a: Any, b: Any, *, signed: bool = True) -> Any:
        """The smaller; if one is NaN, the other."""
        return self._extreme_number("<", a, b, signed)

    def _extreme_number(self, op: str, a: Any, b: Any, signed: bool) -> Any:
        a, b = self.values(a, b)
        chosen = self.select(self.compare(op, a, b, signed=signed), a, b)
        return self.select(self.is_nan(b), a, chosen) if is_float(a.type) else chosen

    def at_least(self, x: Any, low: Any) -> Any:
        """x, or `low` if x is smaller; NaN stays NaN. One instruction on x86, unlike maximum."""
        return self.select(self.compare("<", x, low), low, x)

    def at_most(self, x: Any, high: Any) -> Any:
        """x, or `high` if x is larger; NaN stays NaN."""
        return self.select(self.compare(">", x, high), high, x)

    def clamp(self, x: Any, low: Any, high: Any) -> Any:
        return self.at_most(self.at_least(x, low), high)

    def clamp_integer(self, x: Any, low: int, high: int) -> Any:
        return self.minimum(self.maximum(x, low), high)

    # Bits.

    def and_(self, a: Any, b: Any) -> Any:
        return self.builder.and_(*self.values(a, b))

    def or_(self, a: Any, b: Any) -> Any:
        return self.builder.or_(*self.values(a, b))

    def xor(self, a: Any, b: Any) -> Any:
        return self.builder.xor(*self.values(a, b))

    def not_(self, a: Any) -> Any:
        return self.xor(a, -1 if not is_bool(a.type) else 1)

    def shift_left(self, a: Any, count: Any) -> Any:
        """`count` must be less than the width, here and below; math/integers.py has the safe ones."""
        return self.builder.shl(*self.values(a, count))

    def shift_right(self, a: Any, count: Any, *, signed: bool = False) -> Any:
        a, count = self.values(a, count)
        return self.builder.ashr(a, count) if signed else self.builder.lshr(a, count)

    def bits(self, x: Any) -> Any:
        """A float's bits as an integer."""
        return self.builder.bitcast(x, integer_like(x.type))

    def from_bits(self, x: Any) -> Any:
        """The float of the integer's bits."""
        kind = {16: self.half, 32: self.float, 64: self.double}[bits_of(x.type)]
        return self.builder.bitcast(x, like(x.type, kind))

    def copysign(self, magnitude: Any, sign: Any) -> Any:
        return self.binary_intrinsic("copysign", magnitude, sign)

    def with_sign(self, size: Any, sign: Any) -> Any:
        """copysign for a size that has no sign of its own: one instruction less."""
        bits = bits_of(size.type)
        return self.from_bits(self.or_(self.bits(size), self.and_(self.bits(sign), 1 << (bits - 1))))

    def signbit(self, x: Any) -> Any:
        return self.compare("<", self.bits(x), 0)

    def power_of_two(self, exponent: Any) -> Any:
        """2**exponent as a float of the integer's width, for exponents of normal numbers."""
        bits = bits_of(exponent.type)
        return self.from_bits(self.shift_left(self.add(exponent, EXPONENT_BIAS[bits]), MANTISSA_BITS[bits]))

    # Rounding and roots, correctly rounded by the machine.

    def floor(self, x: Any) -> Any:
        return self.unary_intrinsic("floor", x)

    def ceil(self, x: Any) -> Any:
        return self.unary_intrinsic("ceil", x)

    def trunc(self, x: Any) -> Any:
        return self.unary_intrinsic("trunc", x)

    def round(self, x: Any) -> Any:
        """To the nearest integer, ties to even."""
        return self.unary_intrinsic("roundeven", x)

    def sqrt(self, x: Any) -> Any:
        return self.unary_intrinsic("sqrt", x)

    def true(self, x: Any) -> Any:
        """True in every lane of the value x."""
        return self.constant(1, bool_like(x.type))

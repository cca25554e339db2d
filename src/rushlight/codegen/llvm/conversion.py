"""Conversions between the types of registers, and to and from the 16-bit floats of memory."""

from __future__ import annotations

import functools
from typing import Any

from .arithmetic import Arithmetic
from .types import bits_of, element_of, is_bool, is_float, like


class Conversion(Arithmetic):
    """Conversions as PyTorch makes them: to a 16-bit float always by way of float32, to integers towards
    zero."""

    def cast(self, x: Any, element: Any, *, signed_from: bool = True, signed_to: bool = True) -> Any:
        """`x` with another element type; to bool asks whether x is not zero (NaN is not), integers wrap
        around.

        A float outside the range of an integer type gives what the machine gives, as in C; see
        `saturating_cast`.
        """
        kind = like(x.type, element)
        if kind == x.type:
            return x
        if is_bool(kind):
            return self.compare("!=", x, 0)
        if is_float(x.type):
            return self._from_float(x, element, signed_to)
        if is_float(kind):
            return self._integer_to_float(x, element, signed_from and not is_bool(x.type))
        if bits_of(kind) < bits_of(x.type):
            return self.builder.trunc(x, kind)
        if bits_of(kind) == bits_of(x.type):
            return x
        return (self.builder.sext if signed_from and not is_bool(x.type) else self.builder.zext)(x, kind)

    def _from_float(self, x: Any, element: Any, signed: bool) -> Any:
        source, bits = bits_of(x.type), bits_of(element)
        if source == 16:
            return self.cast(self.from_half(x), element, signed_to=signed)
        if is_float(element):
            if bits == 16:
                return self.to_half(self.cast(x, self.float))
            return (self.builder.fpext if bits > source else self.builder.fptrunc)(x, like(x.type, element))
        return self._float_to_integer(x, element, signed)

    def _integer_to_float(self, x: Any, element: Any, signed: bool) -> Any:
        if bits_of(element) == 16:
            return self.to_half(self._integer_to_float(x, self.float, signed))
        kind = like(x.type, element)
        return self.builder.sitofp(x, kind) if signed else self.builder.uitofp(x, kind)

    def _float_to_integer(self, x: Any, element: Any, signed: bool) -> Any:
        """As C compilers do it: narrow integers by way of a wider signed one, whose low bits are kept."""
        bits = bits_of(element)
        if bits == 64:
            return (self.builder.fptosi if signed else self.builder.fptoui)(x, like(x.type, element))
        wide = self.i32 if bits < 32 or signed else self.i64
        whole = self.builder.fptosi(x, like(x.type, wide))
        return whole if wide == element else self.builder.trunc(whole, like(x.type, element))

    def saturating_cast(self, x: Any, element: Any, *, signed: bool = True) -> Any:
        """A float as an integer, the nearest one in range; NaN becomes 0."""
        kind = like(x.type, element)
        return self.intrinsic("fptosi.sat" if signed else "fptoui.sat", kind, [x], [kind, x.type])

    # 16-bit floats. A bfloat16 is the upper half of a float, held in an i16.

    def from_bfloat16(self, x: Any) -> Any:
        wide = self.builder.zext(x, like(x.type, self.i32))
        return self.from_bits(self.shift_left(wide, 16))

    def to_bfloat16(self, x: Any) -> Any:
        """A float rounded to nearest even; NaN stays a quiet NaN."""
        bits = self.bits(x)
        odd = self.and_(self.shift_right(bits, 16), 1)
        nearest = self.shift_right(self.add(self.add(bits, odd), 0x7FFF), 16)
        quiet = self.or_(self.shift_right(bits, 16), 0x40)
        return self.builder.trunc(self.select(self.is_nan(x), quiet, nearest), like(x.type, self.i16))

    @functools.cached_property
    def converts_half(self) -> bool:
        """Whether the machine converts half; LLVM would call a library that is not there otherwise."""
        arm = self.target.triple.startswith(("aarch64", "arm64"))
        return arm or "+f16c" in self.target.features.split(",")

    def from_half(self, x: Any) -> Any:
        """A half as a float."""
        if self.converts_half:
            return self.builder.fpext(x, like(x.type, self.float))
        bits = self.builder.zext(self.bits(x), like(x.type, self.i32))
        magnitude = self.shift_left(self.and_(bits, 0x7FFF), 13)
        # The exponent moves by 127 - 15 = 112; multiplying moves it right for subnormal numbers too.
        finite = self.bits(self.mul(self.from_bits(magnitude), 2.0**112))
        special = self.compare(">=", magnitude, 0x7C00 << 13)
        magnitude = self.select(special, self.or_(magnitude, 0x7F800000), finite)
        return self.from_bits(self.or_(magnitude, self.shift_left(self.and_(bits, 0x8000), 16)))

    def to_half(self, x: Any) -> Any:
        """A float rounded to the nearest half, ties to even."""
        if self.converts_half:
            return self.builder.fptrunc(x, like(x.type, self.half))
        bits = self.bits(x)
        magnitude = self.and_(bits, 0x7FFFFFFF)
        # Below 2**-14 adding 0.5 rounds to multiples of the least half, 2**-24, whose count is in the low
        # bits.
        subnormal = self.sub(self.bits(self.add(self.from_bits(magnitude), 0.5)), 0x3F000000)
        odd = self.and_(self.shift_right(magnitude, 13), 1)
        normal = self.shift_right(self.add(self.add(magnitude, odd), 0xFFF - (112 << 23)), 13)
        result = self.select(self.compare("<", magnitude, 0x38800000), subnormal, normal)
        result = self.select(self.compare(">=", magnitude, 0x47800000), 0x7C00, result)
        result = self.select(self.compare(">", magnitude, 0x7F800000), 0x7E00, result)
        result = self.or_(result, self.and_(self.shift_right(bits, 16), 0x8000))
        narrow = self.builder.trunc(result, like(x.type, self.i16))
        return self.builder.bitcast(narrow, like(x.type, self.half))

    def widen(self, x: Any) -> Any:
        """float to double."""
        return self.builder.fpext(x, like(x.type, self.double))

    def narrow(self, x: Any) -> Any:
        """double to float."""
        return self.builder.fptrunc(x, like(x.type, self.float))

    def is_double(self, x: Any) -> bool:
        return bool(element_of(x.type) == self.double)

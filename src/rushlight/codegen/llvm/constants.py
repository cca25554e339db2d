"""Constants and calls: what every part of the emitter stands on.

An operand of an emitter's method is an LLVM value or a Python number; a number takes the type of the value
beside it.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Sequence
from typing import Any

from ...core.lazy import LazyModule
from ...plan.cost import FEW_REGISTERS
from ...runtime.target import Target
from .types import bits_of, element_of, is_float, is_pointer, lanes_of, like, mangle, vector

ir = LazyModule("llvmlite.ir")
binding = LazyModule("llvmlite.binding")

Number = int | float
_FORMATS = {16: "<e", 32: "<f", 64: "<d"}


def rounded(value: float, bits: int) -> float:
    """`value` rounded to the format of that width; too large becomes infinite."""
    try:
        return float(struct.unpack(_FORMATS[bits], struct.pack(_FORMATS[bits], value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def float_bits(value: float, bits: int) -> int:
    """The bit pattern of `value` rounded to the format of that width; NaN is the positive quiet one."""
    value = rounded(value, bits)
    if value != value:
        return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}[bits]
    return int.from_bytes(struct.pack(_FORMATS[bits], value), "little")


@functools.lru_cache(maxsize=4096)
def float_text(value: float, negative: bool, bits: int) -> str:
    """The literal of a float: LLVM spells half in its own bits, float and double in the bits of a double.

    `negative` tells 0.0 and -0.0 apart, which are equal as keys of the cache.
    """
    if bits == 16:
        return f"0xH{float_bits(value, 16):04X}"
    return f"0x{float_bits(rounded(value, bits), 64):016X}"


@functools.cache
def _short_splat() -> bool:
    return bool(binding.llvm_version_info[0] >= 20)


def splat_text(element: str, text: str, lanes: int) -> str:
    if _short_splat():
        return f"splat ({element} {text})"
    return "<" + ", ".join([f"{element} {text}"] * lanes) + ">"


def literal(kind: Any, text: str) -> Any:
    """A constant spelled out by `text`; llvmlite would take the text of a vector apart, so the type is set
    afterwards."""
    result = ir.FormattedConstant(ir.IntType(8), text)
    result.type = kind
    return result


_SPLAT = re.compile(r"splat \(i\d+ (-?\d+)\)")


def integer_of(value: Any) -> int | None:
    """The number that every lane of a constant integer holds; None for other values."""
    found = getattr(value, "constant", None)
    if isinstance(found, int):
        return found
    if not isinstance(found, str):
        return None
    splat = _SPLAT.fullmatch(found)
    if splat is not None:
        return int(splat[1])
    if found.startswith("<"):
        lanes = {lane.split()[-1] for lane in found[1:-1].split(",")}
        found = lanes.pop() if len(lanes) == 1 else ""
    return int(found) if re.fullmatch(r"-?\d+", found) else None


class Constants:
    """Constants of any type, intrinsics, and Python numbers as operands."""

    def __init__(self, builder: Any, target: Target) -> None:
        self.builder = builder
        self.target = target
        self.i1, self.i8, self.i16, self.i32, self.i64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
        self.half, self.float, self.double = ir.HalfType(), ir.FloatType(), ir.DoubleType()
        self.pointer = ir.PointerType()
        # Loops with several results that were emitted here, by what they are made of; see instructions.py.
        self.loops: dict[Any, Any] = {}

    @property
    def module(self) -> Any:
        return self.builder.module

    def constant(self, value: Number, kind: Any) -> Any:
        """`value` in every lane of a type, or of the type of a value; integers wrap around."""
        kind = getattr(kind, "type", kind)
        element, lanes, bits = element_of(kind), lanes_of(kind), bits_of(kind)
        if is_float(kind):
            value = float(value)
            text = float_text(value, struct.pack("<d", value)[7] > 127, bits)
        elif bits == 1:
            text = "true" if value else "false"
        else:
            number = int(value) & ((1 << bits) - 1)
            text = str(number - (1 << bits) if number >> (bits - 1) else number)
        if lanes > 1:
            text = splat_text(str(element), text, lanes)
        return literal(kind, text)

    def zero(self, kind: Any) -> Any:
        """All bits zero: 0, 0.0, false or a null pointer."""
        kind = getattr(kind, "type", kind)
        if is_pointer(kind) and lanes_of(kind) == 1:
            return literal(kind, "null")
        return literal(kind, "zeroinitializer") if lanes_of(kind) > 1 else self.constant(0, kind)

    def stored(self, value: float, kind: Any) -> Any:
        """`value` in every lane, from memory each time: an operand that takes no register and no instruction
        of its own. LLVM would keep constants in registers, and fill them again in a loop that has too few."""
        element, lanes = element_of(kind), lanes_of(kind)
        if lanes == 1 or self.target.vector_registers > FEW_REGISTERS:
            return self.constant(value, kind)
        name = f"number.{mangle(kind)}.{self.constant(value, element).get_reference()}"
        found = self.module.globals.get(name)
        if found is None:
            found = ir.GlobalVariable(self.module, kind, name)
            found.linkage = "internal"  # and not constant: LLVM would see what it holds
            found.initializer = self.constant(value, kind)
            found.align = self.target.vector_bytes
        return self.builder.load(literal(self.pointer, found.get_reference()), align=found.align, typ=kind)

    def constant_lanes(self, values: Sequence[Number], element: Any) -> Any:
        """A vector of given numbers, one a lane."""
        if len(values) == 1:
            return self.constant(values[0], element)
        texts = [f"{element} {self.constant(v, element).get_reference()}" for v in values]
        return literal(vector(element, len(values)), "<" + ", ".join(texts) + ">")

    def iota(self, kind: Any) -> Any:
        """0, 1, 2, ... in the lanes of a type."""
        kind = getattr(kind, "type", kind)
        return self.constant_lanes(range(lanes_of(kind)), element_of(kind))

    def value(self, operand: Any, kind: Any) -> Any:
        """An operand as a value: a Python number becomes a constant of `kind`."""
        return self.constant(operand, kind) if isinstance(operand, int | float) else operand

    def values(self, *operands: Any) -> list[Any]:
        """Operands of one type, of which at least one is a value."""
        for operand in operands:
            if not isinstance(operand, int | float):
                kind = operand.type
                return [self.constant(o, kind) if isinstance(o, int | float) else o for o in operands]
        raise TypeError(f"at least one operand must be an LLVM value, got {operands}")

    def declare(self, name: str, result: Any, arguments: Sequence[Any]) -> Any:
        """The function `name` of this module, declared once."""
        found = self.module.globals.get(name)
        if found is None:
            found = ir.Function(self.module, ir.FunctionType(result, list(arguments)), name)
        return found

    def intrinsic(
        self,
        name: str,
        result: Any,
        arguments: Sequence[Any],
        overloads: Sequence[Any],
        flags: Sequence[str] = (),
    ) -> Any:
        """Call llvm.`name`, whose overloads are the types that its full name spells out."""
        full = ".".join(["llvm", name, *[mangle(t) for t in overloads]])
        function = self.declare(full, result, [a.type for a in arguments])
        return self.builder.call(function, arguments, fastmath=flags)

    def unary_intrinsic(self, name: str, x: Any) -> Any:
        return self.intrinsic(name, x.type, [x], [x.type])

    def binary_intrinsic(self, name: str, x: Any, y: Any) -> Any:
        x, y = self.values(x, y)
        return self.intrinsic(name, x.type, [x, y], [x.type])

    def like(self, x: Any, element: Any) -> Any:
        """The type with the lanes of a value and another element."""
        return like(x.type, element)

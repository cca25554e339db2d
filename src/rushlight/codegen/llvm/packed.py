"""Complex numbers of recorded bodies: packed as in memory between instructions, taken apart inside of them.

A lane is an integer of twice the width of a part, the real part in its low half. Sums, negation and
conjugation work on the packed parts; everything else takes them apart for complex.py and packs the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.dtypes import DType
from ...core.lazy import LazyModule
from . import complex as functions
from .complex import COMPLEX_FUNCTIONS, Complex
from .emitter import Emitter
from .types import bits_of, lanes_of, vector

ir = LazyModule("llvmlite.ir")

__all__ = ["PACKED", "Complex", "cast_complex", "emit_complex", "packed", "select", "supports_complex"]


def parts(e: Emitter, x: Any, dtype: DType) -> Any:
    """The parts of packed numbers one after the other, as a vector of floats."""
    return e.builder.bitcast(x, vector(_part(e, dtype), 2 * lanes_of(x.type)))


def from_parts(e: Emitter, both: Any) -> Any:
    return e.builder.bitcast(both, vector(ir.IntType(2 * bits_of(both.type)), lanes_of(both.type) // 2))


def _part(e: Emitter, dtype: DType) -> Any:
    return e.float if dtype.itemsize == 8 else e.double


def unpacked(e: Emitter, x: Any, dtype: DType) -> Complex:
    both = parts(e, x, dtype)
    lanes = lanes_of(both.type)
    return Complex(e.shuffle(both, range(0, lanes, 2)), e.shuffle(both, range(1, lanes, 2)))


def packed(e: Emitter, x: Complex) -> Any:
    lanes = lanes_of(x.real.type)
    alternating = [lane for i in range(lanes) for lane in (i, lanes + i)]
    return from_parts(e, e.shuffle(x.real, alternating, x.imag))


def cast_complex(e: Emitter, x: Any, source: DType, target: DType) -> Any:
    return from_parts(e, e.cast(parts(e, x, source), _part(e, target)))


def select(e: Emitter, condition: Any, x: Any, y: Any, dtype: DType) -> Any:
    """By parts, since there are no selections of integers wider than 64 bits."""
    if dtype.itemsize <= 8:
        return e.select(condition, x, y)
    each = [lane for i in range(lanes_of(x.type)) for lane in (i, i)]
    return from_parts(e, e.select(e.shuffle(condition, each), parts(e, x, dtype), parts(e, y, dtype)))


def _conj(e: Emitter, x: Any, dtype: DType) -> Any:
    bits = 4 * dtype.itemsize
    lanes = 2 * lanes_of(x.type)
    signs = e.constant_lanes([0, 1 << (bits - 1)] * (lanes // 2), ir.IntType(bits))
    return from_parts(e, e.xor(e.builder.bitcast(x, vector(ir.IntType(bits), lanes)), signs))


# Instructions on packed numbers: (emitter, *values, dtype).
PACKED: dict[str, Callable[..., Any]] = {
    "add": lambda e, x, y, d: from_parts(e, e.add(parts(e, x, d), parts(e, y, d))),
    "sub": lambda e, x, y, d: from_parts(e, e.sub(parts(e, x, d), parts(e, y, d))),
    "neg": lambda e, x, d: from_parts(e, e.neg(parts(e, x, d))),
    "conj": _conj,
    "real": lambda e, x, d: unpacked(e, x, d).real,
    "imag": lambda e, x, d: unpacked(e, x, d).imag,
    "truth": lambda e, x, d: functions.truth(e, unpacked(e, x, d)),
}


def supports_complex(op: str) -> bool:
    return op in PACKED or op in COMPLEX_FUNCTIONS


def emit_complex(e: Emitter, op: str, dtype: DType, values: Sequence[Any]) -> Any:
    """An instruction with complex operands of `dtype` or, for "complex" itself, a complex result."""
    if op in PACKED:
        return PACKED[op](e, *values, dtype)
    operands = [unpacked(e, v, dtype) for v in values] if dtype.is_complex else values
    result = COMPLEX_FUNCTIONS[op](e, *operands)
    return packed(e, result) if isinstance(result, Complex) else result

"""Scalar instructions of recorded bodies as LLVM code, for any number of lanes.

`emit_instruction(e, expr, values)` knows the dtypes of an expression, which LLVM's types do not tell (signed
or not, bool or byte, bfloat16 or int16), and chooses the code. Narrow floats are kept in their memory
format; arithmetic on them is
done in float and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.dtypes import Category, DType
from ...core.lazy import LazyModule
from ...loops.expr import Expr
from .emitter import Emitter
from .math import FUNCTIONS
from .types import bool_like

ir = LazyModule("llvmlite.ir")

NARROW = ("float16", "bfloat16")
# Only moved, as integers of the same size.
OPAQUE = {"complex64": 64, "complex128": 128, "float8_e4m3fn": 8, "float8_e5m2": 8}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def element_type(e: Emitter, dtype: DType) -> Any:
    """The LLVM type of a value of `dtype` in a register; in memory it is the same, but for bool, a byte."""
    if dtype.name in OPAQUE:
        return ir.IntType(OPAQUE[dtype.name])
    if dtype.category is Category.BOOL:
        return e.i1
    if dtype.name == "bfloat16":
        return e.i16
    if dtype.is_floating_point:
        return {2: e.half, 4: e.float, 8: e.double}[dtype.itemsize]
    return {1: e.i8, 2: e.i16, 4: e.i32, 8: e.i64}[dtype.itemsize]


def signed(dtype: DType) -> bool:
    return dtype.is_signed


def widened(e: Emitter, x: Any, dtype: DType) -> Any:
    """A narrow float as a float, anything else as it is."""
    if dtype.name == "bfloat16":
        return e.from_bfloat16(x)
    return e.from_half(x) if dtype.name == "float16" else x


def narrowed(e: Emitter, x: Any, dtype: DType) -> Any:
    if dtype.name == "bfloat16":
        return e.to_bfloat16(x)
    return e.to_half(x) if dtype.name == "float16" else x


def convert(e: Emitter, x: Any, source: DType, target: DType) -> Any:
    """A cast between dtypes, as eager code makes it."""
    if source is target:
        return x
    x = widened(e, x, source)
    if target.name in NARROW:
        wide = e.cast(x, e.float, signed_from=signed(source))
        return narrowed(e, wide, target)
    return e.cast(x, element_type(e, target), signed_from=signed(source), signed_to=signed(target))


def constant(e: Emitter, value: Any, dtype: DType) -> Any:
    """A scalar constant."""
    if dtype.name in OPAQUE:
        return e.constant(
            int.from_bytes(np.asarray(value).astype(dtype.numpy).tobytes(), "little"), element_type(e, dtype)
        )
    if dtype.name in NARROW:
        return narrowed(e, e.constant(float(value), e.float), dtype)
    kind = element_type(e, dtype)
    if dtype.category <= Category.INTEGRAL and isinstance(value, float):
        value = int(value)
    return e.constant(bool(value) if dtype.category is Category.BOOL else value, kind)


def emit_instruction(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    """The value of `expr` from the values of its operands, all of one number of lanes."""
    if expr.op == "cast":
        return convert(e, values[0], expr.args[0].dtype, expr.dtype)
    if expr.op == "where":
        return e.select(truth(e, values[0], expr.args[0].dtype), values[1], values[2])
    dtypes = [a.dtype for a in expr.args]
    wide = [widened(e, v, d) for v, d in zip(values, dtypes, strict=True)]
    result = _emit(e, expr.op, dtypes[0], wide)
    return narrowed(e, result, expr.dtype) if expr.dtype.name in NARROW else result


def truth(e: Emitter, x: Any, dtype: DType) -> Any:
    return x if dtype.category is Category.BOOL else e.compare("!=", widened(e, x, dtype), 0)


def _emit(e: Emitter, op: str, dtype: DType, values: Sequence[Any]) -> Any:
    if op in COMPARE:
        return e.compare(COMPARE[op], *values, signed=signed(dtype), unordered=op == "ne")
    if op.startswith("logical_"):
        return LOGIC[op](e, *[truth(e, v, _plain(dtype)) for v in values])
    if dtype.category is Category.BOOL and op in BOOL_ARITHMETIC:
        return BOOL_ARITHMETIC[op](e, *values)
    table = SIGNED if op in SIGNED else None
    if table is not None:
        return table[op](e, *values, signed=signed(dtype))
    if op in EXACT_ANSWERS and not dtype.is_floating_point:
        return e.constant(EXACT_ANSWERS[op], bool_like(values[0].type))
    simple = SIMPLE.get(op)
    if simple is not None:
        return simple(e, *values)
    return FUNCTIONS[op](e, *values, signed=signed(dtype))


def _plain(dtype: DType) -> DType:
    return dtype.opmath


def supports(expr: Expr) -> bool:
    """Whether one instruction (not those of its operands) can be emitted."""
    if expr.dtype.name in OPAQUE or any(a.dtype.name in OPAQUE for a in expr.args):
        return expr.op in ("load", "constant", "where")
    if expr.op in LEAVES or expr.op in ("cast", "where") or expr.op in COMPARE or expr.op in LOGIC:
        return True
    dtype = expr.args[0].dtype
    if expr.op in INTEGER_ONLY_FLOATS and not dtype.is_floating_point:
        return False
    if expr.op == "nextafter" and dtype.name in NARROW:
        return False  # the next float is not the next half
    if dtype.category is Category.BOOL:
        return expr.op in BOOL_ARITHMETIC or expr.op.startswith("bitwise_") or expr.op in EXACT_ANSWERS
    return expr.op in SIGNED or expr.op in SIMPLE or expr.op in FUNCTIONS or expr.op in EXACT_ANSWERS


LEAVES = frozenset(("constant", "load", "index", "reduced", "scalar", "checked_index"))
EXACT_ANSWERS = {"isnan": False, "isinf": False, "isfinite": True}  # of integers and bools
# Emitted for floats only: with integers some of them raise (a divisor of 0, a negative exponent), which
# only the eager kernel tells.
INTEGER_ONLY_FLOATS = frozenset(("pow", "div", "floor_div", "trunc_div", "remainder", "fmod"))


LOGIC: dict[str, Callable[..., Any]] = {
    "logical_and": lambda e, x, y: e.and_(x, y),
    "logical_or": lambda e, x, y: e.or_(x, y),
    "logical_xor": lambda e, x, y: e.xor(x, y),
    "logical_not": lambda e, x: e.not_(x),
}
BOOL_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda e, x, y: e.or_(x, y),
    "mul": lambda e, x, y: e.and_(x, y),
    "maximum": lambda e, x, y: e.or_(x, y),
    "minimum": lambda e, x, y: e.and_(x, y),
    "abs": lambda e, x: x,
}
SIGNED: dict[str, Callable[..., Any]] = {
    "maximum": Emitter.maximum, "minimum": Emitter.minimum, "fmax": Emitter.fmax, "fmin": Emitter.fmin,
}
SIMPLE: dict[str, Callable[..., Any]] = {
    "add": lambda e, x, y: e.add(x, y),
    "sub": lambda e, x, y: e.sub(x, y),
    "mul": lambda e, x, y: e.mul(x, y),
    "div": lambda e, x, y: e.div(x, y),
    "neg": lambda e, x: e.neg(x),
    "abs": lambda e, x: e.abs(x),
    "bitwise_and": lambda e, x, y: e.and_(x, y),
    "bitwise_or": lambda e, x, y: e.or_(x, y),
    "bitwise_xor": lambda e, x, y: e.xor(x, y),
    "bitwise_not": lambda e, x: e.not_(x),
    "isnan": lambda e, x: e.is_nan(x),
    "isinf": lambda e, x: e.compare("==", e.abs(x), float("inf")),
    "isfinite": lambda e, x: e.compare("<", e.abs(x), float("inf")),
    "signbit": lambda e, x: e.signbit(x),
    "copysign": lambda e, x, y: e.copysign(x, y),
    "floor": lambda e, x: e.floor(x),
    "ceil": lambda e, x: e.ceil(x),
    "trunc": lambda e, x: e.trunc(x),
    "round": lambda e, x: e.round(x),
    "sqrt": lambda e, x: e.sqrt(x),
}

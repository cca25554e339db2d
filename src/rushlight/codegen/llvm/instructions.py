"""Scalar instructions of recorded bodies as LLVM code, for any number of lanes.

`emit_instruction(e, expr, values)` knows the dtypes of an expression, which LLVM's types do not tell (signed
or not, bool or byte, bfloat16 or int16), and chooses the code. Narrow floats are kept in their memory
format; arithmetic on them is done in float and rounded once. A complex number is kept as it is in memory
too, as one integer of twice the width of its parts (see packed.py): what only moves values need
not know of it, and LLVM removes the packing between two instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.dtypes import Category, DType
from ...core.lazy import LazyModule
from ...core.pointwise import scalar_array
from ...loops.expr import Expr, walk
from ...loops.instructions import CHECKS
from ...loops.native import OPAQUE
from .emitter import Emitter
from .math import FUNCTIONS
from .math.rounding import frexp, nextafter_bfloat16
from .packed import PACKED, Complex, cast_complex, emit_complex, packed, select
from .philox import RANDOM, Philox, emit_random
from .types import bits_of, bool_like, lanes_of, like

ir = LazyModule("llvmlite.ir")

NARROW = ("float16", "bfloat16")
# Only moved, as integers of the same size.
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def element_type(e: Emitter, dtype: DType) -> Any:
    """The LLVM type of a value of `dtype` in a register; in memory it is the same, but for bool, a byte."""
    if dtype.name in OPAQUE or dtype.is_complex:
        return ir.IntType(8 * dtype.itemsize)
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
    if source.is_complex or target.is_complex:
        return _convert_complex(e, x, source, target)
    x = widened(e, x, source)
    if target.name in NARROW:
        wide = e.cast(x, e.float, signed_from=signed(source))
        return narrowed(e, wide, target)
    return e.cast(x, element_type(e, target), signed_from=signed(source), signed_to=signed(target))


def _convert_complex(e: Emitter, x: Any, source: DType, target: DType) -> Any:
    """Between complex numbers, and to and from the real ones: a real part is taken, or 0 added as imaginary
    part; as a bool, whether either part is not zero."""
    if source.is_complex and target.is_complex:
        return cast_complex(e, x, source, target)
    if target.is_complex:
        part = target.to_real()
        real = convert(e, x, source, part)
        return packed(e, Complex(real, e.zero(real)))
    if target.category is Category.BOOL:
        return PACKED["truth"](e, x, source)
    return convert(e, PACKED["real"](e, x, source), source.to_real(), target)


def constant(e: Emitter, value: Any, dtype: DType) -> Any:
    """A scalar constant."""
    if dtype.name in OPAQUE or dtype.is_complex:
        return e.constant(
            int.from_bytes(scalar_array(value, dtype.numpy).tobytes(), "little"), element_type(e, dtype)
        )
    if dtype.name in NARROW:
        return narrowed(e, e.constant(float(value), e.float), dtype)
    kind = element_type(e, dtype)
    if dtype.category <= Category.INTEGRAL and isinstance(value, float):
        value = int(value)
    return e.constant(bool(value) if dtype.category is Category.BOOL else value, kind)


def emit_instruction(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    """The value of `expr` from the values of its operands, all of one number of lanes."""
    special = WITH_DTYPES.get(expr.op)
    if special is not None:
        return special(e, expr, values)
    dtypes = [a.dtype for a in expr.args]
    if expr.dtype.is_complex or dtypes[0].is_complex:
        return emit_complex(e, expr.op, dtypes[0], values)
    wide = [widened(e, v, d) for v, d in zip(values, dtypes, strict=True)]
    result = _emit(e, expr.op, dtypes[0], wide)
    return narrowed(e, result, expr.dtype) if expr.dtype.name in NARROW else result


def truth(e: Emitter, x: Any, dtype: DType) -> Any:
    if dtype.is_complex:
        return PACKED["truth"](e, x, dtype)
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


# Instructions that look at dtypes themselves.


def _cast(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    return convert(e, values[0], expr.args[0].dtype, expr.dtype)


def _where(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    condition = truth(e, values[0], expr.args[0].dtype)
    if expr.dtype.is_complex:
        return select(e, condition, values[1], values[2], expr.dtype)
    return e.select(condition, values[1], values[2])


def _nextafter(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    """Among the numbers of the dtype itself: the next float is not the next half."""
    if expr.dtype.name != "bfloat16":
        return FUNCTIONS["nextafter"](e, *values)
    return e.to_bfloat16(nextafter_bfloat16(e, *[e.from_bfloat16(v) for v in values]))


def _frexp(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    mantissa, exponent = frexp(e, values[0])
    return mantissa if expr.op == "frexp_mantissa" else exponent


def _bits(e: Emitter, x: Any) -> Any:
    """The bits of a value as an integer as wide as it is in memory."""
    if bits_of(x.type) == 1:
        return e.cast(x, e.i8)
    return e.builder.bitcast(x, like(x.type, ir.IntType(bits_of(x.type))))


def _from_bits(e: Emitter, x: Any, dtype: DType) -> Any:
    kind = element_type(e, dtype)
    return e.compare("!=", x, 0) if kind == e.i1 else e.builder.bitcast(x, like(x.type, kind))


def _bitcast(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    """The same bits as another dtype of the same size."""
    return _from_bits(e, _bits(e, values[0]), expr.dtype)


def _bits_part(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    """Part number values[1] of the bits of values[0], as a narrower dtype."""
    x, size = _bits(e, values[0]), 8 * expr.dtype.itemsize
    distance = e.cast(e.mul(values[1], size), ir.IntType(bits_of(x.type)))
    part = e.builder.trunc(e.shift_right(x, distance), like(x.type, ir.IntType(size)))
    return _from_bits(e, part, expr.dtype)


def _bits_join(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    """The bits of several values one after the other, as a wider dtype."""
    whole: Any = None
    for i, value in enumerate(values):
        part = _bits(e, value)
        wide = e.builder.zext(part, like(part.type, ir.IntType(8 * expr.dtype.itemsize)))
        wide = e.shift_left(wide, i * bits_of(part.type)) if i else wide
        whole = wide if whole is None else e.or_(whole, wide)
    return _from_bits(e, whole, expr.dtype)


def _iterate(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    """One result of a loop; the first that is asked for emits the loop for all."""
    loop, which = expr.data
    key = (loop, *[id(v) for v in values])
    if key not in e.loops:
        e.loops[key] = (_emit_loop(e, loop, expr, values), list(values))
    return e.loops[key][0][which]


def _emit_loop(e: Emitter, loop: Any, expr: Expr, values: Sequence[Any]) -> Sequence[Any]:
    count, *given = values
    state, captured = given[: len(loop.bodies)], given[len(loop.bodies) :]
    lanes = lanes_of(count.type)

    def step(k: Any, *state: Any) -> list[Any]:
        memo = dict(zip(loop.parameters, (k, *state, *captured), strict=True))
        return [evaluate(e, body, memo, lanes) for body in loop.bodies]

    results: Sequence[Any] = FUNCTIONS["iterate"].emit(e, count, state, step)
    return results


def evaluate(e: Emitter, expr: Expr, memo: dict[Expr, Any], lanes: int) -> Any:
    """The value of an expression whose leaves are constants or in `memo`."""
    for node in walk(expr):
        if node in memo:
            continue
        if node.op == "constant":
            memo[node] = e.splat(constant(e, node.data[1], node.dtype), lanes)
        else:
            memo[node] = emit_instruction(e, node, [memo[a] for a in node.args])
    return memo[expr]


def _random(e: Emitter, expr: Expr, values: Sequence[Any]) -> Any:
    """Random numbers, each lane by itself; the place of a draw is the same in all."""
    seed, offset, number = values
    return emit_random(Philox(e, e.extract(seed, 0)), expr.op, expr.data, offset, number)


BITS = ("bitcast", "bits_part", "bits_join")
WITH_DTYPES: dict[str, Callable[..., Any]] = {
    "cast": _cast,
    "where": _where,
    "nextafter": _nextafter,
    "frexp_mantissa": _frexp,
    "frexp_exponent": _frexp,
    "bitcast": _bitcast,
    "bits_part": _bits_part,
    "bits_join": _bits_join,
    "iterate": _iterate,
    **dict.fromkeys(RANDOM, _random),
}
LEAVES = frozenset(("constant", "load", "index", "reduced", "running", "scalar", "parameter", *CHECKS))
EXACT_ANSWERS = {"isnan": False, "isinf": False, "isfinite": True}  # of integers and bools
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
    "fmax": lambda e, x, y: e.or_(x, y),
    "fmin": lambda e, x, y: e.and_(x, y),
    "abs": lambda e, x: x,
}
SIGNED: dict[str, Callable[..., Any]] = {
    "maximum": Emitter.maximum,
    "minimum": Emitter.minimum,
    "fmax": Emitter.fmax,
    "fmin": Emitter.fmin,
    "abs": lambda e, x, signed: e.abs(x) if signed else x,
    "signbit": lambda e, x, signed: e.signbit(x) if signed else e.constant(0, bool_like(x.type)),
}
SIMPLE: dict[str, Callable[..., Any]] = {
    "add": lambda e, x, y: e.add(x, y),
    "sub": lambda e, x, y: e.sub(x, y),
    "mul": lambda e, x, y: e.mul(x, y),
    "div": lambda e, x, y: e.div(x, y),
    "neg": lambda e, x: e.neg(x),
    "bitwise_and": lambda e, x, y: e.and_(x, y),
    "bitwise_or": lambda e, x, y: e.or_(x, y),
    "bitwise_xor": lambda e, x, y: e.xor(x, y),
    "bitwise_not": lambda e, x: e.not_(x),
    "isnan": lambda e, x: e.is_nan(x),
    "isinf": lambda e, x: e.compare("==", e.abs(x), float("inf")),
    "isfinite": lambda e, x: e.compare("<", e.abs(x), float("inf")),
    "copysign": lambda e, x, y: e.copysign(x, y),
    "floor": lambda e, x: e.floor(x),
    "ceil": lambda e, x: e.ceil(x),
    "trunc": lambda e, x: e.trunc(x),
    "round": lambda e, x: e.round(x),
    "sqrt": lambda e, x: e.sqrt(x),
}

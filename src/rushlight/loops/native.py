"""Which scalar expressions there is native code for; what has none is a library call.

The instruction table says it for each instruction by the kind of its operands (`Instruction.on`);
tests/loops/test_instructions.py compares that with the code generator.
"""

from __future__ import annotations

from ..core.dtypes import Category, DType
from .expr import Expr, walk
from .instructions import INSTRUCTIONS, Role

# dtypes that are moved and selected, but not computed with
OPAQUE = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "complex32")
MOVES = ("where", "bitcast", "bits_part", "bits_join")  # instructions that only move values


def has_native_code(expr: Expr) -> bool:
    """Whether one instruction (not those of its operands) has native code."""
    row = INSTRUCTIONS[expr.op]
    if row.role in (Role.LEAF, Role.CHECK) or expr.op in MOVES:
        return True
    if expr.dtype.name in OPAQUE:
        return False
    for operand in expr.args:
        if operand.dtype.name in OPAQUE:
            return False
    if expr.op == "cast":
        return True
    if expr.op == "iterate":
        return all(has_native_code(node) for body in expr.data[0].bodies for node in walk(body))
    return _kind(expr.args[0].dtype, expr.dtype) in row.on


def _kind(operand: DType, result: DType) -> str:
    if operand.is_complex or result.is_complex:
        return "c"
    return "b" if operand.category is Category.BOOL else "r"

"""Arithmetic on small arrays, for calls of operators that run natively: loops over contiguous elements.

Each kernel is one instruction on each pair of elements, so that its results are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.lazy import LazyModule
from ...runtime.target import Target
from .emitter import Emitter
from .types import is_bool, vector

ir = LazyModule("llvmlite.ir")

VECTOR_BYTES = 32
DTYPES = ("float32", "float64", "int64")  # what kernels are there for
OPERATIONS = ("add", "sub", "mul", "div", "neg", "eq", "ne", "lt", "le", "gt", "ge")
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def element_type(name: str) -> Any:
    return {"float32": ir.FloatType, "float64": ir.DoubleType, "int64": lambda: ir.IntType(64)}[name]()


def emit_arithmetic(module: Any, target: Target) -> dict[tuple[str, str], Any]:
    """Functions `(out, a, b, count, step)` by operation and dtype: b advances by `step` elements, 1 or 0; where
    it is 0, a whole vector of equal elements is there."""
    found = {}
    for operation in OPERATIONS:
        for dtype in DTYPES:
            if operation != "div" or dtype != "int64":
                found[operation, dtype] = _emit_kernel(module, target, operation, dtype)
    return found


def _emit_kernel(module: Any, target: Target, operation: str, dtype: str) -> Any:
    pointer, word = ir.PointerType(), ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, pointer, word, word])
    function = ir.Function(module, kind, f"{operation}_{dtype}")
    function.linkage = "internal"
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
    out, a, b, count, step = function.args
    element = element_type(dtype)
    lanes = VECTOR_BYTES // (4 if dtype == "float32" else 8)
    result = e.i8 if operation in COMPARISONS else element
    compute = _instruction(e, operation)

    def at(i: Any, width: int) -> None:
        x = e.load(e.address(a, i, element), vector(element, width))
        y = e.load(e.address(b, e.mul(i, step), element), vector(element, width))
        z = compute(x, y)
        e.store(e.builder.zext(z, vector(e.i8, width)) if is_bool(z.type) else z, e.address(out, i, result))

    whole = e.and_(count, -lanes)
    with e.loop(0, whole, lanes) as i:
        at(i, lanes)
    with e.loop(whole, count) as i:
        at(i, 1)
    e.builder.ret_void()
    return function


def _instruction(e: Emitter, operation: str) -> Callable[[Any, Any], Any]:
    if operation in COMPARISONS:
        sign = COMPARISONS[operation]
        return lambda x, y: e.compare(sign, x, y, unordered=sign == "!=")
    if operation == "neg":
        return lambda x, y: e.neg(x)
    return {"add": e.add, "sub": e.sub, "mul": e.mul, "div": e.div}[operation]

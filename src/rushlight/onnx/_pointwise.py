"""Elementwise operators: their scalar bodies, each instruction of which is a node or a few."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.dtypes import BY_NUMPY, DTYPES, DType
from ..core.pointwise import plan_for
from ..core.registry import OpDef
from ._model import BOOL, FLOAT, INT64, Model, Value

# operators that are one node on floats
_WHOLE = {"sigmoid": "Sigmoid", "relu": "Relu", "silu": "Swish", "mish": "Mish", "softplus": "Softplus"}
_SINCE = {"Swish": 24, "Gelu": 20}  # opsets; those left out are older than any that is made here

# instructions that are one node
_NODES = {
    "abs": "Abs", "neg": "Neg", "floor": "Floor", "ceil": "Ceil", "round": "Round", "isnan": "IsNaN",
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin",
    "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh",
    "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf", "sub": "Sub", "div": "Div", "pow": "Pow",
    "isinf": "IsInf",
}  # fmt: skip
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}
_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
_BITS = {
    "bitwise_and": ("And", "BitwiseAnd"),
    "bitwise_or": ("Or", "BitwiseOr"),
    "bitwise_xor": ("Xor", "BitwiseXor"),
}


class Handler:
    """Instructions of scalar bodies, as nodes of a model."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def _node(self, kind: str, dtype: DType, *inputs: Any, **attributes: Any) -> Value:
        return Value(self._model.op(kind, *inputs, **attributes), dtype, ())

    # Constants and types.

    def constant(self, value: Any, like: Value) -> Value:
        return Value(self._model.constant(value, like.dtype), like.dtype, ())

    def cast(self, x: Value, dtype: DType) -> Value:
        return Value(self._model.tensor(self._model.cast(x, dtype)), dtype, x.shape)

    def dtype(self, x: Value) -> DType:
        return x.dtype

    # Arithmetic.

    def add(self, x: Value, y: Value) -> Value:
        return self._node("Or" if x.dtype is BOOL else "Add", x.dtype, x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self._node("And" if x.dtype is BOOL else "Mul", x.dtype, x, y)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        return self.add(self.mul(x, y), z)

    def maximum(self, x: Value, y: Value) -> Value:
        return self.where(self.logical_or(self.gt(x, y), self._is_nan(x)), x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        return self.where(self.logical_or(self.lt(x, y), self._is_nan(x)), x, y)

    def fmax(self, x: Value, y: Value) -> Value:
        return self.where(self.logical_or(self.ge(x, y), self._is_nan(y)), x, y)

    def fmin(self, x: Value, y: Value) -> Value:
        return self.where(self.logical_or(self.le(x, y), self._is_nan(y)), x, y)

    def _is_nan(self, x: Value) -> Value:
        return self.isnan(x) if x.dtype.is_floating_point else self.constant_bool(False)

    def constant_bool(self, value: bool) -> Value:
        return Value(self._model.constant(value, BOOL), BOOL, ())

    def trunc(self, x: Value) -> Value:
        zero = self.constant(0, x)
        return self.where(self.lt(x, zero), self.ceil(x), self.floor(x))

    def trunc_div(self, x: Value, y: Value) -> Value:
        found = self.div(x, y)
        return self.trunc(found) if x.dtype.is_floating_point else found

    def floor_div(self, x: Value, y: Value) -> Value:
        if x.dtype.is_floating_point:
            return self.floor(self.div(x, y))
        return self.div(self.sub(x, self.remainder(x, y)), y)

    def remainder(self, x: Value, y: Value) -> Value:
        if x.dtype.is_floating_point:
            return self.sub(x, self.mul(self.floor(self.div(x, y)), y))
        return self._node("Mod", x.dtype, x, y)

    def fmod(self, x: Value, y: Value) -> Value:
        return self._node("Mod", x.dtype, x, y, fmod=1)

    # Comparison and logic.

    def ne(self, x: Value, y: Value) -> Value:
        return self.logical_not(self.eq(x, y))

    def logical_not(self, x: Value) -> Value:
        return self._node("Not", BOOL, self.cast(x, BOOL))

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        return self._node("Where", x.dtype, self.cast(condition, BOOL), x, y)

    def bitwise_not(self, x: Value) -> Value:
        return self._node("Not" if x.dtype is BOOL else "BitwiseNot", x.dtype, x)

    def isfinite(self, x: Value) -> Value:
        return self.logical_not(self.logical_or(self.isnan(x), self.isinf(x)))

    def signbit(self, x: Value) -> Value:  # but for the zero that has a sign
        return self.lt(x, self.constant(0, x))

    # Functions.

    def expm1(self, x: Value) -> Value:
        return self.sub(self.exp(x), self.constant(1, x))

    def log1p(self, x: Value) -> Value:
        return self.log(self.add(x, self.constant(1, x)))

    def log2(self, x: Value) -> Value:
        return self.mul(self.log(x), self.constant(1 / math.log(2), x))

    def log10(self, x: Value) -> Value:
        return self.mul(self.log(x), self.constant(1 / math.log(10), x))

    def exp2(self, x: Value) -> Value:
        return self._node("Pow", x.dtype, self.constant(2, x), x)

    def hypot(self, x: Value, y: Value) -> Value:
        return self.sqrt(self.add(self.mul(x, x), self.mul(y, y)))

    def erfc(self, x: Value) -> Value:
        return self.sub(self.constant(1, x), self.erf(x))

    def ndtr(self, x: Value) -> Value:
        near = self.erf(self.mul(x, self.constant(math.sqrt(0.5), x)))
        return self.mul(self.add(near, self.constant(1, x)), self.constant(0.5, x))

    def conj(self, x: Value) -> Value:
        return x

    real = conj

    def __getattr__(self, instruction: str) -> Callable[..., Value]:
        if instruction in _NODES:
            truth = instruction.startswith("is")
            return lambda *x: self._node(_NODES[instruction], BOOL if truth else x[0].dtype, *x)
        if instruction in _COMPARISONS:
            return lambda x, y: self._compare(_COMPARISONS[instruction], x, y)
        if instruction in _LOGIC:
            kind = _LOGIC[instruction]
            return lambda x, y: self._node(kind, BOOL, self.cast(x, BOOL), self.cast(y, BOOL))
        if instruction in _BITS:
            return lambda x, y: self._node(_BITS[instruction][x.dtype is not BOOL], x.dtype, x, y)
        raise NotImplementedError(f"it needs {instruction}, which ONNX does not have")

    def _compare(self, kind: str, x: Value, y: Value) -> Value:
        if x.dtype is BOOL and kind != "Equal":
            x, y = self.cast(x, DTYPES["int32"]), self.cast(y, DTYPES["int32"])
        return self._node(kind, BOOL, x, y)


def pointwise(
    model: Model, op: OpDef, args: Sequence[Any], examples: Sequence[Any], results: Sequence[DType]
) -> list[Any]:
    """An elementwise operator. `examples`: the arguments as the example has them; `results`: the dtypes that it
    gives."""
    handler = Handler(model)
    plan = plan_for(op, tuple(examples), [examples[i] for i in op.operands])
    full = list(args)
    for i, casts in zip(op.operands, plan.casts, strict=True):
        if args[i] is None:
            continue
        value = args[i]
        if not isinstance(value, Value):  # a number
            dtype = BY_NUMPY[casts[0]] if casts else (INT64 if isinstance(value, int) else FLOAT)
            value = Value(model.tensor(model.cast(value, dtype)), dtype, ())
            casts = casts[1:]
        for cast in casts:
            value = handler.cast(value, BY_NUMPY[np.dtype(cast)])
        full[i] = value
    whole = _one_node(model, op, full)
    found: Any = op.body(handler, *full) if whole is None else whole  # type: ignore[misc]
    parts = found if isinstance(found, tuple) else (found,)
    return [handler.cast(part, dtype).name for part, dtype in zip(parts, results, strict=True)]


def _one_node(model: Model, op: OpDef, args: Sequence[Any]) -> Value | None:
    """An operator that ONNX has as one node."""
    x = args[0]
    if not isinstance(x, Value) or not x.dtype.is_floating_point:
        return None
    kind = _WHOLE.get(op.name)
    if kind == "Softplus" and (args[1:] != [1, 20] and args[1:] != [1.0, 20.0]):
        return None
    attributes: dict[str, Any] = {}
    if op.name == "gelu":
        kind, attributes["approximate"] = "Gelu", args[1]
    if kind is None or model.opset < _SINCE.get(kind, 0):
        return None
    return Value(model.op(kind, x, **attributes), x.dtype, x.shape)

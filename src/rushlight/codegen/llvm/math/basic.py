"""Arithmetic, comparison, logic and tests of numbers, for bools, integers and floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..emitter import Emitter
from ..types import bool_like, element_of, is_bool, is_float, lanes_of
from .registry import function


@function()
def add(e: Emitter, x: Any, y: Any) -> Any:
    return e.or_(x, y) if is_bool(x.type) else e.add(x, y)


@function()
def mul(e: Emitter, x: Any, y: Any) -> Any:
    return e.and_(x, y) if is_bool(x.type) else e.mul(x, y)


@function()
def sub(e: Emitter, x: Any, y: Any) -> Any:
    return e.sub(x, y)


@function()
def div(e: Emitter, x: Any, y: Any) -> Any:
    return e.div(x, y)


@function()
def fma(e: Emitter, x: Any, y: Any, z: Any) -> Any:
    return e.fma(x, y, z)


@function()
def neg(e: Emitter, x: Any) -> Any:
    return e.neg(x)


@function("abs", by_sign=True)
def absolute(e: Emitter, x: Any, *, signed: bool) -> Any:
    return e.abs(x) if is_float(x.type) or (signed and not is_bool(x.type)) else x


@function(by_sign=True)
def maximum(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return e.maximum(x, y, signed=signed)


@function(by_sign=True)
def minimum(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return e.minimum(x, y, signed=signed)


@function(by_sign=True)
def fmax(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return e.fmax(x, y, signed=signed)


@function(by_sign=True)
def fmin(e: Emitter, x: Any, y: Any, *, signed: bool) -> Any:
    return e.fmin(x, y, signed=signed)


def _comparison(name: str, op: str) -> None:
    function(name, by_sign=True)(lambda e, x, y, *, signed: e.compare(op, x, y, signed=signed))


for _name, _op in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    _comparison(_name, _op)


@function()
def where(e: Emitter, condition: Any, x: Any, y: Any) -> Any:
    return e.select(condition, x, y)


def truth(e: Emitter, x: Any) -> Any:
    """Whether x is not zero."""
    return e.cast(x, e.i1)


@function()
def logical_and(e: Emitter, x: Any, y: Any) -> Any:
    return e.and_(truth(e, x), truth(e, y))


@function()
def logical_or(e: Emitter, x: Any, y: Any) -> Any:
    return e.or_(truth(e, x), truth(e, y))


@function()
def logical_xor(e: Emitter, x: Any, y: Any) -> Any:
    return e.xor(truth(e, x), truth(e, y))


@function()
def logical_not(e: Emitter, x: Any) -> Any:
    return e.not_(truth(e, x))


function("bitwise_and")(lambda e, x, y: e.and_(x, y))
function("bitwise_or")(lambda e, x, y: e.or_(x, y))
function("bitwise_xor")(lambda e, x, y: e.xor(x, y))
function("bitwise_not")(lambda e, x: e.not_(x))


# Tests of numbers; integers and bools are finite.


@function()
def isnan(e: Emitter, x: Any) -> Any:
    return e.is_nan(x) if is_float(x.type) else e.zero(bool_like(x.type))


@function()
def isinf(e: Emitter, x: Any) -> Any:
    return e.compare("==", e.abs(x), float("inf")) if is_float(x.type) else e.zero(bool_like(x.type))


@function()
def isfinite(e: Emitter, x: Any) -> Any:
    return e.compare("<", e.abs(x), float("inf")) if is_float(x.type) else e.true(x)


@function()
def signbit(e: Emitter, x: Any) -> Any:
    return e.signbit(x)


@function()
def copysign(e: Emitter, x: Any, y: Any) -> Any:
    return e.copysign(x, y)


@function()
def iterate(
    e: Emitter, count: Any, state: Sequence[Any], step: Callable[..., Sequence[Any]]
) -> tuple[Any, ...]:
    """`state` after `count` steps, each lane its own; `step(k, *state)` gets k = 0, 1, ... in the type of
    state[0]."""
    kind = state[0].type

    def body(k: Any, *values: Any) -> list[Any]:
        going_on = e.compare(">", count, e.splat(e.cast(k, element_of(count.type)), lanes_of(count.type)))
        position = e.splat(e.cast(k, element_of(kind)), lanes_of(kind))
        new = step(position, *values)
        return [e.select(going_on, after, before) for after, before in zip(new, values, strict=True)]

    most = e.cast(e.reduce(count, e.maximum), e.i64)
    return tuple(e.fold(0, most, 1, list(state), body))

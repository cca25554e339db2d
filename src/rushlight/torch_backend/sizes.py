"""PyTorch's symbolic sizes (expressions of SymPy): as numbers of a call, and as sizes of ours.

A symbol of PyTorch's becomes one of ours (core/symbols.py). An expression that ours have no form for becomes a
symbol of its own, which every call works out.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import CeilDiv, CleanDiv, FloorDiv, Mod, PythonMod

from ..capture.numbers import LiveNumber, Numbers
from ..core.atoms import INFINITY

Bindings = Mapping[Any, Any]  # symbols, and what they are in a call

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def symbols_of(value: Any) -> set[Any]:
    """The symbols of a number, of a (fake) tensor's layout, or of those in tuples."""
    if isinstance(value, (tuple, list)):
        return set().union(*map(symbols_of, value))
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return set()
        return symbols_of((*value.shape, *value.stride(), value.storage_offset()))
    return set(value.node.expr.free_symbols) if isinstance(value, SYMBOLIC) else set()


def number(value: Any, bindings: Bindings) -> Any:
    """What a number is in a call."""
    if not isinstance(value, SYMBOLIC):
        return value
    kind = int if isinstance(value, torch.SymInt) else float if isinstance(value, torch.SymFloat) else bool
    return evaluated(value.node.expr, bindings, kind)


def evaluated(expr: Any, bindings: Any, kind: Callable[[Any], Any]) -> Any:
    """What an expression is in a call."""
    return _evaluated(expr, tuple(bindings.items()), kind)


@functools.lru_cache(maxsize=4096)
def _evaluated(expr: Any, bindings: tuple[tuple[Any, Any], ...], kind: Callable[[Any], Any]) -> Any:
    return kind(expr.xreplace({symbol: sympy.sympify(n) for symbol, n in bindings}))


def numbers(values: Sequence[Any], bindings: Bindings) -> tuple[int, ...]:
    return tuple([value if type(value) is int else number(value, bindings) for value in values])


def bind(value: Any, given: Any, bindings: dict[Any, Any]) -> None:
    """Learn from what was given for `value` (a number, or a fake tensor) what its symbols are."""
    if isinstance(value, (tuple, list)):
        for part, found in zip(value, given, strict=True):
            bind(part, found, bindings)
    elif isinstance(value, torch.Tensor) and value.layout is torch.strided:
        for size, found in zip((*value.shape, *value.stride()), (*given.shape, *given.stride()), strict=True):
            if type(size) is torch.SymInt and size.node.expr.is_symbol:
                bindings.setdefault(size.node.expr, found)
    elif isinstance(value, SYMBOLIC) and value.node.expr.is_symbol:
        bindings[value.node.expr] = given


def readers(values: Sequence[Any]) -> dict[Any, Callable[[Sequence[Any]], Any]]:
    """The symbols that arguments, described by `values`, tell; and what reads each of the arguments of a call."""
    found: dict[Any, Callable[[Sequence[Any]], Any]] = {}
    for i, value in enumerate(values):
        if isinstance(value, SYMBOLIC) and value.node.expr.is_symbol:
            found[value.node.expr] = operator.itemgetter(i)
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            for name, sizes in (("shape", value.shape), ("strides", value.stride())):
                for d, size in enumerate(sizes):
                    if type(size) is torch.SymInt and size.node.expr.is_symbol:
                        found.setdefault(size.node.expr, functools.partial(_read, i, name, d))
    return found


def _read(i: int, name: str, d: int, args: Sequence[Any]) -> int:
    return args[i].shape[d] if name == "shape" else args[i].stride(d)


_BINARY: dict[Any, Callable[[Any, Any], Any]] = {
    FloorDiv: operator.floordiv,
    CleanDiv: operator.floordiv,
    Mod: operator.mod,
    PythonMod: operator.mod,
    CeilDiv: lambda a, b: -(-a // b),
}


class Sizes:
    """The sizes of one translation, which is made for the numbers `bindings`."""

    def __init__(self, live: Numbers, bindings: Bindings) -> None:
        self._live, self._bindings = live, bindings
        self._known: dict[Any, Any] = {}

    def size(self, value: Any) -> Any:
        """A number of PyTorch's as one of ours."""
        if not isinstance(value, SYMBOLIC):
            return value
        expr = value.node.expr
        if isinstance(value, torch.SymBool):
            return self._root(expr, bool).specialise()  # with a guard that it holds, or does not
        if isinstance(value, torch.SymFloat):
            return self._root(expr, float)  # an input of the program
        return self._size(expr, value.node.shape_env)

    def _size(self, expr: Any, env: Any) -> Any:
        if expr.is_Integer:
            return int(expr)
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = self._made(expr, env)
        return known

    def _made(self, expr: Any, env: Any) -> Any:
        parts = [] if expr.is_Symbol else [self._size(a, env) for a in expr.args if _is_integer(a)]
        if parts and len(parts) == len(expr.args):
            if expr.is_Add:
                return functools.reduce(operator.add, parts)
            if expr.is_Mul:
                return math.prod(parts)
            if expr.is_Pow and type(parts[1]) is int and parts[1] > 0:
                return math.prod([parts[0]] * parts[1])
            if expr.func in _BINARY:
                return _BINARY[expr.func](*parts)
        hint = evaluated(expr, self._bindings, int)
        return self._live.size(hint, lambda leaves: evaluated(expr, leaves, int), str(expr), _low(expr, env))

    def _root(self, expr: Any, kind: Callable[[Any], Any]) -> LiveNumber:
        """A number that is computed of sizes, which every call works out."""
        live = self._live
        live.roots.append(lambda leaves: evaluated(expr, leaves, kind))
        live.names.append(str(expr))
        return LiveNumber(live, evaluated(expr, self._bindings, kind), f"v[{len(live.roots) - 1}]")


def _is_integer(expr: Any) -> bool:
    return bool(expr.is_Integer) or expr.is_integer is not False


def _low(expr: Any, env: Any) -> Any:
    """The least number that PyTorch's guards admit."""
    low = env.bound_sympy(expr).lower
    return int(low) if low.is_Integer else -INFINITY

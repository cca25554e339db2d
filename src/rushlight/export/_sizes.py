"""Sizes of an exported program as data: expressions of sizes of its inputs, and conditions on them.

An expression is a number, the name of a symbol, or a list of an operation and its operands: `["+", "s0", 1]`.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.atoms import Dim
from ..core.errors import check
from ..core.index import Index, Quotient, Remainder
from ..core.symbol_table import SizeGuard

Expression = int | float | str | list[Any]
RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le, "<": operator.lt, ">":
    operator.gt,
}  # fmt: skip
# what numbers are computed with, under the names that expressions have for it
OPERATIONS: dict[str, Callable[..., Any]] = {
    **RELATIONS,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "neg": operator.neg, "pos": operator.pos, "abs": operator.abs,
    "round": round, "float": float, "min": min, "max": max,
    **{f"math.{name}": getattr(math, name) for name in (
        "ceil", "cos", "exp", "floor", "isqrt", "log", "log10", "log2", "sin", "sqrt", "tan", "tanh", "trunc",
    )},
}  # fmt: skip
_NEGATED = {"==": "!=", ">=": "<"}
_SIGNS: dict[type, str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.USub: "neg", ast.UAdd: "pos", ast.Eq: "==", ast.NotEq: "!=", ast.GtE: ">=", ast.LtE: "<=", ast.Lt: "<",
    ast.Gt: ">",
}  # fmt: skip


def expression_of(index: Index, name: Callable[[Dim], str]) -> Expression:
    """An expression of the compiler's as data."""
    total: Expression = 0
    for monomial, coefficient in index.terms.items():
        product: Expression = coefficient
        for atom in monomial:
            factor: Expression
            if isinstance(atom, Quotient | Remainder):
                sign = "//" if isinstance(atom, Quotient) else "%"
                factor = [sign, expression_of(atom.value, name), expression_of(atom.divisor, name)]
            else:
                assert isinstance(atom, Dim)
                factor = name(atom)
            product = factor if product == 1 else ["*", product, factor]
        total = product if total == 0 else ["+", total, product]
    return total


def parsed(text: str, root: Callable[[int], str]) -> Expression | None:
    """An expression of live numbers, in Python, as data; None if it has no such form. `root(i)` names what
    is `v[i]`."""

    def walk(node: ast.AST) -> Expression:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
            return node.value
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return root(int(str(node.slice.value)))
        if isinstance(node, ast.BinOp):
            return [_SIGNS[type(node.op)], walk(node.left), walk(node.right)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
            return ast.literal_eval(node)
        if isinstance(node, ast.UnaryOp):
            return [_SIGNS[type(node.op)], walk(node.operand)]
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return [_SIGNS[type(node.ops[0])], walk(node.left), walk(node.comparators[0])]
        if isinstance(node, ast.Call) and ast.unparse(node.func) in OPERATIONS:
            return [ast.unparse(node.func), *map(walk, node.args)]
        raise KeyError(ast.unparse(node))

    try:
        return walk(ast.parse(text, mode="eval").body)
    except KeyError:
        return None


def value_of(expression: Expression, sizes: Mapping[str, int]) -> Any:
    """What an expression is for these values of the symbols."""
    if isinstance(expression, list):
        sign, *operands = expression
        check(sign in OPERATIONS, f"{expression} is no expression of sizes", ValueError)
        return OPERATIONS[sign](*(value_of(part, sizes) for part in operands))
    return sizes[expression] if isinstance(expression, str) else expression


def text_of(expression: Expression, names: Mapping[str, str]) -> str:
    """An expression in words, with these names of the symbols."""
    if isinstance(expression, list):
        sign, *operands = expression
        if sign[0].isalpha():
            return f"{sign}({', '.join(text_of(part, names) for part in operands)})"
        inside = f" {sign} ".join(text_of(part, names) for part in operands)
        return inside if sign == "+" else f"({inside})" if sign != "*" else inside.replace(" * ", "*")
    return names.get(expression, expression) if isinstance(expression, str) else str(expression)


@dataclass(frozen=True)
class Condition:
    """What must hold of the sizes of a call."""

    left: Expression
    relation: str  # a key of RELATIONS
    right: Any

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return RELATIONS[self.relation](value_of(self.left, sizes), self.right)

    def text(self, names: Mapping[str, str]) -> str:
        return f"{text_of(self.left, names)} {self.relation} {self.right}"


def condition_of(guard: SizeGuard, name: Callable[[Dim], str]) -> Condition:
    """A guard of the compiler's, with the constant on the right."""
    relation = guard.relation.split()[0]
    if not guard.holds:
        relation = _NEGATED[relation]
    constant = next((c for monomial, c in guard.index.terms.items() if not tuple(monomial)), 0)
    return Condition(expression_of(guard.index - constant, name), relation, -constant)


@dataclass(frozen=True)
class ValueRanges:
    """The numbers that a size may be."""

    lower: int
    upper: int | float

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == math.inf else self.upper}]"

"""Products of triangular matrices of weights, found in a graph: causal attention multiplies little else.

Scores that are minus infinity beyond a diagonal have weights, by softmax or exp, that are zero there, and so
does everything that is multiplied by these weights. Half of the terms of a product with such a matrix are
zero. Half of the elements of a product need not be computed at all if whoever uses them masks them, as it
does the scores themselves and the gradients of the weights; these are zero then.

What a weight of zero is multiplied by counts as finite, as in every fused attention: an infinity on the other
side of the diagonal does not turn a sum into NaN. Matrices that are zero for another reason, `tril` of some
data for example, are multiplied as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from ..core.registry import Kind
from ..core.traits import Trait
from ..graph.ir import Graph, Node, Value
from ..loops.product import Side, Triangle


@dataclass(frozen=True)
class _Fact:
    """What all matrices of a value are beyond a diagonal: where column > row + diagonal, or, transposed, where
    row > column + diagonal."""

    beyond: str  # "zero", which False is too, "true" or "minus infinity"
    diagonal: int
    transposed: bool = False
    weights: bool = False  # the zeros are weights of what was minus infinity, or multiplied by such


ZERO, TRUE, MINUS_INFINITY = "zero", "true", "minus infinity"


def triangles(graph: Graph) -> dict[Node, Triangle]:
    """For products in a graph, by their nodes: which operand is triangular, or the part of the result that is
    of use."""
    if not any(node.op.name.startswith("tril") or node.op.name.startswith("triu") for node in graph.nodes):
        return {}
    facts: dict[Value, _Fact] = {}
    for node in graph.nodes:
        fact = _fact_of(node, facts)
        if fact is not None:
            facts[node.outputs[0]] = fact
    if not facts:
        return {}
    uses = _Uses(graph, facts)
    found = {}
    for node in graph.nodes:
        if node.op.name == "bmm":
            triangle = _of_operands(node, facts) or uses.triangle_of(node.outputs[0])
            if triangle is not None:
                found[node] = triangle
    return found


# Facts.


def _fact_of(node: Node, facts: dict[Value, _Fact]) -> _Fact | None:
    name, out = node.op.name, node.outputs[0]
    if len(out.shape) < 2:
        return None
    if node.op.kind is Kind.VIEW or name == "_unsafe_view":
        return _of_view(node.args[0], out, facts)
    known = [_at(a, out, facts) for a in node.args]
    if name == "tril":
        return _Fact(ZERO, node.args[1]) if isinstance(node.args[1], int) else None
    if name == "logical_not" or (name == "bitwise_not" and out.dtype.name == "bool"):
        return replace(known[0], beyond=TRUE, weights=False) if _is(known[0], ZERO) else None
    if name == "where.self":
        return _of_where(node.args, known)
    if name == "add.Tensor":
        return None if node.args[2] != 1 else next((k for k in known[:2] if _is(k, MINUS_INFINITY)), None)
    if name in ("sub.Tensor", "exp"):
        beyond = MINUS_INFINITY if name == "sub.Tensor" else ZERO
        return (
            replace(known[0], beyond=beyond, weights=name == "exp") if _is(known[0], MINUS_INFINITY) else None
        )
    if name == "mul.Tensor":
        return max((k for k in known[:2] if _is(k, ZERO)), key=lambda k: k.weights, default=None)
    if name in ("_softmax", "_softmax_backward_data"):
        wanted, at = (MINUS_INFINITY, 0) if name == "_softmax" else (ZERO, 1)
        given, along = known[at], node.args[at + 1]
        along_rows = along in (-1, len(out.shape) - 1)
        if _is(given, wanted) and not given.transposed and along_rows:
            return _Fact(ZERO, given.diagonal, weights=name == "_softmax" or given.weights)
        return None
    numbers = not any(isinstance(argument, Value) for argument in node.args[1:])
    return known[0] if numbers and node.op.traits & Trait.KEEPS_ZERO and _is(known[0], ZERO) else None


def _of_where(args: Sequence[Any], known: Sequence[_Fact | None]) -> _Fact | None:
    """Both sides alike beyond the diagonal, or one of them, where the condition decides that."""
    condition, first, second = known
    numbers = [_number(a) for a in args[1:]]
    for fact, other in ((first, numbers[1]), (second, numbers[0])):
        if _is(fact, ZERO) and other == 0:
            return fact
    if condition is not None and condition.beyond in (TRUE, ZERO):
        chosen = numbers[0] if condition.beyond == TRUE else numbers[1]
        if chosen == -math.inf or chosen == 0:
            beyond = ZERO if chosen == 0 else MINUS_INFINITY
            return _Fact(beyond, condition.diagonal, condition.transposed)
    return None


def _is(fact: _Fact | None, beyond: str) -> TypeGuard[_Fact]:
    return fact is not None and fact.beyond == beyond


def _at(argument: Any, out: Value, facts: dict[Value, _Fact]) -> _Fact | None:
    """What is known of an argument, if its matrices are those of the output."""
    if isinstance(argument, Value) and argument.shape[-2:] == out.shape[-2:]:
        return facts.get(argument)
    return None


def _number(argument: Any) -> float | None:
    """The number that a value is everywhere, if it was made so."""
    if not isinstance(argument, Value) or argument.node is None:
        return None
    name, args = argument.node.op.name, argument.node.args
    if name in ("zeros", "zeros_like"):
        return 0.0
    number = args[0] if name == "scalar_tensor" else args[1] if name in ("full", "full_like") else None
    return float(number) if isinstance(number, int | float) else None


def _of_view(source: Value, out: Value, facts: dict[Value, _Fact]) -> _Fact | None:
    """The same matrices, or their transposes, in another arrangement."""
    fact = facts.get(source)
    if fact is None or source.dtype is not out.dtype:
        return None
    (rows, columns), (row, column) = source.shape[-2:], source.spec.known_strides()[-2:]
    if (row, column) != (columns, 1):
        return None
    *outer, first, second = zip(out.shape, out.spec.known_strides(), strict=True)
    size = rows * columns
    if size == 0:
        return None
    if (out.spec.offset - source.spec.offset) % size or any(step % size for n, step in outer if n > 1):
        return None
    if (first, second) == ((rows, row), (columns, column)):
        return fact
    if (first, second) == ((columns, column), (rows, row)):
        return replace(fact, transposed=not fact.transposed)
    return None


# Products.


def _of_operands(node: Node, facts: dict[Value, _Fact]) -> Triangle | None:
    left, right = node.args[:2]
    (rows, depth), columns = left.shape[-2:], right.shape[-1]
    for value, sides, length in (
        (left, (Side.LEFT_LOWER, Side.LEFT_UPPER), rows),
        (right, (Side.RIGHT_LOWER, Side.RIGHT_UPPER), columns),
    ):
        fact = facts.get(value)
        # no sum is empty
        if fact is not None and fact.weights and fact.diagonal >= 0 and length <= depth + fact.diagonal:
            return Triangle(sides[fact.transposed], fact.diagonal)
    return None


class _Uses:
    """Which elements of a value anybody looks at."""

    def __init__(self, graph: Graph, facts: dict[Value, _Fact]) -> None:
        self.facts = facts
        self.users = graph.users()
        # diagonals beyond which nobody looks; None if there is none
        self.known: dict[Value, int | None] = dict.fromkeys(graph.outputs)

    def triangle_of(self, value: Value) -> Triangle | None:
        diagonal = self.unused_beyond(value)
        return None if diagonal is None or diagonal < 0 else Triangle(Side.RESULT, diagonal)

    def unused_beyond(self, value: Value) -> int | None:
        if value not in self.known:
            found = {self._by(user, value) for user in self.users.get(value, ())}
            self.known[value] = found.pop() if len(found) == 1 else None
        return self.known[value]

    def _by(self, user: Node, value: Value) -> int | None:
        """The same, for one user."""
        out = user.outputs[0]
        if user.op.kind is Kind.VIEW or user.op.name == "_unsafe_view":
            plain = _Fact(ZERO, 0)
            return self.unused_beyond(out) if _of_view(value, out, {value: plain}) == plain else None
        if value.shape[-2:] != out.shape[-2:] or len(user.outputs) != 1:
            return None
        fact = self.facts.get(out)
        if (
            fact is not None
            and not fact.transposed
            and self._masks(user, value)
            and (fact.weights or fact.beyond == MINUS_INFINITY)
        ):
            return fact.diagonal
        return self.unused_beyond(out) if user.op.kind is Kind.POINTWISE else None

    def _masks(self, user: Node, value: Value) -> bool:
        """Whether what a call knows beyond a diagonal comes from its other operands."""
        if user.op.name in ("add.Tensor", "mul.Tensor", "where.self"):
            return not any(a is value for a in user.args if isinstance(a, Value) and a in self.facts)
        return user.op.name == "_softmax_backward_data" and user.args[1] is not value

"""What a specialization needs of its live numbers: guards on them, and what fills its inputs."""

from __future__ import annotations

import copy
import functools
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.symbols import LARGEST, SizeGuard
from .locations import MISSING

if TYPE_CHECKING:
    from .numbers import Numbers

SCOPE = {"math": math}  # what expressions mention


class LiveInputs:
    """What a specialization needs of its live numbers."""

    def __init__(self, numbers: Numbers, used: dict[type, list[str]]) -> None:
        self.roots, self.names = list(numbers.roots), list(numbers.names)
        self.used = used  # the expressions of numbers that are inputs, by their type
        self._holds = all_hold([text for text, _ in numbers.guards], list(numbers.guards.values()))
        self.fills = {kind: computing(texts) for kind, texts in used.items()}
        self.inputs = {kind: numbers.inputs[kind] for kind in used}
        # expressions, and the values that they must have
        self.guards = [(expression, value) for (expression, _), value in numbers.guards.items()]
        self.lines: dict[str, str] = {}  # by expression, of the program that needs a guard
        self.sizes = dict(numbers.sizes)  # symbols, and which root each is
        self.symbols = numbers.symbols
        # whether a symbol says where an argument lies, which the key of a call does not
        self.asks_places = not self.symbols.places.keys().isdisjoint(self.sizes)
        self.containers, self.places = list(numbers.containers), list(numbers.places)
        self.counters = {(id(container), key) for container, key, _, _ in numbers.counters}
        self.trivial = not self.guards and not used
        self.guarded = bool(self.guards)
        self._last: tuple[list[Any], list[np.ndarray]] | None = None  # values of a call, and its inputs

    def assume(self, guards: Sequence[SizeGuard]) -> None:
        """Hold only where what the compiler has assumed of sizes holds, too."""
        needed = [
            (guard.expression(lambda dim: f"v[{self.sizes[dim]}]"), guard.line)
            for guard in guards
            if not self.symbols.is_data(guard.index)
        ]
        self.lines.update((text, line) for text, line in needed if line)
        texts = [text for text, _ in needed]
        known = {expression for expression, _ in self.guards}
        texts = [text for text in dict.fromkeys(texts) if text not in known]
        if texts:
            self.guards = [*self.guards, *((text, True) for text in texts)]
            self.guarded, self.trivial = True, False
            before, sizes_fit = self._holds, eval(f"lambda v: {' and '.join(texts)}", dict(SCOPE))
            self._holds = lambda v: before(v) and sizes_fit(v)

    def numbers_needed(self) -> list[int]:
        """The arguments, by number, that are ints whose value is needed."""
        needed = {expression for expression, value in self.guards if type(value) is int}
        return [
            int(name.removeprefix("argument "))
            for i, name in enumerate(self.names)
            if f"v[{i}]" in needed and name.removeprefix("argument ").isdigit()
        ]

    def sizes_of(self, values: Sequence[Any]) -> list[int]:
        """The sizes that change, in the order of their symbols, among the values of the roots."""
        return [values[root] for root in self.sizes.values()]

    def at(self, values: Sequence[Any]) -> LiveInputs:
        """The same for calls with the sizes among these values alone, and no sizes that change."""
        fixed = copy.copy(self)
        sizes = set(self.sizes.values())
        fixed.roots = [
            functools.partial(_given, values[i]) if i in sizes else root for i, root in enumerate(self.roots)
        ]
        fixed.sizes, fixed._last = {}, None
        fixed.guards = [(text, value) for text, value in self.guards if not roots_in(text) <= sizes]
        fixed.guarded = bool(fixed.guards)
        return fixed

    def found(self, values: list[Any], sizes: Sequence[int]) -> None:
        """A run has found the sizes that are data: `values` of the roots with these in place."""
        for root, size in zip(self.sizes.values(), sizes, strict=True):
            values[root] = size

    def read(self, leaves: Any) -> list[Any]:
        """The present values of the roots."""
        return [root(leaves) for root in self.roots]

    def holds(self, values: list[Any]) -> bool:
        try:
            return bool(self._holds(values))
        except (ArithmeticError, ValueError):
            return False

    def evaluated(self, expression: str, leaves: Any) -> Any:
        """What an expression of the roots is in a call; MISSING if that is an error."""
        try:
            return eval(f"lambda v: {expression}", dict(SCOPE))(self.read(leaves))
        except (ArithmeticError, ValueError):
            return MISSING

    def symbols_in_words(self) -> list[str]:
        """Each size that changes: what it is, was in the call that was captured, and may be."""
        return [
            f"{dim.name} is {self.names[root]}, {self.symbols.hints[dim]} here, {_range(dim.low, dim.high)}"
            for dim, root in self.sizes.items()
        ]

    def in_words(self, expression: str) -> str:
        """An expression with the names of the roots."""
        return re.sub(r"v\[(\d+)\]", lambda found: self.names[int(found[1])], expression)

    def filled(self, kinds: Sequence[type]) -> list[np.ndarray] | None:
        """The inputs for numbers of these kinds in a call without numbers as arguments; None if a guard does
        not hold. The same objects as in the last call mean the same inputs.
        """
        values, last = self.read(()), self._last
        if last is not None and all(map(operator.is_, values, last[0])):
            return last[1]
        if self.guarded and not self.holds(values):
            return None
        inputs = [self.fill(kind, values) for kind in kinds]
        self._last = values, inputs
        return inputs

    def fill(self, kind: type, values: list[Any]) -> np.ndarray:
        """What the graph input for numbers of `kind` holds. OverflowError for an int that does not fit."""
        return np.array(self.fills[kind](values), np.float64 if kind is float else np.int64)


def all_hold(texts: Sequence[str], expected: Sequence[Any]) -> Callable[[Any], bool]:
    """Whether all expressions of the roots' values have the values that are expected."""
    if not texts:
        return _always
    checks = [f"same({text}, g[{i}])" for i, text in enumerate(texts)]
    found: Callable[[Any], bool] = eval(
        f"lambda v: {' and '.join(checks) or 'True'}", {**SCOPE, "same": same, "g": list(expected)}
    )
    return found


def _always(values: Any) -> bool:
    return True


def computing(texts: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What expressions of the roots' values are."""
    found: Callable[[Any], tuple[Any, ...]] = eval(f"lambda v: ({', '.join(texts)},)", dict(SCOPE))
    return found


def _range(low: Any, high: Any) -> str:
    """The numbers that a symbol may be, in words."""
    ends = [f"from {low}"] if low > -LARGEST else []
    return " ".join([*ends, f"to {high}"] if high < LARGEST else ends) or "any number"


def _given(value: Any, leaves: Any) -> Any:
    return value


def roots_in(expression: str) -> set[int]:
    return {int(number) for number in re.findall(r"v\[(\d+)\]", expression)}


def same(a: Any, b: Any) -> bool:
    """Whether a guarded value is what it was: same type, same value, NaN and the sign of zero included."""
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return (a == b and (a != 0 or math.copysign(1, a) == math.copysign(1, b))) or (a != a and b != b)
    return a is b or bool(a == b)

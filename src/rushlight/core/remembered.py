"""Results of exact arithmetic that are worked out once.

Equal layers of a model ask for the same sums, products and quotients of indices over and over. An operand takes
part if it is `fixed`: if it means the same in every program, which a size that is known at calls alone does
not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any


class Results(dict[Any, Any]):
    """Of one operation; when there are too many, all are forgotten."""

    MOST = 100_000

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= self.MOST:
            self.clear()
        super().__setitem__(key, value)


def _is_fixed(value: Any) -> bool:
    """Of its class first: a size that changes becomes a number when it is asked for what it has not."""
    return type(value) is int or (hasattr(type(value), "fixed") and value.fixed)


def remembered(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A method of an immutable number and another operand, or an int, that is worked out once for each pair."""
    known = Results()

    @functools.wraps(operation)
    def result(self: Any, other: Any) -> Any:
        if not self.fixed or not _is_fixed(other):
            return operation(self, other)
        key = (self, other)
        found = known.get(key)
        if found is None:
            found = known[key] = operation(self, other)
        return found

    return result


def remembered_mapping(operation: Callable[[Any, Mapping[Any, Any]], Any]) -> Callable[[Any, Any], Any]:
    """The same of a method whose operand says what to put in place of what."""
    known = Results()

    @functools.wraps(operation)
    def result(self: Any, values: Mapping[Any, Any]) -> Any:
        if not self.fixed or not all(map(_is_fixed, values.values())):
            return operation(self, values)
        key = (self, tuple(values.items()))
        found = known.get(key)
        if found is None:
            found = known[key] = operation(self, values)
        return found

    return result

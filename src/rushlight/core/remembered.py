"""Results of exact arithmetic that are worked out once.

Equal layers of a model ask for the same sums, products and quotients of indices over and over. What means the
same in every program (`fixed`) is remembered for all of them; an expression of sizes that are known at calls
alone, by the `owner` of these for as long as a program is compiled (core/symbol_table.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any


class Results(dict[Any, Any]):
    """Of operations and operands; when there are too many, all are forgotten."""

    MOST = 100_000

    def keep(self, key: Any, value: Any) -> None:
        if len(self) >= self.MOST:
            self.clear()
        self[key] = value


def memory_of(owner: Any) -> Results | None:
    """What the owner of symbols remembers; None if there is no owner."""
    return getattr(owner, "remembered", None)


def remembered(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A method of an immutable number and another operand, or an int, that is worked out once for each pair."""
    known = Results()

    @functools.wraps(operation)
    def result(self: Any, other: Any) -> Any:
        fixed, owner = self.fixed, self.owner
        if type(other) is not int:
            # of its class first: a size that changes becomes a number when it is asked for what it has not
            if not hasattr(type(other), "fixed"):
                return operation(self, other)
            if not other.fixed:
                fixed, owner = False, owner or other.owner
        kept = known if fixed else memory_of(owner)
        if kept is None:
            return operation(self, other)
        key = (operation, self, other)
        found = kept.get(key)
        if found is None:
            found = operation(self, other)
            kept.keep(key, found)
        return found

    return result


def remembered_mapping(operation: Callable[[Any, Mapping[Any, Any]], Any]) -> Callable[[Any, Any], Any]:
    """The same of a method whose operand says what to put in place of what."""
    known = Results()

    @functools.wraps(operation)
    def result(self: Any, values: Mapping[Any, Any]) -> Any:
        fixed, owner = self.fixed, self.owner
        for value in values.values():
            if type(value) is not int:
                if not hasattr(type(value), "fixed"):
                    return operation(self, values)
                if not value.fixed:
                    fixed, owner = False, owner or value.owner
        kept = known if fixed else memory_of(owner)
        if kept is None:
            return operation(self, values)
        key = (operation, self, tuple(values.items()))
        found = kept.get(key)
        if found is None:
            found = operation(self, values)
            kept.keep(key, found)
        return found

    return result

"""Results of exact arithmetic that are worked out once.

Equal layers of a model ask for the same sums, products and quotients of indices over and over. What means the
same in every program (`fixed`) is remembered for all of them; an expression of sizes that are known at calls
alone, by the `owner` of these for as long as a program is compiled (core/symbol_table.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class Results(dict[Any, Any]):
    """Of one operation; when there are too many, all are forgotten."""

    MOST = 100_000

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= self.MOST:
            self.clear()
        super().__setitem__(key, value)


def results_of(owner: Any, operation: Any) -> Results | None:
    """What the owner of symbols remembers of an operation; None if there is no owner."""
    memory: dict[Any, Results] | None = getattr(owner, "remembered", None)
    if memory is None:
        return None
    found = memory.get(operation)
    if found is None:
        found = memory[operation] = Results()
    return found


def _kept(known: Results, operation: Any, self: Any, others: Iterable[Any]) -> Results | None:
    """Where the results for these operands are; None if they are not to be remembered."""
    fixed, owner = self.fixed, self.owner
    for other in others:
        if type(other) is not int:
            # of its class first: a size that changes becomes a number when it is asked for what it has not
            if not hasattr(type(other), "fixed"):
                return None
            fixed, owner = fixed and other.fixed, owner or other.owner
    return known if fixed else results_of(owner, operation)


def remembered(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A method of an immutable number and another operand, or an int, that is worked out once for each pair."""
    known = Results()

    @functools.wraps(operation)
    def result(self: Any, other: Any) -> Any:
        kept = _kept(known, operation, self, (other,))
        if kept is None:
            return operation(self, other)
        key = (self, other)
        found = kept.get(key)
        if found is None:
            found = kept[key] = operation(self, other)
        return found

    return result


def remembered_mapping(operation: Callable[[Any, Mapping[Any, Any]], Any]) -> Callable[[Any, Any], Any]:
    """The same of a method whose operand says what to put in place of what."""
    known = Results()

    @functools.wraps(operation)
    def result(self: Any, values: Mapping[Any, Any]) -> Any:
        kept = _kept(known, operation, self, values.values())
        if kept is None:
            return operation(self, values)
        key = (self, tuple(values.items()))
        found = kept.get(key)
        if found is None:
            found = kept[key] = operation(self, values)
        return found

    return result

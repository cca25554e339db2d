"""Questions about sizes that change."""

from __future__ import annotations

from typing import Any

from ...core.nested_int import SymBool, SymFloat, SymInt

__all__ = ["guard_or_false", "guard_or_true", "guard_size_oblivious", "is_symbolic", "statically_known_true"]


def is_symbolic(val: Any) -> bool:
    """Whether a number is known only when the program runs."""
    return type(val).__mro__[1:2] != (object,) and issubclass(type(val), SymInt | SymFloat | SymBool)


def guard_size_oblivious(expr: Any) -> bool:
    """Whether something holds of sizes, with a guard that it does, or does not."""
    return bool(expr)


guard_or_false = guard_or_true = statically_known_true = guard_size_oblivious

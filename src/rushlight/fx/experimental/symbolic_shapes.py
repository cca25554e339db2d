"""Questions about sizes that change."""

from __future__ import annotations

from typing import Any

from ...core.nested_int import SymBool, SymFloat, SymInt

__all__ = ["guard_size_oblivious", "is_symbolic"]


def is_symbolic(val: Any) -> bool:
    """Whether a number is known only when the program runs."""
    return isinstance(val, SymInt | SymFloat | SymBool)


def guard_size_oblivious(expr: Any) -> bool:
    """Whether something holds of sizes, with a guard that it does, or does not."""
    return bool(expr)

"""Questions about sizes that have an answer also where a size is data (core/symbol_table.py).

`at_least`, `alike` and `differ` hold whatever the data is: they are for choices that are right either way.
`greatest`, `least` and `from_end` are sizes themselves.
"""

from __future__ import annotations

from typing import Any

from .index import Index, as_index
from .symbol_table import Symbols
from .symbols import SizeTruth, SymInt, index_of


def alike(a: Any, b: Any) -> bool:
    """Whether sizes in tuples are equal; those that are data, only if they are so whatever the data is."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):  # noqa: SIM110  without a generator: asked of every gradient
        if x is not y and not _alike(x, y):
            return False
    return True


def _alike(x: Any, y: Any) -> bool:
    rest = x - y
    return rest.symbols.proved("== 0", rest.index) is True if is_data(rest) else bool(x == y)


def surely_alike(a: Any, b: Any) -> bool:
    """Whether sizes in tuples are equal, whatever those are that change from call to call."""
    return len(a) == len(b) and all(_surely_alike(x, y) for x, y in zip(a, b, strict=True))


def _surely_alike(x: Any, y: Any) -> bool:
    rest = x - y
    return rest.symbols.proved("== 0", rest.index) is True if type(rest) is SymInt else rest == 0


def differ(a: Any, b: Any) -> bool:
    """Whether sizes in tuples are not equal; those that are data, only if they are so whatever the data is."""
    if len(a) != len(b):
        return True
    unequal = [x != y for x, y in zip(a, b, strict=True)]
    return any(found for found in unequal if type(found) is not SizeTruth)


def is_data(size: Any) -> bool:
    """Whether a size is known only while the program runs."""
    return type(size) is SymInt and size.symbols.is_data(size.index)


def at_least(size: Any, least: int) -> bool:
    """Whether a size is so much, where it need not be known: of one that is data, whatever the data is."""
    if is_data(size):
        return size.symbols.proved(">= 0", size.index - least) is True
    return bool(size >= least)


def not_empty(size: Any) -> None:
    """Compile for a size of 1 or more, if it is data."""
    if is_data(size):
        size.symbols.is_positive(size.index)


def greatest(a: Any, b: Any) -> Any:
    """The larger of two sizes, as a size also where that depends on data."""
    return _chosen("max", a, b)


def least(a: Any, b: Any) -> Any:
    """The smaller of two sizes, as a size also where that depends on data."""
    return _chosen("min", a, b)


def from_end(at: Any, size: Any) -> Any:
    """A position that counts from the end if it is negative."""
    if is_data(at):
        known = at.symbols.proved(">= 0", at.index)
        if known is None:
            whole = size.index if type(size) is SymInt else as_index(size)
            return at.symbols.derive("wrap", (at.index, whole))
        return at if known else at + size
    return at + size if at < 0 else at


def derived_size(kind: str, a: Any, b: Any) -> Any:
    """The larger or smaller of two numbers; of sizes, without a guard on which if it was asked for while the
    program was captured."""
    sizes = [size for size in (a, b) if type(size) is SymInt]
    first, second = index_of(a), index_of(b)
    if not sizes or first is None or second is None:
        return max(a, b) if kind == "max" else min(a, b)
    return _ordered(sizes[0].symbols, kind, (a, first), (b, second))


def shorter(a: Any, b: Any) -> Any:
    """The smaller of two sizes, without a guard on which."""
    return derived_size("min", a, b)


def chosen_size(condition: SizeTruth, then: Any, otherwise: Any) -> Any:
    """One of two sizes, which data decides."""
    first, second = index_of(then), index_of(otherwise)
    if first is None or second is None:
        return then if condition else otherwise
    if not condition.holds:
        first, second = second, first
    return condition.symbols.derive(f"if {condition.relation}", (condition.index, first, second))


def learn_order(smaller: Any, larger: Any) -> None:
    """One size is not larger than another, whatever the data is that they depend on."""
    rest = larger - smaller
    if is_data(rest) and rest.symbols.capturing and not rest.symbols.proved(">= 0", rest.index):
        rest.symbols.learn(">= 0", rest.index)


def _chosen(kind: str, a: Any, b: Any) -> Any:
    sizes = [size for size in (a, b) if type(size) is SymInt]
    first, second = index_of(a), index_of(b)
    if not sizes or first is None or second is None:
        return max(a, b) if kind == "max" else min(a, b)
    symbols = sizes[0].symbols
    if not symbols.is_data(first) and not symbols.is_data(second):
        larger, smaller = (a, b) if _is_larger(symbols, first, second) else (b, a)
        return larger if kind == "max" else smaller
    return _ordered(symbols, kind, (a, first), (b, second))


def _is_larger(symbols: Symbols, first: Index, second: Index) -> bool:
    """Whether one size is as large as another, or larger: without a guard if it, or the opposite, always is."""
    if symbols.proved(">= 0", first - second):
        return True
    return not symbols.proved(">= 0", second - first) and symbols.is_nonnegative(first - second)


def _ordered(symbols: Symbols, kind: str, a: tuple[Any, Index], b: tuple[Any, Index]) -> Any:
    if symbols.proved(">= 0", a[1] - b[1]):
        return a[0] if kind == "max" else b[0]
    if symbols.proved(">= 0", b[1] - a[1]):
        return b[0] if kind == "max" else a[0]
    return symbols.derive(kind, (a[1], b[1]))

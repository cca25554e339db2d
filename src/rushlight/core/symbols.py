"""Sizes that change from call to call: integers that are known only when a compiled function is called.

A `SymInt` computes as the int that it was in the call that is captured (its hint) and remembers how: its value
is an `Index` over symbols (core/index.py). A comparison that holds, or fails, for all values of the symbols
is just answered; any other is answered as it is for the hints, and what was assumed is a guard: another call
may use the compiled code only if the guard holds for its sizes. Whoever needs the number itself (`int`, `range`,
formatting, a stage of the compiler that has no form for sizes that change) gets the hint, with a guard that the
size is this number. So code that knows nothing of symbols is right for the sizes that its guards admit.

`Symbols` keeps the symbols, guards and equalities of one compilation. While it is `capturing`, the program is
the user's: hashes and texts of a size are those of the number. Later they are those of the expression.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from .atoms import Dim
from .index import Index, as_index
from .nested_int import SymBool as SymBoolBase
from .nested_int import SymInt as SymIntBase
from .symbol_table import LARGEST, SizeGuard, Symbols, spelled


class SymInt(SymIntBase):
    """An integer that is known only when the compiled function is called."""

    __slots__ = ("index", "symbols")

    def __new__(cls, symbols: Symbols, index: Index) -> SymInt:
        return object.__new__(cls)

    def __init__(self, symbols: Symbols, index: Index) -> None:
        self.symbols, self.index = symbols, index

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return int  # isinstance(size, int) holds

    @property
    def hint(self) -> int:
        """What it was in the call that is captured: for choices that any size may take either way."""
        return self.symbols.hint(self.index)

    def specialise(self) -> int:
        """The number, with a guard that it is this one."""
        return self.hint if self.symbols.left else self.symbols.number(self.index)

    __int__ = __index__ = __trunc__ = specialise

    def __float__(self) -> float:
        return float(self.specialise())

    def __complex__(self) -> complex:
        return complex(self.specialise())

    def __floor__(self) -> SymInt:
        return self

    __ceil__ = __pos__ = conjugate = __floor__

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(self.specialise(), digits)

    def __bool__(self) -> bool:
        return not self.symbols.is_zero(self.index)

    def __hash__(self) -> int:
        if self.symbols.left:
            return hash(self.hint)
        known = not self.symbols.is_data(self.index) or not _in_library(sys._getframe(1))
        return hash(self.specialise() if self.symbols.capturing and known else self.index)

    def __repr__(self) -> str:
        return self._text("", sys._getframe(1))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return self._text(spec, sys._getframe(1))

    def _text(self, spec: str, asking: FrameType) -> str:
        """The number; of a program that writes it, with a guard, but not where this library words an error."""
        if self.symbols.left:
            return format(self.hint, spec)
        if not self.symbols.capturing or self.symbols.is_data(self.index):
            return str(self.index)
        return format(self.hint if _in_library(asking) else self.specialise(), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.specialise(), dtype)

    def __reduce__(self) -> Any:
        return int, (self.specialise(),)

    def __deepcopy__(self, memo: Any) -> SymInt:
        return self

    def __copy__(self) -> SymInt:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.specialise(), name)  # bit_length(), real, ...

    # Arithmetic.

    def __neg__(self) -> Any:
        return self.symbols.size(-self.index)

    def __abs__(self) -> Any:
        return self if self.symbols.is_nonnegative(self.index) else -self

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if type(other) is int and 0 <= other <= MOST_FACTORS and modulus is None:
            return math.prod([self] * other)
        return _number_of(self, operator.pow, "({} ** {})", self, other)

    def __rpow__(self, other: Any) -> Any:
        return _number_of(self, operator.pow, "({} ** {})", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _number_of(self, operator.truediv, "({} / {})", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _number_of(self, operator.truediv, "({} / {})", other, self)

    def __eq__(self, other: Any) -> Any:
        index = index_of(other)
        if index is None:
            return _compared(self, other, operator.eq, "({} == {})")
        return truth_of(self.symbols, "== 0", self.index - index, _as_if_two(self, other, operator.eq))

    def __ne__(self, other: Any) -> Any:
        equal = self.__eq__(other)
        if type(equal) is SizeTruth:
            return equal.negated()
        return equal if equal is NotImplemented else not equal


class SizeTruth(SymBoolBase):
    """Whether something holds of sizes that are data, which is known only while the program runs."""

    __slots__ = ("holds", "index", "likely", "relation", "symbols")

    def __new__(cls, symbols: Symbols, *about: Any) -> SizeTruth:
        return object.__new__(cls)

    def __init__(
        self, symbols: Symbols, relation: str, index: Index, holds: bool = True, likely: bool | None = None
    ) -> None:
        self.symbols, self.relation, self.index, self.holds = symbols, relation, index, holds
        self.likely = likely  # whether the relation holds of a size of 2 or more, if that is known

    def __bool__(self) -> bool:
        symbols = self.symbols
        if symbols.asking and not _in_library(sys._getframe(1)):
            raise symbols.cannot_tell(f"depends on whether {symbols.in_words(self.index)} is {self.relation}")
        if self.likely is not None:
            return self.likely is self.holds
        asked = symbols.is_zero if self.relation == "== 0" else symbols.is_nonnegative
        return asked(self.index) is self.holds

    def __repr__(self) -> str:
        return str(SizeGuard(self.relation, self.index, self.holds))

    def negated(self) -> SizeTruth:
        return SizeTruth(self.symbols, self.relation, self.index, not self.holds, self.likely)

    def expect(self, message: str, error: type[Exception]) -> None:
        """Have a run raise `error` if it does not hold."""
        self.symbols.expect(self.relation, self.index, self.holds, message, error)

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return bool(self) == other


def truth_of(symbols: Symbols, relation: str, index: Index, likely: bool | None = None) -> Any:
    """Whether an expression is 0, or not negative: a bool, or, where that depends on data, a SizeTruth. `likely`:
    what holds of a size of 2 or more, if the question is about one."""
    if symbols.data and symbols.is_data(symbols.simplified(index)):
        known = symbols.proved(relation, index)
        if known is not None:
            return known
        if symbols.asking:
            return SizeTruth(symbols, relation, symbols.simplified(index), True, likely)
        if likely is not None:
            return likely
    return symbols.is_zero(index) if relation == "== 0" else symbols.is_nonnegative(index)


def _as_if_two(size: SymInt, other: Any, holds: Callable[[int, int], bool]) -> bool | None:
    """What a comparison with a number says of a size that is data, if it says the same of all from 2 on."""
    symbols = size.symbols
    if type(other) is not int or not 0 <= other <= 2 or not symbols.is_data(size.index):
        return None
    outcomes = {holds(number, other) for number in (2, 3, LARGEST)}
    return outcomes.pop() if len(outcomes) == 1 and symbols.proved(">= 0", size.index) else None


_LIBRARY = __name__.partition(".")[0] + "."
Symbols.sym_int = SymInt


def _in_library(asking: FrameType) -> bool:
    """Whether it is this library that asks, not the program."""
    return str(asking.f_globals.get("__name__", "")).startswith(_LIBRARY)


MOST_FACTORS = 4  # of a power that is written as a product

# How a number that is no int is made of sizes: (symbols, text with places, operands, value). Installed by
# capture/numbers.py, where such numbers live.
_live: Callable[[str, Callable[..., Any], Sequence[Any]], Any] | None = None


def install_live_numbers(function: Callable[[str, Callable[..., Any], Sequence[Any]], Any]) -> None:
    global _live
    _live = function


def _number_of(size: SymInt, compute: Callable[..., Any], text: str, *operands: Any) -> Any:
    """Arithmetic whose result is no size: a live number while the program is captured."""
    if not all(isinstance(operand, int | float) for operand in operands):
        return NotImplemented
    if _live is not None and size.symbols.capturing:
        return _live(text, compute, operands)
    return compute(*[plain(operand) for operand in operands])


def _compared(size: SymInt, other: Any, compute: Callable[..., Any], text: str) -> Any:
    return _number_of(size, compute, text, size, other) if isinstance(other, float) else NotImplemented


def index_of(value: Any) -> Index | None:
    """An int, or a size, as an expression of symbols; None for anything else."""
    if type(value) is SymInt:
        return value.index
    return as_index(int(value)) if type(value) in (int, bool) else None


def plain(value: Any) -> Any:
    """A number in place of a size, with a guard."""
    return value.specialise() if type(value) is SymInt else value


def exact(value: Any) -> Any:
    """Sizes, also in tuples, as expressions: equal only where they are equal whatever the symbols are, as far as
    guards let them be."""
    if isinstance(value, tuple):
        for item in value:
            if type(item) is not int:
                return tuple(map(exact, value))
        return value
    return value.symbols.simplified(value.index) if type(value) is SymInt else value


def hint(value: Any) -> int:
    """What a size was in the call that is captured; an int is itself. For choices, never for results."""
    if type(value) is SymInt:
        return value.hint
    if isinstance(value, Index):
        return hint_of(value)
    return value


def hint_of(index: Index) -> int:
    """What an expression of symbols was in the call that is captured."""
    number = index.constant_value()
    if number is not None:
        return number
    return owner_of(index).hint(index)


def divisible(size: Any, by: Any) -> bool:
    """Whether a size is a multiple of another, whatever they are in a call; of one that may be 0 it is not."""
    if type(by) is SymInt and not by.symbols.proved(">= 0", by.index - 1):
        return False
    rest = size % by
    return type(rest) is int and rest == 0


def is_size(value: Any) -> bool:
    """Whether a number changes from call to call."""
    return type(value) is SymInt


def size_of(index: Index) -> Any:
    """An expression as a size: an int, or a SymInt."""
    number = index.constant_value()
    return owner_of(index).size(index) if number is None else number


def owner_of(index: Index) -> Symbols:
    """The symbols that an expression is made of."""
    return next(atom.owner for atom in index.atoms() if isinstance(atom, Dim))


def number_of_size(compute: Callable[..., Any], text: str, size: Any) -> Any:
    """A float that is computed of a size: a live number while the program is captured."""
    return _number_of(size, compute, text, size)


def symbols_in(value: Any) -> set[Dim]:
    """The symbols of a size, or of sizes in tuples."""
    if type(value) is SymInt:
        return {atom for atom in value.index.atoms() if isinstance(atom, Dim)}
    found: set[Dim] = set()
    if isinstance(value, (tuple, list)):
        for item in value:
            if type(item) is not int:
                found |= symbols_in(item)
    return found


def _install_arithmetic() -> None:
    """Sums, differences and products of sizes are sizes."""

    def arithmetic(name: str, compute: Callable[[Index, Index], Index]) -> None:
        plain_compute = getattr(operator, name)

        def forward(self: SymInt, other: Any) -> Any:
            index = index_of(other)
            if index is None:
                return _number_of(self, plain_compute, f"({{}} {SIGNS[name]} {{}})", self, other)
            return self.symbols.size(compute(self.index, index))

        def backward(self: SymInt, other: Any) -> Any:
            index = index_of(other)
            if index is None:
                return _number_of(self, plain_compute, f"({{}} {SIGNS[name]} {{}})", other, self)
            return self.symbols.size(compute(index, self.index))

        setattr(SymInt, f"__{name}__", forward)
        setattr(SymInt, f"__r{name}__", backward)

    arithmetic("add", lambda a, b: a + b)
    arithmetic("sub", lambda a, b: a - b)
    arithmetic("mul", lambda a, b: a * b)


def _install_divisions() -> None:
    """Quotients and remainders of sizes are sizes."""

    def division(name: str, compute: Callable[[Index, Index], Index]) -> None:
        plain_compute = getattr(operator, name)

        def divided(a: Any, b: Any, size: SymInt) -> Any:
            value, divisor = index_of(a), index_of(b)
            if value is None or divisor is None:
                return _number_of(size, plain_compute, f"({{}} {SIGNS[name]} {{}})", a, b)
            symbols = size.symbols
            if symbols.is_zero(divisor):
                raise ZeroDivisionError("integer division or modulo by zero")
            if not symbols.is_nonnegative(divisor):
                value, divisor = -value, -divisor
                if name == "mod":
                    return symbols.size(-(value % divisor))
            return symbols.size(compute(value, divisor))

        setattr(SymInt, f"__{name}__", lambda self, other: divided(self, other, self))
        setattr(SymInt, f"__r{name}__", lambda self, other: divided(other, self, self))

    division("floordiv", lambda a, b: a // b)
    division("mod", lambda a, b: a % b)
    setattr(SymInt, "__divmod__", lambda self, other: (self // other, self % other))  # noqa: B010
    setattr(SymInt, "__rdivmod__", lambda self, other: (other // self, other % self))  # noqa: B010


def _install_comparisons() -> None:
    """Comparisons of sizes, and what needs the numbers."""

    def comparison(name: str, nonnegative: Callable[[Index, Index], Index]) -> None:
        compute = getattr(operator, name)

        def compared(self: SymInt, other: Any) -> Any:
            index = index_of(other)
            if index is None:
                return _compared(self, other, compute, f"({{}} {SIGNS[name]} {{}})")
            likely = _as_if_two(self, other, compute)
            return truth_of(self.symbols, ">= 0", nonnegative(self.index, index), likely)

        setattr(SymInt, f"__{name}__", compared)

    comparison("lt", lambda a, b: b - a - 1)
    comparison("le", lambda a, b: b - a)
    comparison("gt", lambda a, b: a - b - 1)
    comparison("ge", lambda a, b: a - b)
    for name in ("or", "xor"):  # rare: of the numbers
        compute = getattr(operator, f"__{name}__")
        setattr(SymInt, f"__{name}__", lambda a, b, c=compute: c(a.specialise(), plain(b)))
        setattr(SymInt, f"__r{name}__", lambda a, b, c=compute: c(plain(b), a.specialise()))


def _install_bits() -> None:
    """Shifts by a number, and the last bits, are products, quotients and remainders; others need numbers."""

    def operation(name: str, holds: Callable[[int], bool], compute: Callable[[Any, int], Any]) -> None:
        plain_compute = getattr(operator, f"__{name}__")

        def forward(self: SymInt, other: Any) -> Any:
            if type(other) is int and holds(other):
                return compute(self, other)
            return plain_compute(self.specialise(), plain(other))

        setattr(SymInt, f"__{name}__", forward)
        setattr(SymInt, f"__r{name}__", lambda self, other: plain_compute(plain(other), self.specialise()))

    operation("lshift", lambda by: 0 <= by < 62, lambda size, by: size * (1 << by))
    operation("rshift", lambda by: 0 <= by < 62, lambda size, by: size // (1 << by))
    operation("and", lambda mask: mask > 0 and not mask & (mask + 1), lambda size, mask: size % (mask + 1))


SIGNS: Mapping[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip

_install_arithmetic()
_install_divisions()
_install_comparisons()
_install_bits()

__all__ = [
    "LARGEST",
    "SizeGuard",
    "SizeTruth",
    "SymInt",
    "Symbols",
    "divisible",
    "exact",
    "hint",
    "hint_of",
    "index_of",
    "install_live_numbers",
    "is_size",
    "number_of_size",
    "owner_of",
    "plain",
    "size_of",
    "spelled",
    "symbols_in",
    "truth_of",
]

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
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from .atoms import Atom, Bound, Dim
from .index import Index, Quotient, Remainder, as_index
from .nested_int import SymInt as SymIntBase
from .proofs import always_nonnegative, never_zero

LARGEST = 1 << 62  # no size is larger, nor any index


@dataclass(frozen=True)
class SizeGuard:
    """What compiled code assumes of sizes: that `index` is 0, or that it is not negative; or, if `holds` is
    False, that it is not so."""

    relation: str  # "== 0" or ">= 0"
    index: Index
    holds: bool
    line: str = ""  # of the program that needs it

    def expression(self, names: Callable[[Dim], str]) -> str:
        """The guard as a Python expression, with symbols under the given names."""
        relation = {("== 0", False): "!= 0", (">= 0", False): "< 0"}.get((self.relation, self.holds))
        return f"({spelled(self.index, names)} {relation or self.relation})"

    def __str__(self) -> str:
        return self.expression(str)


class Symbols:
    """The symbols of one compilation and what was assumed of them."""

    def __init__(self) -> None:
        self.hints: dict[Dim, int] = {}
        self.guards: list[SizeGuard] = []
        self.capturing = True
        self.left = False  # whether the program went on eagerly: then sizes are numbers
        self.line: Callable[[], str] = lambda: ""  # where the program is
        self.numbers: Any = None  # what else is live in the capture (capture/numbers.py)
        self._known: dict[tuple[str, Index], bool] = {}
        self._equal: dict[Dim, Index] = {}  # symbols that are an expression of others, by a guard

    def new(self, hint: int, low: Bound = 2, high: Bound = LARGEST) -> SymInt:
        """A symbol that is `hint` in the call that is captured."""
        dim = Dim(f"s{len(self.hints)}", low, high, self)
        self.hints[dim] = hint
        return SymInt(self, as_index(dim))

    def size(self, index: Index) -> int | SymInt:
        """A size: an int if it is one."""
        index = self.simplified(index)
        number = index.constant_value()
        return SymInt(self, index) if number is None else number

    def hint(self, index: Index) -> int:
        """What an expression was in the call that is captured."""
        return index.evaluate(self.hints)  # type: ignore[arg-type]

    def simplified(self, index: Index) -> Index:
        """With symbols that are known to be others, or numbers, replaced."""
        return index.substitute(self._equal) if self._equal else index

    # Assumptions.

    def is_zero(self, index: Index) -> bool:
        """Whether an expression is 0: a guard, unless it is so for all sizes or for none."""
        index = self.simplified(index)
        number = index.constant_value()
        if number is not None:
            return number == 0
        if never_zero(index) or self._implied(index - 1) or self._implied(-index - 1):
            return False
        holds = self._assume("== 0", index)
        if holds:
            self._equate(index)
        return holds

    def is_nonnegative(self, index: Index) -> bool:
        """Whether an expression is 0 or more: a guard, unless that is the same for all sizes."""
        index = self.simplified(index)
        if always_nonnegative(index) or self._implied(index):
            return True
        if always_nonnegative(-index - 1) or self._implied(-index - 1):
            return False
        return self._assume(">= 0", index)

    def _implied(self, index: Index) -> bool:
        """Whether an expression is 0 or more because of what is assumed already."""
        for (relation, known), holds in self._known.items():
            if relation == ">= 0":
                least = known if holds else -known - 1  # which is 0 or more
                if always_nonnegative(index - self.simplified(least)):
                    return True
        return False

    def number(self, index: Index) -> int:
        """The number that an expression is: a guard on every symbol that it depends on."""
        value = self.hint(index)
        self.is_zero(self.simplified(index) - value)
        return value

    def _assume(self, relation: str, index: Index) -> bool:
        known = self._known.get((relation, index))
        if known is None:
            value = self.hint(index)
            known = value == 0 if relation == "== 0" else value >= 0
            self._known[relation, index] = known
            self.guards.append(SizeGuard(relation, index, known, self.line()))
        return known

    def _equate(self, index: Index) -> None:
        """`index` is 0: one of its symbols is an expression of the others, if there is such a form."""
        for monomial, coefficient in sorted(index.terms.items(), key=lambda term: str(term[0]), reverse=True):
            if len(monomial) != 1 or not isinstance(monomial[0], Dim):
                continue
            dim, rest = monomial[0], index - Index({monomial: coefficient})
            if dim in rest.atoms():
                continue
            if abs(coefficient) != 1:
                if rest.constant_value() is None:
                    continue
                value = as_index(-rest.constant // coefficient)
            else:
                value = -rest if coefficient > 0 else rest
            self._equal = {known: other.substitute({dim: value}) for known, other in self._equal.items()}
            self._equal[dim] = value
            return


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
        return hash(self.specialise() if self.symbols.capturing else self.index)

    def __repr__(self) -> str:
        return self._text("", sys._getframe(1))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return self._text(spec, sys._getframe(1))

    def _text(self, spec: str, asking: FrameType) -> str:
        """The number; of a program that writes it, with a guard, but not where this library words an error."""
        if self.symbols.left:
            return format(self.hint, spec)
        if not self.symbols.capturing:
            return str(self.index)
        inside = asking.f_globals.get("__name__", "").startswith(_LIBRARY)
        return format(self.hint if inside else self.specialise(), spec)

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
        return self.symbols.is_zero(self.index - index)

    def __ne__(self, other: Any) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal


_LIBRARY = __name__.partition(".")[0] + "."
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
        return tuple(map(exact, value))
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


def divisible(size: Any, by: int) -> bool:
    """Whether a size is a multiple of a number, whatever it is in a call."""
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


def symbols_in(value: Any) -> set[Dim]:
    """The symbols of a size, or of sizes in tuples."""
    if type(value) is SymInt:
        return {atom for atom in value.index.atoms() if isinstance(atom, Dim)}
    if isinstance(value, tuple | list):
        return set().union(*map(symbols_in, value)) if value else set()
    return set()


def spelled(index: Index, names: Callable[[Dim], str]) -> str:
    """An expression in Python, with symbols under the given names."""

    def atom_text(atom: Atom) -> str:
        if isinstance(atom, Quotient):
            return f"({spelled(atom.value, names)} // {spelled(atom.divisor, names)})"
        if isinstance(atom, Remainder):
            return f"({spelled(atom.value, names)} % {spelled(atom.divisor, names)})"
        assert isinstance(atom, Dim)
        return names(atom)

    terms = []
    for monomial, coefficient in index.terms.items():
        factors = [atom_text(atom) for atom in monomial]
        if coefficient != 1 or not factors:
            factors.insert(0, str(coefficient))
        terms.append("*".join(factors))
    return f"({' + '.join(terms) or '0'})"


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
        def compared(self: SymInt, other: Any) -> Any:
            index = index_of(other)
            if index is None:
                return _compared(self, other, getattr(operator, name), f"({{}} {SIGNS[name]} {{}})")
            return self.symbols.is_nonnegative(nonnegative(self.index, index))

        setattr(SymInt, f"__{name}__", compared)

    comparison("lt", lambda a, b: b - a - 1)
    comparison("le", lambda a, b: b - a)
    comparison("gt", lambda a, b: a - b - 1)
    comparison("ge", lambda a, b: a - b)
    for name in ("and", "or", "xor", "lshift", "rshift"):  # rare: of the numbers
        compute = getattr(operator, f"__{name}__")
        setattr(SymInt, f"__{name}__", lambda a, b, c=compute: c(a.specialise(), plain(b)))
        setattr(SymInt, f"__r{name}__", lambda a, b, c=compute: c(plain(b), a.specialise()))


SIGNS: Mapping[str, str] = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip

_install_arithmetic()
_install_divisions()
_install_comparisons()

__all__ = [
    "SizeGuard",
    "SymInt",
    "Symbols",
    "divisible",
    "exact",
    "hint",
    "hint_of",
    "index_of",
    "install_live_numbers",
    "is_size",
    "owner_of",
    "plain",
    "size_of",
    "spelled",
    "symbols_in",
]

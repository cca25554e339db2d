"""The symbols of one compilation and what is assumed of them.

Most symbols are numbers about the arguments of a call, and have a hint, what they were in the call that is
captured: a question that no proof answers is answered by the hints, and the answer is a guard of the compiled
code. Others are *data*: how many elements a mask selects, what an `item()` was. No guard before the call can
be about these. While a program is captured,
- a question of the program that no proof answers is an error (`cannot_tell`),
- one of this library is answered as for a size of 2 or more, if that is an answer: code that is right for
  these is right for a size of 0 or 1 where it does not ask, because loops over it run as often as it says,
- what must hold (`check`, `_check`) is an assertion, which a run looks at as soon as it knows the number.
Afterwards the hint of such a symbol is a guess, and a guard on it concerns the one piece of the program that
was compiled with it (compiler/pieces.py).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .atoms import INFINITY, Atom, Bound, Dim, floor_div
from .giving_up import go_on
from .index import Index, Quotient, Remainder, as_index
from .proofs import always_nonnegative, may_exceed, never_zero
from .remembered import Results

LARGEST = 1 << 62  # no size is larger, nor any index


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


@dataclass(frozen=True)
class SizeAssertion:
    """What must hold of sizes that are data, and the error where it does not."""

    what: SizeGuard
    error: type[Exception]
    message: str


@dataclass(frozen=True)
class DerivedSize:
    """A symbol that follows from others in a way that expressions have no form for."""

    kind: str  # a key of DERIVED
    operands: tuple[Index, ...]


def _wrapped(at: int, size: int) -> int:
    """A position that counts from the end if it is negative."""
    return at + size if at < 0 else at


DERIVED: dict[str, Callable[..., int]] = {
    "max": max,
    "min": min,
    "wrap": _wrapped,
    "quotient": operator.floordiv,
    "if == 0": lambda asked, then, otherwise: then if asked == 0 else otherwise,
    "if >= 0": lambda asked, then, otherwise: then if asked >= 0 else otherwise,
}


class CannotTell(Exception):
    """Data decides what is asked."""


class Symbols:
    """The symbols of one compilation and what was assumed of them."""

    sym_int: ClassVar[Callable[..., Any]]  # SymInt, of core/symbols.py

    def __init__(self) -> None:
        self.hints: dict[Dim, int] = {}
        # symbols that say where arguments lie in their storages, and what they were: they cancel out unless a
        # program asks, and are among those of `hints` from then on
        self.places: dict[Dim, int] = {}
        self.guards: list[SizeGuard] = []
        self.capturing = True
        self.verifying = False  # whether shapes are looked at again, of which nothing is to be assumed
        self.left = False  # whether the program went on eagerly: then sizes are numbers
        self.line: Callable[[], str] = lambda: ""  # where the program is
        self.numbers: Any = None  # what else is live in the capture (capture/numbers.py)
        self.data: dict[Dim, str] = {}  # symbols that are data, and what they are in words
        self.derived: dict[Dim, DerivedSize] = {}
        self.assertions: list[SizeAssertion] = []
        # the error that a program meets which asks what depends on data
        self.refuse: Callable[[str], Exception] = CannotTell
        self._known: dict[tuple[str, Index], bool] = {}
        # expressions, whether they follow from what is known, and how much of that was looked at to tell
        self._followed: dict[Index, tuple[bool, int]] = {}
        self._equal: dict[Dim, Index] = {}  # symbols that are an expression of others, by a guard
        self._made: dict[DerivedSize, Any] = {}
        self._simple: dict[Index, Index] = {}  # expressions with what is in `_equal` put in their place
        self._answered: dict[tuple[str, Index], bool] = {}  # questions about sizes that are no data
        # results of arithmetic with these symbols while a program is compiled (core/remembered.py)
        self.remembered = Results()

    @property
    def asking(self) -> bool:
        """Whether questions about data have no answer by a hint."""
        return self.capturing or self.verifying

    def new(self, hint: int, low: Bound = 2, high: Bound = LARGEST) -> Any:
        """A symbol that is `hint` in the call that is captured."""
        dim = Dim(f"s{len(self.hints)}", low, high, self)
        self.hints[dim] = hint
        return self.sym_int(self, as_index(dim))

    def new_data(self, what: str, hint: int, low: Bound = 0, high: Bound = LARGEST) -> Any:
        """A symbol that is data; `hint` is a guess."""
        dim = Dim(f"u{len(self.data)}", low, high, self)
        self.hints[dim], self.data[dim] = hint, what
        return self.sym_int(self, as_index(dim))

    def new_place(self, hint: int, low: Bound) -> Any:
        """A symbol that says where an argument lies."""
        dim = Dim(f"p{len(self.places)}", low, LARGEST, self)
        self.places[dim] = hint
        return self.sym_int(self, as_index(dim))

    def size(self, index: Index) -> Any:
        """A size: an int if it is one."""
        index = self.simplified(index)
        number = index.constant_value()
        return self.sym_int(self, index) if number is None else number

    def hint(self, index: Index) -> int:
        """What an expression was in the call that is captured."""
        return index.evaluate(self.hints)  # type: ignore[arg-type]

    def simplified(self, index: Index) -> Index:
        """With symbols that are known to be others, or numbers, replaced."""
        if not self._equal:
            return index
        found = self._simple.get(index)
        if found is None:
            found = self._simple[index] = index.substitute(self._equal)
        return found

    # Assumptions.

    def is_zero(self, index: Index) -> bool:
        """Whether an expression is 0: a guard, unless it is so for all sizes or for none."""
        return self._answer("== 0", index)

    def is_nonnegative(self, index: Index) -> bool:
        """Whether an expression is 0 or more: a guard, unless that is the same for all sizes."""
        return self._answer(">= 0", index)

    def _answer(self, relation: str, index: Index) -> bool:
        known = self._answered.get((relation, index))
        if known is None:
            known = self._asked(relation, self.simplified(index))
            if not self.data:  # of which more is learnt
                self._answered[relation, index] = known
        return known

    def _asked(self, relation: str, index: Index) -> bool:
        zero = relation == "== 0"
        known = self._proved_zero(index) if zero else self._proved_nonnegative(index)
        if known is not None:
            return known
        known = self._decided(relation, index)
        if known is not None:
            return known
        holds = self._assume(relation, index)
        if zero and holds:
            self._equate(index)
        return holds

    def proved(self, relation: str, index: Index) -> bool | None:
        """Whether a relation holds for all sizes, or for none; None if that is not known."""
        index = self.simplified(index)
        return self._proved_zero(index) if relation == "== 0" else self._proved_nonnegative(index)

    def _proved_zero(self, index: Index) -> bool | None:
        number = index.constant_value()
        if number is not None:
            return number == 0
        if never_zero(index) or self._implied(index - 1) or self._implied(-index - 1):
            return False
        if self.data:
            known = self._known.get(("== 0", index))
            return self._known.get(("== 0", -index)) if known is None else known
        return None

    def _proved_nonnegative(self, index: Index) -> bool | None:
        if always_nonnegative(index) or self._implied(index):
            return True
        if always_nonnegative(-index - 1) or self._implied(-index - 1):
            return False
        return None

    def _implied(self, index: Index) -> bool:
        """Whether an expression is 0 or more because of what is assumed already."""
        go_on()
        found, seen = self._followed.get(index, (False, 0))
        if not found and seen < len(self._known):
            found = any(
                may_exceed(index, least) and always_nonnegative(index - least)
                for least in self._nonnegative(seen)
            )
            self._followed[index] = found, len(self._known)
        return found

    def _nonnegative(self, first: int) -> Iterator[Index]:
        """What is known to be 0 or more, from the given number of what is known on."""
        for (relation, known), holds in itertools.islice(self._known.items(), first, None):
            if relation == ">= 0":
                yield self.simplified(known if holds else -known - 1)

    def number(self, index: Index) -> int:
        """The number that an expression is: a guard on every symbol that it depends on."""
        if self.asking and self.is_data(index):
            raise self.cannot_tell(f"needs the number {self.in_words(index)}")
        value = self.hint(index)
        self.is_zero(self.simplified(index) - value)
        return value

    def _assume(self, relation: str, index: Index) -> bool:
        known = self._known.get((relation, index))
        if known is None:
            value = self.hint(index)
            known = value == 0 if relation == "== 0" else value >= 0
            self._known[relation, index] = known
            if self.places:
                self.numbers.use_places(index)
            line = self.line() if self.capturing else ""
            self.guards.append(SizeGuard(relation, index, known, line))
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
            self._replace(dim, value)
            return

    def _replace(self, dim: Dim, value: Index) -> None:
        self._followed, self._simple = {}, {}
        self._equal = {known: other.substitute({dim: value}) for known, other in self._equal.items()}
        self._equal[dim] = value

    # Sizes that are data.

    def cannot_tell(self, what: str) -> Exception:
        """The error for a question that data decides."""
        return self.refuse(what) if self.capturing else CannotTell(what)

    def is_data(self, index: Index) -> bool:
        """Whether an expression is known only while the program runs."""
        return bool(self.data) and not self.data.keys().isdisjoint(index.atoms())

    def in_words(self, index: Index) -> str:
        """An expression, and what the data in it is."""
        dims = sorted((dim for dim in self.data if dim in index.atoms()), key=str)
        return f"{index} ({', '.join(dict.fromkeys(f'{dim} is {self.data[dim]}' for dim in dims))})"

    def _decided(self, relation: str, index: Index) -> bool | None:
        """The answer that holds for sizes of 2 or more, of what depends on data; None if there is none, which a
        program that is being captured must not ask."""
        if not self.is_data(index):
            return None
        moved = self._from_two(index)
        if relation == "== 0":
            if never_zero(moved):
                return False
        elif always_nonnegative(moved):
            return True
        elif always_nonnegative(-moved - 1):
            return False
        if self.asking:
            raise self.cannot_tell(f"depends on whether {self.in_words(index)} is {relation}")
        return None

    def is_positive(self, index: Index) -> bool:
        """Whether an expression is 1 or more: a guard also where a size that is data is taken to be so."""
        index = self.simplified(index) - 1
        known = self._proved_nonnegative(index)
        return self._assume(">= 0", index) if known is None else known

    def _from_two(self, index: Index) -> Index:
        """An expression with sizes that are data from 2 on."""
        moved = {
            dim: as_index(Dim(f"{dim.name}'", 2, max(dim.high, 2)))
            for dim in self.data
            if 0 <= dim.low < 2 and dim in index.atoms()
        }
        return index.substitute(moved) if moved else index

    def expect(
        self, relation: str, index: Index, holds: bool, message: str, error: type[Exception] = RuntimeError
    ) -> None:
        """`error` unless it holds: now, or, if it depends on data, when a run knows it."""
        index = self.simplified(index)
        known = self.proved(relation, index)
        if known is None and not self.is_data(index):
            known = self.is_zero(index) if relation == "== 0" else self.is_nonnegative(index)
        if known is None and not self.capturing:
            return  # it is asserted already
        if known is None:
            self.assertions.append(
                SizeAssertion(SizeGuard(relation, index, holds, self.line()), error, message)
            )
            self.learn(relation, index, holds)
        elif known is not holds:
            raise error(message)

    def learn(self, relation: str, index: Index, holds: bool = True) -> None:
        """Something holds whatever the data is, or a run would have raised an error."""
        index = self.simplified(index)
        self._known[relation, index] = holds
        if relation == "== 0" and holds:
            self._divide(index)
            self._equate(self.simplified(index))
            return
        least = index if holds else -index - 1
        if relation == "== 0":  # it is not 0: as 0 is the end of its range, it is 1 or more
            if not always_nonnegative(index):
                return
            least = index - 1
        ends = [(m, c) for m, c in least.terms.items() if m]
        if len(ends) != 1 or len(ends[0][0]) != 1:
            return
        (dim,), coefficient = ends[0]
        if isinstance(dim, Dim) and dim in self.data:
            low, high = dim.bounds()
            if coefficient > 0:
                low = max(low, -(least.constant // coefficient))
            else:
                high = min(high, least.constant // -coefficient)
            self._narrow(dim, low, high)

    def _divide(self, index: Index) -> None:
        """If it says that a symbol is a multiple of a number, put so many times another symbol in its place."""
        if len(index.terms) != 1:
            return
        ((monomial, _),) = index.terms.items()
        if len(monomial) != 1 or not isinstance(monomial[0], Remainder):
            return
        value, by = monomial[0].value, monomial[0].divisor.constant_value()
        dims = [dim for dim in self.data if value == as_index(dim)]
        if dims and by is not None and self.capturing:
            share = self.derive("quotient", (value, as_index(by)))
            self._replace(dims[0], share.index * by)

    def _narrow(self, dim: Dim, low: Bound, high: Bound) -> None:
        """A symbol with a smaller range in place of one, for proofs that look at the range alone."""
        if (low, high) == dim.bounds() or low > high:
            return
        narrower = Dim(dim.name, low, high, self)
        hint = int(min(max(self.hints[dim], low), high))
        self.hints[dim] = self.hints[narrower] = hint
        self.data[narrower] = self.data[dim]
        if self.numbers is not None:
            self.numbers.sizes[narrower] = self.numbers.sizes[dim]
        self._replace(dim, as_index(narrower))
        self._settle()

    def _settle(self) -> None:
        """Put expressions in the place of derived sizes that are one now that more is known."""
        for made, size in list(self._made.items()):
            (dim,) = size.index.atoms()
            if dim in self._equal:
                continue
            simple = DerivedSize(made.kind, tuple(map(self.simplified, made.operands)))
            self._made.setdefault(simple, size)
            if made.kind not in ("max", "min", "wrap"):
                continue
            first, second = simple.operands
            asked = first if made.kind == "wrap" else first - second
            known = self.proved(">= 0", asked)
            if known is not None:
                chosen = {"max": (second, first), "min": (first, second), "wrap": (first + second, first)}
                self._replace(dim, chosen[made.kind][known])

    def derive(self, kind: str, operands: Sequence[Index]) -> Any:
        """The size that a function of DERIVED makes of others."""
        made = DerivedSize(kind, tuple(map(self.simplified, operands)))
        known = self._made.get(made)
        if known is not None:
            return self.size(known.index)
        if not self.capturing:  # too late for another symbol
            return self._derived_by_guard(made)
        hint = DERIVED[kind](*map(self.hint, made.operands))
        bounds = [index.bounds() for index in made.operands]
        low: Bound
        high: Bound
        if kind == "quotient":
            low, high = (floor_div(end, bounds[1][0]) for end in bounds[0])
        elif kind == "wrap":
            low = min(bounds[0][0], 0) + bounds[1][0]
            high = max(bounds[0][1], bounds[1][1] - 1)
        else:
            choose = max if kind == "max" else min
            low, high = (choose(ends) for ends in zip(*bounds, strict=True))
            if kind.startswith("if"):
                low, high = min(low for low, _ in bounds[1:]), max(high for _, high in bounds[1:])
        size = self.numbers.derived_size(made, hint, max(low, -INFINITY), high)
        self._made[made] = size
        for index in made.operands if kind in ("max", "min") else ():
            self._known[">= 0", size.index - index if kind == "max" else index - size.index] = True
        return size

    def _derived_by_guard(self, made: DerivedSize) -> Any:
        first, second = made.operands[-2:]
        if made.kind.startswith("if"):
            asked = self.is_zero if made.kind == "if == 0" else self.is_nonnegative
            return self.size(first if asked(made.operands[0]) else second)
        if made.kind == "wrap":
            return self.size(first if self.is_nonnegative(first) else first + second)
        larger = self.is_nonnegative(first - second) == (made.kind == "max")
        return self.size(first if larger else second)

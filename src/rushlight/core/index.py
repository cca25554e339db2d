"""Exact integer algebra for index arithmetic: sums of products of loop variables, extents, floor divisions
and remainders.

An `Index` is an immutable polynomial with integer coefficients over atoms. An atom is a loop variable (`Var`,
with its extent), an extent known only at call time (`Dim`), a floor division or a remainder (`Quotient`,
`Remainder`) by a positive divisor. Expressions are canonical: equal functions of the same atoms built in
different ways compare equal in all the cases that views, concatenations and flattened loops produce. Every
simplification is exact for every value the atoms can take; what cannot be shown stays as it is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from .atoms import Atom, Bound, Dim, floor_div
from .polynomial import Monomial, Polynomial, add_terms, common_factor, product_bounds
from .remembered import Results, memory_of, remembered, remembered_mapping


class Below(Atom):
    """A number from 0 to an extent (exclusive)."""

    __slots__ = ("extent", "fixed", "name", "owner")

    kind: str

    def __init__(self, name: str, extent: IndexLike) -> None:
        self.name = name
        self.extent = as_index(extent)
        self.fixed, self.owner = self.extent.fixed, self.extent.owner
        super().__init__((self.kind, name, self.extent))

    def bounds(self) -> tuple[Bound, Bound]:
        return 0, max(0, self.extent.bounds()[1] - 1)

    def __str__(self) -> str:
        return self.name


class Var(Below):
    """A loop variable that runs from 0 to its extent (exclusive)."""

    __slots__ = ()
    kind = "var"


class Indirect(Below):
    """An index that was loaded from memory and checked to lie in 0..extent-1."""

    __slots__ = ()
    kind = "indirect"


class Division(Atom):
    """What is left of a division by a positive divisor that cannot be done yet."""

    __slots__ = ("_text", "divisor", "fixed", "owner", "value")

    kind: str
    sign: str

    def __init__(self, value: Index, divisor: Index) -> None:
        self.value = value
        self.divisor = divisor
        self.fixed, self.owner = value.fixed and divisor.fixed, value.owner or divisor.owner
        self._text: str | None = None
        super().__init__((self.kind, value, divisor))

    def inner(self) -> frozenset[Atom]:
        return self.value.atoms() | self.divisor.atoms()

    def __str__(self) -> str:
        if self._text is None:
            self._text = f"({self.value}){self.sign}{_wrapped(self.divisor)}"
        return self._text


class Quotient(Division):
    """floor(value / divisor) for a positive divisor."""

    __slots__ = ()
    kind, sign = "quotient", "//"

    def value_at(self, values: Mapping[Atom, int]) -> int:
        return self.value.evaluate(values) // (self.divisor.evaluate(values) or 1)

    def bounds(self) -> tuple[Bound, Bound]:
        low, high = self.value.bounds()
        small, large = self.divisor.bounds()
        return floor_div(low, large if low >= 0 else small), floor_div(high, small if high >= 0 else large)


class Remainder(Division):
    """value mod divisor, in 0..divisor-1."""

    __slots__ = ()
    kind, sign = "remainder", "%"
    is_remainder = True

    def value_at(self, values: Mapping[Atom, int]) -> int:
        return self.value.evaluate(values) % (self.divisor.evaluate(values) or 1)

    def bounds(self) -> tuple[Bound, Bound]:
        high = self.divisor.bounds()[1] - 1
        low_value, high_value = self.value.bounds()
        return 0, min(high, high_value) if low_value >= 0 else high


class Index(Polynomial):
    """A polynomial with its arithmetic; divisions are simplified as far as it can be shown."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is int:
            return self.constant_value() == other
        if type(other) is not Index:
            other = getattr(other, "index", None)
        return isinstance(other, Index) and self.terms == other.terms

    __hash__ = Polynomial.__hash__

    # Arithmetic.

    @remembered
    def __add__(self, other: IndexLike) -> Index:
        other = as_index(other)
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return _recombined(Index(terms))

    __radd__ = __add__

    def __neg__(self) -> Index:
        return Index({monomial: -c for monomial, c in self.terms.items()})

    @remembered
    def __sub__(self, other: IndexLike) -> Index:
        return self + -as_index(other)

    def __rsub__(self, other: IndexLike) -> Index:
        return as_index(other) + -self

    @remembered
    def __mul__(self, other: IndexLike) -> Index:
        if type(other) is int:
            return Index({monomial: c * other for monomial, c in self.terms.items()}) if other else ZERO
        other = as_index(other)
        terms: dict[Monomial, int] = {}
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                product = tuple(sorted(a + b, key=Atom.sort_key)) if a and b else a + b
                terms[product] = terms.get(product, 0) + x * y
        return _recombined(Index(terms))

    __rmul__ = __mul__

    @remembered
    def __floordiv__(self, divisor: IndexLike) -> Index:
        divisor = as_index(divisor)
        if divisor == 1:
            return self
        exact, rest = _split_divisible(self, divisor)
        return exact if _within(rest, divisor) else exact + _quotient(rest, divisor)

    @remembered
    def __mod__(self, divisor: IndexLike) -> Index:
        divisor = as_index(divisor)
        if divisor == 1:
            return ZERO
        _, rest = _split_divisible(self, divisor)
        return rest if _within(rest, divisor) else _remainder(rest, divisor)

    # Looking at it.

    @remembered_mapping
    def substitute(self, values: Mapping[Any, Any]) -> Index:
        """The expression with atoms replaced."""
        if self.atoms().isdisjoint(values):
            return self
        terms: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms.items():
            changed = [atom for atom in monomial if atom in values or not atom.inner().isdisjoint(values)]
            if not changed:
                terms[monomial] = terms.get(monomial, 0) + coefficient
                continue
            product = Index({tuple([atom for atom in monomial if atom not in changed]): coefficient})
            for atom in changed:
                product = product * _substituted(atom, values)
            for found, count in product.terms.items():
                terms[found] = terms.get(found, 0) + count
        return _recombined(Index(terms))

    @remembered
    def stride(self, var: Var) -> Index | None:
        """How much the value grows when `var` grows by one, if that is the same everywhere; else None."""
        step: Index = ZERO
        for monomial, coefficient in self.terms.items():
            if not any(var in _atoms_of(atom) for atom in monomial):
                continue
            if var not in monomial or monomial.count(var) > 1:
                return None
            rest = list(monomial)
            rest.remove(var)
            if any(var in _atoms_of(atom) for atom in rest):
                return None
            step = step + Index({tuple(rest): coefficient})
        return step

    def depends_on(self, var: Var) -> bool:
        return var in self.atoms()


IndexLike = Index | Atom | int
ZERO = Index({})
_KNOWN = Results()  # of numbers and atoms


def as_index(value: IndexLike) -> Index:
    if type(value) is Index:
        return value
    if type(value) is int:
        number = _KNOWN.get(value)
        if number is None:
            number = Index({(): value})
            _KNOWN.keep(value, number)
        return number
    if not isinstance(value, Atom):
        # a size that changes has an expression (core/symbols.py)
        expression: Any = getattr(value, "index", None)
        return expression if isinstance(expression, Index) else as_index(operator.index(value))  # type: ignore[arg-type]
    known = _KNOWN if value.fixed else memory_of(value.owner)
    found: Index | None = None if known is None else known.get(value)
    if found is None:
        # a loop of one iteration is at 0
        found = ZERO if isinstance(value, Var) and value.extent == 1 else Index({(value,): 1})
        if known is not None:
            known.keep(value, found)
    return found


def dot(indices: Iterable[IndexLike], strides: Iterable[IndexLike], offset: IndexLike = 0) -> Index:
    """offset + sum of index * stride."""
    total = as_index(offset)
    for index, stride in zip(indices, strides, strict=True):
        total = total + as_index(index) * stride
    return total


def _atoms_of(atom: Atom) -> set[Atom]:
    return {atom, *atom.inner()}


def _substituted(atom: Atom, values: Mapping[Any, Any]) -> Index:
    if atom in values:
        return as_index(values[atom])
    if isinstance(atom, Quotient):
        return atom.value.substitute(values) // atom.divisor.substitute(values)
    if isinstance(atom, Remainder):
        return atom.value.substitute(values) % atom.divisor.substitute(values)
    return as_index(atom)


# Bounds.


def _within(value: Index, divisor: Index) -> bool:
    """Whether 0 <= value < divisor always."""
    low, high = value.bounds()
    if low < 0:
        return False
    if high < divisor.bounds()[0]:
        return True
    # A variable whose extent is the divisor itself, and more of the kind, for extents known only at call time.
    if _is_var_below(value, divisor):
        return True
    if not any(isinstance(atom, Dim) for part in (value, divisor) for atom in part.atoms()):
        return False
    return (divisor - value - 1).bounds()[0] >= 0 or _below(value, divisor)


def _below(value: Index, divisor: Index) -> bool:
    """Whether value < divisor with every variable of `value` at its last position: s1*i + j < s0*s1."""
    for monomial, coefficient in value.terms.items():
        if coefficient < 0 or any(isinstance(atom, Quotient | Remainder | Indirect) for atom in monomial):
            return False
    last = {atom: atom.extent - 1 for atom in value.atoms() if isinstance(atom, Var)}
    return bool(last) and (divisor - value.substitute(last) - 1).bounds()[0] >= 0


def _is_var_below(value: Index, divisor: Index) -> bool:
    if len(value.terms) != 1:
        return False
    ((monomial, coefficient),) = value.terms.items()
    if coefficient != 1 or len(monomial) != 1:
        return False
    atom = monomial[0]
    if isinstance(atom, Quotient):  # of a variable that counts so many times its divisor
        inner = _single_atom(atom.value)
        return isinstance(inner, Below) and inner.extent == divisor * atom.divisor
    return (isinstance(atom, Below) and atom.extent == divisor) or (
        isinstance(atom, Remainder) and atom.divisor == divisor
    )


# Division.


def _divided(monomial: Monomial, coefficient: int, divisor: Index) -> tuple[Monomial, int] | None:
    """The term divided by a divisor of one term, if it divides exactly."""
    ((by, factor),) = divisor.terms.items()
    if coefficient % factor:
        return None
    rest = list(monomial)
    for atom in by:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest), coefficient // factor


def _split_divisible(value: Index, divisor: Index) -> tuple[Index, Index]:
    """(q, r) with value = q * divisor + r, where q takes all terms that divide exactly and the constant's
    quotient.
    """
    if len(divisor.terms) != 1:
        return ZERO, value
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    number = divisor.constant_value()
    for monomial, coefficient in value.terms.items():
        if not monomial and number is not None:
            whole, left = divmod(coefficient, number)
            quotient[()] = quotient.get((), 0) + whole
            rest[()] = left
            continue
        divided = _divided(monomial, coefficient, divisor)
        if divided is None:
            rest[monomial] = coefficient
        else:
            quotient[divided[0]] = quotient.get(divided[0], 0) + divided[1]
    return Index(quotient), Index(rest)


def _quotient(value: Index, divisor: Index) -> Index:
    factor = common_factor(value, divisor)
    if factor > 1:
        return _scaled_down(value, factor) // _scaled_down(divisor, factor)
    atom = _single_atom(value)
    if isinstance(atom, Quotient):  # (x // a) // b = x // (a*b)
        return atom.value // (atom.divisor * divisor)
    if isinstance(atom, Remainder):  # (x % (a*b)) // a = (x // a) % b
        ratio = _exact_ratio(atom.divisor, divisor)
        if ratio is not None:
            return (atom.value // divisor) % ratio
    parts = _in_units(value, divisor)
    if parts is not None:
        coarse, _, _, units = parts
        return coarse // units
    return as_index(Quotient(value, divisor))


def _in_units(value: Index, divisor: Index) -> tuple[Index, Index, Index, Index] | None:
    """(a, b, u, d) with value = u*a + b, 0 <= b < u, and divisor = u*d: value // divisor is a // d then, and
    value % divisor is u * (a % d) + b."""
    for unit, units in _factorizations(divisor, value):
        coarse, fine = _split_divisible(value, unit)
        if coarse.terms and (not fine.terms or _within(fine, unit)):
            return coarse, fine, unit, units
    return None


def _factorizations(divisor: Index, value: Index) -> list[tuple[Index, Index]]:
    """Divisors of one term as products of a unit, which may divide terms of `value`, and something above 1."""
    if len(divisor.terms) != 1:
        return []
    ((monomial, factor),) = divisor.terms.items()
    if not monomial:
        steps = {math.gcd(c, factor) for c in value.terms.values()} - {1, factor}
        constant = value.terms.get((), 0)  # stays whole
        whole = [step for step in sorted(steps, reverse=True) if constant < step or not constant % step]
        return [(as_index(step), as_index(factor // step)) for step in whole]
    found = [(as_index(factor), Index({monomial: 1}))] if factor > 1 else []
    for atom in dict.fromkeys(monomial):
        if isinstance(atom, Dim):
            rest = list(monomial)
            rest.remove(atom)
            found.append((as_index(atom), Index({tuple(rest): factor})))
            if factor > 1:
                found.append((Index({(atom,): factor}), Index({tuple(rest): 1})))
    return [(unit, units) for unit, units in found if units != 1]


def _remainder(value: Index, divisor: Index) -> Index:
    factor = common_factor(value, divisor)
    if factor > 1:
        return _scaled_down(value, factor) % _scaled_down(divisor, factor) * factor
    atom = _single_atom(value)
    # (x % (a*b)) % a = x % a
    if isinstance(atom, Remainder) and _exact_ratio(atom.divisor, divisor) is not None:
        return atom.value % divisor
    number = divisor.constant_value()
    if number is not None:
        reduced = Index({m: c % number for m, c in value.terms.items()})
        if reduced != value and all(low >= 0 for low in (product_bounds(m)[0] for m in reduced.terms)):
            return reduced % divisor
    parts = _in_units(value, divisor)
    if parts is not None:
        coarse, fine, unit, units = parts
        return coarse % units * unit + fine
    return as_index(Remainder(value, divisor))


def _scaled_down(value: Index, factor: int) -> Index:
    return Index({monomial: c // factor for monomial, c in value.terms.items()})


def _single_atom(value: Index) -> Atom | None:
    if len(value.terms) != 1:
        return None
    ((monomial, coefficient),) = value.terms.items()
    return monomial[0] if coefficient == 1 and len(monomial) == 1 else None


def _exact_ratio(value: Index, divisor: Index) -> Index | None:
    if len(divisor.terms) != 1:
        return None
    quotient, rest = _split_divisible(value, divisor)
    return quotient if not rest.terms else None


def _recombined(value: Index) -> Index:
    """divisor * (x // divisor) + x % divisor becomes x, in all terms at once: there may be hundreds."""
    if not value.with_remainder:
        return value
    terms, changed = dict(value.terms), False
    for monomial in value.terms:
        for atom in monomial if monomial in terms else ():
            found = _whole(terms, monomial, atom) if isinstance(atom, Remainder) else None
            if found is not None:
                del terms[monomial]
                add_terms(terms, *found)
                changed = True
                break
    return _recombined(Index(terms)) if changed else value


def _whole(
    terms: Mapping[Monomial, int], monomial: Monomial, remainder: Remainder
) -> tuple[Index, Index] | None:
    """The terms that make something whole with that of a remainder, and the whole; None if they are not there."""
    partner, coefficient = remainder.value // remainder.divisor, terms[monomial]
    others = list(monomial)
    others.remove(remainder)
    rest = Index({tuple(others): coefficient})
    scaled = partner * remainder.divisor * rest if partner.terms else ZERO
    if scaled.terms and all(terms.get(m) == c for m, c in scaled.terms.items()):
        return scaled, remainder.value * rest
    found = _quotient_for(terms, remainder, tuple(others), coefficient)
    return None if found is None else (found[1], found[0].value * rest)


def _quotient_for(
    terms: Mapping[Monomial, int], remainder: Remainder, rest: Monomial, coefficient: int
) -> tuple[Quotient, Index] | None:
    """The quotient of a term that makes something whole with a remainder, and that term: x // d with
    (x + d*k) % d, which has lost the multiples of d."""
    number = remainder.divisor.constant_value()
    if number is None:
        return None
    for monomial, scale in terms.items():
        for atom in monomial:
            if isinstance(atom, Quotient) and atom.divisor == remainder.divisor:
                others = list(monomial)
                others.remove(atom)
                same = tuple(others) == rest and scale == coefficient * number
                if same and _exact_ratio(atom.value - remainder.value, atom.divisor) is not None:
                    return atom, Index({monomial: scale})
    return None


# Text.


def _wrapped(value: Index) -> str:
    return str(value) if len(value.terms) <= 1 else f"({value})"

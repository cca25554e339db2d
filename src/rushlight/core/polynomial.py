"""Polynomials with integer coefficients over atoms: what can be asked of one. Arithmetic is in core/index.py."""

from __future__ import annotations

import math
from collections.abc import Mapping

from .atoms import Atom, Bound, times

Monomial = tuple[Atom, ...]


class Polynomial:
    """`terms` maps products of atoms to non-zero integer coefficients; () is the constant. It takes them over."""

    __slots__ = ("_atoms", "_bounds", "_hash", "fixed", "owner", "terms", "with_remainder")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self._atoms: frozenset[Atom] | None = None
        self.terms = {monomial: c for monomial, c in terms.items() if c} if 0 in terms.values() else terms
        self._hash: int | None = None
        self._bounds: tuple[Bound, Bound] | None = None
        self.fixed, self.owner, self.with_remainder = True, None, False
        for monomial in self.terms:
            for atom in monomial:
                if self.fixed and not atom.fixed:
                    self.fixed, self.owner = False, atom.owner
                if atom.is_remainder:
                    self.with_remainder = True

    def __hash__(self) -> int:
        found = self._hash
        if found is None:
            found = self._hash = hash(frozenset(self.terms.items()))
        return found

    def constant_value(self) -> int | None:
        """The value of an expression without atoms, else None."""
        if not self.terms:
            return 0
        return self.terms[()] if len(self.terms) == 1 and () in self.terms else None

    @property
    def constant(self) -> int:
        """The constant term."""
        return self.terms.get((), 0)

    def atoms(self) -> frozenset[Atom]:
        """All atoms, those inside divisions included."""
        if self._atoms is None:
            found: set[Atom] = set()
            for monomial in self.terms:
                for atom in monomial:
                    found.add(atom)
                    found |= atom.inner()
            self._atoms = frozenset(found)
        return self._atoms

    def bounds(self) -> tuple[Bound, Bound]:
        """The least and greatest value, or a safe estimate of them."""
        if self._bounds is None:
            low: Bound = 0
            high: Bound = 0
            for monomial, coefficient in self.terms.items():
                a, b = product_bounds(monomial)
                low += times(coefficient, a if coefficient > 0 else b)
                high += times(coefficient, b if coefficient > 0 else a)
            self._bounds = low, high
        return self._bounds

    def evaluate(self, values: Mapping[Atom, int]) -> int:
        """The number it is for the given values of its variables and extents."""
        total = 0
        for monomial, coefficient in self.terms.items():
            for atom in monomial:
                coefficient *= values[atom] if atom in values else atom.value_at(values)
            total += coefficient
        return total

    def ordered(self) -> list[tuple[Monomial, int]]:
        """The terms in an order that does not depend on how the expression came about."""
        return sorted(self.terms.items(), key=lambda item: [a.sort_key() for a in item[0]])

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts = []
        for monomial, coefficient in self.ordered():
            product = "*".join(_wrapped_atom(atom) for atom in monomial)
            if not monomial:
                parts.append(str(coefficient))
            elif coefficient == 1:
                parts.append(product)
            else:
                parts.append(f"{coefficient}*{product}")
        return " + ".join(parts).replace("+ -", "- ")

    __repr__ = __str__


def common_factor(value: Polynomial, divisor: Polynomial) -> int:
    """The greatest number that divides every coefficient of `value` and of the divisor."""
    number = 0
    for coefficient in (*divisor.terms.values(), *value.terms.values()):
        number = math.gcd(number, abs(coefficient))
        if number == 1:
            break
    return number


def add_terms(terms: dict[Monomial, int], removed: Polynomial, added: Polynomial) -> None:
    """Subtract the terms of one expression, and add those of another."""
    for product, sign in ((removed, -1), (added, 1)):
        for monomial, coefficient in product.terms.items():
            total = terms.get(monomial, 0) + sign * coefficient
            if total:
                terms[monomial] = total
            else:
                terms.pop(monomial, None)


def product_bounds(monomial: Monomial) -> tuple[Bound, Bound]:
    low: Bound = 1
    high: Bound = 1
    for atom in monomial:
        a, b = atom.bounds()
        corners = [times(x, y) for x in (low, high) for y in (a, b)]
        low, high = min(corners), max(corners)
    return low, high


def _wrapped_atom(atom: Atom) -> str:
    text = str(atom)
    return f"({text})" if atom.inner() else text

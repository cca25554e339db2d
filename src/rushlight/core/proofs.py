"""What holds for all values of the variables and symbols of an expression, as far as a short proof goes.

A polynomial is not negative if, with every variable at the end of its range that makes the value least and every
symbol written as its least value plus a number that is not negative, no coefficient is negative. That decides
what sizes and positions ask: `s0*s1 - s1 > 0`, `s1*i + j < s0*s1`.
"""

from __future__ import annotations

from .atoms import INFINITY, Atom, Dim
from .index import Below, Index, Quotient, Remainder, as_index

UNBOUNDED = 1 << 61  # what a symbol that has no upper bound is below, at least
MOST_STEPS = 12  # variables that are put at an end of their range, one after the other


def always_nonnegative(index: Index) -> bool:
    """Whether an expression is surely 0 or more."""
    if index.bounds()[0] >= 0:
        return True
    for _ in range(MOST_STEPS):
        lowered = _without_one_variable(index)
        if lowered is None:
            break
        index = lowered
        if index.bounds()[0] >= 0:
            return True
    return _from_least(index).bounds()[0] >= 0


def may_exceed(index: Index, least: Index) -> bool:
    """Whether there can be a proof that `index` is `least` or more: not if a product of symbols without an upper
    bound stays in the difference, subtracted, that no larger product makes up for."""
    difference = dict(index.terms)
    for monomial, coefficient in least.terms.items():
        difference[monomial] = difference.get(monomial, 0) - coefficient
    left = [(len(monomial), monomial) for monomial, coefficient in difference.items() if coefficient]
    most = max((count for count, _ in left), default=0)
    return not any(
        count == most and count and difference[monomial] < 0 and all(map(_is_unbounded, monomial))
        for count, monomial in left
    )


def _is_unbounded(atom: Atom) -> bool:
    return isinstance(atom, Dim) and atom.low >= 0 and atom.high >= UNBOUNDED


def never_zero(index: Index) -> bool:
    low, high = index.bounds()
    return low > 0 or high < 0 or always_nonnegative(index - 1) or always_nonnegative(-index - 1)


def _without_one_variable(index: Index) -> Index | None:
    """The least that an expression can be along one of its variables; None if there is none to look at."""
    for atom in sorted(index.atoms(), key=Atom.sort_key):
        if not isinstance(atom, Below | Remainder | Quotient):
            continue
        signs = set()
        for monomial, coefficient in index.terms.items():
            count = monomial.count(atom)
            others = [other for other in monomial if other is not atom and other != atom]
            if count > 1 or any(other.bounds()[0] < 0 for other in others):
                signs = {1, -1}
                break
            if count:
                signs.add(1 if coefficient > 0 else -1)
        if len(signs) != 1:
            continue
        end = _end(atom, signs.pop())
        if end is not None:
            terms = {m: c for m, c in index.terms.items() if atom not in m}
            moved = Index(terms)
            for monomial, coefficient in index.terms.items():
                if atom in monomial:
                    rest = list(monomial)
                    rest.remove(atom)
                    moved = moved + end * Index({tuple(rest): coefficient})
            return moved
    return None


def _end(atom: Atom, sign: int) -> Index | None:
    """The least value of an atom, or, if `sign` is negative, its greatest."""
    if isinstance(atom, Quotient):
        low, high = atom.bounds()
        bound = low if sign > 0 else high
        return None if abs(bound) == INFINITY else as_index(int(bound))
    if sign > 0:
        return as_index(0)
    extent = atom.extent if isinstance(atom, Below) else atom.divisor  # type: ignore[attr-defined]
    return extent - 1


def _from_least(index: Index) -> Index:
    """An expression in symbols that begin at 0; what it says of its bounds is more."""
    moved = {}
    for atom in index.atoms():
        if isinstance(atom, Dim) and atom.low not in (0, -INFINITY):
            high = atom.high - atom.low
            moved[atom] = as_index(Dim(f"{atom.name}'", 0, high)) + int(atom.low)
    return index.substitute(moved) if moved else index

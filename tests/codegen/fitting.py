"""Polynomials of least weighted error, with coefficients that are rounded to a type.

A fit is a function, an interval, a weight and a degree. Remez' exchange finds the polynomial with the least
weighted error; its coefficients are rounded one after the other, and the later ones fitted again, by weighted
least squares, to the rounding of those before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp

Function = Callable[[Any], Any]
M = mp.mpf
SMALL = M("1e-15")


def chebyshev_points(a: Any, b: Any, count: int) -> list[Any]:
    middle, half = (M(a) + b) / 2, (M(b) - a) / 2
    return [middle - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]


def extrema(errors: Sequence[Any]) -> list[int]:
    """Where each run of errors of one sign is largest."""
    found: list[int] = []
    for i, error in enumerate(errors):
        if found and (errors[found[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    return found


def remez(f: Function, a: Any, b: Any, degree: int, weight: Function) -> list[Any]:
    """Coefficients, lowest power first, of the polynomial with the least maximum of |weight (f - p)|."""
    count = degree + 2
    grid = chebyshev_points(a, b, 12 * count + 1)
    values, weights = [f(x) for x in grid], [weight(x) for x in grid]
    reference = [round(i * (len(grid) - 1) / (count - 1)) for i in range(count)]
    best: tuple[Any, list[Any]] | None = None
    for _ in range(12):
        rows, right = mp.matrix(count, count), mp.matrix(count, 1)
        for i, k in enumerate(reference):
            for j in range(degree + 1):
                rows[i, j] = weights[k] * grid[k] ** j
            rows[i, count - 1] = (-1) ** i
            right[i] = weights[k] * values[k]
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[j] for j in range(degree + 1)]
        errors = [
            w * (v - mp.polyval(coefficients[::-1], x)) for x, v, w in zip(grid, values, weights, strict=True)
        ]
        largest = max(abs(error) for error in errors)
        if best is None or largest < best[0]:
            best = (largest, coefficients)
        reference = extrema(errors)
        while len(reference) > count:
            reference.pop(0 if abs(errors[reference[0]]) < abs(errors[reference[-1]]) else -1)
        if len(reference) < count or largest < abs(solution[count - 1]) * M("1.001"):
            break
    assert best is not None
    return best[1]


def rounded(x: Any, bits: int) -> Any:
    if x == 0:
        return x
    mantissa, exponent = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), exponent - bits)


def refit(points: Sequence[tuple[Any, Any, Any]], fixed: Sequence[Any], degree: int) -> list[Any]:
    """Weighted least squares for the coefficients after the fixed ones."""
    first = len(fixed)
    free = degree + 1 - first
    normal, right = mp.matrix(free, free), mp.matrix(free, 1)
    for x, value, weight in points:
        row = [weight * x ** (first + j) for j in range(free)]
        rest = weight * (value - mp.polyval(list(fixed)[::-1], x))
        for i in range(free):
            right[i] += row[i] * rest
            for j in range(free):
                normal[i, j] += row[i] * row[j]
    solution = mp.lu_solve(normal, right)
    return [*fixed, *[solution[j] for j in range(free)]]


@dataclass(frozen=True)
class Fit:
    """A polynomial to be found; `bits` is what its coefficients are rounded to, `again` how many are
    refitted."""

    f: Function
    a: Any
    b: Any
    degree: int
    weight: Function
    bits: int
    again: int
    digits: int = 80

    def coefficients(self) -> tuple[list[float], float]:
        """(coefficients, log2 of the largest error)."""
        with mp.workdps(self.digits):
            exact = remez(self.f, self.a, self.b, self.degree, self.weight)
            middle, half = (M(self.a) + self.b) / 2, (M(self.b) - self.a) / 2
            count = 3 * self.degree + 6
            nodes = [middle + half * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
            points = [(x, self.f(x), self.weight(x)) for x in nodes]
            chosen: list[Any] = []
            current = exact
            for k in range(self.degree + 1):
                if 0 < k <= self.again:
                    current = refit(points, chosen, self.degree)
                chosen.append(rounded(current[k], self.bits))
            plain = [rounded(c, self.bits) for c in exact]
            grid = [self.a + (M(self.b) - self.a) * i / 597 for i in range(598)]
            known = [(x, self.f(x), self.weight(x)) for x in grid]
            error, best = min(
                (max(abs(w * (v - mp.polyval(c[::-1], x))) for x, v, w in known), c) for c in (plain, chosen)
            )
            return [float(c) for c in best], float(mp.log(error, 2))


def single(f: Function, a: Any, b: Any, degree: int, weight: Function) -> Fit:
    return Fit(f, a, b, degree, weight, 24, degree + 1)


def double(
    f: Function, a: Any, b: Any, degree: int, weight: Function, again: int = 3, digits: int = 80
) -> Fit:
    return Fit(f, a, b, degree, weight, 53, again, digits)


def one(_: Any) -> Any:
    return M(1)


def relative(f: Function) -> Function:
    return lambda x: 1 / f(x)
